"""Read a reply of Ollama's `/api/chat`, line by line, into stream events."""

from __future__ import annotations

from collections.abc import Iterator

from ollm_tui.agent.providers.call_assembly import read_fragment
from ollm_tui.agent.providers.http_connection import HttpConnection, bad_reply, cut_off
from ollm_tui.agent.providers.json_values import as_count, as_list, as_object, as_text, parse_json
from ollm_tui.agent.providers.provider import (
    ChatRequest,
    FinishReason,
    JsonObject,
    ProviderNotice,
    StreamEvent,
    UsageReported,
)
from ollm_tui.agent.providers.provider_errors import read_error
from ollm_tui.agent.providers.reply_reader import ReplyReader
from ollm_tui.agent.providers.stream_framing import FramingError, LineDecoder

_FINISH_REASONS = {"stop": FinishReason.STOP, "length": FinishReason.LENGTH, "load": FinishReason.STOP}


class OllamaReplyReader:
    """Reads the lines of one reply into events."""

    def __init__(self, request: ChatRequest, connection: HttpConnection, model: str, window: int) -> None:
        self._request = request
        self._reply = ReplyReader(request)
        self._connection = connection
        self._url = connection.address.at("api/chat")
        self._model = model
        self._window = window
        self._decoder = LineDecoder()
        self._reason: str | None = None
        self._usage: UsageReported | None = None
        self._lines = 0
        self._junk = 0
        self.finished = False
        """The line with `done` was read; nothing after it belongs to the reply."""

    def feed(self, chunk: bytes) -> Iterator[StreamEvent]:
        """Yield the events in a further piece of the body."""
        try:
            for line in self._decoder.feed(chunk):
                yield from self._line(line)
                if self.finished:
                    return
        except FramingError as error:
            raise bad_reply(self._url, str(error)) from None

    def read_rest(self) -> Iterator[StreamEvent]:
        """Yield what is left at the end of the body; raise ProviderError when that came too early."""
        if not self.finished:
            for line in self._decoder.close():
                yield from self._line(line)
        if self.finished:
            return
        if self._junk and not self._lines:
            raise bad_reply(self._url, "none of its lines is JSON")
        raise cut_off(self._url)

    def close(self) -> Iterator[StreamEvent]:
        """Yield the end of the reply."""
        if self._junk:
            yield ProviderNotice(f"{self._url}: lines of the reply could not be read and were skipped: {self._junk}.")
        if self._usage:
            yield self._usage
            if self._prompt_was_cut(self._usage):
                yield ProviderNotice(
                    f"The prompt was probably cut: {self._model} read {self._usage.prompt_tokens:,} tokens of it, "
                    f"its window is {self._window:,}. Shorten the conversation or raise num_ctx."
                )
        yield from self._reply.finish(_FINISH_REASONS.get(self._reason or "stop", FinishReason.OTHER), self._reason)

    def cut_off(self) -> Iterator[StreamEvent]:
        """Yield the text that was held back, of a reply that broke off."""
        yield from self._reply.cut_off()

    def _line(self, line: str) -> Iterator[StreamEvent]:
        try:
            value = parse_json(line)
        except ValueError:
            value = None
        if not isinstance(value, dict):
            self._junk += 1
            return
        self._lines += 1
        if value.get("error"):
            raise self._connection.error_from(read_error(value), url=self._url, status=None, model=self._model)
        # calls may stand in the last line: the message is read before `done` is looked at
        yield from self._message(as_object(value.get("message")))
        if value.get("done") is True:
            self._finish(value)

    def _message(self, message: JsonObject) -> Iterator[StreamEvent]:
        if thought := as_text(message.get("thinking")):
            yield from self._reply.reasoning(thought)
        if text := as_text(message.get("content")):
            yield from self._reply.text(text)
        for call in as_list(message.get("tool_calls")):
            # arguments come whole here, and newer servers alone number the calls
            yield from self._reply.whole_call(read_fragment(as_object(call)))

    def _finish(self, line: JsonObject) -> None:
        self.finished = True
        self._reason = as_text(line.get("done_reason"))
        prompt, completion = as_count(line.get("prompt_eval_count")), as_count(line.get("eval_count"))
        if prompt is not None or completion is not None:
            self._usage = UsageReported(prompt, completion)

    def _prompt_was_cut(self, usage: UsageReported) -> bool:
        """Whether the server's count is at the window, or far below our estimate with the window nearly used."""
        prompt = usage.prompt_tokens
        if prompt is None:
            return False
        if prompt >= self._window - 1:
            return True
        estimate = self._request.estimated_tokens
        reserve = self._request.max_tokens or self._window // 4
        return estimate is not None and prompt < 0.6 * estimate and prompt + reserve >= 0.9 * self._window
