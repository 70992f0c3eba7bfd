"""Lines of files too big to be held: one pass finds where lines start, after that any range is read at once."""

from __future__ import annotations

import os
from bisect import bisect_left
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock

STRIDE = 1 << 17
"""Bytes between two remembered places; a multiple of four, so that it falls between the units of UTF-16 and UTF-32."""

_FILES_KEPT = 8


@dataclass(frozen=True)
class LineIndex:
    """How many lines begin before each multiple of STRIDE, and how many there are."""

    newlines_before: tuple[int, ...]
    newlines: int
    size: int
    ends_with_newline: bool

    @property
    def total_lines(self) -> int:
        """How many lines the file has."""
        return self.newlines + (self.size > 0 and not self.ends_with_newline)


@dataclass(frozen=True)
class FileKey:
    """What a file was when it was indexed; any change makes another key."""

    device: int
    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, status: os.stat_result) -> FileKey:
        """Return the key of a file by its status."""
        return cls(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)


class LineIndexes:
    """The indexes of the files last read; may be used from several threads."""

    def __init__(self, files_kept: int = _FILES_KEPT) -> None:
        self._files_kept = files_kept
        self._known: OrderedDict[tuple[FileKey, bytes], LineIndex] = OrderedDict()
        self._lock = Lock()

    def of(self, descriptor: int, newline: bytes, check: Callable[[], object]) -> LineIndex:
        """Return the index of an open file with lines that end with `newline`. Raises OSError; `check` may raise."""
        key = FileKey.of(os.fstat(descriptor)), newline
        with self._lock:
            index = self._known.get(key)
            if index is not None:
                self._known.move_to_end(key)
                return index
        index = _build(descriptor, newline, check)
        with self._lock:
            self._known[key] = index
            while len(self._known) > self._files_kept:
                self._known.popitem(last=False)
        return index


def line_offset(descriptor: int, index: LineIndex, newline: bytes, line: int) -> int:
    """Return where a line (from 1) starts; the end of the file for the line behind the last one. Raises OSError."""
    breaks = line - 1
    if breaks == 0:
        return 0
    if breaks > index.newlines:
        return index.size
    # The last place with fewer line ends before it: the one searched for lies in the stride that begins there.
    place = bisect_left(index.newlines_before, breaks) - 1
    missing = breaks - index.newlines_before[place]
    piece = os.pread(descriptor, STRIDE + len(newline), place * STRIDE)
    position = 0
    while missing:
        position = _find(piece, newline, position)
        if position < 0:
            return index.size  # the file shrank meanwhile
        position += len(newline)
        missing -= 1
    return place * STRIDE + position


def _build(descriptor: int, newline: bytes, check: Callable[[], object]) -> LineIndex:
    buffer = bytearray(STRIDE)
    before: list[int] = []
    newlines, size, last = 0, 0, b""
    while True:
        check()
        length = _fill(descriptor, buffer, size)
        if length == 0:
            break
        before.append(newlines)
        newlines += _count(buffer, newline, length)
        last = bytes(buffer[length - len(newline) : length])
        size += length
        if length < STRIDE:
            break
    return LineIndex(tuple(before), newlines, size, last == newline)


def _fill(descriptor: int, buffer: bytearray, offset: int) -> int:
    """Whole strides but for the last: a short read in the middle would shift all places behind it."""
    view = memoryview(buffer)
    filled = 0
    while filled < len(buffer) and (length := os.preadv(descriptor, [view[filled:]], offset + filled)):
        filled += length
    return filled


def _count(buffer: bytearray, newline: bytes, length: int) -> int:
    width = len(newline)
    if width == 1:
        return buffer.count(newline, 0, length)
    # Only whole code units count: the same bytes may stand across two of them.
    found, position = 0, _find(buffer, newline, 0, length)
    while position >= 0:
        found += 1
        position = _find(buffer, newline, position + width, length)
    return found


def _find(data: bytes | bytearray, newline: bytes, start: int, end: int | None = None) -> int:
    position = data.find(newline, start, len(data) if end is None else end)
    while position >= 0 and position % len(newline):
        position = data.find(newline, position + 1, len(data) if end is None else end)
    return position
