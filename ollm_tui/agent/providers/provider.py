"""The provider interface: messages, requests, stream events and errors, in no wire format."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Literal, Protocol, TypeAlias, runtime_checkable

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Origin


@dataclass(frozen=True)
class ToolCall:
    """A call that a model asked for; with an `error` it must not run."""

    id: str
    name: str
    arguments: JsonObject
    origin: Origin = Origin.MODEL
    error: str | None = None
    """Why the call cannot run (arguments cut off, not JSON), in words for the model."""
    repaired: bool = False
    """The arguments were not valid JSON but could be read."""
    text_before: int | None = field(default=None, compare=False)
    """Characters of the answer that came before the call, where that is known."""


@dataclass(frozen=True)
class SystemMessage:
    """Instructions, the same bytes through a session so that servers can reuse their cache."""

    text: str


@dataclass(frozen=True)
class Image:
    """An image of a message; its bytes stay in the file until a request is made."""

    path: str
    media_type: str
    digest: str
    """SHA-256 of the file, in hex; a file with another one is not sent."""
    data: str = field(default="", repr=False, compare=False)
    """The bytes as base64, in a request."""


@dataclass(frozen=True)
class UserMessage:
    """What the person said, and what we put before it for the model."""

    text: str
    preface: str = ""
    """What the person did not write: notes from memory, instructions, attached files. Not for the offline provider."""
    event_id: int = field(default=0, compare=False)
    """The event that tells of it; 0 where none does."""
    images: tuple[Image, ...] = ()

    def behind(self, text: str) -> UserMessage:
        """Return the message with a further text before what the person wrote."""
        return replace(self, preface=f"{self.preface}\n\n{text}" if self.preface else text)

    @property
    def whole(self) -> str:
        """The text as a model reads it."""
        return "\n\n".join(part for part in (self.preface, self.text) if part)


@dataclass(frozen=True)
class AssistantMessage:
    """The model's answer: text, calls, or both."""

    text: str
    tool_calls: tuple[ToolCall, ...] = ()
    reasoning: str = ""
    """Its thinking, sent back only within the running tool loop."""
    event_id: int = field(default=0, compare=False)
    """The event that tells of it; 0 where none does."""


class ToolOutcome(StrEnum):
    """How a call ended, for a provider that does not read the text."""

    DONE = "done"
    FAILED = "failed"
    DENIED = "denied"


@dataclass(frozen=True)
class ToolMessage:
    """The result of one call, as the model reads it. Every call needs exactly one."""

    call_id: str
    name: str
    content: str
    outcome: ToolOutcome = ToolOutcome.DONE


Message: TypeAlias = SystemMessage | UserMessage | AssistantMessage | ToolMessage


@dataclass(frozen=True)
class ToolSchema:
    """A tool as offered to a model; `parameters` is its JSON schema."""

    name: str
    description: str
    parameters: JsonObject


Thinking: TypeAlias = Literal[True, False, "low", "medium", "high"]
"""Whether, or how much, a thinking model thinks before it answers."""


class ToolsMode(StrEnum):
    """How a model is offered tools."""

    NATIVE = "native"
    PROMPTED = "prompted"
    """In words, its reply held to a schema where the server can."""
    NONE = "none"


@dataclass(frozen=True)
class ModelOptions:
    """What the person set for a model; None leaves it to the provider or server."""

    num_ctx: int | None = None
    temperature: float | None = None
    think: Thinking | None = None
    tools: ToolsMode | None = None
    images: bool | None = None
    """Whether it takes images."""

    def applied_to(self, request: ChatRequest) -> ChatRequest:
        """Return the request as these want it, but for what it says itself."""
        temperature = self.temperature if request.temperature is None else request.temperature
        think = self.think if request.think is None else request.think
        tools = () if self.tools is ToolsMode.NONE else request.tools
        return replace(request, temperature=temperature, think=think, tools=tools)


class OptionsByModel:
    """The options of the models that have any."""

    def __init__(self, by_name: Mapping[str, ModelOptions] | None) -> None:
        self._by_name = by_name or {}

    def of(self, model: str | None) -> ModelOptions:
        """Return what was set for a model; Ollama's names may go without their `:latest`."""
        name = model or ""
        return self._by_name.get(name) or self._by_name.get(name.removesuffix(":latest")) or ModelOptions()


@dataclass(frozen=True)
class ChatRequest:
    """A request for a reply; what is None is left to the provider or server."""

    messages: tuple[Message, ...]
    tools: tuple[ToolSchema, ...] = ()
    model: str | None = None
    """Overrides the provider's own model for this request."""
    temperature: float | None = None
    max_tokens: int | None = None
    """Longest reply, in tokens."""
    think: Thinking | None = None
    """None lets the server decide."""
    estimated_tokens: int | None = None
    """Our estimate of the prompt, to notice a prompt that the server cut."""


