"""`OllamaProvider`: Ollama's own `/api/chat`, the only one of its interfaces that lets a client set the window."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar

from pydantic import JsonValue

from ollm_tui.agent.providers.call_assembly import read_fragment
from ollm_tui.agent.providers.http_connection import HttpConnection, Timeouts, bad_reply
from ollm_tui.agent.providers.http_provider import (
    HttpProvider,
    ServerReplyReader,
    function_schema,
    prompted_notice,
)
from ollm_tui.agent.providers.json_values import as_count, as_list, as_object, as_text, member
from ollm_tui.agent.providers.message_order import ordered, without_old_reasoning
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
    ProviderNotice,
    StreamEvent,
    SystemMessage,
    Thinking,
    ToolMessage,
    ToolsMode,
    UserMessage,
)
from ollm_tui.agent.providers.reply_reader import LineDecoder
from ollm_tui.agent.providers.retry import RetryPolicy
from ollm_tui.agent.providers.server_address import ollama_address
from ollm_tui.core.base.results import JsonObject

DEFAULT_WINDOW = 16_384
"""Tokens asked for by default; Ollama's own 4k cuts an agent's prompt without a word."""

_CHAT_PATH = "api/chat"
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

    `base_url` takes every form of OLLAMA_HOST. `num_ctx` is the window in tokens of models whose options name none; it
    is fixed once for a model, since a change makes the server load the model again.

    Raises:
        ServerAddressError: The base URL is not an address.
    """

    name = "ollama"
    chat_path = _CHAT_PATH

    def __init__(
        self,
        base_url: str | None = None,
        model: str | None = None,
        num_ctx: int | None = None,
        *,
        api_key: str | None = None,
        keep_alive: str = "30m",
        options: Mapping[str, ModelOptions] | None = None,
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
        super().__init__(connection, model, options)
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
            self.name,
            self._model,
            location=str(self._connection.address),
            context_window=window or self._wanted_window(self._model),
            takes_tools=self._options.of(self._model).tools is not ToolsMode.NONE,
        )

    def _wanted_window(self, model: str | None) -> int | None:
        return self._options.of(model).num_ctx or self._asked_window

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
            self._facts[model] = read_model_facts(await self._connection.query("api/show", {"model": model}))
        return self._facts[model]

    async def _settle(self, model: str, request: ChatRequest) -> list[str]:
        """Fix the model's window before its first request; return notices for the person."""
        if model in self._windows:
            return []
        try:
            facts = await self.model_facts(model)
        except ProviderError as error:
            # a server that only knows /api/chat, or is busy, is good enough; a missing model or server is not
            if not error.retryable and error.kind not in (ProviderErrorKind.REFUSED, ProviderErrorKind.BAD_REPLY):
                raise
            facts = self._facts[model] = ModelDetails()
        notices: list[str] = []
        asked = self._wanted_window(model)
        wanted = asked or max(DEFAULT_WINDOW, facts.own_window or 0)
        window = min(wanted, facts.longest_window or wanted)
        if asked and window < asked:
            notices.append(f"{model} has a window of {window:,} tokens; the {wanted:,} that were asked for do not fit.")
        if facts.lacks("tools") and request.tools and self._options.of(model).tools is None:
            self._prompted.add(model)
            notices.append(prompted_notice(model))
        if facts.lacks("thinking"):
            self._without_thinking.add(model)
            notices += [f"{model} cannot think: its setting `think` has no effect."] if request.think else []
        self._windows[model] = window
        return notices

    def _body(self, request: ChatRequest, model: str) -> JsonObject:
        think = None if model in self._without_thinking else request.think
        return request_body(request, model, self._windows[model], think, self._keep_alive)

    def _constrain(self, body: JsonObject, schema: JsonObject) -> None:
        body["format"] = schema

    def _reader(self, request: ChatRequest, model: str) -> OllamaReplyReader:
        return OllamaReplyReader(request, self._connection, model, self._windows[model])

    def _leave_out(self, error: ProviderError, request: ChatRequest, model: str) -> str | None:
        if error.status != 400:
            return None
        if "does not support thinking" in error.message and request.think is not None:
            if model in self._without_thinking:
                return None
            self._without_thinking.add(model)
            return f"{model} cannot think before it answers; going on without."
        return None

    async def _ask_whether_it_sees(self, model: str) -> bool | None:
        facts = await self.model_facts(model)
        return None if facts.capabilities is None else "vision" in facts.capabilities

    async def _must_load(self, model: str) -> bool:
        """Return whether the model is not in memory; a server lists it as soon as it begins to load it."""
        return await self._loaded_row(model) == {}

    async def _loaded_row(self, model: str) -> JsonObject | None:
        """Return what the server tells of a loaded model, nothing where it is not; None where it does not tell."""
        try:
            answer = await self._connection.query("api/ps")
        except ProviderError:
            # an old server or a facade
            return None
        names = (model, f"{model}:latest")
        rows = member(answer, "models")
        if not isinstance(rows, list):
            return None
        return as_object(next((row for row in rows if member(row, "name") in names), None))

    async def _verify(self, model: str) -> list[str]:
        """Compare, once, the window that the server loaded with the one that was asked for."""
        if model in self._verified:
            return []
        self._verified.add(model)
        row = await self._loaded_row(model)
        loaded, asked = as_count(member(row, "context_length")), self._windows[model]
        if loaded is None or loaded >= asked:
            return []
        self._windows[model] = loaded
        return [f"The server gives {model} a window of {loaded:,} tokens, not the {asked:,} that were asked for."]


