"""Matching of edit targets: exact, else whole lines that differ in white space only (contract section 1).

An ambiguous target is never resolved by a guess. Only whole lines are matched inexactly: part of a line would
remove or repeat the text beside it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import cached_property
from itertools import islice
from typing import TypeAlias

from pydantic import Field, field_validator, model_validator

from ollm_tui.core.tools.base import Parameters


def indent_of(line: str) -> str:
    """Return the blanks that a line begins with."""
    return line[: len(line) - len(line.lstrip(" \t"))]


@dataclass(frozen=True)
class Reindent:
    """Mapping from a target's indents to those of the matched lines."""

    known: dict[str, str]
    """Indents of the target's lines, and what they are in the file."""
    shift: tuple[str, str] | None
    """Prefixes to remove and to add, if these explain all of `known`."""
    scale: Fraction | None
    """Indent width in the file per target's, if it explains `known`."""
    unit: str
    """The character that the file indents with."""

    @staticmethod
    def between(target: Sequence[str], there: Sequence[str]) -> Reindent | None:
        """Return the mapping; None if indents do not correspond one to one."""
        known: dict[str, str] = {}
        for one, other in zip(target, there, strict=True):
            if one.strip() and known.setdefault(indent_of(one), indent_of(other)) != indent_of(other):
                return None
        if len(set(known.values())) < len(known):
            return None
        unit = "\t" if any("\t" in indent for indent in known.values()) else " "
        return Reindent(known, _common_shift(known), _common_scale(known), unit)

    def apply(self, replacement: str) -> str:
        """Indent the replacement as the file does, except blank lines."""
        return "\n".join(map(self._line, replacement.split("\n")))

    def _line(self, line: str) -> str:
        if not line.strip():
            return line
        indent = indent_of(line)
        return self._indent(indent) + line[len(indent) :]

    def _indent(self, indent: str) -> str:
        if indent in self.known:
            return self.known[indent]
        if self.shift is not None:
            off, on = self.shift
            return on + indent[len(off) :] if indent.startswith(off) else indent
        if self.scale is not None:
            return self.unit * round(len(indent) * self.scale)
        under = max((each for each in self.known if indent.startswith(each)), key=len, default=None)
        return indent if under is None else self.known[under] + indent[len(under) :]


def _common_shift(known: dict[str, str]) -> tuple[str, str] | None:
    """Return the prefix change that fits every line, or None."""
    shortest = min(known, key=len)
    here = known[shortest]
    for keep in range(min(len(shortest), len(here)), -1, -1):
        off, on = shortest[: len(shortest) - keep], here[: len(here) - keep]
        if shortest[len(off) :] == here[len(on) :] and (not off or not on) and _explains(known, off, on):
            return off, on
    return None


def _explains(known: dict[str, str], off: str, on: str) -> bool:
    return all(one.startswith(off) and on + one[len(off) :] == other for one, other in known.items())


def _common_scale(known: dict[str, str]) -> Fraction | None:
    """Return the ratio of indent widths that fits every line, or None."""
    pairs = [(one, other) for one, other in known.items() if one or other]
    if not all(one and other and len(set(one)) == len(set(other)) == 1 for one, other in pairs):
        return None
    scales = {Fraction(len(other), len(one)) for one, other in pairs}
    return scales.pop() if len(scales) == 1 else None


HINT_REACH = 20
"""Lines around `lineHint` in which the nearest occurrence is taken."""

_MOST_NEAR = 10_000
"""Most occurrences that are compared around a hint."""
_MOST_NAMED = 100
"""Most line numbers listed; a one-letter target may occur millions of times."""


class MatchKind(StrEnum):
    """How exactly a target was found, the most exact first."""

    EXACT = "exact"
    TRAILING_SPACE = "trailing-space"
    INDENTATION = "indentation"


class Edit(Parameters):
    """One replacement, and where to look for its target; lines count from 1 after earlier edits."""

    target: str
    replacement: str
    line_hint: int | None = Field(None, ge=1)
    start_line: int | None = Field(None, ge=1)
    end_line: int | None = Field(None, ge=1)

    @field_validator("target")
    @classmethod
    def _not_empty(cls, target: str) -> str:
        if not target:
            raise ValueError("the target is empty; write_file creates or replaces whole files")
        return target

    @model_validator(mode="after")
    def _in_order(self) -> Edit:
        if self.start_line is not None and self.end_line is not None and self.start_line > self.end_line:
            raise ValueError(f"startLine {self.start_line} is behind endLine {self.end_line}")
        return self


@dataclass(frozen=True)
class EditMatch:
    """A match: characters `start:end` of the text become `replacement`."""

    start: int
    end: int
    replacement: str
    kind: MatchKind
    first_line: int
    last_line: int


