"""Events of a session, read by its log, `run --output jsonl` and the screen."""

from __future__ import annotations

import json
from enum import StrEnum
from functools import cache
from typing import Annotated, Literal

from pydantic import Field, SerializerFunctionWrapHandler, TypeAdapter, model_serializer
from pydantic_core import PydanticSerializationError

from ollm_tui.agent.providers.json_values import well_formed_json
from ollm_tui.agent.providers.provider import Image
from ollm_tui.core.base.errors import Slug
from ollm_tui.core.base.results import JsonObject, ToolError, ToolResult, Wire
from ollm_tui.core.bus.confirmation import ConfirmationRequest
from ollm_tui.core.bus.notices import TodosChanged
from ollm_tui.core.bus.states import ConfirmationState, Origin
from ollm_tui.core.todos.todo import Todo


class TurnStatus(StrEnum):
    """How a turn ended."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"


class _Event(Wire):
    """Base of events; the stream sets `id`, counted from 1, and `time` (UTC)."""

    id: int = 0
    time: str = ""
    task: str | None = None
    """The call whose sub-agent it comes from."""


class SessionStartedEvent(_Event):
    """First line of a session, and again when it is resumed."""

    type: Literal["session_started"] = "session_started"
    session_id: str
    workspace: str
    provider: str
    model: str
    version: str
    forked_from: str | None = None
    """The session whose events up to here follow, where it is a fork."""


class UserMessageEvent(_Event):
    """What the person asked."""

    type: Literal["user_message"] = "user_message"
    text: str


class RecalledNote(Wire):
    """A memory that was sent."""

    key: str
    scope: str


class MemoryRecalledEvent(_Event):
    """Notes from memory in the session's first message, exactly as sent.

    A replay uses `text` again instead of reading the memory, which may have changed by then.
    """

    type: Literal["memory_recalled"] = "memory_recalled"
    text: str
    notes: tuple[RecalledNote, ...] = ()
    left_out: int = 0
    secrets: int = 0
    """How many of those left out look like secrets."""
    asking: int = 0
    """How many of those left out the policy would ask about or deny."""

    @property
    def summary(self) -> str:
        """Half a line for the person."""
        count = "1 note" if len(self.notes) == 1 else f"{len(self.notes)} notes"
        secret = f" (secret-looking: {self.secrets})" if self.secrets else ""
        return f"{count} from memory" + (f", {self.left_out} left out{secret}" if self.left_out else "")


class AttachedImage(Wire):
    """Where an image is and what its bytes were; the log has none of them."""

    path: str
    media_type: str
    digest: str
    size: int

    @property
    def for_request(self) -> Image:
        """The image as a message has it."""
        return Image(self.path, self.media_type, self.digest)


class AttachedEvent(_Event):
    """A text that the person did not write and that went to the model: instructions, or what a reference names."""

    type: Literal["attached"] = "attached"
    name: str
    """The file, folder or address."""
    text: str
    """Exactly as sent."""
    place: Literal["system", "message", "conversation"]
    """Before the conversation, before the last message of the person, or as a message of its own."""
    image: AttachedImage | None = None
    """An image that goes along with it."""

    @property
    def summary(self) -> str:
        """Half a line for the person."""
        if self.image is not None:
            return f"Attached: {self.name}, {self.image.media_type}, {self.image.size:,} bytes"
        kind = "Instructions" if self.place != "message" or self.text.startswith("[Instr") else "Attached"
        return f"{kind}: {self.name}, {len(self.text):,} characters"


class TextDeltaEvent(_Event):
    """More text of the answer; not in the log."""

    type: Literal["text_delta"] = "text_delta"
    text: str


class ReasoningDeltaEvent(_Event):
    """More of the model's thinking; not in the log."""

    type: Literal["reasoning_delta"] = "reasoning_delta"
    text: str


class ModelLoadingEvent(_Event):
    """The server loads the model, or has: the first byte came; not in the log."""

    type: Literal["model_loading"] = "model_loading"
    model: str
    loaded: bool = False


class ProposedCall(Wire):
    """A call inside an assistant message, with the arguments as the model sent them."""

    id: str
    name: str
    arguments: JsonObject
    origin: Origin = Origin.MODEL
    text_before: int | None = None
    """Characters of the message's text that came before it."""


class AssistantMessageEvent(_Event):
    """A whole answer; `partial` when the stream was cut."""

    type: Literal["assistant_message"] = "assistant_message"
    text: str
    tool_calls: tuple[ProposedCall, ...] = ()
    reasoning: str = ""
    partial: bool = False
    model: str = ""
    """Which model it is of; empty where it has no name, and in logs of earlier versions."""


class ToolCallEvent(_Event):
    """A call goes to the executor; exactly one `tool_result` follows."""

    type: Literal["tool_call"] = "tool_call"
    call_id: str
    name: str
    arguments: JsonObject
    origin: Origin


class ToolOutputEvent(_Event):
    """Output of a running call; not in the log, where the result has it."""

    type: Literal["tool_output"] = "tool_output"
    call_id: str
    text: str


class ConfirmationRequestedEvent(_Event):
    """A confirmation was requested."""

    type: Literal["confirmation_requested"] = "confirmation_requested"
    call_id: str
    request: ConfirmationRequest


class ConfirmationSettledEvent(_Event):
    """A confirmation was settled: how, and by whom."""

    type: Literal["confirmation_settled"] = "confirmation_settled"
    call_id: str
    request_id: str
    outcome: ConfirmationState
    by: str
    reason: str | None = None
    modified_args: JsonObject | None = None


