"""A diff as styled lines: line numbers, syntax colours by file name, and the words that change within a line."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import groupby
from typing import TYPE_CHECKING

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.styled_text import TAB_SIZE, StyledLine, StyledSpan, TextRole, line

if TYPE_CHECKING:
    from ollm_tui.core.files.diff import FileDiff, Hunk

LONG_LINE = 400
"""Characters; a longer line has neither syntax colours nor marked words."""
MOST_COLOURED = 20_000
"""Characters of a diff with syntax colours: a lexer takes 50 ms for so many, on the event loop."""
MOST_COMPARED = 200
"""Pairs of changed lines in which the changed words are looked for."""
ALIKE = 0.5
"""Lines less similar than this share their words by chance."""

SIGN_ROLES = {"+": TextRole.ADDED, "-": TextRole.REMOVED}
ROW_ROLES = {"+": TextRole.ROW_ADDED, "-": TextRole.ROW_REMOVED}
WORD_ROLES = {"+": TextRole.WORD_ADDED, "-": TextRole.WORD_REMOVED}
SYNTAX_ROLES: dict[tuple[str, ...], TextRole] = {
    ("Comment",): TextRole.COMMENT,
    ("Keyword",): TextRole.KEYWORD,
    ("Operator", "Word"): TextRole.KEYWORD,
    ("Literal", "Number"): TextRole.NUMBER,
    ("Literal", "String"): TextRole.STRING,
    ("Name", "Function"): TextRole.NAME,
    ("Name", "Class"): TextRole.NAME,
    ("Name", "Tag"): TextRole.KEYWORD,
    ("Name", "Attribute"): TextRole.NAME,
    ("Name", "Decorator"): TextRole.NAME,
}
"""Roles of token types as Pygments names them; a type within another has that one's."""

Stretch = tuple[int, int, TextRole]
"""Characters of a line, end exclusive, and their role."""

_WORD = re.compile(r"\w+|\s+|[^\w\s]")


@dataclass
class DiffRow:
    """One line of a hunk with its numbers in the old and the new file."""

    sign: str
    text: str
    old: int | None
    new: int | None
    syntax: tuple[Stretch, ...] | None = None
    changed: tuple[Stretch, ...] = ()

    def styled(self, digits: int, *, both: bool) -> StyledLine:
        """Return the line behind its numbers; a wrapped one hangs there."""
        if both:
            gutter = f"{self.old or '':>{digits}} {self.new or '':>{digits}} "
        else:
            gutter = f"{self.old or self.new or '':>{digits}} "
        if self.sign == "\\":
            return line((f"{' ' * len(gutter)}\\ {self.text.lstrip()}", TextRole.MUTED))
        role = SIGN_ROLES.get(self.sign)
        hang, fill = len(gutter) + 2, ROW_ROLES.get(self.sign, TextRole.PLAIN)
        if role is not None and self.syntax is None and not self.changed:  # each row of a long diff: one span
            return StyledLine((StyledSpan(f"{gutter}{self.sign} {self.text}", role),), hang, fill=fill)
        return line(
            (gutter, role or TextRole.MUTED),
            (f"{self.sign} ", role or TextRole.PLAIN),
            *self._text(),
            hang=hang,
            fill=fill,
        )

    def _text(self) -> Iterator[tuple[str, TextRole]]:
        plain = SIGN_ROLES.get(self.sign, TextRole.PLAIN) if self.syntax is None else TextRole.PLAIN
        if not self.syntax and not self.changed:
            yield self.text, plain
            return
        roles = [plain] * len(self.text)
        for start, end, role in (*(self.syntax or ()), *self.changed):
            roles[start:end] = [role] * (end - start)
        for role, run in groupby(zip(self.text, roles, strict=True), key=lambda one: one[1]):
            yield "".join(character for character, _ in run), role


def totals(diff: FileDiff) -> str:
    """Return how many lines a change adds and takes."""
    return " ".join([*([f"+{diff.added}"] if diff.added else []), *([f"-{diff.removed}"] if diff.removed else [])])


