"""Events of the stream as changes of the conversation, live or replayed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    AttachedEvent,
    CompactedEvent,
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    ContextDroppedEvent,
    ErrorEvent,
    Event,
    MemoryRecalledEvent,
    NoticeEvent,
    ReasoningDeltaEvent,
    SessionStartedEvent,
    TextDeltaEvent,
    ToolCallEvent,
    ToolOutputEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    TurnStatus,
    UsageEvent,
    UserMessageEvent,
)
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import CallOutcome, CallState, ConfirmationState
from ollm_tui.core.test_runs.printed import PROGRESS
from ollm_tui.tui.entry_texts import arguments_text, picture_of, result_words
from ollm_tui.tui.values import (
    AnswerEntry,
    AnswerGrew,
    CallEntry,
    Change,
    EntriesChanged,
    Entry,
    LoggedAt,
    NoteEntry,
    NoteKind,
    UserEntry,
)

OUTPUT_LIMIT = 20_000
"""Characters of a running call's output in its block; its terminal tab has all of it."""

SENTENCE_LIMIT = 400
"""Characters, from the end."""
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=\S)")

SUBJECTS = (
    *("path", "command", "pattern", "url", "selector", "query", "from", "action", "key", "id", "language"),
    "description",
)
"""Arguments that say best what a call is about, best first."""


