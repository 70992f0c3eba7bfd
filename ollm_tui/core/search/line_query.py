"""Searching lines: what is looked for, what is found, and the two engines' common ground (001 R4.5-R4.8)."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import NamedTuple

from ollm_tui.core.base.escape import boundary_after, boundary_before
from ollm_tui.core.base.regex import RegexError, compile_bytes

MAX_LINE_CHARS = 500
"""Characters of a line that are shown; of a longer one the part around the match."""

BEFORE_MATCH = 150
"""So many of them stand before the match."""

CUT_MARK = "[...]"

BINARY_SAMPLE = 8192
"""A NUL byte in so many bytes at the beginning makes a file binary, as for git and for read_file."""

_WIDE_MARKS = {b"\xff\xfe": "utf-16-le", b"\xfe\xff": "utf-16-be"}
MAX_WIDE_BYTES = 20_000_000
"""Of a larger UTF-16 file only the beginning is shown."""


_NAMES_CHARACTERS = re.compile(r"\\[xuUpP]")


class InvalidPatternError(ValueError):
    """An expression that cannot be searched for; `position` counts characters from 0, None where nobody can tell."""

    def __init__(self, reason: str, position: int | None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


@dataclass(frozen=True)
class LineQuery:
    """What to look for in each line. `context` lines are given before and behind each that matches.

    `other_encodings` asks to decode texts that are not UTF-8, which takes reading everything twice. Without it their
    bytes are searched as they are, which finds what is ASCII in all but UTF-16 without a mark and UTF-32.
    """

    pattern: str
    case_sensitive: bool = False
    fixed: bool = False
    context: int = 0
    max_per_file: int = 100_001
    other_encodings: bool = False

    @property
    def beyond_ascii(self) -> bool:
        """Whether the pattern names characters whose bytes depend on the encoding."""
        return not self.pattern.isascii() or (not self.fixed and _NAMES_CHARACTERS.search(self.pattern) is not None)

    def check_text(self) -> None:
        """Raise InvalidPatternError for a pattern that no line can contain."""
        surrogate = re.search("[\ud800-\udfff]", self.pattern)
        if surrogate is not None:
            raise InvalidPatternError("half of a surrogate pair is no character", surrogate.start())
        found = self.pattern.find("\n")
        if found < 0 and not self.fixed:
            escape = re.search(r"(?<!\\)(?:\\\\)*(\\n)", self.pattern)
            found = -1 if escape is None else escape.start(1)
        if found >= 0:
            raise InvalidPatternError("a line end can not be matched, as lines are searched one by one", found)
        word_end = None if self.fixed else re.search(r"(?<!\\)(?:\\\\)*(\\([<>]))", self.pattern)
        if word_end is not None:
            edge, plain = word_end.groups()
            why = f"{edge} is the edge of a word to some and a plain {plain} to others: write \\b or {plain}"
            raise InvalidPatternError(why, word_end.start(1))
        if "\0" in self.pattern:
            raise InvalidPatternError("a NUL character can not be searched for", self.pattern.find("\0"))

    def compiled(self) -> re.Pattern[bytes]:
        """For the engine in this process. Raises InvalidPattern."""
        text = self.pattern if self.fixed else f"(?m:{_as_ripgrep_means(self.pattern)})"
        try:
            return compile_bytes(
                text.encode(),
                utf_8=True,
                ignore_case=not self.case_sensitive,
                literal=self.fixed,
                within_lines=True,
            )
        except RegexError as error:
            position = self.pattern.find(error.part) if error.part else -1
            raise InvalidPatternError(_explained(error), position if position >= 0 else None) from None


class FoundLine(NamedTuple):
    """A line as it stands in a file. `column` counts characters from 1; None for a line of context."""

    number: int
    text: str
    column: int | None


class FoundFile:
    """The lines found in a file, none where `binary`. No dataclass: a search may find very many."""

    __slots__ = ("binary", "lines", "matches", "path")

    def __init__(self, path: bytes, *, binary: bool = False) -> None:
        self.path = path
        self.lines: list[FoundLine] = []
        self.matches = 0
        self.binary = binary

    def add(self, line: FoundLine) -> None:
        """Add a line."""
        self.lines.append(line)
        self.matches += line.column is not None


@dataclass
class SearchTally:
    """What a search could not look into."""

    unreadable: int = 0
    not_decoded: int = 0
    """Texts in other encodings that are too large to be decoded; their bytes were searched as they are."""


def line_of(number: int, raw: bytes, column: int | None) -> FoundLine:
    """Return a line out of its bytes, cut around the match where it is long. `column` counts bytes from 1."""
    raw = raw.removesuffix(b"\r")
    text = decoded(raw)
    if len(raw) <= MAX_LINE_CHARS and (column is None or raw.isascii()):
        return FoundLine(number, text, column)
    if column is None:
        return FoundLine(number, cut_around(text, 0), None)
    # Where each byte is a character, the part before the match may be UTF-8 by chance.
    start = column - 1 if len(text) == len(raw) else len(decoded(raw[: column - 1]))
    return FoundLine(number, cut_around(text, start), start + 1)


def decoded(raw: bytes) -> str:
    """UTF-8 where it is; else each byte as a character, which keeps the accents of the most common 8-bit texts.

    Bytes that Windows' western code page leaves open stand for the control characters of ISO 8859-1, as on the web.
    """
    try:
        return raw.decode()
    except UnicodeDecodeError:
        pass
    try:
        return raw.decode("cp1252")
    except UnicodeDecodeError:
        return "".join([bytes([byte]).decode("cp1252" if byte not in _OPEN else "iso-8859-1") for byte in raw])


def cut_around(text: str, position: int) -> str:
    """Return at most MAX_LINE_CHARS characters around a position, marks where something is left out."""
    if len(text) <= MAX_LINE_CHARS:
        return text
    start = min(max(0, position - BEFORE_MATCH), len(text) - MAX_LINE_CHARS)
    end = start + MAX_LINE_CHARS
    start, end = boundary_after(text, start), boundary_before(text, end)
    return f"{CUT_MARK if start else ''}{text[start:end]}{CUT_MARK if end < len(text) else ''}"


def long_line(descriptor: int, number: int, offset: int, column: int) -> FoundLine:
    """Read a line too long for the engine's output again around the match. Raises OSError."""
    characters, position, end = 0, offset, offset + column - 1
    start = max(offset, end - 4 * BEFORE_MATCH)
    while position < start and (piece := os.pread(descriptor, min(1 << 20, start - position), position)):
        # Bytes that begin a character, whatever the pieces are cut at.
        characters += len(piece) - len(piece.translate(None, _NO_CONTINUATIONS))
        position += len(piece)
    before = os.pread(descriptor, end - start, start)
    after = os.pread(descriptor, 8 * MAX_LINE_CHARS, end).split(b"\n")[0].removesuffix(b"\r")
    shown_before = decoded(before.lstrip(_CONTINUATIONS) if start > offset else before)
    shown = cut_around(shown_before + _decoded_start(after), len(shown_before))
    if start > offset and not shown.startswith(CUT_MARK):
        shown = CUT_MARK + shown
    total = characters + len(before) - len(before.translate(None, _NO_CONTINUATIONS))
    return FoundLine(number, shown, total + 1)


