"""What goes to a model, what comes back, and how a request fails: the words every provider speaks.

Nothing here knows a wire format. `Provider` is where the implementations meet; the agent loop reads
`StreamEvent`s and hands `ToolCall`s to the executor.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, TypeAlias

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal

JsonObject: TypeAlias = "dict[str, JsonValue]"
"""A JSON object: arguments of a call, a schema, one chunk of a stream."""


class CallOrigin(StrEnum):
    """Where a tool call came from; policies can tell them apart (`$origin`)."""

    MODEL = "model"
    SALVAGED = "salvaged"
    """Found in a model's text, not in its tool call field."""
    USER = "user"


@dataclass(frozen=True)
class ToolCall:
    """One call a model asked for. With a `fault` it must not run: the model is told the fault instead."""

    id: str
    name: str
    arguments: JsonObject
    raw_arguments: str | None = None
    """The arguments as they were sent, where they came as text."""
    origin: CallOrigin = CallOrigin.MODEL
    fault: str | None = None
    """Why the call cannot be run (arguments cut off, not JSON); a sentence meant for the model."""
    repaired: bool = False
    """The arguments were not valid JSON and were read all the same; worth a note to the model."""


@dataclass(frozen=True)
class SystemMessage:
    """Standing instructions; kept byte-identical through a session so that servers can reuse their cache."""

    text: str


@dataclass(frozen=True)
class UserMessage:
    """What the person said, and what we put before it for the model."""

    text: str
    preface: str = ""
    """Notes from memory; no words of the person's, so what only understands commands leaves them out."""

    @property
    def whole(self) -> str:
        """As a model reads it."""
        return f"{self.preface}\n\n{self.text}" if self.preface else self.text


@dataclass(frozen=True)
class AssistantMessage:
    """What the model answered: text, calls, or both."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    """Its thinking, sent back only within the running tool loop."""


class ToolOutcome(StrEnum):
    """How a call ended, for providers that are no model and cannot read it from the text."""

    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"


@dataclass(frozen=True)
class ToolMessage:
    """The result of one call, as the model reads it. Every call needs exactly one."""

    call_id: str
    name: str
    content: str
    outcome: ToolOutcome | None = None
    """None where whoever built the message did not say; then it is guessed from the text."""


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True)
class ToolSchema:
    """A tool as offered to a model; `parameters` is its JSON schema."""

    name: str
    description: str
    parameters: JsonObject


@dataclass(frozen=True)
class ChatRequest:
    """One request for a reply. What is None is left to the provider or the server."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    model: str | None = None
    """Overrides the provider's own model for this request."""
    temperature: float | None = None
    max_tokens: int | None = None
    """Longest reply, in tokens."""
    think: bool | None = None
    """Ask a thinking model to think (True) or not (False); None lets the server decide."""
    estimated_tokens: int | None = None
    """Our own estimate of the prompt; compared with the server's count to notice a prompt cut in silence."""


class FinishReason(StrEnum):
    """Why a reply ended. Whether tools were asked for is told by `ToolCallReady` alone: servers disagree here."""

    STOP = "stop"
    LENGTH = "length"
    """The reply reached its limit or the window is full."""
    TOOL_CALLS = "tool_calls"
    FILTERED = "filtered"
    OTHER = "other"


@dataclass(frozen=True)
class TextDelta:
    """A piece of the answer."""

    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """A piece of the model's thinking."""

    text: str


@dataclass(frozen=True)
class ToolCallProgress:
    """A call is being written: its name as far as known, and how many characters of arguments so far."""

    name: str
    characters: int


@dataclass(frozen=True)
class ToolCallReady:
    """A call is complete (or complete enough to be answered with its `fault`)."""

    call: ToolCall


@dataclass(frozen=True)
class UsageReported:
    """Tokens as the server counted them; None means it did not say, never zero."""

    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True)
class ProviderNotice:
    """Something the person should know about this reply: a model chosen, a prompt cut, tools left out."""

    text: str


@dataclass(frozen=True)
class StreamFinished:
    """The last event of every reply that was not cut short by a `ProviderError`."""

    reason: FinishReason
    raw_reason: str | None = None
    """The server's own word."""


StreamEvent: TypeAlias = (
    TextDelta | ReasoningDelta | ToolCallProgress | ToolCallReady | UsageReported | ProviderNotice | StreamFinished
)


class ProviderErrorKind(StrEnum):
    """The ways a request to a model can fail."""

    UNREACHABLE = "unreachable"
    AUTH = "auth"
    NO_SUCH_MODEL = "no_such_model"
    NO_TOOLS = "no_tools"
    CONTEXT_OVERFLOW = "context_overflow"
    RATE_LIMITED = "rate_limited"
    LOADING = "loading"
    CUT_OFF = "cut_off"
    BAD_REPLY = "bad_reply"
    TIMEOUT = "timeout"
    REFUSED = "refused"
    """The server, or the script, turned the request down for a reason of its own."""


class ProviderError(Exception):
    """A request to a model failed. The message names the address, the reason and what to do next.

    What was streamed before stays with whoever consumed it: the partial answer is theirs to keep.
    Never carries an API key.
    """

    def __init__(
        self,
        kind: ProviderErrorKind,
        message: str,
        *,
        retryable: bool = False,
        url: str | None = None,
        status: int | None = None,
        prompt_tokens: int | None = None,
        context_window: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.retryable = retryable
        self.url = url
        self.status = status
        """HTTP status, where there was one."""
        self.prompt_tokens = prompt_tokens
        """With CONTEXT_OVERFLOW: the size of the prompt as the server counted it."""
        self.context_window = context_window
        """With CONTEXT_OVERFLOW: how many tokens the server has room for."""
        self.retry_after = retry_after
        """Seconds the server asked us to wait."""


@dataclass(frozen=True)
class ModelInfo:
    """One model a server offers; what it did not tell is None or empty."""

    name: str
    size: int | None = None
    """Bytes on disk."""
    parameter_size: str | None = None
    """As the server words it, e.g. `7B`."""
    quantization: str | None = None
    family: str | None = None
    context_window: int | None = None
    """Tokens the server gives it, where a list of models tells that."""


@dataclass(frozen=True)
class ProviderDescription:
    """A provider in the words of the status line and the first screen."""

    provider: str
    model: str | None
    location: str | None = None
    """Address of the server, without credentials."""
    context_window: int | None = None
    """Tokens, where known."""
    badge: str | None = None
    """A standing notice, e.g. that no model is connected."""
    greeting: str | None = None
    """A first message for the conversation, where the provider has something to say for itself."""
    facts: tuple[str, ...] = field(default=())
    """Further lines for `doctor` and the model screen."""

    def __str__(self) -> str:
        words = [self.provider, self.model or "no model chosen"] if self.badge is None else [self.badge]
        return " ".join(words)


class Provider(Protocol):
    """Something that answers a `ChatRequest`, one event at a time."""

    @property
    def name(self) -> str:
        """`ollama`, `openai`, `offline`, `scripted`."""
        ...

    @property
    def model(self) -> str | None:
        """The model in use; None until one is chosen."""
        ...

    def stream(self, request: ChatRequest, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply; ends with `StreamFinished`.

        Aborting the signal raises `OperationCancelled` and closes the connection at once, so that the server
        stops working. Raises `ProviderError` for everything that goes wrong on the way.
        """
        ...

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """What the server offers; empty for providers without a choice. Raises `ProviderError`."""
        ...

    async def aclose(self) -> None:
        """Close connections; the provider is not used afterwards."""
        ...

    def describe(self) -> ProviderDescription:
        """Name, model and standing notices for the screen; asks nobody."""
        ...
