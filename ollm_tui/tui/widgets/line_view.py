"""A scrollable view of styled lines that draws only what is in sight; base of the detail box, help and lists."""

from __future__ import annotations

from collections.abc import Sequence

from rich.style import Style
from textual import events
from textual.geometry import Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from ollm_tui.tui.styled_text import RolePalette, StyledLine, TextRole, wrap_all


class LineView(ScrollView, can_focus=True):
    """Lines wrapped to the width; remembers whether the end has been in sight since the lines were set."""

    ALLOW_SELECT = False

    class EndSeen(Message):
        """The last line has come into sight for the first time."""

        def __init__(self, view: LineView) -> None:
            super().__init__()
            self.view = view

        @property
        def control(self) -> LineView:
            return self.view

    def __init__(self, name: str = "", *, classes: str | None = None) -> None:
        super().__init__(id=name or None, classes=classes)
        self._lines: tuple[StyledLine, ...] = ()
        self._rows: list[StyledLine] = []
        self._palette: RolePalette | None = None
        self.seen_end = False

    def show_lines(self, lines: Sequence[StyledLine], *, keep_place: bool = False) -> None:
        """Replace what is shown; from the top unless `keep_place`, and then its end counts as unseen again."""
        self._lines = tuple(lines)
        if not keep_place:
            self.seen_end = False
            self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self._lay_out()

    @property
    def plain_text(self) -> str:
        return "\n".join(one.text for one in self._lines)

    def lines_needed(self, width: int) -> int:
        """Rows this text takes at a width, in cells."""
        return len(wrap_all(self._lines, width))

    def on_resize(self, event: events.Resize) -> None:
        self._lay_out()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self._look_for_end()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        width = self.scrollable_content_region.width
        return self.palette.strip(self.row_at(row), width, self.base_style, self.row_role(row))

    def row_at(self, row: int) -> StyledLine:
        """What stands in a row at the width now."""
        return self._rows[row] if row < len(self._rows) else StyledLine()

    def row_role(self, row: int) -> TextRole:
        """What the whole row is painted in; lists mark their cursor here."""
        return TextRole.PLAIN

    @property
    def palette(self) -> RolePalette:
        if self._palette is None:
            self._palette = RolePalette.of(self)
        return self._palette

    @property
    def base_style(self) -> Style:
        return self.rich_style

    def action_page_down(self) -> None:
        self.scroll_page_down(animate=False)

    def action_page_up(self) -> None:
        self.scroll_page_up(animate=False)

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        self._rows = wrap_all(self._lines, width)
        if len(self._rows) > self.size.height and not self.show_vertical_scrollbar:
            # The bar that is about to appear takes a cell of every row.
            self._rows = wrap_all(self._lines, max(1, width - self.styles.scrollbar_size_vertical))
        self.virtual_size = Size(width, len(self._rows))
        self.refresh()
        self.call_after_refresh(self._look_for_end)

    def _look_for_end(self) -> None:
        height = self.scrollable_content_region.height
        if self.seen_end or height <= 0 or not self._lines:
            return
        if self.scroll_offset.y + height >= len(self._rows):
            self.seen_end = True
            self.post_message(self.EndSeen(self))
