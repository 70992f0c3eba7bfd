"""Read a reply of an OpenAI-compatible server, streamed or whole, into stream events."""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import JsonValue

from ollm_tui.agent.providers.call_assembly import read_fragment
from ollm_tui.agent.providers.http_connection import HttpConnection, bad_reply, cut_off
from ollm_tui.agent.providers.json_values import as_count, as_list, as_object, as_text, member, parse_json
from ollm_tui.agent.providers.provider import (
    ChatRequest,
    FinishReason,
    JsonObject,
    ProviderError,
    ProviderNotice,
    StreamEvent,
    UsageReported,
)
from ollm_tui.agent.providers.provider_errors import read_error
from ollm_tui.agent.providers.reply_reader import ReplyReader
from ollm_tui.agent.providers.stream_framing import EventDecoder, FramingError, ServerEvent

_FINISH_REASONS = {
    "stop": FinishReason.STOP,
    "eos": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "max_tokens": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
    "content_filter": FinishReason.FILTERED,
}
_WHOLE_REPLY_BYTES = 32 * 1024 * 1024


class OpenAIReplyReader:
    """Reads one reply, streamed or whole, into events."""

    def __init__(self, request: ChatRequest, connection: HttpConnection, model: str) -> None:
        self._reply = ReplyReader(request)
        self._connection = connection
        self._url = connection.address.at("chat/completions")
        self._model = model
        self._decoder = EventDecoder()
        self._whole: bytearray | None = None
        self._begun = False
        self._reason: str | None = None
        self._usage: UsageReported | None = None
        self._junk = 0
        self.finished = False
        """`[DONE]` was read; whatever follows is not part of the reply."""

    @property
    def complete(self) -> bool:
        """Whether the server has said why the reply ended."""
        return self._reason is not None

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events in a further piece of the body."""
        if not self._begun and chunk.strip():
            self._begun = True
            # a server that does not stream answers with one JSON object
            self._whole = bytearray() if chunk.lstrip()[:1] == b"{" else None
        if self._whole is not None:
            self._whole += chunk
            if len(self._whole) > _WHOLE_REPLY_BYTES:
                raise bad_reply(self._url, f"more than {_WHOLE_REPLY_BYTES:,} bytes")
            return
        try:
            for event in self._decoder.feed(chunk):
                yield from self._event(event)
                if self.finished:
                    return
        except FramingError as error:
            raise bad_reply(self._url, str(error)) from None

    def close(self) -> Iterator[StreamEvent]:
        """Yield the end of the reply; raise ProviderError when the body ended too early."""
        if self._whole is not None:
            yield from self._whole_reply(bytes(self._whole))
        elif not self.finished:
            for event in self._decoder.close():
                yield from self._event(event)
        if self._reason is None and not self.finished:
            if self._junk and not self._usage:
                raise bad_reply(self._url, "none of its events is JSON")
            raise cut_off(self._url)
        if self._junk:
            yield ProviderNotice(f"{self._url}: events of the reply could not be read and were skipped: {self._junk}.")
        if self._usage:
            yield self._usage
        reason = _FINISH_REASONS.get(self._reason or "stop", FinishReason.OTHER)
        yield from self._reply.finish(reason, self._reason)

    def cut_off(self) -> Iterator[StreamEvent]:
        """Yield the text that was held back, of a reply that broke off."""
        yield from self._reply.cut_off()

    def _event(self, event: ServerEvent) -> Iterator[StreamEvent]:
        data = event.data.strip()
        if data == "[DONE]":
            self.finished = True
            return
        try:
            chunk = parse_json(data)
        except ValueError:
            self._junk += 1
            return
        if not isinstance(chunk, dict):
            self._junk += 1
        elif event.type == "error" and "error" not in chunk:
            raise self._error({"error": chunk})
        else:
            yield from self._chunk(chunk)

    def _whole_reply(self, content: bytes) -> Iterator[StreamEvent]:
        try:
            answer = parse_json(content)
        except ValueError:
            raise cut_off(self._url, "its JSON is not whole") from None
        if isinstance(answer, dict):
            yield from self._chunk(answer)
            self._reason = self._reason or "stop"

    def _chunk(self, chunk: JsonObject) -> Iterator[StreamEvent]:
        if chunk.get("error") or chunk.get("object") == "error":
            raise self._error(chunk)
        if isinstance(usage := chunk.get("usage"), dict):
            self._usage = UsageReported(as_count(usage.get("prompt_tokens")), as_count(usage.get("completion_tokens")))
        for choice in as_list(chunk.get("choices"))[:1]:
            yield from self._delta(as_object(member(choice, "delta") or member(choice, "message")))
            self._reason = as_text(member(choice, "finish_reason")) or self._reason

    def _error(self, error: JsonObject) -> ProviderError:
        return self._connection.error_from(read_error(error), url=self._url, status=None, model=self._model)

    def _delta(self, delta: JsonObject) -> Iterator[StreamEvent]:
        if thought := as_text(delta.get("reasoning_content")) or as_text(delta.get("reasoning")):
            yield from self._reply.reasoning(thought)
        if text := _text_of(delta.get("content")) or _text_of(delta.get("refusal")):
            yield from self._reply.text(text)
        for piece in as_list(delta.get("tool_calls")):
            yield from self._reply.call_fragment(read_fragment(as_object(piece)))
        if legacy := as_object(delta.get("function_call")):
            yield from self._reply.call_fragment(read_fragment({"index": 0, "function": legacy}))


def _text_of(content: JsonValue) -> str:
    """Content as text; some proxies send it as a list of parts."""
    if isinstance(content, str):
        return content
    return "".join(as_text(member(part, "text")) or "" for part in as_list(content))
