"""Scrollable views of styled lines, and of one long text."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import islice

from rich.cells import cell_len, chop_cells
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ollm_tui.core.base.escape import visible_block
from ollm_tui.tui.styled_text import TAB_SIZE, RolePalette, StyledLine, TextRole, line, wrap_all

FIRST_LINES = 500
"""Lines that are taken for the first painting; further ones follow so many at a time, keys between them."""


class LineView(ScrollView, can_focus=True):
    """Lines wrapped to the width; remembers whether their end has been in sight."""

    ALLOW_SELECT = False

    class EndSeen(Message):
        """The last line came into sight for the first time."""

        def __init__(self, view: LineView) -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> LineView:
            """The view, for selectors of `@on`."""
            return self.view

    def __init__(self, name: str = "", *, classes: str | None = None) -> None:
        super().__init__(id=name or None, classes=classes)
        self._lines: list[StyledLine] = []
        self._rest: Iterator[StyledLine] | None = None
        """What follows the lines; None once all are there."""
        self._rows: list[StyledLine] = []
        self.seen_end = False

    def show_lines(self, lines: Iterable[StyledLine], *, keep_place: bool = False) -> None:
        """Replace the lines; unless `keep_place` from the top, their end unseen.

        A painting does not wait for all of many thousand lines, which may be made while they are taken.
        """
        if not keep_place:
            self.seen_end = False
            self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self._rest, self._lines = iter(lines), []
        self._take_lines(self._rest, None if keep_place else FIRST_LINES)
        self.lay_out()

    def _take_lines(self, rest: Iterator[StyledLine], most: int | None) -> None:
        if rest is not self._rest:  # others are shown by now
            return
        before = len(self._lines)
        self._lines += islice(rest, most)
        if len(self._lines) - before == most and self.call_after_refresh(self._take_lines, rest, most):
            return
        self._lines += rest
        self._rest = None
        if before:
            self.lay_out()

    @property
    def plain_text(self) -> str:
        """The text without styles."""
        return "\n".join(one.text for one in self._lines)

    def on_resize(self, event: events.Resize) -> None:
        """Wrap the lines again."""
        self.lay_out()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Note when the end comes into sight."""
        super().watch_scroll_y(old_value, new_value)
        self._check_end()

    def render_line(self, y: int) -> Strip:
        """Draw a row."""
        row = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        return RolePalette.of(self).strip(self.row_at(row), width, self.rich_style, self.row_role(row))

    def row_at(self, row: int) -> StyledLine:
        """Return a row at the current width."""
        return self._rows[row] if row < len(self._rows) else StyledLine()

    def row_role(self, row: int) -> TextRole:
        """Return the role of a whole row; lists mark their cursor with it."""
        return TextRole.PLAIN

    def action_page_down(self) -> None:
        """Scroll down at once."""
        self.scroll_page_down(animate=False)

    def action_page_up(self) -> None:
        """Scroll up at once."""
        self.scroll_page_up(animate=False)

    def lay_out(self) -> None:
        """Measure the rows for the current width."""
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        height = self.measure(width)
        if height > self.size.height and not self.show_vertical_scrollbar:
            # The scrollbar that will appear takes a cell of every row.
            height = self.measure(max(1, width - self.styles.scrollbar_size_vertical))
        self.virtual_size = Size(width, height)
        self.refresh()
        self.call_after_refresh(self._check_end)

    def measure(self, width: int) -> int:
        """Wrap everything at a width; return how many rows that makes."""
        self._rows = wrap_all(self._lines, width)
        return len(self._rows)

    def _check_end(self) -> None:
        height = self.scrollable_content_region.height
        if self.seen_end or height <= 0 or not self._lines or self._rest is not None:
            return
        if self.scroll_offset.y + height >= len(self._rows):
            self.seen_end = True
            self.post_message(self.EndSeen(self))


AT_ONCE_CHARS = 20_000
"""A text up to this length is wrapped at once, for the same frame."""


class LongText(LineView):
    """Shows foreign text of any length, wrapped off the event loop when that takes long."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._text = ""
        self._role = TextRole.PLAIN
        self._rows_of_text: list[str] = []

    def show_text(self, text: str, *, role: TextRole = TextRole.PLAIN, keep_place: bool = False) -> None:
        """Replace the text; from its top unless `keep_place`."""
        if (text, role) == (self._text, self._role):
            return
        self._text, self._role = text, role
        if not keep_place:
            self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self.lay_out()

    @property
    def plain_text(self) -> str:
        """The text."""
        return self._text

    def lay_out(self) -> None:
        """Wrap the text, a long one in a thread."""
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        if len(self._text) <= AT_ONCE_CHARS:
            self._take(wrapped_rows(self._text, width))
        else:
            # A factory: a worker replaced before it began leaves no coroutine that was never awaited.
            self.run_worker(partial(self._wrap_in_thread, width), exclusive=True)

    async def _wrap_in_thread(self, width: int) -> None:
        text = self._text
        rows = await asyncio.to_thread(wrapped_rows, text, width)
        if text is self._text:
            self._take(rows)

    def _take(self, rows: list[str]) -> None:
        self._rows_of_text = rows
        self.virtual_size = Size(self.scrollable_content_region.width, len(rows))
        self.refresh()

    def row_at(self, row: int) -> StyledLine:
        """Return a row of the text."""
        return line((self._rows_of_text[row], self._role)) if row < len(self._rows_of_text) else line()


def wrapped_rows(text: str, width: int) -> list[str]:
    """Wrap safe rows of a text at blanks where possible, losing nothing."""
    rows: list[str] = []
    for one in visible_block(text).split("\n"):
        row = one.expandtabs(TAB_SIZE) if "\t" in one else one
        plain, at = row.isascii(), 0
        # Measure at most `width` characters: a row has no more.
        while len(row) - at > width or (not plain and cell_len(row[at:]) > width):
            head = row[at : at + width]
            if not plain:
                head = chop_cells(head, width)[0] or head[0]
            if row[at + len(head)] == " ":
                head += " "  # beyond the edge, unseen
            elif (blank := head.rfind(" ")) > 0:
                head = head[: blank + 1]
            rows.append(head)
            at += len(head)
        if at < len(row) or not row:
            rows.append(row[at:])
    return rows
