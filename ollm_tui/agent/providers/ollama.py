"""`OllamaProvider`: Ollama's own `/api/chat`, the only one of its interfaces that lets a client set the window."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace

from pydantic import JsonValue

from ollm_tui.agent.providers.http_connection import HttpConnection, Timeouts, bad_reply
from ollm_tui.agent.providers.http_provider import (
    HttpProvider,
    choose_model,
    function_schema,
    keeping_partial_reply,
    until_accepted,
)
from ollm_tui.agent.providers.json_values import as_count, as_list, as_object, as_text, member
from ollm_tui.agent.providers.message_order import ordered, without_old_reasoning
from ollm_tui.agent.providers.ollama_reply import OllamaReplyReader
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
from ollm_tui.agent.providers.server_address import ollama_address
from ollm_tui.core.base.abort import AbortSignal

DEFAULT_WINDOW = 16_384
"""Tokens asked for by default; Ollama's own 4k cuts an agent's prompt without a word."""

_NUM_CTX = re.compile(r"^\s*num_ctx\s+(\d+)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ModelDetails:
    """What `/api/show` says of a model; None is what it did not say."""

    capabilities: frozenset[str] | None = None
    """None from servers too old to tell."""
    longest_window: int | None = None
    """Tokens the model was made for."""
    own_window: int | None = None
    """`num_ctx` in the model's own parameters."""

    def lacks(self, capability: str) -> bool:
        """Return whether the server says that the model cannot do it."""
        return self.capabilities is not None and capability not in self.capabilities


