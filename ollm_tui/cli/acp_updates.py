"""What happens in a session as the Agent Client Protocol says it to an editor."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from pathlib import Path

from acp import helpers
from acp.schema import (
    AgentMessageChunk,
    AgentPlanUpdate,
    AgentThoughtChunk,
    PermissionOption,
    PlanEntry,
    ToolCallLocation,
    ToolCallProgress,
    ToolCallStart,
    ToolCallUpdate,
    ToolKind,
    UserMessageChunk,
)

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    AttachedEvent,
    ErrorEvent,
    Event,
    ModelLoadingEvent,
    NoticeEvent,
    ReasoningDeltaEvent,
    TextDeltaEvent,
    TodosChangedEvent,
    ToolCallEvent,
    ToolResultEvent,
    UserMessageEvent,
)
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.todos.todo import Todo, TodoStatus
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.tui.controllers.conversation_controller import summary_of
from ollm_tui.tui.decisions import ConfirmationCase
from ollm_tui.tui.screens.confirmation_text import head_layout
from ollm_tui.tui.widgets.tool_call_view import preview_lines

Update = AgentMessageChunk | AgentThoughtChunk | AgentPlanUpdate | ToolCallStart | ToolCallProgress | UserMessageChunk

_COLUMNS = 100

_KINDS: Mapping[str, ToolKind] = {
    "delete_file": "delete",
    "move_file": "move",
    "grep": "search",
    "glob": "search",
    "ls": "search",
    "search_code": "search",
    "web_fetch": "fetch",
    "http_fetch": "fetch",
    "web_search": "fetch",
    "browser": "fetch",
    "write_todos": "think",
    "task": "think",
}
_KIND_OF_EFFECT: Mapping[Effect, ToolKind] = {
    Effect.READS: "read",
    Effect.WRITES: "edit",
    Effect.RUNS: "execute",
}


class Updates:
    """Turns the events of one session into updates."""

    def __init__(self, registry: ToolRegistry, workspace: Path) -> None:
        self._registry = registry
        self._workspace = workspace
        self._todos: tuple[Todo, ...] = ()

    def of(self, event: Event) -> Generator[Update]:
        """Yield what an editor is told of an event as it happens."""
        match event:
            case TextDeltaEvent(task=None, text=text):
                yield helpers.update_agent_message_text(text)
            case ReasoningDeltaEvent(task=None, text=text):
                yield helpers.update_agent_thought_text(text)
            case ToolCallEvent():
                yield self._started(event)
            case ToolResultEvent():
                yield _ended(event)
            case TodosChangedEvent():
                self._todos = event.applied_to(() if event.since is None else self._todos)
                yield helpers.update_plan([_entry(todo) for todo in self._todos])
            case NoticeEvent(text=text):
                yield helpers.update_agent_thought_text(f"{visible_block(text)}\n")
            case AttachedEvent():
                yield helpers.update_agent_thought_text(f"{visible(event.summary)}\n")
            case ModelLoadingEvent(model=model, loaded=False):
                yield helpers.update_agent_thought_text(f"Loading {visible(model)}.\n")
            case ErrorEvent(error=error):
                yield helpers.update_agent_message_text(f"\n{error.type}: {visible_block(error.message)}\n")
            case _:
                pass

    def replayed(self, event: Event) -> Generator[Update]:
        """Yield what an editor is told of an event of an earlier session, whose log has whole texts."""
        match event:
            case UserMessageEvent(text=text):
                yield helpers.update_user_message_text(text)
            case AssistantMessageEvent(task=None):
                if event.reasoning:
                    yield helpers.update_agent_thought_text(event.reasoning)
                if event.text:
                    yield helpers.update_agent_message_text(event.text)
            case _:
                yield from self.of(event)

    def question(self, confirmation: Confirmation) -> ToolCallUpdate:
        """Return what a person is asked, with all that the dashboard would show."""
        details, request = confirmation.details, confirmation.request
        head = head_layout(ConfirmationCase(confirmation), _COLUMNS, _COLUMNS)
        rows = [row.text.rstrip() for row in (*head.shown, *head.left_out)]
        if details.preview is not None:
            rows += ["", *(row.text.rstrip() for row in preview_lines(details.preview))]
        return ToolCallUpdate(
            tool_call_id=request.call_id or request.id,
            title=visible(f"{details.description} (risk: {details.risk.value})"),
            kind=self._kind(details.tool_name),
            status="pending",
            content=[helpers.tool_content(helpers.text_block(fenced("\n".join(rows))))],
            locations=self._locations(details.args),
            raw_input=details.args,
        )

    def _started(self, event: ToolCallEvent) -> ToolCallStart:
        what = f"{event.name} {summary_of(event.arguments)}".strip()
        return helpers.start_tool_call(
            event.call_id,
            visible(what if event.task is None else f"sub-agent: {what}")[:300],
            kind=self._kind(event.name),
            status="in_progress",
            locations=self._locations(event.arguments),
            raw_input=event.arguments,
        )

    def _kind(self, name: str) -> ToolKind:
        tool = self._registry.get(name)
        return _KINDS.get(name) or (_KIND_OF_EFFECT.get(tool.effect, "other") if tool is not None else "other")

    def _locations(self, arguments: JsonObject) -> list[ToolCallLocation]:
        given = arguments.get("path", arguments.get("from"))
        return [ToolCallLocation(path=str(self._workspace / given))] if isinstance(given, str) and given else []


def permission_options(always: str) -> list[PermissionOption]:
    """Return the answers there are; `always` is what would run unasked for the rest of the session, or nothing."""
    offered = [
        PermissionOption(option_id="once", name="Approve once", kind="allow_once"),
        PermissionOption(option_id="deny", name="Deny", kind="reject_once"),
    ]
    if always:
        name = f"Always this session: {visible(always)}"
        offered.insert(1, PermissionOption(option_id="session", name=name, kind="allow_always"))
    return offered


def fenced(text: str) -> str:
    """Return text that no editor takes for Markdown."""
    longest = max((len(run) for run in text.split("\n") if run and set(run.strip()) == {"`"}), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _ended(event: ToolResultEvent) -> ToolCallProgress:
    result = event.result
    text = result.error.message if result.error is not None else result.return_display
    return helpers.update_tool_call(
        event.call_id,
        status="completed" if result.ok else "failed",
        content=[helpers.tool_content(helpers.text_block(fenced(visible_block(text))))] if text else None,
    )


def _entry(todo: Todo) -> PlanEntry:
    match todo.status:
        case TodoStatus.PENDING:
            status = "pending"
        case TodoStatus.IN_PROGRESS:
            status = "in_progress"
        case TodoStatus.COMPLETED | TodoStatus.CANCELLED:
            status = "completed"
    return helpers.plan_entry(visible(todo.task), status=status)