class LoggedResult(Wire):
    """A result in an event; `data` is plain JSON, so that any version can read the log."""

    ok: bool
    llm_content: str
    return_display: str
    error: ToolError | None = None
    data: JsonObject | None = None
    notes: tuple[str, ...] = ()
    exit_code: int | None = None
    truncated: bool = False
    place: str | None = None
    """Where its programs ran, in words; see `ExecutionPlace`."""
    duration_ms: int = 0
    waited_ms: int = 0
    artifacts: tuple[JsonObject, ...] = ()

    @model_serializer(mode="wrap")
    def _without_nothing(self, dump: SerializerFunctionWrapHandler) -> JsonObject:
        """Leave out empty lists, as on stdout."""
        shown: JsonObject = dump(self)
        return {key: value for key, value in shown.items() if value not in ((), [])}

    @classmethod
    def of(cls, result: ToolResult) -> LoggedResult:
        """Return the result as it is logged."""
        return cls.model_validate(result.on_stdout())


class ToolResultEvent(_Event):
    """The one result of a call."""

    type: Literal["tool_result"] = "tool_result"
    call_id: str
    result: LoggedResult


class TodosChangedEvent(_Event):
    """What changed in the todo list, and by whom; a session's first one holds the whole list."""

    type: Literal["todos_changed"] = "todos_changed"
    todos: tuple[Todo, ...]
    """New items, and those that are not as before."""
    removed: tuple[str, ...] = ()
    order: tuple[str, ...] | None = None
    """All ids, where the order is not that of before with new items at its end."""
    by: str
    revision: int = 0
    since: int | None = None
    """The revision that was changed; None where the whole list is here."""

    @classmethod
    def between(cls, before: TodosChanged | None, after: TodosChanged) -> TodosChangedEvent:
        """Return what leads from one list to another."""
        ids = {todo.id: None for todo in after.todos}
        if before is None:
            return cls(todos=after.todos, order=tuple(ids), by=after.by, revision=after.revision)
        old = {todo.id: todo for todo in before.todos}
        event = cls(
            todos=tuple(todo for todo in after.todos if old.get(todo.id) != todo),
            removed=tuple(each for each in old if each not in ids),
            by=after.by,
            revision=after.revision,
            since=before.revision,
        )
        as_expected = event.applied_to(before.todos) == after.todos
        return event if as_expected else event.model_copy(update={"order": tuple(ids)})

    def applied_to(self, todos: tuple[Todo, ...]) -> tuple[Todo, ...]:
        """Return the list after this change."""
        listed = {todo.id: todo for todo in (*todos, *self.todos) if todo.id not in self.removed}
        return tuple(listed.values() if self.order is None else (listed[each] for each in self.order))


class UsageEvent(_Event):
    """Tokens of one model request; absent where the server did not say."""

    type: Literal["usage"] = "usage"
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    context_used: int | None = None
    """Tokens of the conversation so far."""
    context_limit: int | None = None
    """The window of the model in tokens, where known."""
    estimated: bool = False
    """Whether `context_used` is our estimate."""


class CompactedEvent(_Event):
    """Earlier messages were replaced by a summary; sizes in tokens."""

    type: Literal["compacted"] = "compacted"
    before: int
    after: int
    summary: str | None = None
    """What the model reads instead, as a message of the user before those kept; None where nothing stands for them."""
    kept_from: int | None = None
    """The id of the first event whose message was kept; None where none was."""


class ContextDroppedEvent(_Event):
    """The person dropped a message from the context, or what was attached to it."""

    type: Literal["context_dropped"] = "context_dropped"
    name: str
    tokens: int
    message: int
    """The event of the message; of a result, that of the answer with its call."""
    call_id: str | None = None
    """The call, for a result."""


class NoticeEvent(_Event):
    """Something a person should know that is not an error."""

    type: Literal["notice"] = "notice"
    text: str


class TurnError(Wire):
    """Why a turn failed; `type` and `message` are always set."""

    type: str
    message: str
    code: str = ""
    slug: Slug = Slug.EXECUTION_ERROR
    retryable: bool = False


class ErrorEvent(_Event):
    """The turn cannot go on."""

    type: Literal["error"] = "error"
    error: TurnError


class TurnFinishedEvent(_Event):
    """The last event of a turn."""

    type: Literal["turn_finished"] = "turn_finished"
    status: TurnStatus


Event = Annotated[
    SessionStartedEvent
    | UserMessageEvent
    | MemoryRecalledEvent
    | AttachedEvent
    | TextDeltaEvent
    | ReasoningDeltaEvent
    | ModelLoadingEvent
    | AssistantMessageEvent
    | ToolCallEvent
    | ToolOutputEvent
    | ConfirmationRequestedEvent
    | ConfirmationSettledEvent
    | ToolResultEvent
    | TodosChangedEvent
    | UsageEvent
    | CompactedEvent
    | ContextDroppedEvent
    | NoticeEvent
    | ErrorEvent
    | TurnFinishedEvent,
    Field(discriminator="type"),
]


@cache
def _reader() -> TypeAdapter[Event]:
    return TypeAdapter(Event)


def read_event(line: str | bytes) -> Event:
    """Read an event from a line of a log; raise pydantic's ValidationError."""
    return _reader().validate_json(line)


UNLOGGED = (TextDeltaEvent, ReasoningDeltaEvent, ToolOutputEvent, ModelLoadingEvent)
"""Live events: their whole text is in a later one, or they are over soon."""


def as_line(event: Event) -> str:
    """Return an event as one line of JSON in camelCase, without empty members.

    Half a surrogate pair, which a file name can hold, becomes U+FFFD.
    """
    try:
        return event.model_dump_json(by_alias=True, exclude_none=True)
    except PydanticSerializationError:
        whole = well_formed_json(event.model_dump(by_alias=True, exclude_none=True, mode="json"))
        return json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
