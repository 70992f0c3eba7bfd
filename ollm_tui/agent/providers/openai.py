"""`OpenAIProvider`: any server that speaks OpenAI's chat completions (llama.cpp, vLLM, LM Studio, OpenAI, proxies)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from typing import ClassVar

from pydantic import JsonValue

from ollm_tui.agent.providers.call_assembly import read_fragment
from ollm_tui.agent.providers.http_connection import HttpConnection, Timeouts, bad_reply, cut_off
from ollm_tui.agent.providers.http_provider import (
    HttpProvider,
    ServerReplyReader,
    function_schema,
    prompted_notice,
)
from ollm_tui.agent.providers.json_values import as_count, as_list, as_object, as_text, member, parse_json
from ollm_tui.agent.providers.message_order import ordered
from ollm_tui.agent.providers.provider import (
    AssistantMessage,
    ChatRequest,
    FinishReason,
    Message,
    ModelInfo,
    ModelOptions,
    ProviderDescription,
    ProviderError,
    ProviderErrorKind,
    StreamEvent,
    SystemMessage,
    ToolMessage,
    ToolsMode,
    UserMessage,
)
from ollm_tui.agent.providers.provider_errors import shown
from ollm_tui.agent.providers.reply_reader import EventDecoder, ServerEvent
from ollm_tui.agent.providers.retry import RetryPolicy
from ollm_tui.agent.providers.server_address import openai_address
from ollm_tui.core.base.results import JsonObject

_CHAT_PATH = "chat/completions"
_WHOLE_REPLY_BYTES = 32 * 1024 * 1024


class OpenAIProvider(HttpProvider):
    """Streams replies from `{base_url}/chat/completions`.

    Raises:
        ServerAddressError: The base URL is not an address.
        ValueError: The key cannot stand in a header.
    """

    name = "openai"
    chat_path = _CHAT_PATH

    def __init__(
        self,
        base_url: str,
        model: str | None = None,
        api_key: str | None = None,
        *,
        context_window: int | None = None,
        options: Mapping[str, ModelOptions] | None = None,
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
        super().__init__(connection, model, options)
        self._given_window = context_window
        self._windows: dict[str, int | None] = {}
        self._no_stream_options = False
        self._without_thinking: set[str] = set()
        """Models whose server refused to be told whether to think."""
        self._owner: str | None = None
        """What the server's list of models is marked with, which tells llama.cpp, llama-swap and LM Studio."""
        self._listed: frozenset[str] = frozenset()
        self._unloaded: set[str] = set()
        """Models of which llama.cpp tells nothing before they are loaded."""
        self._settled: set[str] = set()

    def describe(self) -> ProviderDescription:
        """Return name, model, address and window."""
        known = self._windows.get(self._model) if self._model else None
        options = self._options.of(self._model)
        return ProviderDescription(
            self.name,
            self._model,
            location=str(self._connection.address),
            context_window=options.num_ctx or self._given_window or known,
            takes_tools=options.tools is not ToolsMode.NONE,
        )

    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return what the server offers; raise ProviderError."""
        answer = await self._connection.query("models")
        rows = member(answer, "data")
        if not isinstance(rows, list):
            raise bad_reply(self._connection.address.at("models"), "no list of models in it")
        models = tuple(
            ModelInfo(name, context_window=_window(row)) for row in rows if (name := as_text(member(row, "id")))
        )
        self._owner = next((owner for row in rows if (owner := as_text(member(row, "owned_by")))), None)
        self._listed = frozenset(model.name for model in models)
        self._windows.update({model.name: model.context_window for model in models})
        waiting = [row for row in rows if self._owner == "llamacpp" and _is_unloaded(row)]
        self._unloaded = {name for row in waiting if (name := as_text(member(row, "id")))}
        if self._model and len(models) == 1:
            # servers of a single model answer to any name
            self._windows[self._model] = models[0].context_window
            self._unloaded |= {self._model} if waiting else set()
        return models

    async def _settle(self, model: str, request: ChatRequest) -> list[str]:
        """Ask once for the window, which some (llama.cpp, vLLM) tell in their list of models, and about tools."""
        if model in self._settled:
            return []
        if model not in self._windows or model in self._unloaded:
            try:
                await self.list_models()
            except ProviderError as error:
                # a server without a list is good enough; one that is not there is not asked twice
                if error.kind is ProviderErrorKind.UNREACHABLE:
                    raise
        self._windows.setdefault(model, None)
        if model in self._unloaded:
            return []  # its window and its template are told once it is loaded
        self._settled.add(model)
        offers = request.tools and self._options.of(model).tools is None
        if offers and self._owner == "llamacpp" and not await self._template_has_tools():
            self._prompted.add(model)
            return [prompted_notice(model)]
        return []

    async def _template_has_tools(self) -> bool:
        """Ask llama.cpp whether the model's chat template knows tools: those it does not know it drops in silence."""
        return member(member(await self._told("../props"), "chat_template_caps"), "supports_tools") is not False

    async def _ask_whether_it_sees(self, model: str) -> bool | None:
        sees = member(member(await self._told("../props"), "modalities"), "vision")
        return sees if isinstance(sees, bool) else None

    async def _must_load(self, model: str) -> bool:
        """Ask the servers that load a model without a word and tell, beside OpenAI's interface, which they have."""
        match self._owner:
            case "llamacpp":
                with suppress(ProviderError):
                    await self.list_models()
                return model in self._unloaded or member(await self._told("../props"), "is_sleeping") is True
            case "llama-swap":
                running = member(await self._told("../running"), "running")
                ready = [member(row, "model") for row in as_list(running) if member(row, "state") == "ready"]
                return isinstance(running, list) and model in self._listed and model not in ready
            case "organization_owner" | "organization-owner":  # LM Studio
                rows = as_list(member(await self._told("../api/v0/models"), "data"))
                return any(member(row, "id") == model and member(row, "state") == "not-loaded" for row in rows)
            case _:
                return False

    async def _told(self, path: str) -> JsonValue:
        """Return what a kind of server tells of itself; None from others."""
        try:
            return await self._connection.query(path)
        except ProviderError:
            return None

    def _body(self, request: ChatRequest, model: str) -> JsonObject:
        body = request_body(request, model, stream_options=not self._no_stream_options)
        if isinstance(request.think, bool) and model not in self._without_thinking:
            body["chat_template_kwargs"] = {"enable_thinking": request.think}  # llama.cpp, vLLM
        elif request.think is not None and model not in self._without_thinking:
            body["reasoning_effort"] = request.think
        return body

    def _constrain(self, body: JsonObject, schema: JsonObject) -> None:
        body["response_format"] = {"type": "json_schema", "json_schema": {"name": "reply", "schema": schema}}

    def _reader(self, request: ChatRequest, model: str) -> OpenAIReplyReader:
        return OpenAIReplyReader(request, self._connection, model)

    def _leave_out(self, error: ProviderError, request: ChatRequest, model: str) -> str | None:
        if error.status not in (400, 422, 500, 501):
            return None
        if "stream_options" in error.message and not self._no_stream_options:
            self._no_stream_options = True
            return ""
        named = next((key for key in ("chat_template_kwargs", "reasoning_effort") if key in error.message), None)
        if named and request.think is not None and model not in self._without_thinking:
            self._without_thinking.add(model)
            own = self._options.of(model).think is not None
            return f"The server takes no {named}: the setting `think` of {shown(model)} has no effect." if own else ""
        return None


