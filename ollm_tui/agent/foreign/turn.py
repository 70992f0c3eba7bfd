"""What a foreign agent says and does in a turn, as events of the session; what it asks, as a question of ours."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, cast

from acp import schema
from pydantic import JsonValue

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    LoggedResult,
    NoticeEvent,
    ProposedCall,
    ReasoningDeltaEvent,
    TextDeltaEvent,
    ToolCallEvent,
    ToolResultEvent,
)
from ollm_tui.agent.providers.json_values import well_formed
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ShellExecutionFailed, ToolFailure
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.core.bus.confirmation import CommandPreview, ConfirmationDetails, DiffPreview, Preview, TextPreview
from ollm_tui.core.bus.states import Origin, Risk
from ollm_tui.core.files.diff import diff_texts
from ollm_tui.core.todos.todo_list import TodoDraft, TodoList, TodoStatus

_RISKS: Mapping[str, Risk] = {
    "read": Risk.LOW,
    "search": Risk.LOW,
    "think": Risk.LOW,
    "delete": Risk.HIGH,
    "execute": Risk.HIGH,
}
"""By what an agent says a call does; anything else is in between."""

_ORDER: Mapping[bool, tuple[str, ...]] = {
    True: ("allow_once", "allow_always"),
    False: ("reject_once", "reject_always"),
}


@dataclass(frozen=True)
class ForeignCall:
    """A call of a foreign agent, as far as it has told."""

    id: str
    title: str = ""
    kind: str = "other"
    status: str = "pending"
    arguments: JsonObject = field(default_factory=dict[str, JsonValue])
    locations: tuple[str, ...] = ()
    texts: tuple[str, ...] = ()
    diffs: tuple[schema.FileEditToolCallContent, ...] = ()

    @property
    def command(self) -> str:
        """The command line, where its arguments have one."""
        given = self.arguments.get("command")
        if isinstance(given, list):
            return " ".join(map(str, given))
        return given if isinstance(given, str) else ""


def judged_as(call: ForeignCall) -> Iterator[tuple[str, JsonObject]]:
    """Yield the calls of ours that come to the same, for the policy to judge."""
    if call.command:
        yield "shell", {"command": call.command}
    for diff in call.diffs:
        yield "write_file", {"path": diff.path, "content": diff.new_text}
    if call.kind == "delete":
        for path in call.locations:
            yield "delete_file", {"path": path}


def details_of(call: ForeignCall, agent: str) -> ConfirmationDetails:
    """Return what the person is shown: what the agent says that it will do, and the changes it names."""
    return ConfirmationDetails(
        tool_name=visible(call.kind) or "other",
        description=visible(call.title)[:2_000] or "A call without a title",
        risk=_RISKS.get(call.kind, Risk.MEDIUM),
        locations=tuple(map(visible, call.locations)),
        args=call.arguments,
        preview=_preview(call, (f"{agent} does this itself, outside every cage; this is what it says of it.",)),
    )


def option_for(
    options: Sequence[schema.PermissionOption], *, approved: bool
) -> schema.RequestPermissionResponse | None:
    """Return the answer: for this once where that is offered; None where nothing of the kind is."""
    for kind in _ORDER[approved]:
        for option in options:
            if option.kind == kind:
                chosen = schema.AllowedOutcome(outcome="selected", option_id=option.option_id)
                return schema.RequestPermissionResponse(outcome=chosen)
    return None


def _preview(call: ForeignCall, warnings: tuple[str, ...]) -> Preview:
    if call.command:
        return CommandPreview(command=call.command, cwd=".", parts=(call.command,), warnings=warnings)
    if len(call.diffs) == 1:
        diff = call.diffs[0]
        changed = diff_texts(visible(diff.path), diff.old_text or "", diff.new_text)
        return DiffPreview(diff=changed, created=diff.old_text is None, warnings=warnings)
    parts = [*call.texts, *(f"{diff.path}\n{diff.new_text}" for diff in call.diffs)]
    if call.arguments:
        parts.append(json.dumps(call.arguments, indent=1, ensure_ascii=False))
    return TextPreview(text=visible_block("\n\n".join(parts)) or "It says nothing more.", warnings=warnings)


_ENDED = ("completed", "failed")
MAX_RESULT = 100_000
"""Characters of a call's result that are kept."""


