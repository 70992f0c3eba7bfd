"""Read ripgrep's output into found lines.

Ripgrep opens files by their paths, and a directory may have become a link to anywhere since it was listed. A line is
shown where the file below the handle holds it, or where no directory on the way to the file has changed meanwhile.
"""

from __future__ import annotations

import codecs
import os
import re
from itertools import pairwise

from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.search.line_query import (
    MAX_LINE_CHARS,
    MAX_WIDE_BYTES,
    FoundFile,
    FoundLine,
    InvalidPatternError,
    SearchTally,
    line_of,
    long_line,
    wide_codec,
)


class RipgrepError(Exception):
    """Ripgrep could not be run, or ended in a way that is nobody's pattern's fault."""


ON_SEPARATORS = ("--no-heading", "--null", "--color=never", "--no-context-separator", "--with-filename")

MAX_COLUMNS = 1000
"""Bytes of a line that ripgrep prints; what is longer is read again around the match."""

BETWEEN = b"\x1f"
"""Stands between the fields of a match: ripgrep leaves the column out where an empty match follows the last character
of a file, and behind colons that could not be told from a text that begins with a number."""

AMBIGUOUS = b"\n./"
"""A path with this in it looks like two: all paths begin with `./` here."""

_BINARY = re.compile(rb": binary file matches \(found \"[^\"]*\" byte around offset \d+\)\Z")
"""What stands behind the path of a file in which ripgrep met a NUL; no NUL is behind it, so that it looks like the
beginning of the next path."""

_RECORD = re.compile(
    rb"([^\0]+)\0"
    rb"(?:(\d+)\x1f(?:(\d+)\x1f)?(\d+)\x1f"  # a match
    rb"|(\d+)-(\d+)-)?"  # a line near one
    rb"([^\n]*)\n"
)

_SAMPLE = 1 << 15
"""Bytes read at once: the whole of most files that are searched."""


class RipgrepRecords:
    """Reads `path NUL number:column:offset:text`; with a `handle` each line is compared with the file there."""

    def __init__(self, max_lines: int, handle: DirHandle | None = None) -> None:
        self._max_lines = max_lines
        self._handle = handle
        self._rest = b""
        self._matches = 0
        self._files: dict[bytes, FoundFile] = {}
        self._printed_path = b""
        self._file = FoundFile(b"")
        self._witness: _Witness | None = None
        self._shown = False
        """Whether lines of the current file may be shown."""
        self.with_nul: list[bytes] = []
        """Files with matches and with a NUL somewhere, of which nothing is known but that."""
        self.doubtful: list[bytes] = []
        """Files that have to be looked into: they hold something else than was printed, are gone, or have long lines
        of which ripgrep printed the beginning."""

    def take(self, data: bytes) -> bool:
        """Read output; return False once there are more matches than wanted. Blocking."""
        data = self._rest + data
        # To the end of the last record: a line without a NUL may be the beginning of a path with a line end in it.
        last = data.rfind(b"\0", 0, data.rfind(b"\n") + 1)
        end = data.find(b"\n", last) + 1 if last >= 0 else 0
        self._rest = data[end:]
        # All at once: a search by hand for each separator would cost several times as much.
        for path, number, column, offset, near_number, near_offset, text in _RECORD.findall(data, 0, end):
            if path != self._printed_path:
                self._begin(path)
            if not self._shown:
                continue
            if number:
                # Without a column: the match follows the last character.
                place = int(column) if column else len(text.rstrip(b"\r")) + 1
                line = self._line(int(number), place, int(offset), text)
            elif near_number:
                line = self._line(int(near_number), None, int(near_offset), text)
            else:
                continue
            if line is None:
                self._drop(self._file.path)
                self.doubtful.append(self._file.path)
                continue
            self._file.lines.append(line)
            if number:
                self._file.matches += 1
                self._matches += 1
        return self._matches <= self._max_lines

    def close(self) -> list[FoundFile]:
        """Return what was found, in ripgrep's order; for when no more output is taken."""
        self._leave()
        if self._matches <= self._max_lines:  # else the rest is a record that was cut
            self._note_binaries(self._rest.removesuffix(b"\n"))
        return list(self._files.values())

    def _line(self, number: int, column: int | None, offset: int, text: bytes) -> FoundLine | None:
        """Return a line as results show it; None where that cannot be told from what was printed."""
        if self._witness is not None:
            return self._witness.line(number, column, offset, text)
        return None if len(text) > MAX_COLUMNS else shown_line(number, text, column)

    def _begin(self, printed_path: bytes) -> None:
        self._leave()
        before, split, path = printed_path.rpartition(AMBIGUOUS)
        if split:
            self._note_binaries(before)
        path = path.removeprefix(b"./")
        self._printed_path = b"./" + path  # as the file's other lines have it
        self._file = self._files[path] = FoundFile(path)
        self._shown = True
        if self._handle is not None:
            try:
                self._witness = _Witness(self._handle.open_file(path))
            except OSError:
                self._drop(path)
                self.doubtful.append(path)

    def _note_binaries(self, messages: bytes) -> None:
        for message in messages.split(AMBIGUOUS):
            path = _BINARY.sub(b"", message)
            if path != message:
                path = path.removeprefix(b"./")
                self._drop(path)
                self.with_nul.append(path)

    def _drop(self, path: bytes) -> None:
        """Drop the lines of a file."""
        self._shown = self._shown and self._file.path != path
        file = self._files.pop(path, None)
        self._matches -= 0 if file is None else file.matches

    def _leave(self) -> None:
        witness, self._witness = self._witness, None
        if witness is not None:
            witness.close()


