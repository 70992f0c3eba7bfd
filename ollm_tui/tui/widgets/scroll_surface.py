"""A document on the screen: paints only what is in sight, follows the end, or keeps its place while heights change."""

from __future__ import annotations

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from ollm_tui.tui.styled_text import TextRole
from ollm_tui.tui.widgets.block_painting import BlockPainter
from ollm_tui.tui.widgets.conversation_layout import BlocksOf, ConversationLayout, RowPosition

GUTTER = 1
"""Cells at the left that mark the chosen entry."""


class ScrollSurface(ScrollView, can_focus=True):
    """Scrolling and painting of a `ConversationLayout`; what it means is its subclass's business."""

    following: reactive[bool] = reactive(True)
    """The end is kept in sight."""
    new_below: reactive[int] = reactive(0)
    """Entries that came since the end went out of sight."""
    chosen: reactive[int | None] = reactive(None)
    """The marked passage."""

    def __init__(self, blocks_of: BlocksOf, name: str) -> None:
        super().__init__(id=name)
        self.document = ConversationLayout(blocks_of)
        self._painter: BlockPainter | None = None
        self._width = 0
        self._settling = False
        self._top = RowPosition(0, 0)
        self._top_row = 0

    def settle(self) -> None:
        """Bring heights, scroll position and cells into agreement with the document."""
        height = self.scrollable_content_region.height
        width = self.scrollable_content_region.width - GUTTER
        if width <= 0 or height <= 0 or self._settling:
            return
        self._settling = True
        try:
            # Heights may have changed since the last time: a row number then says nothing, what stood there does.
            at = round(self.scroll_y)
            place = self._top if at == self._top_row else self.document.place_of(at)
            if self._painter is None or width != self._width:
                self._painter = BlockPainter.of(self)
                self._width = width
                self.document.restyle(self._painter, width)
            row = self._measured_row(place, height)
            self.virtual_size = Size(width + GUTTER, self.document.height)
            self.scroll_to(y=row, animate=False, immediate=True, force=True)
            self._top, self._top_row = self.document.place_of(row), row
            self.refresh()
        finally:
            self._settling = False

    def go_to(self, row: int) -> None:
        """Put a row at the top, as far as the end allows."""
        self.scroll_to(y=max(0, row), animate=False, immediate=True, force=True)

    def reveal(self, index: int) -> None:
        """Scroll as little as needed to see the beginning of a passage."""
        self.following = False
        top = self.document.top_of(index)
        bottom = top + self.document.passages[index].height
        first, height = self.scroll_offset.y, self.size.height
        if top < first or bottom - top >= height:
            self.go_to(top)
        elif bottom > first + height:
            self.go_to(bottom - height)

    def forget_place(self) -> None:
        """Begin at the end of another document."""
        self._top, self._top_row = RowPosition(0, 0), 0
        self.chosen = None
        self.following, self.new_below = True, 0

    def render_line(self, y: int) -> Strip:
        base = self.rich_style
        row = y + self.scroll_offset.y
        painted = self.document.strip_at(row)
        if painted is None or self._painter is None:
            return Strip.blank(self._width + GUTTER, base)
        selection = self.text_selection
        if selection is not None:
            painted = _selected(painted, selection, row)
        marked = self.chosen is not None and self.has_focus and self.document.place_of(row).passage == self.chosen
        gutter = Segment("|" if marked else " ", base + self._painter.palette.style(TextRole.ACCENT))
        return Strip([gutter, *painted.apply_offsets(GUTTER, row)])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        first = selection.start.y if selection.start else 0
        last = selection.end.y if selection.end else self.document.height - 1
        rows: list[str] = []
        for row in range(first, last + 1):
            strip = self.document.strip_at(row)
            text = " " * GUTTER + (strip.text.rstrip() if strip else "")
            begin = selection.start.x if selection.start and row == first else GUTTER
            end = selection.end.x if selection.end and row == last else len(text)
            rows.append(text[max(GUTTER, begin) : end])
        return "\n".join(rows), "\n"

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._painter = None
        self.call_later(self.settle)

    def on_resize(self, event: events.Resize) -> None:
        self.settle()

    def on_focus(self) -> None:
        self.refresh()

    def on_blur(self) -> None:
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        if self._settling or round(new_value) == self._top_row:
            return
        self.following = new_value >= self.max_scroll_y
        if self.following:
            self.new_below = 0
        self.settle()

    def _measured_row(self, place: RowPosition, height: int) -> int:
        """The row for the top of the view, with everything in sight painted and measured."""
        while True:
            end = max(0, self.document.height - height)
            row = end if self.following else min(self.document.row_of(place), end)
            if not self.document.measure(row, row + height - 1):
                return row


def _selected(strip: Strip, selection: Selection, row: int) -> Strip:
    span = selection.get_span(row)
    if span is None:
        return strip
    text = strip.text
    begin = max(0, span[0] - GUTTER)
    end = len(text) if span[1] == -1 else max(begin, span[1] - GUTTER)
    cuts = sorted({cell_len(text[:begin]), cell_len(text[:end]), strip.cell_length} - {0})
    shown: list[Strip] = []
    at = 0
    for part in strip.divide(cuts):
        shown.append(part.apply_style(Style(reverse=True)) if begin <= at < end else part)
        at += len(part.text)
    return Strip.join(shown)