class ForeignTurn:
    """The turn that runs; between two turns what comes late is told all the same."""

    def __init__(self, agent: str, stream: EventStream, todos: TodoList, pass_on: Callable[[str], object]) -> None:
        """`pass_on` takes words of the person for the agent's next prompt."""
        self.agent = agent
        self.pass_on = pass_on
        self.signal = AbortSignal()
        self._stream = stream
        self._todos = todos
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[str, ForeignCall] = {}
        self._ids = count(1)
        self._turn = 0
        """Its number: agents may use an id in each of them."""

    @property
    def source(self) -> str:
        """What a question is marked with."""
        return f"{self.agent}, an agent of its own"

    def begin(self, signal: AbortSignal) -> None:
        """Begin a turn, whose end the signal may bring."""
        self.signal = signal
        self._turn += 1
        self._calls.clear()

    def end(self) -> str:
        """End what is open, and return the last text."""
        text = self._close_message()
        for call in list(self._calls.values()):
            if call.status not in _ENDED:
                self._finish(replace(call, status="failed", texts=(*call.texts, "It was not finished.")))
        return text

    async def take(self, update: object) -> None:
        """Tell one update."""
        match update:
            case schema.AgentMessageChunk():
                if text := _text_of(update.content):
                    self._text.append(text)
                    self._stream.publish(TextDeltaEvent(text=text))
            case schema.AgentThoughtChunk():
                if text := _text_of(update.content):
                    self._reasoning.append(text)
                    self._stream.publish(ReasoningDeltaEvent(text=text))
            case schema.ToolCallStart() | schema.ToolCallProgress():
                self._take_call(update)
            case schema.AgentPlanUpdate():
                try:
                    await asyncio.to_thread(self._todos.replace, _drafts(update))
                except ToolFailure as failure:
                    self.tell(f"The plan of {self.agent} is not shown: {failure.message}")
            case _:
                pass

    def merged(self, update: schema.ToolCallUpdate | schema.ToolCallStart | schema.ToolCallProgress) -> ForeignCall:
        """Return a call with what is told of it now."""
        known = self._calls.get(update.tool_call_id) or ForeignCall(update.tool_call_id)
        changes: dict[str, Any] = {}
        if update.title:
            changes["title"] = update.title
        if update.kind:
            changes["kind"] = update.kind
        if update.status:
            changes["status"] = update.status
        given: object = update.raw_input
        if isinstance(given, dict):
            changes["arguments"] = cast("JsonObject", given)
        if update.locations:
            changes["locations"] = tuple(one.path for one in update.locations)
        content = update.content or []
        if content:
            changes["texts"] = tuple(
                text
                for one in content
                if isinstance(one, schema.ContentToolCallContent) and (text := _text_of(one.content))
            )
            changes["diffs"] = tuple(one for one in content if isinstance(one, schema.FileEditToolCallContent))
        return replace(known, **changes)

    def call_id(self, foreign_id: str) -> str:
        """Return the id of a call in our events."""
        return f"agent-{self._turn}-{visible(foreign_id)[:100]}"

    def next_id(self) -> str:
        """Return an id for a call of ours that the agent asks for."""
        return f"agent-request-{next(self._ids)}"

    def tell(self, words: str) -> None:
        """Say something to the person."""
        self._stream.publish(NoticeEvent(text=words))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _take_call(self, update: schema.ToolCallStart | schema.ToolCallProgress) -> None:
        new = update.tool_call_id not in self._calls
        call = self._calls.get(update.tool_call_id)
        if call is not None and call.status in _ENDED:
            return  # a call has one result
        call = self._calls[update.tool_call_id] = self.merged(update)
        if new:
            name, arguments = visible(call.title)[:100] or call.kind, call.arguments
            number = self.call_id(call.id)
            self._close_message(ProposedCall(id=number, name=name, arguments=arguments))
            self._stream.publish(ToolCallEvent(call_id=number, name=name, arguments=arguments, origin=Origin.MODEL))
        if call.status in _ENDED:
            self._finish(call)

    def _finish(self, call: ForeignCall) -> None:
        self._calls[call.id] = replace(call, status="completed")
        changed = [f"changed {visible(diff.path)}" for diff in call.diffs]
        text = visible_block("\n".join((*call.texts, *changed)))[:MAX_RESULT] or "(no output)"
        result = ToolResult.of_text(text)
        if call.status == "failed":
            result = ToolResult.of_failure(ShellExecutionFailed(text))
        self._stream.publish(ToolResultEvent(call_id=self.call_id(call.id), result=LoggedResult.of(result)))

    def _close_message(self, *calls: ProposedCall) -> str:
        """Publish what was said so far as a message, with the calls that follow it."""
        text, reasoning = well_formed("".join(self._text)), well_formed("".join(self._reasoning))
        if text or reasoning or calls:
            self._stream.publish(AssistantMessageEvent(text=text, reasoning=reasoning, tool_calls=calls))
        self._text.clear()
        self._reasoning.clear()
        return text


def _drafts(plan: schema.AgentPlanUpdate) -> list[TodoDraft]:
    """Return a plan as todos, of which one alone can be in progress."""
    drafts: list[TodoDraft] = []
    working = False
    for entry in plan.entries:
        status = TodoStatus(entry.status)
        if status is TodoStatus.IN_PROGRESS and working:
            status = TodoStatus.PENDING
        working = working or status is TodoStatus.IN_PROGRESS
        if entry.content.strip():
            drafts.append(TodoDraft(visible(entry.content), status))
    return drafts


def _text_of(content: object) -> str:
    match content:
        case schema.TextContentBlock():
            return content.text
        case schema.ResourceContentBlock():
            return f"[{content.name}: {content.uri}]"
        case schema.ImageContentBlock() | schema.AudioContentBlock():
            return f"[{content.type}, {content.mime_type}, not shown]"
        case _:
            return ""