def is_binary(sample: bytes) -> bool:
    """By the first BINARY_SAMPLE bytes of a file."""
    return b"\0" in sample[:BINARY_SAMPLE] and sample[:2] not in _WIDE_MARKS


def wide_codec(sample: bytes) -> str | None:
    """Return the encoding of a text that starts with a UTF-16 mark."""
    return _WIDE_MARKS.get(sample[:2])


_OPEN = b"\x81\x8d\x8f\x90\x9d"
_CONTINUATIONS = bytes(range(0x80, 0xC0))
_NO_CONTINUATIONS = bytes(byte for byte in range(256) if byte not in _CONTINUATIONS)


def _decoded_start(raw: bytes) -> str:
    """Return the text of bytes that may end inside a character."""
    for dropped in range(4):
        try:
            return raw[: len(raw) - dropped].decode()
        except UnicodeDecodeError:
            continue
    return decoded(raw)


def _explained(error: RegexError) -> str:
    match error.reason:
        case "invalid perl operator":
            return f"{error.part} is not supported: neither look-around nor other extensions of Perl are"
        case "invalid escape sequence":
            return f"{error.part} is no escape sequence here; back-references are not supported"
        case _:
            return f"{error.reason}: {error.part}" if error.part else error.reason


_UNICODE = {
    "d": r"\p{Nd}",
    "w": r"\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}\x{24B6}-\x{24E9}"
    r"\x{1F130}-\x{1F149}\x{1F150}-\x{1F169}\x{1F170}-\x{1F189}",
    "s": r"\t\n\v\f\r \x{85}\p{Z}",
}
"""As Unicode's UTS #18, Annex C, has them: joiners and letters in circles and squares are of words, too."""


def _as_ripgrep_means(pattern: str) -> str:
    """`\\d`, `\\w` and `\\s`, of which RE2's own know ASCII only, and `\\A` for each line."""
    out: list[str] = []
    in_class, position = False, 0
    while position < len(pattern):
        char = pattern[position]
        following = pattern[position + 1 : position + 2]
        if char == "\\":
            if following == "A" and not in_class:
                out.append("^")
                position += 2
                continue
            members = _UNICODE.get(following.lower()) if following else None
            if members is None or (in_class and following.isupper()):
                out.append(char + following)
            elif in_class:
                out.append(members)
            else:
                out.append(f"[{'^' if following.isupper() else ''}{members}]")
            position += 2
            continue
        if char == "[" and not in_class:
            in_class = True
            # A bracket directly behind the opening one is a member.
            opening = re.compile(r"\[\^?\]?").match(pattern, position)
            text = opening[0] if opening else char
            out.append(text)
            position += len(text)
            continue
        if char == "[" and following == ":":
            end = pattern.find(":]", position)
            end = position + 1 if end < 0 else end + 2
            out.append(pattern[position:end])
            position = end
            continue
        if char == "]" and in_class:
            in_class = False
        out.append(char)
        position += 1
    return "".join(out)
