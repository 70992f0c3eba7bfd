"""A short list with a cursor: the queue and the todo list are drawn with it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from ollm_tui.tui.ink import Ink, Line, spread
from ollm_tui.tui.widgets.lines import LinesView

NOTHING = Line()


@dataclass(frozen=True)
class Row:
    """One choice, drawn on one or more lines that are cut, not wrapped, at the width."""

    id: str
    lines: tuple[Line, ...]
    beside: Line = NOTHING
    """At the right edge of the first line, which gives way to it."""

    def at_width(self, width: int) -> list[Line]:
        """Its lines, none longer than `width` cells."""
        first, *rest = self.lines
        head = spread(first, self.beside, width) if self.beside.cells else first.cut(width)
        return [head, *(one.cut(width) for one in rest)]


class RowList(LinesView):
    """Rows to move through; the cursor stays on its row's id while the rows change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Next", id="list.next", tooltip="Next row", show=False),
        Binding("k,up", "move(-1)", "Previous", id="list.previous", tooltip="Row before", show=False),
        Binding("enter", "open", "Open", id="list.open", tooltip="Open the marked row", show=False),
    ]

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
        self._at = 0

    def show_rows(self, rows: Sequence[Row]) -> None:
        """Replace the rows."""
        current = self.chosen_id
        self._choices = tuple(rows)
        places = [place for place, row in enumerate(rows) if row.id == current]
        self._at = places[0] if places else max(0, min(self._at, len(rows) - 1))
        self._draw()

    @property
    def chosen_id(self) -> str | None:
        return self._choices[self._at].id if self._at < len(self._choices) else None

    def action_move(self, step: int) -> None:
        self._at = max(0, min(len(self._choices) - 1, self._at + step))
        first = sum(len(row.lines) for row in self._choices[: self._at])
        last = first + len(self._choices[self._at].lines) if self._choices else 0
        if first < self.scroll_offset.y:
            self.scroll_to(y=first, animate=False, immediate=True)
        elif last > self.scroll_offset.y + self.size.height:
            self.scroll_to(y=last - self.size.height, animate=False, immediate=True)
        self.refresh()

    def action_open(self) -> None:
        if self.chosen_id is not None:
            self.post_message(self.Opened(self, self.chosen_id))

    def row_ink(self, row: int) -> Ink:
        if not self.has_focus:
            return Ink.PLAIN
        first = sum(len(choice.lines) for choice in self._choices[: self._at])
        inside = self._at < len(self._choices) and first <= row < first + len(self._choices[self._at].lines)
        return Ink.CHOSEN if inside else Ink.PLAIN

    def on_resize(self, event: events.Resize) -> None:
        self._draw()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        row = event.y + self.scroll_offset.y
        for place, choice in enumerate(self._choices):
            if row < len(choice.lines):
                self._at = place
                self.refresh()
                self.row_clicked(choice.id, event.chain)
                return
            row -= len(choice.lines)

    def row_clicked(self, row_id: str, clicks: int) -> None:
        """A row was clicked so many times in a row, and is marked now: it opens."""
        self.post_message(self.Opened(self, row_id))

    def _draw(self) -> None:
        width = self.scrollable_content_region.width
        self.show_lines([one for row in self._choices for one in row.at_width(width)], keep_place=True)
