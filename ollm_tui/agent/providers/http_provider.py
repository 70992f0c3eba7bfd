"""What the two providers over HTTP share: choosing a model, leaving out what is refused, tool schemas."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Protocol

from ollm_tui.agent.providers.http_connection import HttpConnection
from ollm_tui.agent.providers.provider import (
    JsonObject,
    ModelInfo,
    ProviderError,
    ProviderErrorKind,
    ProviderNotice,
    StreamEvent,
    ToolSchema,
)
from ollm_tui.agent.providers.provider_errors import shown
from ollm_tui.agent.providers.retry import RetryRequestError
from ollm_tui.core.base.errors import OperationCancelled

_NO_CHAT = re.compile(r"embed|rerank|whisper|tts|moderation|dall-e|\bbert", re.IGNORECASE)


class HttpProvider:
    """Base of providers that talk to a server."""

    def __init__(self, connection: HttpConnection, model: str | None) -> None:
        self._connection = connection
        self._model: str | None = model or None
        self._without_tools: set[str] = set()

    @property
    def model(self) -> str | None:
        """The model in use; None until one is chosen."""
        return self._model

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()

    def _offered(self, model: str, tools: tuple[ToolSchema, ...]) -> tuple[ToolSchema, ...]:
        return () if model in self._without_tools else tools


class _Reader(Protocol):
    def cut_off(self) -> Iterator[StreamEvent]:
        """End the reply early."""
        ...


async def until_accepted(
    attempt: Callable[[], AsyncGenerator[StreamEvent, None]],
) -> AsyncGenerator[StreamEvent, None]:
    """Yield the events of an attempt, and of further ones while it raises RetryRequestError."""
    while True:
        try:
            async with aclosing(attempt()) as events:
                async for event in events:
                    yield event
            return
        except RetryRequestError as again:
            if again.notice:
                yield ProviderNotice(again.notice)


async def keeping_partial_reply(
    events: AsyncGenerator[StreamEvent, None],
    reader: _Reader,
    without: Callable[[ProviderError], RetryRequestError | None],
) -> AsyncGenerator[StreamEvent, None]:
    """Yield `events`; on an error the text that was held back, unless `without` offers another attempt."""
    try:
        async with aclosing(events):
            async for event in events:
                yield event
    except OperationCancelled:
        for event in reader.cut_off():
            yield event
        raise
    except ProviderError as error:
        again = without(error)
        if again is None:
            for event in reader.cut_off():
                yield event
            raise
        raise again from None


def choose_model(models: Sequence[ModelInfo], address: str) -> tuple[str, str]:
    """Return the first model that can chat, and a notice; raise ProviderError where there is none."""
    chatting = [model for model in models if not _NO_CHAT.search(f"{model.name} {model.family or ''}")] or list(models)
    if not chatting:
        raise ProviderError(
            ProviderErrorKind.NO_SUCH_MODEL,
            f"{address} is there, but has no model. Load one there (with Ollama: `ollama pull NAME`), then try again.",
            url=address,
        )
    name = chatting[0].name
    among = "the only model" if len(models) == 1 else f"the first of {len(models)} models"
    return name, f"No model was named: using {shown(name)}, {among} at {address}. Name one with --model."


def function_schema(tool: ToolSchema) -> JsonObject:
    """Return a tool in the form that both wire formats take."""
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
