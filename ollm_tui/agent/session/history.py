"""The model's history, rebuilt from a session's events, and what its calls changed since a message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path

from ollm_tui.agent.context_items import position_of, without
from ollm_tui.agent.events import (
    AssistantMessageEvent,
    AttachedEvent,
    CompactedEvent,
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    ContextDroppedEvent,
    Event,
    LoggedResult,
    MemoryRecalledEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
)
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    Message,
    ToolCall,
    ToolMessage,
    UserMessage,
)
from ollm_tui.agent.reply_calls import outcome_of
from ollm_tui.agent.session.log import EVENTS
from ollm_tui.agent.session.reading import event_in, lineage
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.files.journal import Entry
from ollm_tui.core.files.journal_undo import Step, Undo, whole_entries

RAN = "the session ended while it ran, so it may have taken effect. Look before you repeat it"
DID_NOT_RUN = "the session ended before it ran. Nothing was done"


@dataclass(frozen=True)
class RestoredHistory:
    """What a session goes on with."""

    messages: tuple[Message, ...] = ()
    waiting: tuple[ToolCall, ...] = ()
    """Calls of the last reply that waited for the person; they did not run, and can be asked about again."""
    closing: tuple[Event, ...] = ()
    """Events that end what the log left open, but for `waiting`."""


def restore_history(events: Iterable[Event], *, ask_again: bool) -> RestoredHistory:
    """Rebuild the history; with `ask_again` false, calls that waited are closed like all others."""
    history = _History()
    for event in events:
        history.take(event)
    return history.finish(ask_again=ask_again)


@dataclass
class _History:
    """Messages by the id of their event, with what is still open."""

    messages: list[tuple[int, Message]] = field(default_factory=list[tuple[int, Message]])
    reply: tuple[ToolCall, ...] = ()
    """The calls of the last reply, whose results come behind it in their order."""
    results: dict[str, tuple[int, LoggedResult]] = field(default_factory=dict[str, tuple[int, LoggedResult]])
    unanswered: dict[str, str | None] = field(default_factory=dict[str, str | None])
    """The calls without a result, in their order, each with the call whose sub-agent made it."""
    asked: set[str] = field(default_factory=set[str])
    turn_open: bool = False
    last_id: int = 0

    def take(self, event: Event) -> None:
        """Add what an event says to the history."""
        self.last_id = event.id or self.last_id
        if event.task is not None:  # a sub-agent's: not of this history, but for what it left open
            self._take_call(event)
            return
        match event:
            case UserMessageEvent(text=text):
                self._end_reply()
                self.turn_open = True
                self.messages.append((event.id, UserMessage(text)))
            case MemoryRecalledEvent(text=text):
                self._put_before_first(text)
            case AttachedEvent():
                self._attach(event)
            case AssistantMessageEvent():
                self._take_answer(event)
            case CompactedEvent():
                self._compact(event)
            case ContextDroppedEvent():
                self._drop(event)
            case TurnFinishedEvent():
                self.turn_open = False
            case _:
                self._take_call(event)

    def finish(self, *, ask_again: bool) -> RestoredHistory:
        """Return the history with everything closed, but for calls that are asked about again."""
        waits = [call for call in self.reply if call.id in self.unanswered and call.id in self.asked]
        waiting = tuple(waits) if ask_again else ()
        kept = {call.id for call in waiting}
        closing: list[Event] = [
            ToolResultEvent(call_id=call_id, result=_interrupted(ran=call_id not in self.asked), task=task)
            for call_id, task in self.unanswered.items()
            if call_id not in kept
        ]
        if self.turn_open and not waiting:
            closing.append(TurnFinishedEvent(status=TurnStatus.INTERRUPTED))
        self._end_reply(leaving_out=kept)
        return RestoredHistory(tuple(_with_id(*one) for one in self.messages), waiting, tuple(closing))

    def _take_answer(self, event: AssistantMessageEvent) -> None:
        self._end_reply()
        if self.messages and isinstance(self.messages[-1][1], AssistantMessage):
            self.messages.pop()  # the turn was retried, without what had come of it
        if event.text or event.tool_calls:
            calls = tuple(ToolCall(call.id, call.name, call.arguments, origin=call.origin) for call in event.tool_calls)
            self.messages.append((event.id, AssistantMessage(event.text, calls, event.reasoning)))
            self.reply = calls

    def _take_call(self, event: Event) -> None:
        match event:
            case ToolCallEvent(call_id=call_id):
                self.unanswered[call_id] = event.task
                self.asked.discard(call_id)
            case ConfirmationRequestedEvent(call_id=call_id):
                self.asked.add(call_id)
            case ConfirmationSettledEvent(call_id=call_id):
                self.asked.discard(call_id)
            case ToolResultEvent(call_id=call_id, result=result):
                self.unanswered.pop(call_id, None)
                if event.task is None:
                    self.results[call_id] = (event.id, result)
            case _:
                pass

    def _end_reply(self, leaving_out: Iterable[str] = ()) -> None:
        """Put a result behind the last reply for each of its calls."""
        for call in self.reply:
            if call.id in leaving_out:
                continue
            began = call.id in self.unanswered and call.id not in self.asked
            event_id, result = self.results.get(call.id) or (self.last_id, _interrupted(ran=began))
            self.messages.append((event_id, _for_model(call, result)))
        self.reply = ()
        self.results.clear()

    def _compact(self, event: CompactedEvent) -> None:
        self._end_reply()
        first = self.last_id + 1 if event.kept_from is None else event.kept_from
        kept = [(event_id, message) for event_id, message in self.messages if event_id >= first]
        # A later compaction always stands for this summary as well.
        summary = [] if event.summary is None else [(0, UserMessage(event.summary))]
        self.messages = [*summary, *kept]

    def _drop(self, event: ContextDroppedEvent) -> None:
        self._end_reply()
        at = position_of(self.messages, event.message, event.call_id)
        if at is not None:
            event_id, message = self.messages[at]
            self.messages[at] = (event_id, without(message))

    def _attach(self, event: AttachedEvent) -> None:
        if event.place == "conversation":
            self._end_reply()
            self.messages.append((event.id, UserMessage("", event.text)))
        elif event.place == "message" and self.messages:
            event_id, message = self.messages[-1]
            if isinstance(message, UserMessage):
                image = event.image
                images = () if image is None else (image.for_request,)
                behind = message.behind(event.text)
                self.messages[-1] = (event_id, replace(behind, images=(*behind.images, *images)))

    def _put_before_first(self, text: str) -> None:
        for at, (event_id, message) in enumerate(self.messages):
            if isinstance(message, UserMessage):
                self.messages[at] = (event_id, message.behind(text))
                return


def _with_id(event_id: int, message: Message) -> Message:
    return replace(message, event_id=event_id) if isinstance(message, UserMessage | AssistantMessage) else message


def _for_model(call: ToolCall, result: LoggedResult) -> ToolMessage:
    content = "\n".join((result.llm_content, *(f"[note: {note}]" for note in result.notes)))
    return ToolMessage(call.id, call.name, content, outcome_of(result.error))


def _interrupted(*, ran: bool) -> LoggedResult:
    return LoggedResult.of(ToolResult.of_failure(OperationCancelled(f"interrupted: {RAN if ran else DID_NOT_RUN}")))


def turn_name(session_id: str, event_id: int) -> str:
    """Return the journal's name for what follows a message, until the next one."""
    return "t" + blake2b(f"{session_id} {event_id}".encode(), digest_size=4).hexdigest()[:7]


