"""A short list with a cursor: the queue and the todo list are drawn with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from ollm_tui.tui.ink import Ink, Line, Piece, spread, wrap_all
from ollm_tui.tui.widgets.lines import LinesView

NOTHING = Line()


@dataclass(frozen=True)
class Row:
    """One choice, drawn on one or more lines; they are cut at the width, or `wrap` to further ones."""

    id: str
    lines: tuple[Line, ...]
    beside: Line = NOTHING
    """At the right edge of the first line, which gives way to it."""
    wrap: bool = False

    def at_width(self, width: int) -> list[Line]:
        """Its lines, none longer than `width` cells."""
        if self.wrap:
            return [_aligned(one) for one in wrap_all(self.lines, width)]
        first, *rest = self.lines
        head = spread(first, self.beside, width) if self.beside.cells else first.cut(width)
        return [head, *(one.cut(width) for one in rest)]


def _aligned(row: Line) -> Line:
    """Without the blank that a fold has left behind the indent: words stand in one column."""
    indent, *rest = row.pieces or (Piece(""),)
    if row.hang and indent.text == " " * row.hang and rest and rest[0].text.startswith(" "):
        return replace(row, pieces=(indent, replace(rest[0], text=rest[0].text[1:]), *rest[1:]))
    return row


class RowList(LinesView):
    """Rows to move through; the cursor stays on its row's id while the rows change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Next", id="list.next", tooltip="Next row", show=False),
        Binding("k,up", "move(-1)", "Previous", id="list.previous", tooltip="Row before", show=False),
        Binding("enter", "open", "Open", id="list.open", tooltip="Open the marked row", show=False),
    ]

    class Moved(Message):
        """Another row is marked."""

    @dataclass
    class Opened(Message):
        """A row was chosen by Enter or a click."""

        list: RowList
        row_id: str

        @property
        def control(self) -> RowList:
            return self.list

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._choices: tuple[Row, ...] = ()
        self._heights: list[int] = []
        """Rows of cells that each choice takes at the width now."""
        self._at = 0

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Replace the rows."""
        current = self.chosen_id
        self._choices = tuple(rows)
        places = [place for place, row in enumerate(rows) if row.id == current]
        self._at = places[0] if places else max(0, min(self._at, len(rows) - 1))
        self._draw()

    def choose(self, row_id: str) -> None:
        """Mark a row and bring it into sight; one that is not there changes nothing."""
        places = [place for place, row in enumerate(self._choices) if row.id == row_id]
        if places:
            self.action_move(places[0] - self._at)

    @property
    def chosen_id(self) -> str | None:
        return self._choices[self._at].id if self._at < len(self._choices) else None

    def action_move(self, step: int) -> None:
        self._at = max(0, min(len(self._choices) - 1, self._at + step))
        first, last = self.span
        if first < self.scroll_offset.y:
            self.scroll_to(y=first, animate=False, immediate=True)
        elif last > self.scroll_offset.y + self.size.height:
            self.scroll_to(y=last - self.size.height, animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_open(self) -> None:
        if self.chosen_id is not None:
            self.post_message(self.Opened(self, self.chosen_id))

    def row_ink(self, row: int) -> Ink:
        if not self.has_focus:
            return Ink.PLAIN
        first, last = self.span
        return Ink.CHOSEN if first <= row < last else Ink.PLAIN

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y
        for place, (choice, height) in enumerate(zip(self._choices, self._heights, strict=False)):
            if row < height:
                self._at = place
                self.refresh()
                self.post_message(self.Opened(self, choice.id))
                return
            row -= height

    @property
    def span(self) -> tuple[int, int]:
        """Where the chosen row stands: its first line, and the one behind its last."""
        first = sum(self._heights[: self._at])
        return first, first + sum(self._heights[self._at : self._at + 1])

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        drawn = [row.at_width(width) for row in self._choices]
        if sum(map(len, drawn)) > self.size.height and not self.show_vertical_scrollbar:
            # The bar that is about to appear takes a cell of every row.
            width = max(1, width - self.styles.scrollbar_size_vertical)
            drawn = [row.at_width(width) for row in self._choices]
        self._heights = [len(lines) for lines in drawn]
        self.show_lines([one for lines in drawn for one in lines], keep_place=True)