class OllamaReplyReader(ServerReplyReader):
    """Reads the lines of one reply into events."""

    finish_reasons: ClassVar = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "load": FinishReason.STOP}

    def __init__(self, request: ChatRequest, connection: HttpConnection, model: str, window: int) -> None:
        super().__init__(request, connection, _CHAT_PATH, model, LineDecoder())
        self._request = request
        self._window = window

    def close(self) -> Iterator[StreamEvent]:
        """Yield the end of the reply."""
        if self._usage and self._prompt_was_cut(self._usage.prompt_tokens):
            yield ProviderNotice(
                f"The prompt was probably cut: {self._model} read {self._usage.prompt_tokens:,} tokens of it, "
                f"its window is {self._window:,}. Shorten the conversation or raise num_ctx."
            )
        yield from super().close()

    def _parts(self, chunk: JsonObject) -> Iterator[StreamEvent]:
        # calls may stand in the last line: the message is read before `done` is
        message = as_object(chunk.get("message"))
        if thought := as_text(message.get("thinking")):
            yield from self.reasoning(thought)
        if text := as_text(message.get("content")):
            yield from self.text(text)
        for call in as_list(message.get("tool_calls")):
            # arguments come whole here, and newer servers alone number the calls
            yield from self.whole_call(read_fragment(as_object(call)))
        if chunk.get("done") is True:
            self.finished = True
            self._reason = as_text(chunk.get("done_reason"))
            self._count(chunk.get("prompt_eval_count"), chunk.get("eval_count"))

    def _prompt_was_cut(self, prompt: int | None) -> bool:
        """Whether the server's count is at the window, or far below our estimate with the window nearly used."""
        if prompt is None:
            return False
        if prompt >= self._window - 1:
            return True
        estimate = self._request.estimated_tokens
        reserve = self._request.max_tokens or self._window // 4
        return estimate is not None and prompt < 0.6 * estimate and prompt + reserve >= 0.9 * self._window


def request_body(request: ChatRequest, model: str, window: int, think: Thinking | None, keep_alive: str) -> JsonObject:
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
    if request.tools:
        body["tools"] = [function_schema(tool) for tool in request.tools]
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
            user: JsonObject = {"role": "user", "content": message.whole}
            return {**user, "images": [image.data for image in message.images]} if message.images else user
        case ToolMessage(_, name, content):
            # results carry the tool's name; their order says which call they answer
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
