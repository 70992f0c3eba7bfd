"""A list with a cursor, for confirmations, todos, memories and jobs."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.message import Message

from ollm_tui.tui.bindings import KeyGroup, register_keys
from ollm_tui.tui.styled_text import StyledLine, StyledSpan, TextRole, spread, wrap_all
from ollm_tui.tui.widgets.line_view import LineView

EMPTY = StyledLine()


@dataclass(frozen=True)
class ListRow:
    """A choice on one or more lines, cut at the width or wrapped."""

    id: str
    lines: tuple[StyledLine, ...]
    beside: StyledLine = EMPTY
    """At the right edge of the first line, which is cut for it."""
    wrap: bool = False

    def at_width(self, width: int) -> list[StyledLine]:
        """Return its lines, none longer than `width` cells."""
        if self.wrap:
            return [_aligned(one) for one in wrap_all(self.lines, width)]
        first, *rest = self.lines
        head = spread(first, self.beside, width) if self.beside.cells else first.cut(width)
        return [head, *(one.cut(width) for one in rest)]

    def height(self, width: int) -> int:
        """Return how many lines those are."""
        return len(self.at_width(width)) if self.wrap else len(self.lines)


def _aligned(row: StyledLine) -> StyledLine:
    """Remove the blank that wrapping left behind the indent."""
    indent, *rest = row.spans or (StyledSpan(""),)
    if row.hang and indent.text == " " * row.hang and rest and rest[0].text.startswith(" "):
        return replace(row, spans=(indent, replace(rest[0], text=rest[0].text[1:]), *rest[1:]))
    return row


@register_keys(KeyGroup.LISTS)
class RowList(LineView):
    """Rows to move through; the cursor stays on its row's id while they change."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("j,down", "move(1)", "Next", id="list.next", tooltip="Next row", show=False),
        Binding("k,up", "move(-1)", "Previous", id="list.previous", tooltip="Previous row", show=False),
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
            """The list, for selectors of `@on`."""
            return self.list

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._choices: tuple[ListRow, ...] = ()
        self._tops: list[int] = [0]
        """First line of each choice at the current width, then the end of all."""
        self.row_width = 0
        """The width that the rows are laid out for."""
        self._index = 0

    def show_rows(self, rows: Sequence[ListRow]) -> None:
        """Replace the rows; the same again are not drawn again."""
        if tuple(rows) == self._choices and self.row_width:
            return
        current = self.chosen_id
        self._choices = tuple(rows)
        found = [index for index, row in enumerate(rows) if row.id == current]
        self._index = found[0] if found else max(0, min(self._index, len(rows) - 1))
        self.lay_out()

    def choose(self, row_id: str) -> None:
        """Mark a row, if it exists, and bring it into sight."""
        found = [index for index, row in enumerate(self._choices) if row.id == row_id]
        if found:
            self.action_move(found[0] - self._index)

    @property
    def chosen_id(self) -> str | None:
        """The id of the marked row."""
        return self._choices[self._index].id if self._index < len(self._choices) else None

    def action_move(self, step: int) -> None:
        """Move the cursor and bring its row into sight."""
        self._index = max(0, min(len(self._choices) - 1, self._index + step))
        first, last = self.span
        if first < self.scroll_offset.y:
            self.scroll_to(y=first, animate=False, immediate=True)
        elif last > self.scroll_offset.y + self.size.height:
            self.scroll_to(y=last - self.size.height, animate=False, immediate=True)
        self.refresh()
        self.post_message(self.Moved())

    def action_open(self) -> None:
        """Open the marked row."""
        if self.chosen_id is not None:
            self.post_message(self.Opened(self, self.chosen_id))

    def row_role(self, row: int) -> TextRole:
        """Mark the chosen row while focused."""
        if not self.has_focus:
            return TextRole.PLAIN
        first, last = self.span
        return TextRole.CHOSEN if first <= row < last else TextRole.PLAIN

    def row_at(self, row: int) -> StyledLine:
        """Return a line of a choice."""
        if not 0 <= row < self._tops[-1]:
            return EMPTY
        index = self._index_at(row)
        return self._choices[index].at_width(self.row_width)[row - self._tops[index]]

    def on_focus(self) -> None:
        """Show the cursor."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the cursor."""
        self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Mark the clicked row."""
        row = event.y + self.scroll_offset.y
        if row < self._tops[-1]:
            self._index = self._index_at(row)
            self.refresh()
            self.row_clicked(self._choices[self._index].id, event.chain)

    @property
    def span(self) -> tuple[int, int]:
        """First line of the chosen row, and the one behind its last."""
        last = len(self._tops) - 1
        return self._tops[min(self._index, last)], self._tops[min(self._index + 1, last)]

    def rows_between(self, top: int, bottom: int) -> list[tuple[str, int, int]]:
        """Return the rows in this range: id, first line, line behind the last."""
        tops = self._tops
        return [
            (row.id, first, last)
            for row, first, last in zip(self._choices, tops, tops[1:], strict=False)
            if first < bottom and last > top
        ]

    def row_clicked(self, row_id: str, clicks: int) -> None:
        """Open a row that was clicked `clicks` times in a row."""
        self.post_message(self.Opened(self, row_id))

    def _index_at(self, row: int) -> int:
        return bisect_right(self._tops, row) - 1

    def measure(self, width: int) -> int:
        """Find the first line of each choice; return how many lines all have."""
        self.row_width = width
        self._tops = list(accumulate((row.height(width) for row in self._choices), initial=0))
        return self._tops[-1]


class DoubleClickList(RowList):
    """List whose rows are marked by one click and opened by two."""

    def row_clicked(self, row_id: str, clicks: int) -> None:
        """Open a row on a double click."""
        if clicks > 1:
            super().row_clicked(row_id, clicks)
