"""Rectangles and columns of a screen (VT420): filling, copying, changing attributes, scrolling sideways."""

from __future__ import annotations

from collections.abc import Callable

from pyte import modes as mo

from ollm_tui.tui.terminal.emulator.cells import BLINK, BOLD, HIDDEN, REVERSE, UNDERLINE, CellStyle, canonical
from ollm_tui.tui.terminal.emulator.cursor_editing import EditingScreen
from ollm_tui.tui.terminal.emulator.scrolling import Area, copy_area, shift_columns

_ATTRIBUTES = {1: BOLD, 4: UNDERLINE, 5: BLINK, 7: REVERSE, 8: HIDDEN}
"""What DECCARA sets, and resets by the number plus 20 (22 for bold); DECRARA toggles it."""
_ALL = BOLD | UNDERLINE | BLINK | REVERSE | HIDDEN
_RESETS = {22 if code == 1 else code + 20: flag for code, flag in _ATTRIBUTES.items()}

FlagChange = Callable[[int], int]


class RectangleScreen(EditingScreen):
    """A screen with the rectangle and column functions; none of them moves the cursor but DECBI and DECFI."""

    def __init__(self, columns: int, lines: int, scrollback_lines: int) -> None:
        self.changes_rectangles = False
        """DECSACE: whether attributes change in a rectangle, or from its first to its last cell as text flows."""
        super().__init__(columns, lines, scrollback_lines)

    def fill_rectangle(self, char: int = 0, *sides: int) -> None:
        """DECFRA: fill with a character in the pen's style."""
        if (area := self._area(*sides)) and (0x20 <= char <= 0x7E or 0xA0 <= char <= 0xFF):
            for y in area.lines:
                self.rows[y].write(area.left, chr(char) * area.width, self.cursor.style)
            self.dirty.update(area.lines)

    def erase_rectangle(self, *sides: int) -> None:
        """DECERA."""
        self._erase(*sides, selectively=False)

    def erase_rectangle_unprotected(self, *sides: int) -> None:
        """DECSERA."""
        self._erase(*sides, selectively=True)

    def copy_rectangle(self, *given: int) -> None:
        """DECCRA: top, left, bottom, right and page of the source, top, left and page of the target."""
        top, left = (max(number, 1) - 1 for number in (*given[5:7], 1, 1)[:2])
        if area := self._area(*given[:4]):
            first = self._origin()
            top, left = top + first[0], left + first[1]
            if top < self.lines and left < self.columns:
                self.dirty.update(copy_area(self.rows, area, top, left, self.columns))

    def set_change_extent(self, how: int = 0) -> None:
        """DECSACE: 2 for rectangles, else text from the first cell to the last."""
        self.changes_rectangles = how == 2

    def change_attributes(self, *given: int) -> None:
        """DECCARA: set or reset bold, underline, blink, reverse and hidden; 0 resets them all."""
        added = removed = 0
        for code in given[4:] or (0,):
            if code == 0:
                added, removed = 0, _ALL
            elif code in _ATTRIBUTES:
                added, removed = added | _ATTRIBUTES[code], removed & ~_ATTRIBUTES[code]
            elif code in _RESETS:
                added, removed = added & ~_RESETS[code], removed | _RESETS[code]
        self._change(given[:4], lambda flags: flags & ~removed | added)

    def reverse_attributes(self, *given: int) -> None:
        """DECRARA: toggle those attributes; 0 toggles them all."""
        toggled = 0
        for code in given[4:] or (0,):
            toggled |= _ALL if code == 0 else _ATTRIBUTES.get(code, 0)
        self._change(given[:4], lambda flags: flags ^ toggled)

    # Columns

    def scroll_left(self, count: int | None = None) -> None:
        """SL."""
        self._shift(self.side_edges()[0], count or 1)

    def scroll_right(self, count: int | None = None) -> None:
        """SR."""
        self._shift(self.side_edges()[0], -(count or 1))

    def insert_columns(self, count: int | None = None) -> None:
        """DECIC: at the cursor, inside the region only."""
        if self._is_in_region():
            self._shift(self.cursor.x, -(count or 1))

    def delete_columns(self, count: int | None = None) -> None:
        """DECDC: at the cursor, inside the region only."""
        if self._is_in_region():
            self._shift(self.cursor.x, count or 1)

    def back_index(self) -> None:
        """DECBI: one column back; at the left margin the region moves right."""
        self.clear_pending_wrap()
        if self.cursor.x != self.side_edges()[0]:
            self.cursor.x = max(0, self.cursor.x - 1)
        elif self._is_in_region():
            self.scroll_right()

    def forward_index(self) -> None:
        """DECFI: one column forward; at the right margin the region moves left."""
        self.clear_pending_wrap()
        if self.cursor.x != self.side_edges()[1]:
            self.cursor.x = min(self.columns - 1, self.cursor.x + 1)
        elif self._is_in_region():
            self.scroll_left()

    def _is_in_region(self) -> bool:
        self.clear_pending_wrap()
        top, bottom = self.region()
        return top <= self.cursor.y <= bottom and self.is_between_sides()

    def _shift(self, left: int, count: int) -> None:
        top, bottom = self.region()
        for row in self.rows[top : bottom + 1]:
            row.wrapped = False
        shift_columns(self.rows, Area(top, left, bottom, self.side_edges()[1]), count, self.pen_erase)
        self.dirty.update(range(top, bottom + 1))

    # Areas

    def _origin(self) -> tuple[int, int]:
        return (self.region()[0], self.side_edges()[0]) if mo.DECOM in self.mode else (0, 0)

    def _area(self, *sides: int) -> Area | None:
        """Return the rectangle of the parameters, cut to the page (to the region in origin mode); None if empty."""
        top, left, bottom, right = (*sides, 0, 0, 0, 0)[:4]
        first_line, first_column = self._origin()
        last_line, last_column = self.lines - 1, self.columns - 1
        if mo.DECOM in self.mode:
            last_line, last_column = self.region()[1], self.side_edges()[1]
        area = Area(
            first_line + max(top, 1) - 1,
            first_column + max(left, 1) - 1,
            min(first_line + bottom - 1 if bottom else last_line, last_line),
            min(first_column + right - 1 if right else last_column, last_column),
        )
        return area if area.top <= area.bottom and area.left <= area.right else None

    def _erase(self, *sides: int, selectively: bool) -> None:
        if area := self._area(*sides):
            for row in self.rows[area.top : area.bottom + 1]:
                erase = row.erase_unprotected if selectively else row.erase
                erase(area.left, area.right + 1, self.columns, self.pen_erase)
            self.dirty.update(area.lines)

    def _change(self, sides: tuple[int, ...], changed: FlagChange) -> None:
        area = self._area(*sides)
        if area is None:
            return
        for y in area.lines:
            left, right = area.left, area.right
            if not self.changes_rectangles and area.top != area.bottom:
                left = left if y == area.top else 0
                right = right if y == area.bottom else self.columns - 1
            self.rows[y].restyle(left, right + 1, lambda style: _with_flags(style, changed(style.flags)))
        self.dirty.update(area.lines)


def _with_flags(style: CellStyle, flags: int) -> CellStyle:
    return style if flags == style.flags else canonical(style._replace(flags=flags))
