"""The rows of the conversation that have the words that are searched for, and how they are marked."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

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
        parts = [re.escape(part) for part in re.split(r"\s+", words)]
        self._pattern = re.compile(r"\s+".join(parts), re.IGNORECASE) if any(parts) else None
        self.current = None

    def rows_of(self, index: int) -> list[int]:
        """Return the rows of an entry, counted from its top, where a hit begins."""
        document = self._document
        if self._pattern is None or index >= len(document.items):
            return []
        while document.measure(document.top_of(index), document.top_of(index) + document.items[index].height - 1):
            pass  # heights are estimates until everything is painted
        texts = [self._text(RowPosition(index, row)) for row in range(document.items[index].height)]
        return [row for row, text in enumerate(texts) if any(self._hits(text, "".join(texts[row + 1 : row + 2])))]

    def _text(self, position: RowPosition) -> str:
        """Return what a row of an entry shows; nothing where it has no such row."""
        document = self._document
        if not 0 <= position.row < document.items[position.index].height:
            return ""
        strip = document.strip_at(document.top_of(position.index) + position.row)
        return "" if strip is None else strip.text

    def _hits(self, text: str, below: str) -> Iterator[tuple[int, int]]:
        """Yield where hits begin and end that begin in a row; one that is wrapped ends in the row below."""
        if self._pattern is None:
            return
        text = text.rstrip()
        for match in self._pattern.finditer(f"{text}\n{below}"):
            if match.start() < len(text):
                yield match.span()

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
        """Return a row with its hits marked, those among them that begin in the row above."""
        if self._pattern is None:
            return strip
        above = self._text(replace(position, row=position.row - 1))
        below = self._text(replace(position, row=position.row + 1))
        before = len(above.rstrip()) + 1
        ends = [end - before for _, end in self._hits(above, strip.text) if end > before]
        indent = len(strip.text) - len(strip.text.lstrip())
        carried = [(indent, end) for end in ends]
        own = [(start, min(end, len(strip.text.rstrip()))) for start, end in self._hits(strip.text, below)]
        now = self.current
        for spans, row in ((carried, position.row - 1), (own, position.row)):
            style = FOUND_NOW if now is not None and now == replace(position, row=row) else FOUND
            strip = restyled(strip, spans, style) if spans else strip
        return strip


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