@dataclass
class ConversationController:
    """Builder of conversation entries; keeps the live answer and running calls."""

    model: str = ""
    recorded: Callable[[], bool] = lambda: True
    """Whether the log has the events that come now."""
    _live: AnswerEntry | None = None
    _last: AnswerEntry | None = None
    _before: dict[str, int | None] = field(default_factory=dict[str, int | None])
    """The characters of the last answer before each of its calls."""
    _calls: dict[str, CallEntry] = field(default_factory=dict[str, CallEntry])
    _said: dict[str, str] = field(default_factory=dict[str, str])
    """What the sub-agents said last."""
    _asked_at: datetime | None = None
    _count: int = 0

    def fold(self, event: Event, ordinal: int | None = None) -> list[Change]:
        """Return what an event changes; `ordinal` numbers a requested confirmation."""
        if event.task is not None:
            return self._fold_step(event, event.task, ordinal)
        match event:
            case SessionStartedEvent():
                self.model = event.model or event.provider
                return []
            case UserMessageEvent():
                self._asked_at, self._last = _moment(event.time), None
                return [
                    _changed(UserEntry(self._new_id("user"), event.text, _clock(event.time), logged=self._at(event)))
                ]
            case TextDeltaEvent() | ReasoningDeltaEvent():
                return self._grow(event)
            case AssistantMessageEvent():
                return self._finish_answer(event)
            case ToolCallEvent() | ToolOutputEvent() | ToolResultEvent() | ConfirmationSettledEvent():
                return [*self._fold_call(event), *self._turns()]
            case ConfirmationRequestedEvent():
                return [*self._asked(event, ordinal), *self._turns()]
            case UsageEvent():
                return self._used(event)
            case MemoryRecalledEvent() | AttachedEvent() | CompactedEvent() | NoticeEvent() | ErrorEvent():
                return [self._fold_note(event)]
            case ContextDroppedEvent(name=name, tokens=tokens):
                return [self._note(f"Left out of the context: {name} (about {tokens:,} tokens)", NoteKind.NOTICE)]
            case TurnFinishedEvent():
                return self._turn_over(event.status)
            case _:
                return []

    def replay(self, events: Iterable[Event]) -> tuple[Entry, ...]:
        """Take the events of an earlier run of a session; return the entries that they leave."""
        entries: dict[str, Entry] = {}
        for event in events:
            for change in self.fold(event):
                if isinstance(change, EntriesChanged):
                    entries.update((entry.id, entry) for entry in change.entries)
        return tuple(entries.values())

    def sentence_before(self, call_id: str, task: str | None = None) -> str:
        """Return the model's or a sub-agent's last sentence before a call."""
        if task is not None:
            text = self._said.get(task, "")
        else:
            text = self._last.text[: self._before.get(call_id)] if self._last is not None else ""
        lines = text.strip().rsplit("\n", 1)
        sentences = SENTENCE_END.split(lines[-1].strip())
        return sentences[-1][-SENTENCE_LIMIT:]

    def _fold_call(
        self, event: ToolCallEvent | ToolOutputEvent | ToolResultEvent | ConfirmationSettledEvent
    ) -> list[Change]:
        match event:
            case ToolCallEvent():
                return [self._put(self._begun(event))]
            case ToolOutputEvent():
                return self._output(event)
            case ToolResultEvent():
                return self._returned(event)
            case ConfirmationSettledEvent():
                return self._answered(event)

    def _fold_step(self, event: Event, task: str, ordinal: int | None) -> list[Change]:
        """Return how an event of a sub-agent changes the call that began it."""
        call = self._calls.get(task)
        if call is None:
            return []
        steps = {step.id: step for step in call.steps}
        match event:
            case ToolCallEvent(call_id=step_id):
                steps[step_id] = CallEntry(step_id, event.name, summary_of(event.arguments))
            case ConfirmationRequestedEvent(call_id=step_id) if step_id in steps:
                steps[step_id] = replace(steps[step_id], state=CallState.WAITING, ordinal=ordinal)
            case ConfirmationSettledEvent(call_id=step_id) if step_id in steps:
                steps[step_id] = replace(steps[step_id], state=CallState.RUNNING)
            case ToolResultEvent(call_id=step_id, result=result) if step_id in steps:
                outcome = CallOutcome.of_error(None if result.error is None else result.error.type)
                ended = replace(steps[step_id], state=CallState.DONE, outcome=outcome, duration_ms=result.duration_ms)
                words = result_words(ended.tool, result)
                steps[step_id] = replace(ended, exit_code=result.exit_code, result=words)
            case AssistantMessageEvent(text=text):
                self._said[task] = text
                return []
            case NoticeEvent(text=text):
                return [self._note(f"Sub-agent: {text}", NoteKind.NOTICE)]
            case _:
                return []
        return [self._put(replace(call, steps=tuple(steps.values())))]

    def _fold_note(
        self, event: MemoryRecalledEvent | AttachedEvent | CompactedEvent | NoticeEvent | ErrorEvent
    ) -> EntriesChanged:
        match event:
            case CompactedEvent():
                words = f"Earlier messages were summed up: {event.before:,} -> {event.after:,} tokens"
                return _changed(NoteEntry(self._new_id("note"), words, body=event.summary or ""))
            case AttachedEvent():
                return _changed(NoteEntry(self._new_id("note"), event.summary, body=event.text))
            case MemoryRecalledEvent():
                return _changed(NoteEntry(self._new_id("note"), f"{event.summary} (^N to read)", body=event.text))
            case NoticeEvent():
                return self._note(event.text, NoteKind.NOTICE)
            case ErrorEvent():
                return self._note(f"{event.error.type}: {event.error.message}", NoteKind.ERROR)

    def _grow(self, event: TextDeltaEvent | ReasoningDeltaEvent) -> list[Change]:
        changes: list[Change] = []
        if self._live is None:
            self._live = AnswerEntry(self._new_id("answer"), self.model, time=_clock(event.time), live=True)
            changes.append(_changed(self._live))
        grown = AnswerGrew(self._live.id, text=event.text) if isinstance(event, TextDeltaEvent) else None
        changes.append(grown or AnswerGrew(self._live.id, reasoning=event.text))
        return changes

    def _finish_answer(self, event: AssistantMessageEvent) -> list[Change]:
        live, self._live = self._live, None
        if live is None and not event.text and not event.reasoning:
            return []
        entry = live or AnswerEntry(self._new_id("answer"), self.model, time=_clock(event.time))
        begun, ended = self._asked_at, _moment(event.time)
        seconds = (ended - begun).total_seconds() if begun and ended else None
        self._asked_at = ended
        self._before = {call.id: call.text_before for call in event.tool_calls}
        self._last = replace(
            entry,
            model=event.model or entry.model,
            text=event.text,
            reasoning=event.reasoning,
            live=False,
            partial=event.partial,
            seconds=seconds,
            logged=self._at(event),
        )
        return [_changed(self._last)]

    def _begun(self, event: ToolCallEvent) -> CallEntry:
        arguments = arguments_text(event.arguments)
        summary = summary_of(event.arguments)
        return CallEntry(event.call_id, event.name, summary, arguments=arguments, logged=self._at(event))

    def _output(self, event: ToolOutputEvent) -> list[Change]:
        call = self._calls.get(event.call_id)
        if call is None:
            return []
        progress = PROGRESS.findall(event.text) if call.tool == "run_tests" else []
        result = progress[-1] if progress else call.result
        return [self._put(replace(call, output=(call.output + event.text)[-OUTPUT_LIMIT:], result=result))]

    def _turns(self) -> list[Change]:
        """Return the calls that begin or end waiting for an earlier one."""
        changes: list[Change] = []
        behind = False
        for call in list(self._calls.values()):
            state = CallState.JUDGED if behind and not call.output else CallState.RUNNING
            if call.state in (CallState.JUDGED, CallState.RUNNING) and call.state is not state:
                changes.append(self._put(replace(call, state=state)))
            behind = behind or call.state is CallState.WAITING or bool(call.verdict)
        return changes

    def _asked(self, event: ConfirmationRequestedEvent, ordinal: int | None) -> list[Change]:
        call = self._calls.get(event.call_id)
        if call is None:
            return []
        details = event.request.details
        return [self._put(replace(call, state=CallState.WAITING, ordinal=ordinal, preview=details.preview))]

    def _answered(self, event: ConfirmationSettledEvent) -> list[Change]:
        call = self._calls.get(event.call_id)
        if call is None:
            return []
        reason = f": {event.reason}" if event.reason else ""
        words = f"{event.outcome.value} by {event.by}{reason}{' with changed arguments' if event.modified_args else ''}"
        if event.outcome is ConfirmationState.APPROVED:
            return [self._put(replace(call, state=CallState.RUNNING, verdict=words))]
        outcome = CallOutcome(event.outcome.value)
        return [self._put(replace(call, state=CallState.DONE, outcome=outcome, verdict=words))]

    def _returned(self, event: ToolResultEvent) -> list[Change]:
        self._asked_at = _moment(event.time)  # the model's own time begins when it has the results
        call = self._calls.pop(event.call_id, None)
        self._said.pop(event.call_id, None)
        if call is None:
            return []
        result, begun = event.result, call.logged
        return [
            _changed(
                replace(
                    call,
                    state=CallState.DONE,
                    outcome=CallOutcome.of_error(None if result.error is None else result.error.type),
                    output=result.return_display or result.llm_content,
                    duration_ms=result.duration_ms,
                    exit_code=result.exit_code,
                    result=result_words(call.tool, result),
                    place=result.place,
                    notes=result.notes,
                    picture=picture_of(result.data),
                    logged=LoggedAt(begun.first, event.id) if begun is not None and self.recorded() else None,
                )
            )
        ]

    def _used(self, event: UsageEvent) -> list[Change]:
        if self._last is None or event.completion_tokens is None:
            return []
        self._last = replace(self._last, tokens=event.completion_tokens)
        return [_changed(self._last)]

    def _turn_over(self, status: TurnStatus) -> list[Change]:
        changes: list[Change] = []
        if self._live is not None:  # the turn ended without a message; its partial answer stays
            self._live = None
        if status is TurnStatus.INTERRUPTED:
            changes.append(self._note("Interrupted.", NoteKind.NOTICE))
        return changes

    def _at(self, event: Event) -> LoggedAt | None:
        return LoggedAt(event.id, event.id) if event.id and self.recorded() else None

    def _put(self, call: CallEntry) -> EntriesChanged:
        self._calls[call.id] = call
        return _changed(call)

    def _note(self, text: str, kind: NoteKind) -> EntriesChanged:
        return _changed(NoteEntry(self._new_id("note"), text, kind))

    def _new_id(self, kind: str) -> str:
        self._count += 1
        return f"{kind}-{self._count}"


def summary_of(arguments: JsonObject) -> str:
    """Return the argument that says best what a call is about."""
    names = [name for name in SUBJECTS if name in arguments] or list(arguments)[:1]
    if not names:
        return ""
    value = arguments[names[0]]
    others = 0
    if isinstance(value, list):
        if not value or not isinstance(value[0], str):
            return f"{len(value)} {names[0]}"
        value, others = value[0], len(value) - 1
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if names[0] in ("url", "selector") and isinstance(arguments.get("action"), str):
        text = f"{arguments['action']} {text}"
    first, *more = text.split("\n")
    return f"{first}{' ...' if more else ''}{f' and {others} more' if others else ''}"


def _changed(entry: UserEntry | AnswerEntry | CallEntry | NoteEntry) -> EntriesChanged:
    return EntriesChanged((entry,))


def _moment(time: str) -> datetime | None:
    try:
        return datetime.fromisoformat(time)
    except ValueError:
        return None


def _clock(time: str) -> str:
    """Return hours and minutes in the local time zone."""
    moment = _moment(time)
    return "" if moment is None else moment.astimezone().strftime("%H:%M")
