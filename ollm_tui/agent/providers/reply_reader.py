"""Read a reply in either wire format: bytes into events of the wire, their parts into stream events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ollm_tui.agent.providers.call_assembly import MAX_CALLS, CallAssembler, CallFragment, CallIds
from ollm_tui.agent.providers.json_values import well_formed
from ollm_tui.agent.providers.prompted_calls import PromptedHoldback
from ollm_tui.agent.providers.provider import (
    ChatRequest,
    FinishReason,
    ProviderNotice,
    ReasoningDelta,
    StreamEvent,
    StreamFinished,
    TextDelta,
    ToolCall,
    ToolCallProgress,
    ToolCallReady,
)
from ollm_tui.agent.providers.text_tool_calls import TextHoldback
from ollm_tui.core.bus.states import Origin

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Longest line taken from a server; a reply has no honest use for more, and memory has an end."""

_THINK_OPENINGS = ("<think>", "<thinking>")
_THINK_CLOSINGS = ("</think>", "</thinking>")
_PROGRESS_STEP = 200
"""Characters of arguments between two `ToolCallProgress` events of a call."""


class FramingError(ValueError):
    """The bytes cannot be a stream of this kind; the reply is of no use from here on."""


class ServerEvent(NamedTuple):
    """One event: its type (`message` unless named) and its data, several data lines joined with LF."""

    type: str
    data: str


