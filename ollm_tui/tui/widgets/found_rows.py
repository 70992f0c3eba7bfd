"""The rows of the conversation that have the words that are searched for, and how they are marked."""

from __future__ import annotations

import re

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip

from ollm_tui.tui.widgets.conversation_layout import ConversationLayout, RowPosition

FOUND, FOUND_NOW = Style(underline=True, bold=True), Style(reverse=True, bold=True)


class FoundRows:
    """What is searched for, and the row of the hit that the person is at."""

    def __init__(self, document: ConversationLayout) -> None:
        self._document = document
        self._pattern: re.Pattern[str] | None = None
        self.current: RowPosition | None = None

    def seek(self, words: str) -> None:
        """Search for other words; nothing for none."""
        self._pattern = re.compile(re.escape(words), re.IGNORECASE) if words else None
        self.current = None

    def rows_of(self, index: int) -> list[int]:
        """Return the rows of an entry, counted from its top, that show the words."""
        document, pattern = self._document, self._pattern
        if pattern is None or index >= len(document.items):
            return []
        while document.measure(document.top_of(index), document.top_of(index) + document.items[index].height - 1):
            pass  # heights are estimates until everything is painted
        top = document.top_of(index)
        strips = ((row, document.strip_at(top + row)) for row in range(document.items[index].height))
        return [row for row, strip in strips if strip is not None and pattern.search(strip.text)]

    def step(self, index: int | None, step: int) -> RowPosition | None:
        """Go to the next (1) or previous (-1) row of the entry that shows the words; None where there is none."""
        at = self.current
        if index is None or at is None or at.index != index:
            return None
        rows = [row for row in self.rows_of(index) if (row - at.row) * step > 0]
        if not rows:
            return None
        self.current = RowPosition(index, rows[0] if step > 0 else rows[-1])
        return self.current

    def begin(self, index: int, step: int) -> RowPosition:
        """Go to the first row of an entry that shows the words, or the last (-1); else to its top."""
        rows = self.rows_of(index)
        self.current = RowPosition(index, (rows[0] if step > 0 else rows[-1]) if rows else 0)
        return self.current

    @property
    def number(self) -> tuple[int, int]:
        """Which of the current entry's rows with hits is the current one, and how many there are."""
        at = self.current
        rows = [] if at is None else self.rows_of(at.index)
        return (rows.index(at.row) + 1 if at is not None and at.row in rows else 0), len(rows)

    def marked(self, strip: Strip, position: RowPosition) -> Strip:
        """Return a row with its hits marked."""
        if self._pattern is None:
            return strip
        style = FOUND_NOW if position == self.current else FOUND
        spans = [match.span() for match in self._pattern.finditer(strip.text)]
        return restyled(strip, spans, style) if spans else strip


def restyled(strip: Strip, spans: list[tuple[int, int]], style: Style) -> Strip:
    """Return a row in which spans of its text, in characters and in order, have a style."""
    text = strip.text
    ends = [end for span in spans for end in span]
    cuts = sorted({*(cell_len(text[:end]) for end in ends), strip.cell_length} - {0})
    shown: list[Strip] = []
    at = 0
    for part in strip.divide(cuts):
        inside = any(begin <= at < end for begin, end in spans)
        shown.append(part.apply_style(style) if inside else part)
        at += len(part.text)
    return Strip.join(shown)