def diff_lines(diff: FileDiff) -> Iterator[StyledLine]:
    """Yield the hunks, parted by dots, with numbers, colours and marked words."""
    coloured = sum(len(one) for hunk in diff.hunks for one in hunk.lines) <= MOST_COLOURED
    ends = (max(hunk.old_start + hunk.old_count, hunk.new_start + hunk.new_count) for hunk in diff.hunks)
    digits = len(str(max(ends, default=0)))
    both = any(hunk.old_count for hunk in diff.hunks) and any(hunk.new_count for hunk in diff.hunks)
    compared = 0
    for number, hunk in enumerate(diff.hunks):
        if number:
            yield line(("...", TextRole.HUNK))
        rows = _numbered(hunk)
        for removed, added in _pairs(rows):
            if compared < MOST_COMPARED:
                compared += 1
                _mark_changes(removed, added)
        if coloured:
            _colour(diff.path, rows)
        yield from (row.styled(digits, both=both) for row in rows)
    if diff.omitted:
        yield line((f"... {diff.omitted} more lines, too many to show", TextRole.WARNING))
    if not diff.hunks and not diff.omitted:
        yield line(("no lines change", TextRole.MUTED))


def _numbered(hunk: Hunk) -> list[DiffRow]:
    rows: list[DiffRow] = []
    old, new = hunk.old_start, hunk.new_start
    for one in hunk.lines:
        sign = one[:1]
        text = visible(one[1:].replace("\t", " " * TAB_SIZE))
        rows.append(DiffRow(sign, text, old if sign in " -" else None, new if sign in " +" else None))
        old += sign in " -"
        new += sign in " +"
    return rows


def _pairs(rows: Sequence[DiffRow]) -> Iterator[tuple[DiffRow, DiffRow]]:
    """Yield each removed line with the one that takes its place."""
    removed: list[DiffRow] = []
    for sign, run in groupby((row for row in rows if row.sign != "\\"), key=lambda row: row.sign):
        lines = list(run)
        if sign == "+":
            yield from zip(removed, lines, strict=False)
        removed = lines if sign == "-" else []


def _mark_changes(removed: DiffRow, added: DiffRow) -> None:
    if max(len(removed.text), len(added.text)) <= LONG_LINE:
        old, new = _changed_words(removed.text, added.text)
        removed.changed = tuple((start, end, WORD_ROLES["-"]) for start, end in old)
        added.changed = tuple((start, end, WORD_ROLES["+"]) for start, end in new)


@lru_cache(maxsize=2 * MOST_COMPARED)
def _changed_words(old: str, new: str) -> tuple[tuple[tuple[int, int], ...], tuple[tuple[int, int], ...]]:
    """Return the stretches that differ in each of two lines, none where hardly anything is equal."""
    words = [_WORD.findall(old), _WORD.findall(new)]
    matcher = SequenceMatcher(None, words[0], words[1], autojunk=False)
    if matcher.ratio() < ALIKE:
        return (), ()
    starts = [_starts(one) for one in words]
    changes = [change for change in matcher.get_opcodes() if change[0] != "equal"]
    return (
        tuple((starts[0][a], starts[0][b]) for _, a, b, _, _ in changes if a < b),
        tuple((starts[1][a], starts[1][b]) for _, _, _, a, b in changes if a < b),
    )


def _starts(words: Sequence[str]) -> list[int]:
    places = [0]
    for word in words:
        places.append(places[-1] + len(word))
    return places


def _colour(path: str, rows: Sequence[DiffRow]) -> None:
    """Give the rows the roles of their tokens; each side is read as the piece of the file that it is."""
    for signs in (" -", " +"):
        side = [row for row in rows if row.sign in signs]
        if any(len(row.text) > LONG_LINE for row in side):
            continue
        found = _syntax(path, "\n".join(row.text for row in side))
        for row, stretches in zip(side, found, strict=False):
            row.syntax = stretches


@lru_cache(maxsize=64)
def _syntax(path: str, text: str) -> tuple[tuple[Stretch, ...], ...]:
    """Return the roles of each line's tokens; nothing for a file of no known language."""
    from pygments.lexers import find_lexer_class_for_filename  # loaded with the first diff, not at the start

    language = find_lexer_class_for_filename(path)
    if language is None:
        return ()
    lines: list[list[Stretch]] = [[]]
    column = 0
    for kind, token in language(stripnl=False, ensurenl=False).get_tokens(text):
        role = _role(kind)
        for number, piece in enumerate(token.split("\n")):
            if number:
                lines.append([])
                column = 0
            if role is not None and piece:
                lines[-1].append((column, column + len(piece), role))
            column += len(piece)
    return tuple(tuple(one) for one in lines) if len(lines) == text.count("\n") + 1 else ()


def _role(kind: tuple[str, ...]) -> TextRole | None:
    return next((role for at in range(len(kind), 0, -1) if (role := SYNTAX_ROLES.get(tuple(kind[:at])))), None)
