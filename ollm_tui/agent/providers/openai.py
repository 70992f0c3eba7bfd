"""`OpenAIProvider`: any server that speaks OpenAI's chat completions (llama.cpp, vLLM, LM Studio, OpenAI, proxies)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace

from pydantic import JsonValue

from ollm_tui.agent.providers.http_connection import HttpConnection, Timeouts, bad_reply
from ollm_tui.agent.providers.http_provider import (
    HttpProvider,
    choose_model,
    function_schema,
    keeping_partial_reply,
    until_accepted,
)
from ollm_tui.agent.providers.json_values import as_count, as_text, member
from ollm_tui.agent.providers.message_order import ordered
from ollm_tui.agent.providers.openai_reply import OpenAIReplyReader
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    ChatRequest,
    JsonObject,
    Message,
    ModelInfo,
    ProviderDescription,
    ProviderError,
    ProviderErrorKind,
    ProviderNotice,
    StreamEvent,
    SystemMessage,
    ToolMessage,
    ToolSchema,
    UserMessage,
)
from ollm_tui.agent.providers.retry import RetryPolicy, RetryRequestError
from ollm_tui.agent.providers.server_address import openai_address
from ollm_tui.core.base.abort import AbortSignal


class OpenAIProvider(HttpProvider):
    """Streams replies from `{base_url}/chat/completions`.

    Raises:
        ServerAddressError: The base URL is not an address.
        ValueError: The key cannot stand in a header.
    """

    name = "openai"

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        api_key: str | None = None,
        *,
        context_window: int | None = None,
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        connection = HttpConnection(
            openai_address(base_url),
            api_key=api_key,
            timeouts=timeouts,
            retries=retries,
            remedy="Start the server, or set base_url to where it is.",
        )
        super().__init__(connection, model)
        self._given_window = context_window
        self._windows: dict[str, int | None] = {}
        self._no_stream_options = False

    def describe(self) -> ProviderDescription:
        """Return name, model, address and window."""
        known = self._windows.get(self._model) if self._model else None
        return ProviderDescription(
            self.name, self._model, location=str(self._connection.address), context_window=self._given_window or known
        )

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return what the server offers; raise ProviderError."""
        answer = await self._connection.query("models")
        rows = member(answer, "data")
        if not isinstance(rows, list):
            raise bad_reply(self._connection.address.at("models"), "no list of models in it")
        return tuple(
            ModelInfo(name, context_window=_window(row)) for row in rows if (name := as_text(member(row, "id")))
        )

    async def stream(self, request: ChatRequest, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply."""
        model = request.model or self._model
        if model is None:
            models = await signal.guard(self.list_models())
            model, notice = choose_model(models, str(self._connection.address))
            self._model = model
            self._remember_windows(models)
            yield ProviderNotice(notice)
        await self._settle_window(model, signal)
        async with aclosing(until_accepted(lambda: self._attempt(request, model, signal))) as events:
            async for event in events:
                yield event

    async def _settle_window(self, model: str, signal: AbortSignal) -> None:
        """Ask once for the window, which some (llama.cpp, vLLM) tell in their list of models."""
        if self._given_window or model in self._windows:
            return
        self._windows[model] = None
        try:
            self._remember_windows(await signal.guard(self.list_models()))
        except ProviderError as failure:
            # a server without a list is good enough; one that is not there is not asked twice
            if failure.kind is ProviderErrorKind.UNREACHABLE:
                del self._windows[model]
                raise

    def _remember_windows(self, models: tuple[ModelInfo, ...]) -> None:
        self._windows.update({model.name: model.context_window for model in models})
        if self._model and len(models) == 1:
            # servers of a single model answer to any name
            self._windows[self._model] = models[0].context_window

    def _attempt(self, request: ChatRequest, model: str, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Send one request; raise RetryRequestError when it may do with something left out."""
        tools = self._offered(model, request.tools)
        body = request_body(request, tools, model, stream_options=not self._no_stream_options)
        reader = OpenAIReplyReader(replace(request, tools=tools), self._connection, model)
        events = self._events(body, model, reader, signal)
        return keeping_partial_reply(events, reader, lambda error: self._without(error, tools, model))

    async def _events(
        self, body: JsonObject, model: str, reader: OpenAIReplyReader, signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        try:
            async with aclosing(
                self._connection.stream("chat/completions", body, model=model, signal=signal)
            ) as chunks:
                async for chunk in chunks:
                    for event in [chunk] if isinstance(chunk, ProviderNotice) else reader.feed(chunk):
                        yield event
                    if reader.finished:
                        break
        except ProviderError as failure:
            # the reply has said that it is complete: only what follows it (usage, [DONE]) was lost
            if not reader.complete or failure.kind not in (ProviderErrorKind.CUT_OFF, ProviderErrorKind.TIMEOUT):
                raise
        for event in reader.close():
            yield event

    def _without(self, failure: ProviderError, tools: tuple[ToolSchema, ...], model: str) -> RetryRequestError | None:
        """Return what to leave out of a second request; it is remembered for later ones."""
        if failure.status not in (400, 422, 500, 501):
            return None
        if "stream_options" in failure.message and not self._no_stream_options:
            self._no_stream_options = True
            return RetryRequestError(None)
        if failure.kind is ProviderErrorKind.NO_TOOLS and tools:
            self._without_tools.add(model)
            return RetryRequestError(f"{failure.message} Going on without tools: {model} can talk, but do nothing.")
        return None


def request_body(
    request: ChatRequest, tools: tuple[ToolSchema, ...], model: str, *, stream_options: bool = True
) -> JsonObject:
    """Return the JSON of a request, its keys always in the same order."""
    body: JsonObject = {
        "model": model,
        "messages": [_message(message) for message in ordered(request.messages)],
        "stream": True,
    }
    if stream_options:
        body["stream_options"] = {"include_usage": True}
    if tools:
        body["tools"] = [function_schema(tool) for tool in tools]
    if request.temperature is not None:
        body["temperature"] = request.temperature
    if request.max_tokens is not None:
        body["max_tokens"] = request.max_tokens
    return body


def _window(row: JsonValue) -> int | None:
    """Return the window: vLLM calls it `max_model_len`, llama.cpp `meta.n_ctx`."""
    counts = (
        as_count(member(row, "max_model_len")),
        as_count(member(member(row, "meta"), "n_ctx")),
        as_count(member(row, "context_length")),
    )
    return next((count for count in counts if count), None)


def _message(message: Message) -> JsonObject:
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage():
            return {"role": "user", "content": message.whole}
        case ToolMessage(call_id, _, content):
            return {"role": "tool", "tool_call_id": call_id, "content": content}
        case AssistantMessage(text, calls):
            sent: JsonObject = {"role": "assistant", "content": text or None}
            if calls:
                sent["tool_calls"] = [
                    {
                        "id": call.id,
                        "type": "function",
                        "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
                    }
                    for call in calls
                ]
            return sent
