"""A text of any length to read: cut into rows off the event loop where that takes long, drawn as far as in sight."""

from __future__ import annotations

import asyncio
from functools import partial

from rich.cells import cell_len, chop_cells
from textual.geometry import Size
from textual.strip import Strip

from ollm_tui.core.base.escape import visible_block
from ollm_tui.tui.styled_text import TAB_SIZE, TextRole, line
from ollm_tui.tui.widgets.line_view import LineView

AT_ONCE_CHARS = 20_000
"""A text up to this length takes less than a moment, so it is there in the same frame."""


class LongText(LineView):
    """Shows foreign text; its control characters are made visible."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._text = ""
        self._role = TextRole.PLAIN
        self._folded: list[str] = []

    def show_text(self, text: str, *, role: TextRole = TextRole.PLAIN, keep_place: bool = False) -> None:
        """Replace the text; from its top unless `keep_place`."""
        if (text, role) == (self._text, self._role):
            return
        self._text, self._role = text, role
        if not keep_place:
            self.scroll_to(y=0, animate=False, immediate=True, force=True)
        self._lay_out()

    @property
    def plain_text(self) -> str:
        return self._text

    def _lay_out(self) -> None:
        width = self.scrollable_content_region.width
        if width <= 0:
            return
        if len(self._text) <= AT_ONCE_CHARS:
            self._take(folded(self._text, width))
        else:
            self.run_worker(
                partial(self._fold, width), exclusive=True
            )  # one that is replaced before it began is no loose end

    async def _fold(self, width: int) -> None:
        text = self._text
        rows = await asyncio.to_thread(folded, text, width)
        if text is self._text:
            self._take(rows)

    def _take(self, rows: list[str]) -> None:
        self._folded = rows
        self.virtual_size = Size(self.scrollable_content_region.width, len(rows))
        self.refresh()

    def render_line(self, y: int) -> Strip:
        row = y + self.scroll_offset.y
        shown = line((self._folded[row], self._role)) if row < len(self._folded) else line()
        return self.palette.strip(shown, self.scrollable_content_region.width, self.base_style)


def folded(text: str, width: int) -> list[str]:
    """The text's lines, safe to draw, folded at blanks where there are some; nothing is lost."""
    rows: list[str] = []
    for one in visible_block(text).split("\n"):
        row = one.expandtabs(TAB_SIZE) if "\t" in one else one
        plain, at = row.isascii(), 0
        # A row never has more characters than cells, so what lies beyond need not be looked at.
        while len(row) - at > width or (not plain and cell_len(row[at:]) > width):
            head = row[at : at + width]
            if not plain:
                head = chop_cells(head, width)[0] or head[0]
            if row[at + len(head)] == " ":
                head += " "  # beyond the edge, where nobody misses it
            elif (blank := head.rfind(" ")) > 0:
                head = head[: blank + 1]
            rows.append(head)
            at += len(head)
        if at < len(row) or not row:
            rows.append(row[at:])
    return rows