@dataclass(frozen=True)
class NoEditMatch:
    """No match; `elsewhere` lists its lines outside the requested range."""

    elsewhere: tuple[int, ...] = ()
    inexact: tuple[int, ...] = ()
    """Lines that match except for white space, but were not used."""


@dataclass(frozen=True)
class AmbiguousEdit:
    """Several matches: their `count`, and the first `lines` they start at."""

    count: int
    lines: tuple[int, ...]
    hint_was_a_tie: bool = False


class Text:
    """A text and its line numbers; LF, CRLF and CR end lines."""

    def __init__(self, text: str) -> None:
        self.text = text

    @cached_property
    def starts(self) -> list[int]:
        """Return the offset at which each line starts."""
        ends = [match.end() for match in _LINE_END.finditer(self.text)]
        if ends and ends[-1] == len(self.text):
            ends.pop()
        return [0, *ends]

    @cached_property
    def lines(self) -> list[str]:
        """Return the lines without their line ends."""
        edges = [*self.starts, len(self.text)]
        return [self.text[edges[i] : edges[i + 1]].rstrip("\r\n") for i in range(len(self.starts))]

    @property
    def count(self) -> int:
        """Return the number of lines."""
        return len(self.starts)

    def line_at(self, position: int) -> int:
        """Return the number of the line that contains `position`."""
        if "starts" in self.__dict__ or "\r" in self.text:
            return bisect_right(self.starts, position)
        return self.text.count("\n", 0, position) + 1  # no list of all lines for one number

    def lines_of(self, start: int, end: int) -> tuple[int, int]:
        """Return the first and last line that `start:end` touches."""
        first, last = self.line_at(start), max(start, end - 1)
        crossed = "\n" in self.text[start:last] or "\r" in self.text[start:last]
        return first, self.line_at(last) if crossed else first

    def stretch(self, first: int, last: int) -> tuple[int, int]:
        """Return the offsets of lines `first` to `last`, clipped to the text."""
        low = self.starts[first - 1] if first <= self.count else len(self.text)
        return low, self.starts[last] if last < self.count else len(self.text)

    def line_end(self, start: int, end: int) -> str:
        """Return the line end used inside `start:end`, else after or before it."""
        if "\n" not in self.text:
            return "\r" if "\r" in self.text else "\n"  # as of old on a Macintosh; read_file shows it as LF
        place = self.text.rfind("\n", start, end)
        if place < 0:
            place = self.text.find("\n", end)
        if place < 0:
            place = self.text.rfind("\n", 0, start)
        return "\r\n" if place > 0 and self.text[place - 1] == "\r" else "\n"


_LINE_END = re.compile(r"\r\n|\n|\r")


def find(text: Text, wanted: Edit, *, strict: bool) -> EditMatch | NoEditMatch | AmbiguousEdit:
    """Return the one match of an edit; `strict` allows exact ones only."""
    search = _exact_search(text.text, wanted.target)
    if search is not None:
        return _choose(text, wanted, search)
    if strict:
        return NoEditMatch(inexact=tuple(first for first, _ in _loose_spans(text, wanted.target)))
    return _find_loosely(text, wanted)


Search: TypeAlias = Callable[[int, int], Iterator[tuple[int, int]]]
"""Function that yields the occurrences between two positions, in order."""


def _exact_search(text: str, target: str) -> Search | None:
    """Return a search for the target; None if it does not occur."""
    first = text.find(target)
    if first >= 0:
        return lambda low, high: _literally(text, target, max(low, first), high)
    if "\n" not in target or "\r" not in text:
        return None
    # The target's bare LF stands for the line ends of the file.
    end = r"\r?\n" if "\n" in text else r"\r"
    pattern = re.compile(end.join(map(re.escape, re.split(r"\r?\n", target))))
    if pattern.search(text) is None:
        return None
    return lambda low, high: (match.span() for match in pattern.finditer(text, low, high))


def _literally(text: str, target: str, low: int, high: int) -> Iterator[tuple[int, int]]:
    """Yield occurrences as `str.count` does; multi-line targets may overlap, as `}` below `}` does."""
    step = 1 if "\n" in target.rstrip("\n") and not target.isspace() else len(target)
    start = text.find(target, low, high)
    while start >= 0:
        yield start, start + len(target)
        start = text.find(target, start + step, high)