class OpenAIReplyReader(ServerReplyReader):
    """Reads one reply, streamed or whole, into events."""

    unit = "events"
    openings = (b"data:", b"event:", b"error:", b"id:", b"retry:", b":")
    finish_reasons: ClassVar = {
        "stop": FinishReason.STOP,
        "eos": FinishReason.STOP,
        "length": FinishReason.LENGTH,
        "max_tokens": FinishReason.LENGTH,
        "tool_calls": FinishReason.TOOL_CALLS,
        "function_call": FinishReason.TOOL_CALLS,
        "content_filter": FinishReason.FILTERED,
    }

    def __init__(self, request: ChatRequest, connection: HttpConnection, model: str) -> None:
        super().__init__(request, connection, _CHAT_PATH, model, EventDecoder())
        self._whole: bytearray | None = None
        self._begun = False

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events in a further piece of the body."""
        if not self._begun and chunk.strip():
            self._begun = True
            # a server that does not stream answers with one JSON object
            self._whole = bytearray() if chunk.lstrip()[:1] == b"{" else None
        if self._whole is None:
            yield from super().feed(chunk)
            return
        self._whole += chunk
        if len(self._whole) > _WHOLE_REPLY_BYTES:
            raise bad_reply(self._url, f"more than {_WHOLE_REPLY_BYTES:,} bytes")

    def read_rest(self) -> Iterator[StreamEvent]:
        """Yield what is left at the end of the body; raise ProviderError when that came too early."""
        if self._whole is not None:
            try:
                answer = parse_json(bytes(self._whole))
            except ValueError:
                raise cut_off(self._url, "its JSON is not whole") from None
            yield from self._chunk(as_object(answer))
            self._reason = self._reason or "stop"
        yield from super().read_rest()

    def _event(self, event: ServerEvent) -> Iterable[StreamEvent]:
        if event.data.strip() == "[DONE]":
            self.finished = True
            return ()
        return super()._event(event)

    def _parts(self, chunk: JsonObject) -> Iterator[StreamEvent]:
        if usage := as_object(chunk.get("usage")):
            self._count(usage.get("prompt_tokens"), usage.get("completion_tokens"))
        for choice in as_list(chunk.get("choices"))[:1]:
            if isinstance(choice, dict):
                yield from self._delta(as_object(choice.get("delta") or choice.get("message")))
                self._reason = as_text(choice.get("finish_reason")) or self._reason

    def _delta(self, delta: JsonObject) -> Iterator[StreamEvent]:
        if len(delta) == 1 and (only := as_text(delta.get("content"))):  # as nearly all are
            yield from self.text(only)
            return
        if thought := as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning")):
            yield from self.reasoning(thought)
        if text := _text_of(delta.get("content")) or _text_of(delta.get("refusal")):
            yield from self.text(text)
        for piece in as_list(delta.get("tool_calls")):
            yield from self.call_fragment(read_fragment(as_object(piece)))
        if legacy := as_object(delta.get("function_call")):
            yield from self.call_fragment(read_fragment({"index": 0, "function": legacy}))


def _text_of(content: JsonValue) -> str:
    """Return content as text; some proxies send it as a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(as_text(member(part, "text")) or "" for part in as_list(content))


def request_body(request: ChatRequest, model: str, *, stream_options: bool) -> JsonObject:
    """Return the JSON of a request, its keys always in the same order."""
    body: JsonObject = {
        "model": model,
        "messages": [_message(message) for message in ordered(request.messages)],
        "stream": True,
    }
    if stream_options:
        body["stream_options"] = {"include_usage": True}
    if request.tools:
        body["tools"] = [function_schema(tool) for tool in request.tools]
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


def _is_unloaded(row: JsonValue) -> bool:
    """Return whether llama.cpp has yet to load it: one of several has a status, a single one no `meta` until then."""
    status = member(member(row, "status"), "value")
    return status != "loaded" if isinstance(status, str) else not member(row, "meta")


def _parts_of(message: UserMessage) -> list[JsonValue]:
    """Return a text and its images as parts."""
    urls = (f"data:{image.media_type};base64,{image.data}" for image in message.images)
    return [
        {"type": "text", "text": message.whole},
        *({"type": "image_url", "image_url": {"url": url}} for url in urls),
    ]


def _message(message: Message) -> JsonObject:
    match message:
        case SystemMessage(text):
            return {"role": "system", "content": text}
        case UserMessage():
            return {"role": "user", "content": _parts_of(message) if message.images else message.whole}
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