class LineDecoder:
    """Reads each line (ended by LF, CRLF or CR) that is not blank as one event, whatever the chunks."""

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit = max_bytes
        self._unfinished = bytearray()
        self._after_cr = False

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the events completed by `chunk`; raise FramingError at a line beyond the limit."""
        if self._after_cr and chunk:
            # a CR at the very end of a chunk may be the first half of CRLF
            self._after_cr, chunk = False, chunk.removeprefix(b"\n")
        for line in chunk.splitlines(keepends=True):
            text = line.rstrip(b"\r\n")
            whole = len(text) < len(line)
            if self._unfinished or not whole:
                self._unfinished += text
            if len(text) > self._limit or len(self._unfinished) > self._limit:
                raise FramingError(f"a line of more than {self._limit:,} bytes")
            self._after_cr = line.endswith(b"\r")
            if whole:
                yield from self._take() if self._unfinished else self._events(text)

    def close(self) -> Iterator[ServerEvent]:
        """Yield what stands after the last line end; it may be the half of an event."""
        yield from self._take()

    def _take(self) -> Iterable[ServerEvent]:
        line = bytes(self._unfinished)
        self._unfinished.clear()
        return self._events(line)

    def _events(self, line: bytes) -> Iterable[ServerEvent]:
        """Return the events that a whole line completes; bytes that are not UTF-8 become U+FFFD."""
        text = line.decode("utf-8", "replace").strip()
        return (ServerEvent("message", text),) if text else ()


class EventDecoder(LineDecoder):
    """Collects lines into server-sent events, which a blank line ends, by the field rules of the HTML standard.

    llama.cpp's `error: {...}` lines are read as an event `error`.
    """

    def __init__(self, max_bytes: int = MAX_LINE_BYTES) -> None:
        super().__init__(max_bytes)
        self._at_start = True
        self._type = ""
        self._data: list[str] = []
        self._size = 0

    def close(self) -> Iterator[ServerEvent]:
        """Yield a last event that was not ended by a blank line; it may be the half of one."""
        yield from super().close()
        yield from self._dispatch()

    def _events(self, line: bytes) -> Iterable[ServerEvent]:
        if self._at_start:
            line, self._at_start = line.removeprefix(b"\xef\xbb\xbf"), False
        if not line:
            return self._dispatch()
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
                self._size += len(line)
                if self._size > self._limit:
                    raise FramingError(f"an event of more than {self._limit:,} bytes")
            case "event":
                self._type = value
            case "error":
                return (*self._dispatch(), ServerEvent("error", value))
            case _:
                pass  # comments (":" first), ids, retry times and fields of the future
        return ()

    def _dispatch(self) -> Iterable[ServerEvent]:
        data, kind = self._data, self._type or "message"
        self._data, self._type, self._size = [], "", 0
        return (ServerEvent(kind, "\n".join(data)),) if data else ()


class SurrogateRepair:
    """Joins halves of a character that a server split; a lone half becomes U+FFFD."""

    def __init__(self) -> None:
        self._high = ""

    def feed(self, piece: str) -> str:
        """Return the whole characters so far."""
        text = self._high + piece
        self._high = text[-1] if text and "\ud800" <= text[-1] <= "\udbff" else ""
        return well_formed(text.removesuffix(self._high) if self._high else text)

    def close(self) -> str:
        """Return what is left."""
        rest, self._high = self._high, ""
        return well_formed(rest)


class ThinkTags:
    """Splits `<think>...</think>` at the beginning of the content from the answer."""

    def __init__(self) -> None:
        self._state = "before"
        self._held = ""

    def feed(self, piece: str) -> Iterator[StreamEvent]:
        """Yield the text and thinking that are certain so far."""
        self._held += piece
        if self._state == "before":
            self._find_opening()
        if self._state == "inside":
            yield from self._think()
        if self._state == "behind":
            self._held = self._held.lstrip()
            self._state = "text" if self._held else "behind"
        if self._state == "text":
            yield from self._rest(TextDelta)

    def close(self) -> Iterator[StreamEvent]:
        """Yield what is left."""
        if self._state == "inside":
            # half a closing tag is no thought
            self._held = self._held[: len(self._held) - _overlap(self._held, _THINK_CLOSINGS)]
            yield from self._rest(ReasoningDelta)
        else:
            yield from self._rest(TextDelta)

    def _find_opening(self) -> None:
        start = self._held.lstrip()
        for tag in _THINK_OPENINGS:
            if start.startswith(tag):
                self._state, self._held = "inside", start.removeprefix(tag).removeprefix("\n")
                return
        if not any(tag.startswith(start) for tag in _THINK_OPENINGS):
            self._state = "text"

    def _think(self) -> Iterator[StreamEvent]:
        closings = [(at, tag) for tag in _THINK_CLOSINGS if (at := self._held.find(tag)) >= 0]
        if closings:
            at, tag = min(closings)
            thought, self._held = self._held[:at], self._held[at + len(tag) :]
            self._state = "behind"
        else:
            keep = _overlap(self._held, _THINK_CLOSINGS)
            cut = len(self._held) - keep
            thought, self._held = self._held[:cut], self._held[cut:]
        if thought:
            yield ReasoningDelta(thought)

    def _rest(self, kind: type[TextDelta] | type[ReasoningDelta]) -> Iterator[StreamEvent]:
        rest, self._held = self._held, ""
        if rest:
            yield kind(rest)


class ReplyReader:
    """Collects one reply until `finish` or `cut_off`; each method yields what may be shown."""

    def __init__(self, request: ChatRequest) -> None:
        self._ids = CallIds(request.messages)
        self._calls = CallAssembler(self._ids)
        self._tags = ThinkTags()
        self._text_repair, self._thought_repair = SurrogateRepair(), SurrogateRepair()
        self._hold: TextHoldback | PromptedHoldback = TextHoldback(tool.name for tool in request.tools)
        self._reported: dict[str, int] = {}

    def expect_prompted(self, request: ChatRequest) -> None:
        """Read the reply as one to a prompt with the written protocol."""
        self._hold = PromptedHoldback(tool.name for tool in request.tools)

    def text(self, piece: str) -> Iterator[StreamEvent]:
        """Add text of the answer."""
        return self._shown(self._tags.feed(self._text_repair.feed(piece)))

    def reasoning(self, piece: str) -> Iterator[StreamEvent]:
        """Add thinking."""
        if thought := self._thought_repair.feed(piece):
            yield ReasoningDelta(thought)

    def call_fragment(self, fragment: CallFragment) -> Iterator[StreamEvent]:
        """Add a fragment of a call."""
        yield from self._progress(self._calls.add(fragment))

    def whole_call(self, fragment: CallFragment) -> Iterator[StreamEvent]:
        """Add a whole call."""
        yield from self._progress(self._calls.add_whole(fragment))

    def finish(self, reason: FinishReason) -> Iterator[StreamEvent]:
        """Yield the rest of the text, the calls in order, and the end."""
        yield from self._flush()
        text, found = self._hold.close() if self._calls.empty else (self._hold.release(), ())
        if text:
            yield TextDelta(text)
        if self._calls.overfull:
            text = f"The reply asks for more than {MAX_CALLS:,} tool calls; those after them were not read."
            yield ProviderNotice(text)
        for call in self._calls.finish(cut=reason is FinishReason.LENGTH):
            yield ToolCallReady(call)
        for salvaged in found:
            read = salvaged.arguments
            yield ToolCallReady(
                ToolCall(
                    self._ids.take(),
                    salvaged.name,
                    read.value,
                    origin=Origin.SALVAGED,
                    error=read.error,
                    repaired=read.repaired,
                )
            )
        yield StreamFinished(reason)

    def cut_off(self) -> Iterator[StreamEvent]:
        """Yield the rest of the text of a reply that broke off; its calls do not run."""
        yield from self._flush()
        if text := self._hold.release():
            yield TextDelta(text)

    def _flush(self) -> Iterator[StreamEvent]:
        if thought := self._thought_repair.close():
            yield ReasoningDelta(thought)
        yield from self._shown(self._tags.feed(self._text_repair.close()))
        yield from self._shown(self._tags.close())

    def _shown(self, events: Iterable[StreamEvent]) -> Iterator[StreamEvent]:
        for event in events:
            if not isinstance(event, TextDelta):
                yield event
            elif text := self._hold.feed(event.text):
                self._calls.text_before += len(text)
                yield TextDelta(text)

    def _progress(self, state: tuple[str, int] | None) -> Iterator[StreamEvent]:
        if state is None:
            return
        name, characters = state
        last = self._reported.get(name)
        if last is None or characters < last or characters - last >= _PROGRESS_STEP:
            self._reported[name] = characters
            yield ToolCallProgress(name, characters)


def _overlap(text: str, tags: Iterable[str]) -> int:
    """Return how many characters at the end of `text` could begin one of `tags`."""
    longest = 0
    for tag in tags:
        for size in range(min(len(tag) - 1, len(text)), longest, -1):
            if text.endswith(tag[:size]):
                longest = size
                break
    return longest