def _choose(text: Text, wanted: Edit, search: Search) -> EditMatch | NoEditMatch | AmbiguousEdit:
    everywhere = 0, len(text.text)
    ranged = wanted.start_line is not None or wanted.end_line is not None
    first, *more = islice(search(*everywhere), 2)
    if not more and not ranged:
        return _match(text, wanted, first)
    stretch = text.stretch(wanted.start_line or 1, wanted.end_line or text.count) if ranged else everywhere
    inside = list(islice(search(*stretch), 2))
    if not inside:
        return NoEditMatch(elsewhere=_first_lines(text, search(*everywhere)))
    if len(inside) == 1:
        return _match(text, wanted, inside[0])
    if wanted.line_hint is not None:
        nearest = _nearest(text, wanted, wanted.line_hint, search, stretch)
        if len(nearest) == 1:
            return _match(text, wanted, nearest[0])
    else:
        nearest = []
    count = sum(1 for _ in search(*stretch))
    return AmbiguousEdit(count, _first_lines(text, search(*stretch)), hint_was_a_tie=bool(nearest))


def _nearest(text: Text, wanted: Edit, hint: int, search: Search, stretch: tuple[int, int]) -> list[tuple[int, int]]:
    """Return the occurrences nearest to the hinted line; several if equally near."""
    reach = HINT_REACH + wanted.target.count("\n")
    low, high = text.stretch(max(1, hint - reach), hint + reach)
    distances: dict[int, list[tuple[int, int]]] = {}
    for span in islice(search(max(low, stretch[0]), min(high, stretch[1])), _MOST_NEAR):
        distances.setdefault(_distance(hint, text.lines_of(*span)), []).append(span)
    nearest = min(distances, default=HINT_REACH + 1)
    return distances[nearest] if nearest <= HINT_REACH else []


def _first_lines(text: Text, spans: Iterator[tuple[int, int]]) -> tuple[int, ...]:
    return tuple(bisect_right(text.starts, start) for start, _ in islice(spans, _MOST_NAMED))


def _distance(hint: int, lines: tuple[int, int]) -> int:
    first, last = lines
    return 0 if first <= hint <= last else min(abs(hint - first), abs(hint - last))


def _match(text: Text, wanted: Edit, span: tuple[int, int]) -> EditMatch:
    start, end = span
    first, last = text.lines_of(start, end)
    replacement = _with_line_ends(wanted.replacement, text.line_end(start, end))
    return EditMatch(start, end, replacement, MatchKind.EXACT, first, last)


def _with_line_ends(replacement: str, end: str) -> str:
    return replacement if end == "\n" else re.sub(r"(?<!\r)\n", end, replacement)


def _find_loosely(text: Text, wanted: Edit) -> EditMatch | NoEditMatch:
    places = _loose_spans(text, wanted.target)
    first = wanted.start_line or 1
    last = wanted.end_line or text.count
    inside = [(top, bottom) for top, bottom in places if first <= top and bottom <= last]
    if len(inside) != 1:
        lines = tuple(top for top, _ in places)
        return NoEditMatch(inexact=lines) if len(inside) else NoEditMatch(elsewhere=lines)
    top, bottom = inside[0]
    wanted_lines = _target_lines(wanted.target)
    there = text.lines[top - 1 : bottom]
    start = text.starts[top - 1]
    content_end = text.starts[bottom - 1] + len(text.lines[bottom - 1])
    line_end = text.starts[bottom] if bottom < len(text.starts) else len(text.text)
    whole_lines = wanted.target.endswith("\n")
    replacement = wanted.replacement
    if whole_lines and line_end == content_end:  # the file's last line has no end: it is to get none
        replacement = replacement.removesuffix("\n")
    kind = MatchKind.TRAILING_SPACE
    if any(indent_of(one) != indent_of(other) for one, other in zip(wanted_lines, there, strict=True) if one.strip()):
        reindent = Reindent.between(wanted_lines, there)
        if reindent is None:
            return NoEditMatch(inexact=(top,))
        replacement, kind = reindent.apply(replacement), MatchKind.INDENTATION
    replacement = _with_line_ends(replacement, text.line_end(start, line_end))
    return EditMatch(start, line_end if whole_lines else content_end, replacement, kind, top, bottom)


def _loose_spans(text: Text, target: str) -> list[tuple[int, int]]:
    """Return line ranges that equal the target except for surrounding blanks."""
    wanted = [line.strip() for line in _target_lines(target)]
    anchor = next((index for index, line in enumerate(wanted) if line), None)
    if anchor is None:
        return []
    lines = text.lines
    found: list[tuple[int, int]] = []
    for index, line in enumerate(lines):
        if wanted[anchor] not in line or line.strip() != wanted[anchor]:
            continue
        first = index - anchor
        there = lines[max(first, 0) : first + len(wanted)]
        if first >= 0 and len(there) == len(wanted) and [each.strip() for each in there] == wanted:
            found.append((first + 1, first + len(wanted)))
    return found


def _target_lines(target: str) -> list[str]:
    lines = _LINE_END.split(target)
    return lines[:-1] if lines[-1] == "" and len(lines) > 1 else lines
