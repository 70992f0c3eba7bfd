"""What ripgrep prints, made into found lines; each is shown only where the file beneath the ground holds it.

Ripgrep opens files by their paths, and a folder may have become a link to anywhere since it was listed. So every file
with a match is opened once more from the ground, which is needed anyway to tell binary files from texts.
"""

from __future__ import annotations

import codecs
import os
import re

from ollm_tui.core.base.ground import Ground
from ollm_tui.core.base.search import (
    MAX_LINE_CHARS,
    MAX_WIDE_BYTES,
    FoundFile,
    FoundLine,
    is_binary,
    line_of,
    long_line,
    wide_codec,
)

ON_SEPARATORS = ("--no-heading", "--null", "--color=never", "--no-context-separator", "--with-filename")

MAX_COLUMNS = 1000
"""Bytes of a line that ripgrep prints; what is longer is read again around the match."""

BETWEEN = b"\x1f"
"""Stands between the fields of a match: ripgrep leaves the column out where an empty match follows the last character
of a file, and behind colons that could not be told from a text that begins with a number."""

_RECORD = re.compile(
    rb"([^\0]+)\0"
    rb"(?:(\d+)\x1f(?:(\d+)\x1f)?(\d+)\x1f"  # a match
    rb"|(\d+)-(\d+)-)?"  # a line near one
    rb"([^\n]*)\n"
)

_SAMPLE = 1 << 15
"""Bytes read at once: the whole of most files that are searched."""


class Records:
    """Puts the output together: `path NUL number:column:offset:text`, context as `number-offset-text`."""

    def __init__(self, ground: Ground, max_lines: int) -> None:
        """Takes the ground over."""
        self._ground = ground
        self._max_lines = max_lines
        self._rest = b""
        self._matches = 0
        self._files: list[FoundFile] = []
        self._printed_path = b""
        self._witness: _Witness | None = None
        """The file whose lines are being read; None for one that is not shown."""
        self._unmatched = False
        """No match has been seen in it yet, but lines near one."""
        self.doubtful: list[bytes] = []
        """Files that hold something else than ripgrep printed, or are not to be had."""

    def take(self, data: bytes) -> bool:
        """False once there are more matches than wanted. Blocking: looks into the files."""
        data = self._rest + data
        # To the end of the last record: a line without a NUL is the beginning of a path with a line end in it.
        end = data.find(b"\n", data.rfind(b"\0", 0, data.rfind(b"\n") + 1)) + 1
        self._rest = data[end:]
        # All at once: a search by hand for each separator would cost several times as much.
        for path, number, column, offset, near_number, near_offset, text in _RECORD.findall(data, 0, end):
            if path != self._printed_path:
                self._begin(path)
            witness = self._witness
            if witness is None:
                continue
            file = witness.file
            if number:
                if file.binary:
                    if self._unmatched:
                        self._files.append(file)
                        self._unmatched = False
                    continue
                # Without a column: the match follows the last character.
                place = int(column) if column else len(text.rstrip(b"\r")) + 1
                line = witness.line(int(number), place, int(offset), text)
            elif near_number and not file.binary:
                line = witness.line(int(near_number), None, int(near_offset), text)
            else:
                continue
            if line is None:
                self._doubt(file)
                continue
            if self._unmatched:
                self._files.append(file)
                self._unmatched = False
            file.lines.append(line)
            if number:
                file.matches += 1
                self._matches += 1
        return self._matches <= self._max_lines

    def close(self) -> list[FoundFile]:
        """What was found, in the order ripgrep gave it."""
        self._leave()
        return self._files

    def _begin(self, printed_path: bytes) -> None:
        self._leave()
        self._printed_path = printed_path
        path = printed_path.removeprefix(b"./")
        try:
            self._witness = _Witness(path, self._ground.open_file(path))
        except OSError:
            self.doubtful.append(path)
            return
        self._unmatched = True

    def _leave(self) -> None:
        witness, self._witness = self._witness, None
        if witness is not None:
            witness.close()

    def _doubt(self, file: FoundFile) -> None:
        self._matches -= file.matches
        if not self._unmatched:
            self._files.pop()
        self.doubtful.append(file.path)
        self._leave()


class _Witness:
    """A file that ripgrep found something in, open from the ground."""

    def __init__(self, path: bytes, descriptor: int) -> None:
        """Takes the descriptor over. Raises OSError."""
        self._descriptor = descriptor
        try:
            self._text = os.read(descriptor, _SAMPLE)
            self.file = FoundFile(path, binary=is_binary(self._text))
            self._start = 0
            """Where the text begins in the file."""
            self._codec = wide_codec(self._text)
            if self._codec is not None:
                self._text = self._decoded(self._codec)
            elif self._text.startswith(codecs.BOM_UTF8):
                self._start, self._text = 3, self._text[3:]
        except OSError:
            os.close(descriptor)
            raise

    def close(self) -> None:
        os.close(self._descriptor)

    def line(self, number: int, column: int | None, offset: int, text: bytes) -> FoundLine | None:
        """A line as results show it; None where the file does not hold it."""
        length = len(text)
        if length > MAX_COLUMNS:
            return self._long_line(number, column, offset)
        if not self._text.startswith(text, offset):
            if self._codec is not None or offset + length <= len(self._text):
                return None
            if os.pread(self._descriptor, length, self._start + offset) != text:
                return None
        if column is not None and length <= MAX_LINE_CHARS and text.isascii() and text[-1:] != b"\r":
            return FoundLine(number, text.decode("ascii"), column)  # as `line_of` does, which nearly no line needs
        return line_of(number, text, column)

    def _long_line(self, number: int, column: int | None, offset: int) -> FoundLine | None:
        if self._codec is not None:
            end = self._text.find(b"\n", offset)
            return line_of(number, self._text[offset : end if end >= 0 else None], column)
        line = long_line(self._descriptor, number, self._start + offset, column or 1)
        return line if column is not None else FoundLine(number, line.text, None)

    def _decoded(self, codec: str) -> bytes:
        pieces = [self._text[2:]]
        missing = MAX_WIDE_BYTES - len(self._text)
        while missing > 0 and (piece := os.read(self._descriptor, min(missing, 1 << 20))):
            pieces.append(piece)
            missing -= len(piece)
        return b"".join(pieces).decode(codec, "replace").encode("utf-8", "replace")
