"""Texts that a search has to decode first: neither UTF-8 nor UTF-16 with a mark, which both engines read themselves."""

from __future__ import annotations

import os
from collections.abc import Callable

from ollm_tui.core.files.text_files import UTF_8, Encoding, NotTextError, recognise
from ollm_tui.core.search.line_query import BINARY_SAMPLE, MAX_WIDE_BYTES, wide_codec

_PIECE = 1 << 20


class FileTooLargeToDecodeError(Exception):
    """The text is in another encoding, and more than is decoded at once."""


def is_wide(descriptor: int) -> bool:
    """Return whether a file with NULs is a text all the same. Raises OSError."""
    sample = os.pread(descriptor, BINARY_SAMPLE, 0)
    return b"\0" in sample and _encoding_of(sample, complete=False) is not None


def as_utf_8(descriptor: int, first: bytes, check: Callable[[], object]) -> bytes | None:
    """Return the whole text of a file in UTF-8; None where it is binary, or needs no help. `first` has been read of it.

    Without a text the descriptor is left where it was. Raises TooLarge and OSError.
    """
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
