"""The conversation on screen: paints what is in sight, follows the end."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.selection import Selection
from textual.strip import Strip

from ollm_tui.tui.protocol.intents import ReadEntries
from ollm_tui.tui.styled_text import TextRole
from ollm_tui.tui.widgets.block_painting import BlockPainter
from ollm_tui.tui.widgets.conversation_layout import BlocksOf, ConversationLayout, RowPosition
from ollm_tui.tui.widgets.found_rows import FoundRows, restyled

GUTTER = 1
"""Cells at the left, for the mark of the chosen entry."""


class ScrollSurface(ScrollView, can_focus=True):
    """Scrolling and painting of a `ConversationLayout`."""

    following: reactive[bool] = reactive(True)
    """Whether the end is kept in sight."""
    new_below: reactive[int] = reactive(0)
    """Entries that came while the end was out of sight."""
    chosen: reactive[int | None] = reactive(None)
    """Index of the marked entry."""

    def __init__(self, blocks_of: BlocksOf, name: str) -> None:
        super().__init__(id=name)
        self.document = ConversationLayout(blocks_of)
        self.found = FoundRows(self.document)
        self._painter: BlockPainter | None = None
        self._width = 0
        self._updating = False
        self._top = RowPosition(0, 0)
        self._top_row = 0

    def update_layout(self) -> None:
        """Bring heights, scroll position and cells up to date with the document."""
        height = self.scrollable_content_region.height
        width = self.scrollable_content_region.width - GUTTER
        if width <= 0 or height <= 0 or self._updating:
            return
        self._updating = True
        try:
            # Heights may have changed since: the position holds, the row number does not.
            row = round(self.scroll_y)
            position = self._top if row == self._top_row else self.document.position_at(row)
            if self._painter is None or width != self._width:
                self._painter = BlockPainter.of(self)
                self._width = width
                self.document.restyle(self._painter, width)
            row = self._measured_row(position, height)
            self.virtual_size = Size(width + GUTTER, self.document.height)
            self.scroll_to(y=row, animate=False, immediate=True, force=True)
            self._top, self._top_row = self.document.position_at(row), row
            self.refresh()
        finally:
            self._updating = False
        if missing := self.document.take_missing():
            self.post_message(ReadEntries(missing))

    def go_to(self, row: int) -> None:
        """Scroll a row to the top, as far as the end allows."""
        self.scroll_to(y=max(0, row), animate=False, immediate=True, force=True)

    def reveal(self, index: int) -> None:
        """Scroll as little as needed to see the beginning of an entry."""
        self.following = False
        top = self.document.top_of(index)
        bottom = top + self.document.items[index].height
        first, height = self.scroll_offset.y, self.size.height
        if top < first or bottom - top >= height:
            self.go_to(top)
        elif bottom > first + height:
            self.go_to(bottom - height)

    def reveal_row(self, position: RowPosition) -> None:
        """Scroll a row into sight, with some of what stands above it."""
        self.following = False
        row, first, height = self.document.row_of(position), self.scroll_offset.y, self.size.height
        if not first <= row < first + height:
            self.go_to(row - height // 3)
        self.refresh()

    def reset_position(self) -> None:
        """Begin at the end of another document."""
        self._top, self._top_row = RowPosition(0, 0), 0
        self.chosen = None
        self.following, self.new_below = True, 0

    def render_line(self, y: int) -> Strip:
        """Draw a row, with mark and selection."""
        base = self._painter.base if self._painter is not None else self.rich_style  # Textual walks the tree for it
        row = y + self.scroll_offset.y
        painted = self.document.strip_at(row)
        if painted is None or self._painter is None:
            return Strip.blank(self._width + GUTTER, base)
        position = self.document.position_at(row)
        painted = self.found.marked(painted, position)
        selection = self.text_selection
        if selection is not None:
            painted = _selected(painted, selection, row)
        marked = self.chosen is not None and self.has_focus and position.index == self.chosen
        gutter = Segment("|" if marked else " ", base + self._painter.palette.style(TextRole.ACCENT))
        return Strip([gutter, *painted.apply_offsets(GUTTER, row)])

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, for Textual."""
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
        """Paint everything in the new style."""
        super().notify_style_update()
        self._painter = None
        self.call_later(self.update_layout)

    def on_resize(self, event: events.Resize) -> None:
        """Lay out again."""
        self.update_layout()

    def on_focus(self) -> None:
        """Show the mark."""
        self.refresh()

    def on_blur(self) -> None:
        """Hide the mark."""
        self.refresh()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Follow the end once scrolled there, else stop."""
        super().watch_scroll_y(old_value, new_value)
        if self._updating or round(new_value) == self._top_row:
            return
        self.following = new_value >= self.max_scroll_y
        if self.following:
            self.new_below = 0
        self.update_layout()

    def _measured_row(self, position: RowPosition, height: int) -> int:
        """Return the view's top row, everything in sight painted and measured."""
        while True:
            end = max(0, self.document.height - height)
            row = end if self.following else min(self.document.row_of(position), end)
            if not self.document.measure(row, row + height - 1):
                return row


def _selected(strip: Strip, selection: Selection, row: int) -> Strip:
    span = selection.get_span(row)
    if span is None:
        return strip
    begin = max(0, span[0] - GUTTER)
    end = len(strip.text) if span[1] == -1 else max(begin, span[1] - GUTTER)
    return restyled(strip, [(begin, end)], Style(reverse=True))