class _Witness:
    """A file that ripgrep found something in, open from the handle."""

    def __init__(self, descriptor: int) -> None:
        """Take the descriptor over. Raises OSError."""
        self._descriptor = descriptor
        try:
            self._text = os.read(descriptor, _SAMPLE)
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
        """Return a line as results show it; None where the file does not hold it."""
        if len(text) > MAX_COLUMNS:
            return self._long_line(number, column, offset)
        text = text.removesuffix(b"\r")  # ripgrep ends a last line without an end in this way too
        length = len(text)
        if not self._text.startswith(text, offset):
            if self._codec is not None or offset + length <= len(self._text):
                return None
            if os.pread(self._descriptor, length, self._start + offset) != text:
                return None
        return shown_line(number, text, column)

    def _long_line(self, number: int, column: int | None, offset: int) -> FoundLine:
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


def shown_line(number: int, text: bytes, column: int | None) -> FoundLine:
    """As `line_of`, quick for what nearly all lines are."""
    if column is not None and len(text) <= MAX_LINE_CHARS and text.isascii() and text[-1:] != b"\r":
        return FoundLine(number, text.decode("ascii"), column)
    return line_of(number, text, column)


def check_exit(code: int, errors: bytes, tally: SearchTally) -> None:
    """Raise what the exit code means: 0 found, 1 nothing found, 2 an error (maybe one file among thousands)."""
    text = errors.decode("utf-8", "replace")
    if code in (0, 1):
        return
    complaint = re.search(r"regex parse error:\n(.*)\nerror: (.*)", text, re.DOTALL)
    if complaint is not None:
        raise InvalidPatternError(complaint[2].strip().splitlines()[0], _position(complaint[1]))
    if "is not allowed in a regex" in text or "regex could not be compiled" in text or "compiled regex exceeds" in text:
        raise InvalidPatternError(text.strip().removeprefix("rg: ").splitlines()[0], None)
    unreadable = [line for line in text.splitlines() if line.startswith("rg: ") and "(os error " in line]
    tally.unreadable += sum("os error 2)" not in line for line in unreadable)  # 2: gone since it was listed
    if code not in (0, 1, 2) or not unreadable:
        raise RipgrepError(f"ripgrep ended with code {code}: {text.strip()[:500] or 'it said nothing'}")


def _position(quoted: str) -> int | None:
    """Return where the caret below the quoted pattern points, counted from 0."""
    for above, below in pairwise(quoted.split("\n")):
        if below.strip() and not below.strip().strip("^"):
            return max(0, below.index("^") - len("    (?:" if above.startswith("    (?:") else "    "))
    return None
