"""What the two providers over HTTP share: the course of a request."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar

from pydantic import JsonValue

from ollm_tui.agent.providers.http_connection import HttpConnection, bad_reply, cut_off, stalled
from ollm_tui.agent.providers.images import has_images, with_bytes, without_images
from ollm_tui.agent.providers.json_values import as_count, parse_json
from ollm_tui.agent.providers.message_order import ordered
from ollm_tui.agent.providers.prompted_calls import prompted_request, reply_schema
from ollm_tui.agent.providers.provider import (
    ChatRequest,
    FinishReason,
    ModelInfo,
    ModelLoading,
    ModelOptions,
    OptionsByModel,
    ProviderError,
    ProviderErrorKind,
    ProviderNotice,
    StreamEvent,
    ToolSchema,
    ToolsMode,
    UsageReported,
)
from ollm_tui.agent.providers.provider_errors import read_error, shown
from ollm_tui.agent.providers.reply_reader import FramingError, LineDecoder, ReplyReader, ServerEvent
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.base.results import JsonObject

LOADED_FOR = 60.0
"""Seconds for which a model that just answered is taken to be in memory still; another may have taken its place."""

_OPENING_BYTES = 64
_NO_CHAT = re.compile(r"embed|rerank|whisper|tts|moderation|dall-e|\bbert", re.IGNORECASE)


_ANY_TOOLS = (ToolSchema("any", "", {}),)
_NO_SCHEMA = re.compile(r"schema|response_format|grammar|\bformat\b", re.IGNORECASE)

NO_TOOLS = "{} is offered no tools, as its setting `tools` says: it can talk, but do nothing."
NO_IMAGES = "{} is not known to take images: those of the conversation are left out."


def prompted_notice(model: str) -> str:
    """Return the words for a model that is asked for its calls in words."""
    return f"{model} has no tools of its own: it is told of them in words, and its calls that change something ask."


class ServerReplyReader(ReplyReader):
    """Base of readers of one reply from a server; `finished` says that nothing after it belongs to the reply."""

    unit: ClassVar[str] = "lines"
    """What the server sends the reply in."""
    openings: ClassVar[tuple[bytes, ...]] = (b"{",)
    """How the first bytes of a reply of this kind begin."""
    finish_reasons: ClassVar[dict[str, FinishReason]]

    def __init__(
        self, request: ChatRequest, connection: HttpConnection, path: str, model: str, decoder: LineDecoder
    ) -> None:
        super().__init__(request)
        self._connection = connection
        self._url = connection.address.at(path)
        self._model = model
        self._decoder = decoder
        self._reason: str | None = None
        self._usage: UsageReported | None = None
        self._opening = b""
        self._read = self._unreadable = 0
        self.finished = False

    @property
    def events_read(self) -> int:
        """How many events of the reply came so far; comments are none."""
        return self._read

    @property
    def complete(self) -> bool:
        """Whether the server has said why the reply ended."""
        return self.finished or self._reason is not None

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events in a further piece of the body."""
        if len(self._opening) < _OPENING_BYTES:
            self._opening = (self._opening + chunk[:_OPENING_BYTES]).lstrip(b"\xef\xbb\xbf \t\r\n")
        try:
            for event in self._decoder.feed(chunk):
                yield from self._event(event)
                if self.finished:
                    return
        except FramingError as error:
            raise bad_reply(self._url, str(error)) from None

    def read_rest(self) -> Iterator[StreamEvent]:
        """Yield what is left at the end of the body; raise ProviderError when that came too early."""
        unreadable = self._unreadable  # what is left may be the half of an event
        if not self.finished:
            for event in self._decoder.close():
                yield from self._event(event)
        if self.complete:
            return
        begins_like_one = any(self._opening.startswith(each[: len(self._opening)]) for each in self.openings)
        if self._read or (begins_like_one and not unreadable):
            raise cut_off(self._url)
        page = re.match(rb"<(?:!doctype|html|head|body)\b", self._opening, re.IGNORECASE)
        raise bad_reply(self._url, "it is a web page, maybe a login" if page else f"none of its {self.unit} is JSON")

    def close(self) -> Iterator[StreamEvent]:
        """Yield the end of the reply."""
        if self._unreadable:
            text = f"{self.unit} of the reply could not be read and were skipped: {self._unreadable}."
            yield ProviderNotice(f"{self._url}: {text}")
        if self._usage:
            yield self._usage
        yield from self.finish(self.finish_reasons.get(self._reason or "stop", FinishReason.OTHER))

    # No generators, which would lie in each other for every word of a reply.

    def _event(self, event: ServerEvent) -> Iterable[StreamEvent]:
        try:
            chunk = parse_json(event.data)
        except ValueError:
            chunk = None
        if not isinstance(chunk, dict):
            self._unreadable += 1
            return ()
        return self._chunk({"error": chunk} if event.type == "error" and "error" not in chunk else chunk)

    def _chunk(self, chunk: JsonObject) -> Iterable[StreamEvent]:
        self._read += 1
        if chunk.get("error") or chunk.get("object") == "error":
            raise self._connection.error_from(read_error(chunk), url=self._url, status=None, model=self._model)
        return self._parts(chunk)

    @abstractmethod
    def _parts(self, chunk: JsonObject) -> Iterable[StreamEvent]:
        """Yield the events of one JSON object of the reply."""

    def _count(self, prompt: JsonValue, completion: JsonValue) -> None:
        """Note the tokens that the server counted."""
        if prompt is None and completion is None:
            return
        counts = UsageReported(as_count(prompt), as_count(completion))
        self._usage = self._usage if counts == UsageReported(None, None) else counts