def plan_since(undo: Undo, folder: Path, before: int) -> list[Step]:
    """Plan to take back what was changed since a message of the session in `folder`. Raises OSError, StorageFailed.

    What the sessions changed that it was forked from counts too, also after the fork: it lies in the same files. What
    an undo took back since then that was there before comes back. Blocks.
    """
    messages = {one.name: list(_messages(one / EVENTS)) for one in lineage(folder)}
    own = messages[folder.name]
    moment = next((message.time for message in own if message.id == before), "")
    earlier = {turn_name(one, message.id) for one in messages for message in own if message.id < before}
    numbers = {message.id for found in messages.values() for message in found}
    turns = {turn_name(one, number) for one in messages for number in numbers}
    entries = undo.journal.entries()
    by_id = {entry.id: entry for entry in entries}

    def was_there(entry: Entry, number: int) -> bool:
        undoes = entry.changes[number].undoes
        taken = None if undoes is None else by_id.get(undoes[0])
        return taken is not None and taken.turn in turns and (taken.turn in earlier or taken.at < moment)

    since = [entry for entry in entries if entry.at >= moment and entry.turn not in earlier]
    changes = whole_entries(entry for entry in since if entry.turn in turns)
    undos = whole_entries(entry for entry in since if entry.is_undo)
    return undo.plan([*changes, *(one for one in undos if was_there(*one))])


def _messages(path: Path) -> Iterator[UserMessageEvent]:
    with suppress(OSError), path.open("rb") as lines:
        for line in lines:
            # Reading whole events of a long log takes seconds; few lines are messages.
            event = event_in(line) if b'"user_message"' in line else False
            if isinstance(event, UserMessageEvent):
                yield event
