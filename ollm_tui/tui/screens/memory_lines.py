"""The words of the memory screen as lines: rows of the list, titles, and the keys that work right now."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ollm_tui.core.base.escape import visible
from ollm_tui.core.memory import MemoryScope
from ollm_tui.tui.memory_values import MemoryListing, MemoryRow
from ollm_tui.tui.styled_text import Ink, Line, Piece, line
from ollm_tui.tui.widgets.inkbox import Spot
from ollm_tui.tui.widgets.rows import Row

NOTHING_KEPT = "Nothing is remembered yet. n writes a first note; the model keeps notes with its memory tool."
NOTHING_FOUND = "No memory has that in its key or text. Esc shows all again."


@dataclass(frozen=True)
class KeyHint:
    """A key, what it does, and the action that a click on it runs."""

    key: str
    words: str
    action: str


def list_row(row: MemoryRow) -> Row:
    """Key and facts on the first line, scope and the text's first line below."""
    scope_ink = Ink.ACCENT if row.name.scope is MemoryScope.USER else Ink.MUTED
    scope = (f"  {row.name.scope.value:<9} ", scope_ink)
    said = (f"looks like {row.concern}", Ink.WARNING) if row.concern else (visible(row.first_line), Ink.MUTED)
    beside = line((f"{size_words(row.size)}  {row.age:>6}", Ink.MUTED))
    key = visible(row.name.key) or '""'
    return Row(row.name.row_id, (line((key, Ink.STRONG)), line(scope, said)), beside)


def listed_words(listing: MemoryListing) -> str:
    """How many there are, and how many of them are shown."""
    scope = f" of {listing.query.scope.value}" if listing.query.scope else ""
    kind = "found" if listing.query.containing else "remembered"
    shown = f", the first {len(listing.rows)} shown" if listing.total > len(listing.rows) else ""
    return f"{listing.total} {kind}{scope}{shown}"


def size_words(size: int) -> str:
    """Bytes as people read them."""
    if size < 1_000:
        return f"{size} B"
    return f"{size / 1_000:.1f} kB" if size < 1_000_000 else f"{size / 1_000_000:.1f} MB"


def key_lines(hints: Sequence[KeyHint], width: int) -> tuple[list[Line], list[Spot]]:
    """The hints side by side, as many on a line as fit, and where they can be clicked."""
    rows: list[list[Piece]] = [[]]
    spots: list[Spot] = []
    at = 0
    for hint in hints:
        length = len(hint.key) + 1 + len(hint.words)
        if rows[-1] and at + length > width:
            rows.append([])
            at = 0
        rows[-1] += [Piece(hint.key, Ink.ACCENT), Piece(f" {hint.words}   ")]
        spots.append(Spot(len(rows) - 1, at, at + length, hint.action))
        at += length + 3
    return [Line(tuple(row)) for row in rows], spots