class NoticeQueue:
    """Notices about a model, each given once."""

    def __init__(self) -> None:
        self._waiting: list[str] = []
        self._known: set[str] = set()

    def add(self, *notices: str) -> None:
        """Add those that were not given before."""
        self._waiting += [notice for notice in notices if notice not in self._known]
        self._known.update(notices)

    def take(self) -> list[str]:
        """Return those to be given now."""
        waiting, self._waiting = self._waiting, []
        return waiting


class HttpProvider(ABC):
    """Base of providers that talk to a server; `chat_path` is where it takes requests."""

    chat_path: str

    def __init__(
        self, connection: HttpConnection, model: str | None, options: Mapping[str, ModelOptions] | None = None
    ) -> None:
        """`options` are those of each model that has any, by its name."""
        self._connection = connection
        self._model: str | None = model or None
        self._options = OptionsByModel(options)
        self._notices = NoticeQueue()
        self._sees: dict[str, bool | None] = {}
        """Whether each model takes images, as far as the server tells."""
        self._prompted: set[str] = set()
        """Models without tools of their own, which are told of them in words."""
        self._unconstrained: set[str] = set()
        """Models whose server takes no schema for the reply."""
        self._answered: dict[str, float] = {}
        """When each model answered last."""

    @property
    def model(self) -> str | None:
        """The model in use; None until one is chosen."""
        return self._model

    async def aclose(self) -> None:
        """Close the connections."""
        await self._connection.aclose()

    @abstractmethod
    async def list_models(self) -> tuple[ModelInfo, ...]:
        """Return what the server offers; raise ProviderError."""

    async def stream(self, request: ChatRequest, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        """Stream one reply, asking again with something left out where the server demands that."""
        model = request.model or await signal.guard(self._choose())
        options = self._options.of(model)
        offered = options.applied_to(request)
        if options.tools is ToolsMode.NONE:
            self._notices.add(NO_TOOLS.format(shown(model)))
        if has_images(offered.messages):
            if await signal.guard(self.takes_images(model)):
                messages, left_out = await signal.in_thread(with_bytes, offered.messages)
            else:
                messages, left_out = without_images(offered.messages), [NO_IMAGES.format(shown(model))]
            offered = replace(offered, messages=messages)
            self._notices.add(*left_out)
        self._notices.add(*await signal.guard(self._settle(model, offered)))
        for notice in self._notices.take():
            yield ProviderNotice(notice)
        idle = asyncio.get_running_loop().time() - self._answered.get(model, -LOADED_FOR)
        if idle >= LOADED_FOR and await signal.guard(self._must_load(model)):
            yield ModelLoading(model)
        while True:
            reader = self._reader(offered, model)
            try:
                body = self._body_for(offered, model, reader)
                async with aclosing(self._reply(body, model, reader, signal)) as events:
                    async for event in events:
                        yield event
                return
            except (OperationCancelled, ProviderError) as error:
                notice = self._do_without(error, offered, model) if isinstance(error, ProviderError) else None
                if notice is None:
                    for event in reader.cut_off():
                        yield event
                    raise
            if notice:
                yield ProviderNotice(notice)

    async def find_window(self) -> None:
        """Learn the window of the model in use, before its first request. Raises ProviderError."""
        model = await self._choose()
        asked = self._options.of(model).applied_to(ChatRequest((), _ANY_TOOLS))
        self._notices.add(*await self._settle(model, asked))

    def take_notices(self) -> list[str]:
        """Return what the person is to know of the model; each notice once, here or with a reply."""
        return self._notices.take()

    async def takes_images(self, model: str | None = None) -> bool | None:
        """Return whether a model takes images; None where the server does not tell. Raises ProviderError."""
        model = model or await self._choose()
        if (own := self._options.of(model).images) is not None:
            return own
        if model not in self._sees:
            self._sees[model] = await self._ask_whether_it_sees(model)
        return self._sees[model]

    @abstractmethod
    async def _ask_whether_it_sees(self, model: str) -> bool | None: ...

    async def _choose(self) -> str:
        """Return the model in use, the server's first where none was named. Raises ProviderError."""
        if self._model is None:
            models = await self.list_models()
            self._model, notice = choose_model(models, str(self._connection.address))
            self._notices.add(notice)
        return self._model

    def _is_prompted(self, model: str) -> bool:
        """Whether the model is told of tools in words."""
        return self._options.of(model).tools is ToolsMode.PROMPTED or model in self._prompted

    def _body_for(self, request: ChatRequest, model: str, reader: ServerReplyReader) -> JsonObject:
        """Return the JSON of a request, with the tools in the way that the model takes them."""
        if not request.tools or not self._is_prompted(model):
            return self._body(request, model)
        reader.expect_prompted(request)
        body = self._body(prompted_request(request, ordered(request.messages)), model)
        if model not in self._unconstrained:
            self._constrain(body, reply_schema(request.tools))
        return body

    def _do_without(self, error: ProviderError, request: ChatRequest, model: str) -> str | None:
        """Return a notice, maybe empty, where the request can be sent again in another way; None to give up."""
        native = not self._is_prompted(model)
        if error.kind is ProviderErrorKind.NO_TOOLS and request.tools and native:
            if self._options.of(model).tools is ToolsMode.NATIVE:
                return None
            self._prompted.add(model)
            return prompted_notice(model)
        if not native and model not in self._unconstrained and _NO_SCHEMA.search(error.message):
            self._unconstrained.add(model)
            return f"The server holds {model} to no schema ({shown(error.message)}): its calls may be malformed."
        return self._leave_out(error, request, model)

    async def _reply(
        self, body: JsonObject, model: str, reader: ServerReplyReader, signal: AbortSignal
    ) -> AsyncGenerator[StreamEvent, None]:
        limits = self._connection.timeouts
        try:
            async with aclosing(self._connection.stream(self.chat_path, body, model=model, signal=signal)) as chunks:
                read, progress = 0, asyncio.get_running_loop().time()
                async for chunk in chunks:
                    for event in reader.feed(chunk) if isinstance(chunk, bytes) else [chunk]:
                        yield event
                    if reader.finished:
                        break
                    now = asyncio.get_running_loop().time()
                    if reader.events_read != read or not isinstance(chunk, bytes):
                        read, progress = reader.events_read, now
                    elif now - progress > (limit := limits.idle if read else limits.first_byte):
                        raise stalled(self._connection.address.at(self.chat_path), limit)
        except ProviderError as error:
            # the reply has said that it is complete: only what follows it (usage, [DONE]) was lost
            if not reader.complete or error.kind not in (ProviderErrorKind.CUT_OFF, ProviderErrorKind.TIMEOUT):
                raise
        for event in reader.read_rest():
            yield event
        self._answered[model] = asyncio.get_running_loop().time()
        for notice in await signal.guard(self._verify(model)):
            yield ProviderNotice(notice)
        for event in reader.close():
            yield event

    @abstractmethod
    async def _settle(self, model: str, request: ChatRequest) -> list[str]:
        """Find out, before a model's first request, what there is to know; return notices for the person."""

    async def _must_load(self, model: str) -> bool:
        """Return whether the server tells that it has yet to load the model before it can answer."""
        return False

    async def _verify(self, model: str) -> list[str]:
        """Compare, after a reply, what was asked for with what the server did; return notices for the person."""
        return []

    @abstractmethod
    def _body(self, request: ChatRequest, model: str) -> JsonObject:
        """Return the JSON of a request, its keys always in the same order."""

    @abstractmethod
    def _constrain(self, body: JsonObject, schema: JsonObject) -> None:
        """Add to the JSON of a request what holds the reply to a schema."""

    @abstractmethod
    def _reader(self, request: ChatRequest, model: str) -> ServerReplyReader: ...

    @abstractmethod
    def _leave_out(self, error: ProviderError, request: ChatRequest, model: str) -> str | None:
        """Remember what a further request is to leave out; return a notice, maybe empty, or None to give up."""


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
    return name, f"No model was named: using {shown(name)}, {among} at {address}. /model takes another."


def function_schema(tool: ToolSchema) -> JsonObject:
    """Return a tool in the form that both wire formats take."""
    function: JsonObject = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}