class OllamaProvider(HttpProvider):
    """Streams replies from `{base_url}/api/chat`.

    `base_url` takes every form of OLLAMA_HOST. `num_ctx` is the window in tokens; it is fixed once for a model,
    since a change makes the server load the model again.

    Raises:
        ServerAddressError: The base URL is not an address.
    """

    name = "ollama"

    def __init__(
        self,
        base_url: str | None = None,
        model: str | None = None,
        num_ctx: int | None = None,
        *,
        api_key: str | None = None,
        keep_alive: str = "30m",
        timeouts: Timeouts | None = None,
        retries: RetryPolicy | None = None,
    ) -> None:
        connection = HttpConnection(
            ollama_address(base_url),
            api_key=api_key,
            timeouts=timeouts,
            retries=retries,
            remedy="Start Ollama (`ollama serve`), or set OLLAMA_HOST to where it runs.",
        )
        super().__init__(connection, model)
        self._asked_window = num_ctx
        self._keep_alive = keep_alive
        self._facts: dict[str, ModelDetails] = {}
        self._windows: dict[str, int] = {}
        self._verified: set[str] = set()
        self._without_thinking: set[str] = set()

    def describe(self) -> ProviderDescription:
        """Return name, model, address and window."""
        window = self._windows.get(self._model) if self._model else None
        return ProviderDescription(
            self.name, self._model, location=str(self._connection.address), context_window=window or self._asked_window
        )

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return what the server offers; raise ProviderError."""
        answer = await self._connection.query("api/tags")
        rows = member(answer, "models")
        if not isinstance(rows, list):
            raise bad_reply(self._connection.address.at("api/tags"), "no list of models in it")
        return tuple(_model_info(name, row) for row in rows if (name := as_text(member(row, "name"))))

    async def model_facts(self, model: str) -> ModelDetails:
        """Return capabilities and windows of a model, asked once; raise ProviderError."""
        if model not in self._facts:
            answer = await self._connection.query("api/show", {"model": model})
            self._facts[model] = read_model_facts(answer)
        return self._facts[model]

    async def stream(self, request: ChatRequest, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply."""
        model = request.model or self._model
        if model is None:
            chosen, notice = choose_model(await signal.guard(self.list_models()), str(self._connection.address))
            model = self._model = chosen
            yield ProviderNotice(notice)
        for notice in await signal.guard(self._settle(model, request)):
            yield ProviderNotice(notice)
        async with aclosing(until_accepted(lambda: self._attempt(request, model, signal))) as events:
            async for event in events:
                yield event

    async def _settle(self, model: str, request: ChatRequest) -> list[str]:
        """Fix the model's window before its first request; return notices for the person."""
        if model in self._windows:
            return []
        try:
            facts = await self.model_facts(model)
        except ProviderError as failure:
            # a server that only knows /api/chat is good enough; a missing model or server is not
            if failure.kind not in (ProviderErrorKind.REFUSED, ProviderErrorKind.BAD_REPLY):
                raise
            facts = self._facts[model] = ModelDetails()
        notices: list[str] = []
        wanted = self._asked_window or max(DEFAULT_WINDOW, facts.own_window or 0)
        window = min(wanted, facts.longest_window or wanted)
        if self._asked_window and window < self._asked_window:
            notices.append(f"{model} has a window of {window:,} tokens; the {wanted:,} that were asked for do not fit.")
        if facts.lacks("tools") and request.tools:
            self._without_tools.add(model)
            notices.append(f"{model} cannot call tools: it can talk, but do nothing. Choose another with --model.")
        if facts.lacks("thinking"):
            self._without_thinking.add(model)
        self._windows[model] = window
        return notices

    def _attempt(self, request: ChatRequest, model: str, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Send one request; raise RetryRequestError when it may do with something left out."""
        tools = self._offered(model, request.tools)
        think = None if model in self._without_thinking else request.think
        window = self._windows[model]
        body = request_body(request, tools, model, window=window, think=think, keep_alive=self._keep_alive)
        reader = OllamaReplyReader(replace(request, tools=tools), self._connection, model, window)
        events = self._events(body, model, reader, signal)
        return keeping_partial_reply(events, reader, lambda error: self._without(error, model, tools, think))

    async def _events(
        self, body: JsonObject, model: str, reader: OllamaReplyReader, signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        async with aclosing(self._connection.stream("api/chat", body, model=model, signal=signal)) as chunks:
            async for chunk in chunks:
                for event in [chunk] if isinstance(chunk, ProviderNotice) else reader.feed(chunk):
                    yield event
                if reader.finished:
                    break
        for event in reader.read_rest():
            yield event
        if model not in self._verified:
            self._verified.add(model)
            for notice in await signal.guard(self._verify_window(model)):
                yield ProviderNotice(notice)
        for event in reader.close():
            yield event

    def _without(
        self, failure: ProviderError, model: str, tools: tuple[ToolSchema, ...], think: bool | None
    ) -> RetryRequestError | None:
        """Return what to leave out of a second request; it is remembered for later ones."""
        if failure.status != 400:
            return None
        if failure.kind is ProviderErrorKind.NO_TOOLS and tools:
            self._without_tools.add(model)
            return RetryRequestError(
                f"{model} cannot call tools: it can talk, but do nothing. Choose another with --model."
            )
        if "does not support thinking" in failure.message and think is not None:
            self._without_thinking.add(model)
            return RetryRequestError(f"{model} cannot think before it answers; going on without.")
        return None

    async def _verify_window(self, model: str) -> list[str]:
        """Compare the window that the server loaded with the one that was asked for."""
        try:
            answer = await self._connection.query("api/ps")
        except ProviderError:
            # an old server or a facade; then nothing can be said, and the reply is there all the same
            return []
        loaded = _loaded_window(answer, model)
        asked = self._windows[model]
        if loaded is None or loaded >= asked:
            return []
        self._windows[model] = loaded
        return [f"The server gives {model} a window of {loaded:,} tokens, not the {asked:,} that were asked for."]


def request_body(
    request: ChatRequest,
    tools: tuple[ToolSchema, ...],
    model: str,
    *,
    window: int,
    think: bool | None = None,
    keep_alive: str = "30m",
) -> JsonObject:
    """Return the JSON of a request, its keys always in the same order."""
    options: JsonObject = {"num_ctx": window}
    if request.max_tokens is not None:
        options["num_predict"] = request.max_tokens
    if request.temperature is not None:
        options["temperature"] = request.temperature
    body: JsonObject = {
        "model": model,
        "messages": [_message(message) for message in without_old_reasoning(ordered(request.messages))],
        "stream": True,
        # an error is better than a prompt cut in silence; servers that do not know the key ignore it
        "truncate": False,
        "keep_alive": keep_alive,
        "options": options,
    }
    if tools:
        body["tools"] = [function_schema(tool) for tool in tools]
    if think is not None:
        body["think"] = think
    return body


def read_model_facts(answer: JsonValue) -> ModelDetails:
    """Read the answer of `/api/show`, whatever of it is there."""
    listed = member(answer, "capabilities")
    capabilities = frozenset(filter(None, map(as_text, listed))) if isinstance(listed, list) else None
    info = as_object(member(answer, "model_info"))
    longest = as_count(info.get(f"{info.get('general.architecture')}.context_length"))
    own = _NUM_CTX.search(as_text(member(answer, "parameters")) or "")
    return ModelDetails(capabilities, longest or None, int(own.group(1)) if own else None)


def _message(message: Message) -> JsonObject:
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage():
            return {"role": "user", "content": message.whole}
        case ToolMessage(_, name, content):
            # results carry the tool's name; which call they answer is told by their order
            return {"role": "tool", "tool_name": name, "content": content}
        case AssistantMessage(text, calls, reasoning):
            sent: JsonObject = {"role": "assistant", "content": text}
            if reasoning:
                sent["thinking"] = reasoning
            if calls:
                sent["tool_calls"] = [{"function": {"name": call.name, "arguments": call.arguments}} for call in calls]
            return sent


def _model_info(name: str, row: JsonValue) -> ModelInfo:
    details = member(row, "details")
    return ModelInfo(
        name=name,
        size=as_count(member(row, "size")),
        parameter_size=as_text(member(details, "parameter_size")),
        quantization=as_text(member(details, "quantization_level")),
        family=as_text(member(details, "family")),
    )


def _loaded_window(answer: JsonValue, model: str) -> int | None:
    for row in as_list(member(answer, "models")):
        if member(row, "name") in (model, f"{model}:latest"):
            return as_count(member(row, "context_length"))
    return None