class FinishReason(StrEnum):
    """Why a reply ended; `ToolCallReady` alone tells of calls, since servers disagree."""

    STOP = "stop"
    LENGTH = "length"
    """The reply reached its limit or the window is full."""
    TOOL_CALLS = "tool_calls"
    FILTERED = "filtered"
    OTHER = "other"


@dataclass(frozen=True)
class TextDelta:
    """More text of the answer."""

    text: str


@dataclass(frozen=True)
class ReasoningDelta:
    """More of the model's thinking."""

    text: str


@dataclass(frozen=True)
class ToolCallProgress:
    """A call being written: its name so far, and the characters of its arguments."""

    name: str
    characters: int


@dataclass(frozen=True)
class ToolCallReady:
    """A call is complete, or has an `error` to be answered with."""

    call: ToolCall


@dataclass(frozen=True)
class UsageReported:
    """Tokens as the server counted them; None where it did not."""

    prompt_tokens: int | None
    completion_tokens: int | None


@dataclass(frozen=True)
class ProviderNotice:
    """A notice for the person: a model chosen, a prompt cut, tools left out."""

    text: str


@dataclass(frozen=True)
class ModelLoading:
    """The server loads the model before it answers."""

    model: str


@dataclass(frozen=True)
class StreamFinished:
    """The last event of every reply without a `ProviderError`."""

    reason: FinishReason


StreamEvent: TypeAlias = (
    TextDelta
    | ReasoningDelta
    | ToolCallProgress
    | ToolCallReady
    | UsageReported
    | ProviderNotice
    | ModelLoading
    | StreamFinished
)


class ProviderErrorKind(StrEnum):
    """How a request to a model failed."""

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
    """The server, or the script, refused for another reason."""


@dataclass(eq=False)
class ProviderError(Exception):
    """A request to a model failed; the message says where, why and what to do, without API keys."""

    kind: ProviderErrorKind
    message: str
    retryable: bool = field(default=False, kw_only=True)
    url: str | None = field(default=None, kw_only=True)
    status: int | None = field(default=None, kw_only=True)
    """HTTP status, where there was one."""
    prompt_tokens: int | None = field(default=None, kw_only=True)
    """With CONTEXT_OVERFLOW: the size of the prompt as the server counted it."""
    context_window: int | None = field(default=None, kw_only=True)
    """With CONTEXT_OVERFLOW: how many tokens the server has room for."""
    retry_after: float | None = field(default=None, kw_only=True)
    """Seconds the server asked us to wait."""

    def __str__(self) -> str:
        return self.message


@dataclass(frozen=True)
class ModelInfo:
    """A model that a server offers; None is what it did not tell."""

    name: str
    size: int | None = None
    """Bytes on disk."""
    parameter_size: str | None = None
    """As the server words it, e.g. `7B`."""
    quantization: str | None = None
    family: str | None = None
    context_window: int | None = None
    """Tokens, where the list of models tells that."""


@dataclass(frozen=True)
class ProviderDescription:
    """A provider for the status line and the first screen."""

    provider: str
    model: str | None
    location: str | None = None
    """Address of the server, without credentials."""
    context_window: int | None = None
    """Tokens, where known."""
    badge: str | None = None
    """A permanent notice, e.g. that no model is connected."""
    greeting: str | None = None
    """A first message for the conversation."""
    takes_tools: bool = True
    """Whether the model is offered tools."""

    def __str__(self) -> str:
        return self.badge or f"{self.provider} {self.model or 'no model chosen'}"


@runtime_checkable
class ServerProvider(Protocol):
    """A provider that can ask a server about its model."""

    async def find_window(self) -> None:
        """Learn the window of the model in use, before its first request. Raises ProviderError."""
        ...

    def take_notices(self) -> list[str]:
        """Return what the person is to know of the model; each notice once."""
        ...

    async def takes_images(self) -> bool | None:
        """Return whether the model in use does; None where the server does not tell. Raises ProviderError."""
        ...


class Provider(Protocol):
    """A source of replies, streamed one event at a time."""

    @property
    def name(self) -> str:
        """`ollama`, `openai`, `embedded`, `offline`, `scripted`."""
        ...

    @property
    def model(self) -> str | None:
        """The model in use; None until one is chosen."""
        ...

    def stream(self, request: ChatRequest, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply; `StreamFinished` ends it.

        Raises:
            OperationCancelled: The signal was aborted; the connection is closed, so that the server stops.
            ProviderError: Everything else that went wrong.
        """
        ...

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return what the server offers, nothing without a choice; raise ProviderError."""
        ...

    async def aclose(self) -> None:
        """Close connections; the provider is not used afterwards."""
        ...

    def describe(self) -> ProviderDescription:
        """Return name, model and notices for the screen, without a request."""
        ...
