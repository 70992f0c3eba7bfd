"""The search engine in this process, for where ripgrep is not installed and for other encodings. Blocking."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.files.text_files import UTF_8, Encoding, NotTextError, recognise
from ollm_tui.core.search.line_query import (
    BINARY_SAMPLE,
    MAX_WIDE_BYTES,
    FoundFile,
    FoundLine,
    LineQuery,
    SearchTally,
    is_binary,
    line_of,
    wide_codec,
)

_FIRST = 1 << 16
"""Read at once of each file: nearly always everything, and a larger buffer costs time even where it stays empty."""

_PIECE = 4 << 20

_LONGEST_LINE = 16 << 20
"""Bytes; of a longer line each such part is searched by itself, as a file may consist of one line."""


class FileTooLargeToDecodeError(Exception):
    """The text is in another encoding, and more than is decoded at once."""


def is_wide(descriptor: int) -> bool:
    """Return whether a file with NULs is a text all the same. Raises OSError."""
    sample = os.pread(descriptor, BINARY_SAMPLE, 0)
    return b"\0" in sample and _encoding_of(sample, complete=False) is not None


def as_utf_8(descriptor: int, first: bytes, check: Callable[[], object]) -> bytes | None:
    """Return the whole text in UTF-8, None where it is binary or needs no help. Raises FileTooLargeToDecodeError."""
    if _encoding_of(first, complete=False) is None:
        return None
    raw = first
    while len(raw) <= MAX_WIDE_BYTES and (piece := os.read(descriptor, _PIECE)):
        check()
        raw += piece
    complete = len(raw) <= MAX_WIDE_BYTES
    encoding = _encoding_of(raw, complete=complete)
    if encoding is None or encoding == UTF_8 or (encoding.mark and encoding.codec == wide_codec(first)):
        os.lseek(descriptor, len(first), os.SEEK_SET)
        return None
    if not complete:
        os.lseek(descriptor, len(first), os.SEEK_SET)
        raise FileTooLargeToDecodeError
    if encoding.unit > 1:
        return encoding.decode(raw).encode("utf-8", "replace")
    return b"\n".join([_line_as_utf_8(line, encoding.codec) for line in raw.split(b"\n")])


def _encoding_of(raw: bytes, *, complete: bool) -> Encoding | None:
    try:
        return recognise(raw, complete=complete)
    except NotTextError:
        return None


def _line_as_utf_8(line: bytes, codec: str) -> bytes:
    """Line by line, as one wrong byte in a text of UTF-8 must not make all its other lines something else."""
    try:
        line.decode()
    except UnicodeDecodeError:
        return line.decode(codec, "replace").encode()
    return line


def search_files(
    handle: DirHandle, paths: Sequence[bytes], query: LineQuery, tally: SearchTally, check: Callable[[], object]
) -> Iterator[FoundFile]:
    """Yield the files with matches in order; `check` may raise, to give up. Raises InvalidPatternError."""
    pattern = query.compiled()
    for path in paths:
        check()
        try:
            descriptor = handle.open_file(path)
        except FileNotFoundError:
            continue  # gone since it was listed
        except OSError:
            tally.unreadable += 1
            continue
        try:
            found = _search_file(descriptor, path, pattern, query, tally, check)
        except OSError:
            tally.unreadable += 1
            continue
        finally:
            os.close(descriptor)
        if found is not None:
            yield found


def _search_file(
    descriptor: int,
    path: bytes,
    pattern: re.Pattern[bytes],
    query: LineQuery,
    tally: SearchTally,
    check: Callable[[], object],
) -> FoundFile | None:
    first = os.read(descriptor, _FIRST)
    if not first:
        return None
    if query.other_encodings:
        try:
            text = as_utf_8(descriptor, first, check)
        except FileTooLargeToDecodeError:
            tally.not_decoded += 1
        else:
            if text is not None:
                return _search_blocks(iter([_plain_ends(text)]), path, pattern, query)
    if is_binary(first):
        # As for ripgrep, NULs end lines where no line is shown: there may be gigabytes without any other end.
        blocks = _blocks(descriptor, first, check, ends=b"\0\n")
        matched = any(_next_match(pattern, block.strip(b"\0").replace(b"\0", b"\n"), 0) is not None for block in blocks)
        return FoundFile(path, binary=True) if matched else None
    if len(first) < _FIRST and not query.context and wide_codec(first) is None:
        # The way of nearly every file: what does not match costs one call.
        first = _plain_ends(first.removeprefix(codecs.BOM_UTF8))
        if _next_match(pattern, first, 0) is None:
            return None
        blocks: Iterator[bytes] = iter((first,))
    else:
        blocks = _text_blocks(descriptor, first, check)
    return _search_blocks(blocks, path, pattern, query)


def _search_blocks(
    blocks: Iterator[bytes], path: bytes, pattern: re.Pattern[bytes], query: LineQuery
) -> FoundFile | None:
    found = FoundFile(path)
    for line in _Scan(pattern, query).lines(blocks):
        found.add(line)
    return found if found.lines else None


def _plain_ends(text: bytes) -> bytes:
    """Line ends of Windows made plain."""
    return text.replace(b"\r\n", b"\n") if b"\r\n" in text else text


def _blocks(descriptor: int, first: bytes, check: Callable[[], object], ends: bytes = b"\n") -> Iterator[bytes]:
    """Yield a file in pieces of whole lines, which end with any of `ends`."""
    rest = b""
    piece = first
    while piece:
        rest += piece
        end = max(rest.rfind(ends[index : index + 1]) for index in range(len(ends))) + 1
        if not end and len(rest) >= _LONGEST_LINE:
            end = len(rest)
        if end:
            yield rest[:end]
            rest = rest[end:]
        check()
        piece = os.read(descriptor, _PIECE)
    if rest:
        yield rest


def _text_blocks(descriptor: int, first: bytes, check: Callable[[], object]) -> Iterator[bytes]:
    """As `_blocks`, in UTF-8, without a byte-order mark, line ends of Windows made plain."""
    codec = wide_codec(first)
    if codec is not None:
        pieces = [first]
        while piece := os.read(descriptor, _PIECE):
            check()
            pieces.append(piece)
        text = b"".join(pieces)[2:].decode(codec, "replace")
        yield _plain_ends(text.encode("utf-8", "replace"))
        return
    blocks = _blocks(descriptor, first.removeprefix(codecs.BOM_UTF8), check)
    yield from map(_plain_ends, blocks)


def _next_match(pattern: re.Pattern[bytes], block: bytes, position: int) -> tuple[int, int] | None:
    """Return where the next line that matches starts, and where the match in it does."""
    match = pattern.search(block, position)
    if match is None:
        return None
    start = match.start()
    if start == len(block) and (not block or block.endswith(b"\n")):
        return None  # behind the last line end there is no line
    return block.rfind(b"\n", 0, start) + 1, start


@dataclass
class _Scan:
    """Goes through the pieces of one file; remembers what context needs across them."""

    pattern: re.Pattern[bytes]
    query: LineQuery

    def lines(self, blocks: Iterator[bytes]) -> Iterator[FoundLine]:
        if self.query.context:
            yield from self._with_context(b"".join(blocks))
            return
        number, found = 1, 0
        for block in blocks:
            position = 0
            while found < self.query.max_per_file:
                match = _next_match(self.pattern, block, position)
                if match is None:
                    break
                start, column = match
                number += block.count(b"\n", position, start)
                end = block.find(b"\n", column)
                end = len(block) if end < 0 else end
                yield line_of(number, block[start:end], column - start + 1)
                found += 1
                number += 1
                position = end + 1
                if position >= len(block):
                    position = len(block)
                    number -= not block.endswith(b"\n")
                    break
            number += block.count(b"\n", position)

    def _with_context(self, text: bytes) -> Iterator[FoundLine]:
        lines = text.removesuffix(b"\n").split(b"\n")
        context = self.query.context
        matches: dict[int, int] = {}
        for index, line in enumerate(lines):
            match = self.pattern.search(line)
            if match is not None:
                matches[index] = match.start() + 1
                if len(matches) >= self.query.max_per_file:
                    break
        wanted = {
            near for index in matches for near in range(max(0, index - context), min(len(lines), index + context + 1))
        }
        for index in sorted(wanted):
            yield line_of(index + 1, lines[index], matches.get(index))
