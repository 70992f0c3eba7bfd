"""Runs a provider to the end of one reply and keeps all that came, failures included."""

from __future__ import annotations

from contextlib import aclosing
from dataclasses import dataclass, field

from ollm_tui.agent.providers.provider import (
    ChatRequest,
    FinishReason,
    Provider,
    ProviderError,
    ProviderNotice,
    ReasoningDelta,
    StreamEvent,
    StreamFinished,
    TextDelta,
    ToolCall,
    ToolCallReady,
    ToolSchema,
    UsageReported,
    UserMessage,
)
from ollm_tui.core.base.abort import AbortSignal

STRING = {"type": "string"}


def tool(name: str, **properties: object) -> ToolSchema:
    return ToolSchema(name, f"Tool {name}", {"type": "object", "properties": properties})


TOOLS = tuple(tool(name, path=STRING) for name in ("ls", "read_file", "write_file", "grep", "shell"))


def asking(text: str = "Hello", tools: tuple[ToolSchema, ...] = TOOLS, **more: object) -> ChatRequest:
    return ChatRequest((UserMessage(text),), tools, **more)  # type: ignore[arg-type]  # fields of the request by name


@dataclass
class Collected:
    """Everything one reply gave."""

    events: list[StreamEvent] = field(default_factory=list)
    failure: ProviderError | None = None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, TextDelta))

    @property
    def reasoning(self) -> str:
        return "".join(event.text for event in self.events if isinstance(event, ReasoningDelta))

    @property
    def calls(self) -> list[ToolCall]:
        return [event.call for event in self.events if isinstance(event, ToolCallReady)]

    @property
    def called(self) -> list[tuple[str, object]]:
        return [(call.name, call.arguments) for call in self.calls]

    @property
    def usage(self) -> list[tuple[int | None, int | None]]:
        return [(e.prompt_tokens, e.completion_tokens) for e in self.events if isinstance(e, UsageReported)]

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, ProviderNotice)]

    @property
    def finish(self) -> FinishReason | None:
        last = self.events[-1] if self.events else None
        return last.reason if isinstance(last, StreamFinished) else None


async def collect(provider: Provider, request: ChatRequest, signal: AbortSignal | None = None) -> Collected:
    got = Collected()
    try:
        async with aclosing(provider.stream(request, signal or AbortSignal())) as events:
            async for event in events:
                got.events.append(event)
    except ProviderError as failure:
        got.failure = failure
    return got
