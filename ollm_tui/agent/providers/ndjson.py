"""Newline-delimited JSON, framing only: bytes in, lines out. Any chunking of the same bytes gives the same lines."""

from __future__ import annotations

from collections.abc import Iterator

MAX_LINE_BYTES = 8 * 1024 * 1024
"""Longest line taken from a server; a reply has no honest use for more, and memory has an end."""


class FramingFault(ValueError):
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
            raise FramingFault(f"a line of more than {self._limit:,} bytes")
        if part:
            self._pieces.append(part)

    def _line(self) -> Iterator[str]:
        line = b"".join(self._pieces).decode("utf-8", "replace").strip()
        self._pieces.clear()
        self._pending = 0
        if line:
            yield line
