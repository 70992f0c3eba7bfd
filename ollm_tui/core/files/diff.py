"""A change to a file as structured hunks, for the confirmation, the model and `data` (001 R3, contract section 1)."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

from ollm_tui.core.base.results import Wire

CONTEXT_LINES = 3
MOST_LINES = 10_000
"""Lines of hunks kept; of a greater change the rest is counted only."""

NO_FINAL_NEWLINE = "\\ No newline at end of file"
_COMPARABLE = 40_000
"""Pairs of lines up to which the thorough comparison is used; it takes cubic time in the worst case."""
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\n|\r)|[^\r\n]+")


class Hunk(Wire):
    """One run of changed lines, numbered from 1; `lines` are marked as in unified diffs and carry no line end."""

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    lines: tuple[str, ...]

    @property
    def header(self) -> str:
        """The line in front of a hunk in unified form."""
        return f"@@ -{self.old_start},{self.old_count} +{self.new_start},{self.new_count} @@"


class FileDiff(Wire):
    """All hunks of one file with their counts; `omitted` lines of a very great change are in no hunk."""

    path: str
    added: int
    removed: int
    hunks: tuple[Hunk, ...]
    omitted: int = 0

    def as_text(self) -> str:
        """Unified form, without file headers."""
        lines = [line for hunk in self.hunks for line in (hunk.header, *hunk.lines)]
        if self.omitted:
            lines.append(f"[... {self.omitted} lines omitted ...]")
        return "\n".join(lines)


class _Change(NamedTuple):
    """Lines `old_from:old_to` become lines `new_from:new_to`; one of the two may be empty."""

    old_from: int
    old_to: int
    new_from: int
    new_to: int


@dataclass(frozen=True)
class _Region:
    """What is left to compare once the equal beginning and end are cut off, but for the lines shown around it."""

    old: list[str]
    new: list[str]
    lines_before: int
    """Lines of either text in front of the region."""


def diff_texts(path: str, old: str, new: str) -> FileDiff:
    """Compare two texts by line. Equal texts have no hunks.

    Line ends are compared too: where not all lines end the same way, a carriage return stays at the end of the
    shown lines. Takes time in proportion to the texts, whatever is in them: where lines repeat so much that
    a thorough comparison would not end, the whole passage counts as replaced.
    """
    return _diff(path, _cut_equal_ends(old, new), plain=len(_line_ends(old) | _line_ends(new)) <= 1)


def diff_replacement(path: str, old: str, start: int, end: int, replacement: str, line: int) -> FileDiff:
    """Return the diff of replacing `old[start:end]`, comparing only the lines around line `line`."""
    lead = old.rfind("\n", 0, start) + 1
    for _ in range(CONTEXT_LINES):
        lead = old.rfind("\n", 0, max(lead - 1, 0)) + 1
    tail = end
    for _ in range(CONTEXT_LINES + 1):
        line_end = old.find("\n", tail)
        tail = line_end + 1 if line_end >= 0 else len(old)
    above = old[lead:start]
    if above.endswith("\r") and old.startswith("\n", start):
        above = above[:-1]  # half of a line end ends no line
    before = line - 1 - above.count("\n") - _lone_returns(above, len(above))
    region = _Region(split_lines(old[lead:tail]), split_lines(f"{old[lead:start]}{replacement}{old[end:tail]}"), before)
    return _diff(path, region, plain=len(_line_ends(old) | _line_ends(replacement)) <= 1)


def _diff(path: str, region: _Region, *, plain: bool) -> FileDiff:
    changes = list(_changes(region.old, region.new))
    hunks: list[Hunk] = []
    room, omitted = MOST_LINES, 0
    for group in _grouped(changes):
        hunk = _hunk(region, group, plain)
        kept = _cut_hunk(hunk, room)
        omitted += len(hunk.lines) - (len(kept.lines) if kept else 0)
        if kept:
            hunks.append(kept)
            room -= len(kept.lines)
    return FileDiff(
        path=path,
        added=sum(change.new_to - change.new_from for change in changes),
        removed=sum(change.old_to - change.old_from for change in changes),
        hunks=tuple(hunks),
        omitted=omitted,
    )


def common_prefix(left: str, right: str) -> int:
    """Return how many characters both begin with, by halving: the interpreter compares faster than a loop."""
    equal, different = 0, min(len(left), len(right))
    if left[:different] == right[:different]:
        return different
    while different - equal > 1:
        middle = (equal + different) // 2
        if left[equal:middle] == right[equal:middle]:
            equal = middle
        else:
            different = middle
    return equal


def common_suffix(left: str, right: str, most: int) -> int:
    """Return how many characters both end with, looking at no more than `most`."""
    equal, different = 0, most + 1
    while different - equal > 1:
        middle = (equal + different) // 2
        if left[len(left) - middle : len(left) - equal] == right[len(right) - middle : len(right) - equal]:
            equal = middle
        else:
            different = middle
    return equal


def split_lines(text: str) -> list[str]:
    """Split into lines with their ends: LF, CRLF and CR (`str.splitlines` knows eight more)."""
    if "\r" not in text:
        return [*(f"{line}\n" for line in text.split("\n")[:-1]), *filter(None, [text[text.rfind("\n") + 1 :]])]
    return _LINE.findall(text)


def _cut_equal_ends(old: str, new: str) -> _Region:
    same = common_prefix(old, new)
    start = old.rfind("\n", 0, same) + 1
    shared = common_suffix(old, new, min(len(old), len(new)) - same)
    end_of_line = old.find("\n", len(old) - shared) if shared else -1
    tail = len(old) - end_of_line - 1 if end_of_line >= 0 else 0
    lead = start
    for _ in range(CONTEXT_LINES):
        lead = old.rfind("\n", 0, max(lead - 1, 0)) + 1
    for _ in range(CONTEXT_LINES):
        end_of_line = old.find("\n", len(old) - tail)
        tail = len(old) - end_of_line - 1 if end_of_line >= 0 else 0
    before = old.count("\n", 0, lead) + _lone_returns(old, lead)
    return _Region(split_lines(old[lead : len(old) - tail]), split_lines(new[lead : len(new) - tail]), before)


def _lone_returns(text: str, end: int) -> int:
    returns = text.count("\r", 0, end)
    return returns - text.count("\r\n", 0, end) if returns else 0


def _line_ends(text: str) -> frozenset[str]:
    if "\r" not in text:
        return frozenset("\n" if "\n" in text else "")
    pairs = text.count("\r\n")
    counts = {"\r\n": pairs, "\n": text.count("\n") - pairs, "\r": text.count("\r") - pairs}
    return frozenset(end for end, count in counts.items() if count)


def _changes(old: Sequence[str], new: Sequence[str]) -> Iterator[_Change]:
    """Yield the differing runs, in order; lines that occur once on both sides are the anchors."""
    waiting = [_Change(0, len(old), 0, len(new))]
    while waiting:
        part = _without_equal_ends(old, new, waiting.pop())
        a, b, c, d = part
        if a == b and c == d:
            continue
        if a == b or c == d:
            yield part
        elif (b - a) * (d - c) <= _COMPARABLE:
            yield from _thorough(old, new, part)
        else:
            anchors = _anchors(old, new, part)
            if not anchors:
                yield part
                continue
            edges = [(a - 1, c - 1), *anchors, (b, d)]
            parts = [_Change(i + 1, k, j + 1, m) for (i, j), (k, m) in pairwise(edges)]
            waiting.extend(reversed(parts))


def _without_equal_ends(old: Sequence[str], new: Sequence[str], part: _Change) -> _Change:
    a, b, c, d = part
    while a < b and c < d and old[a] == new[c]:
        a, c = a + 1, c + 1
    while a < b and c < d and old[b - 1] == new[d - 1]:
        b, d = b - 1, d - 1
    return _Change(a, b, c, d)


def _thorough(old: Sequence[str], new: Sequence[str], part: _Change) -> Iterator[_Change]:
    a, b, c, d = part
    matcher = difflib.SequenceMatcher(None, old[a:b], new[c:d], autojunk=False)
    for tag, i, j, k, m in matcher.get_opcodes():
        if tag != "equal":
            yield _Change(a + i, a + j, c + k, c + m)


def _anchors(old: Sequence[str], new: Sequence[str], part: _Change) -> list[tuple[int, int]]:
    """Pairs of lines that occur once on both sides, as many as stand in the same order (patience)."""
    a, b, c, d = part
    once_old = {line for line, count in Counter(old[a:b]).items() if count == 1}
    once = {line for line, count in Counter(new[c:d]).items() if count == 1} & once_old
    place = {line: index for index, line in enumerate(new[c:d], c) if line in once}
    pairs = [(index, place[line]) for index, line in enumerate(old[a:b], a) if line in once]
    return _longest_rising(pairs)


def _longest_rising(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    tops: list[int] = []
    top_pairs: list[int] = []
    before: list[int] = []
    for index, (_, value) in enumerate(pairs):
        pile = bisect_left(tops, value)
        before.append(top_pairs[pile - 1] if pile else -1)
        tops[pile : pile + 1] = [value]
        top_pairs[pile : pile + 1] = [index]
    rising: list[tuple[int, int]] = []
    index = top_pairs[-1] if top_pairs else -1
    while index >= 0:
        rising.append(pairs[index])
        index = before[index]
    return rising[::-1]


def _grouped(changes: Sequence[_Change]) -> Iterator[list[_Change]]:
    """Yield changes together whose context lines touch."""
    group: list[_Change] = []
    for change in changes:
        if group and change.old_from - group[-1].old_to > 2 * CONTEXT_LINES:
            yield group
            group = []
        group.append(change)
    if group:
        yield group


def _hunk(region: _Region, group: Sequence[_Change], plain: bool) -> Hunk:
    lead = min(CONTEXT_LINES, group[0].old_from)
    tail = min(CONTEXT_LINES, len(region.old) - group[-1].old_to)
    old_from, new_from = group[0].old_from - lead, group[0].new_from - lead
    old_to, new_to = group[-1].old_to + tail, group[-1].new_to + tail
    lines: list[str] = []
    place = old_from
    for change in group:
        lines += _shown(" ", region.old[place : change.old_from], plain)
        lines += _shown("-", region.old[change.old_from : change.old_to], plain)
        lines += _shown("+", region.new[change.new_from : change.new_to], plain)
        place = change.old_to
    lines += _shown(" ", region.old[place:old_to], plain)
    old_count, new_count = old_to - old_from, new_to - new_from
    return Hunk(
        # An empty side is numbered by the line before it, as unified diffs do.
        old_start=region.lines_before + old_from + (1 if old_count else 0),
        old_count=old_count,
        new_start=region.lines_before + new_from + (1 if new_count else 0),
        new_count=new_count,
        lines=tuple(lines),
    )


def _shown(mark: str, lines: Sequence[str], plain: bool) -> Iterator[str]:
    for line in lines:
        if plain:
            yield mark + line.rstrip("\r\n")
        else:
            yield mark + line.removesuffix("\n")
        if not line.endswith(("\n", "\r")):
            yield NO_FINAL_NEWLINE


def _cut_hunk(hunk: Hunk, room: int) -> Hunk | None:
    if len(hunk.lines) <= room:
        return hunk
    return hunk.model_copy(update={"lines": hunk.lines[:room]}) if room > 0 else None
