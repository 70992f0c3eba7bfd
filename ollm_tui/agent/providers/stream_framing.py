"""Server-sent events, framing only: bytes in, events out. Any chunking of the same bytes gives the same events.

Follows the field rules of the HTML standard, and reads llama.cpp's `error: {...}` lines as an event `error`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Longest line taken from a server; a reply has no honest use for more, and memory has an end."""


class FramingError(ValueError):
    """The bytes cannot be a stream of this kind; the reply is of no use from here on."""


class LineDecoder:
    """Splits bytes at LF and drops blank lines; bytes that are not UTF-8 become U+FFFD.

    Lines are cut as bytes, so a character may arrive in any number of pieces.
    """

    def __init__(self, max_line_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit = max_line_bytes
        self._pieces: list[bytes] = []
        self._pending = 0

    def feed(self, chunk: bytes) -> Iterator[str]:
        """Yield the lines completed by `chunk`. Raises FramingFault at a line beyond the limit."""
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            self._keep(part)
            yield from self._line()
        self._keep(rest)

    def close(self) -> Iterator[str]:
        """Yield what stands after the last LF: a last line without an end, or the half of one."""
        yield from self._line()

    def _keep(self, part: bytes) -> None:
        self._pending += len(part)
        if self._pending > self._limit:
            raise FramingError(f"a line of more than {self._limit:,} bytes")
        if part:
            self._pieces.append(part)

    def _line(self) -> Iterator[str]:
        line = b"".join(self._pieces).decode("utf-8", "replace").strip()
        self._pieces.clear()
        self._pending = 0
        if line:
            yield line


_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True)
class ServerEvent:
    """One event: its type (`message` unless named) and its data, several data lines joined with LF."""

    type: str
    data: str


class EventDecoder:
    """Collects lines (ended by LF, CRLF or CR) into events (ended by a blank line)."""

    def __init__(self, max_event_bytes: int = MAX_LINE_BYTES) -> None:
        self._limit = max_event_bytes
        self._line = bytearray()
        self._after_cr = False
        self._at_start = True
        self._type = ""
        self._data: list[str] = []
        self._size = 0

    def feed(self, chunk: bytes) -> Iterator[ServerEvent]:
        """Yield the events completed by `chunk`. Raises FramingFault at an event beyond the limit."""
        start = 0
        if self._after_cr and chunk:
            start = 1 if chunk.startswith(b"\n") else 0
            self._after_cr = False
        while start < len(chunk):
            end, following = _line_end(chunk, start)
            self._extend(chunk[start : len(chunk) if end is None else end])
            if end is None:
                return
            # a CR at the very end of a chunk may be the first half of CRLF
            self._after_cr = chunk[end] == 0x0D and following == len(chunk)
            start = following
            yield from self._take_line()

    def close(self) -> Iterator[ServerEvent]:
        """Yield a last event that was not ended by a blank line; it may be the half of one."""
        if self._line:
            yield from self._take_line()
        yield from self._dispatch()

    def _extend(self, part: bytes) -> None:
        self._line += part
        if self._size + len(self._line) > self._limit:
            raise FramingError(f"an event of more than {self._limit:,} bytes")

    def _take_line(self) -> Iterator[ServerEvent]:
        raw = bytes(self._line)
        self._line.clear()
        if self._at_start:
            raw = raw.removeprefix(_BOM)
            self._at_start = False
        if not raw:
            yield from self._dispatch()
            return
        name, _, value = raw.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        match name:
            case "data":
                self._data.append(value)
                self._size += len(raw)
            case "event":
                self._type = value
            case "error":
                yield from self._dispatch()
                yield ServerEvent("error", value)
            case _:
                # comments (":" first), ids, retry times and fields of the future
                pass

    def _dispatch(self) -> Iterator[ServerEvent]:
        data, kind = self._data, self._type or "message"
        self._data, self._type, self._size = [], "", 0
        if data:
            yield ServerEvent(kind, "\n".join(data))


def _line_end(chunk: bytes, start: int) -> tuple[int | None, int]:
    """Where the line that begins at `start` ends, and where the next one begins."""
    feed, carriage = chunk.find(b"\n", start), chunk.find(b"\r", start)
    if carriage >= 0 and (feed < 0 or carriage < feed):
        return carriage, carriage + 2 if feed == carriage + 1 else carriage + 1
    return (feed, feed + 1) if feed >= 0 else (None, len(chunk))
