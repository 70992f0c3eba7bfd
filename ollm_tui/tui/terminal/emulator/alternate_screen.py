"""What is saved and comes back: cursor and character sets (DECSC), and a whole screen behind the alternate one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from pyte import modes as mo

from ollm_tui.tui.terminal.emulator.cells import DEFAULT, CellStyle
from ollm_tui.tui.terminal.emulator.rectangles import RectangleScreen
from ollm_tui.tui.terminal.emulator.screen_rows import Position, ScreenRow
from ollm_tui.tui.terminal.emulator.writing import CHARSETS

KEYBOARD_FLAGS = 0b11001
"""Flags of kitty's keyboard protocol that are passed on: disambiguate, all keys, associated text."""
MAX_KEYBOARDS = 16


@dataclass(frozen=True)
class SavedCursor:
    """What DECSC saves."""

    x: int = 0
    y: int = 0
    style: CellStyle = DEFAULT
    origin: bool = False
    charset: int = 0
    g0: str = CHARSETS["B"]
    g1: str = CHARSETS["B"]


class SavingScreen(RectangleScreen):
    """A screen that keeps its cursor, pen and character sets, and takes them back."""

    def __init__(self, columns: int, lines: int, scrollback_lines: int) -> None:
        self.saved = SavedCursor()
        self._charset_tables = [CHARSETS["B"], CHARSETS["B"]]
        super().__init__(columns, lines, scrollback_lines)

    def save_cursor(self) -> None:
        """DECSC: one slot a screen, not pyte's growing stack."""
        cursor = self.cursor
        g0, g1 = self._charset_tables
        self.saved = SavedCursor(cursor.x, cursor.y, cursor.style, mo.DECOM in self.mode, self.charset, g0, g1)

    def restore_cursor(self) -> None:
        """DECRC; home and defaults when nothing was saved."""
        saved = self.saved
        if saved.origin:
            self.mode.add(mo.DECOM)
        else:
            self.mode.discard(mo.DECOM)
        self._charset_tables = [saved.g0, saved.g1]
        self._select_charset(saved.charset)
        self.cursor.style = saved.style
        self.cursor.x = min(saved.x, self.columns)
        self.cursor.y = min(saved.y, self.lines - 1)

    # Character sets

    def define_charset(self, code: str, mode: str) -> None:
        """SCS: designate G0 (`(`) or G1 (`)`); unknown sets are ASCII."""
        if mode in "()":
            self._charset_tables["()".index(mode)] = CHARSETS.get(code, CHARSETS["B"])
            self._select_charset(self.charset)

    def shift_in(self) -> None:
        """SI: use G0."""
        self._select_charset(0)

    def shift_out(self) -> None:
        """SO: use G1."""
        self._select_charset(1)

    def _select_charset(self, number: int) -> None:
        self.charset = number
        self.g0_charset, self.g1_charset = self._charset_tables
        table = self._charset_tables[number]
        self.translation = None if table == CHARSETS["B"] else table


class AlternateScreen(SavingScreen):
    """Two screens of which one is shown; each has its rows, saved cursor, and flags of kitty's keyboard protocol."""

    def __init__(self, columns: int, lines: int, scrollback_lines: int) -> None:
        self._saved_of_main = self._saved_of_alternate = SavedCursor()
        self._keyboards = [0]
        """Kitty's flags, each program's above its caller's."""
        self._keyboards_of_main = [0]
        super().__init__(columns, lines, scrollback_lines)

    def _enter_alternate(self, *, clear: bool) -> None:
        if self.main_rows is None:
            self.main_rows = self.rows
            self._saved_of_main, self.saved = self.saved, self._saved_of_alternate
            self._keyboards_of_main, self._keyboards = self._keyboards, [0]
            self.main_position = (self.cursor.y, self.cursor.x)
            self.rows = [ScreenRow() for _ in range(self.lines)]
            self.alternate_screen = True
        if clear:
            self.erase_in_display(2)
        self.mark_all_dirty()

    def _leave_alternate(self) -> None:
        if self.main_rows is not None:
            self.rows, self.main_rows = self.main_rows, None
            self._saved_of_alternate, self.saved = self.saved, self._saved_of_main
            self._keyboards = self._keyboards_of_main
            self.alternate_screen = False
            self.mark_all_dirty()

    def move_main_cursor(self, position: Position) -> None:
        """Record the primary screen's cursor, and move the one saved for it along."""
        if (self._saved_of_main.y, self._saved_of_main.x) == self.main_position:
            self._saved_of_main = replace(self._saved_of_main, y=position[0], x=position[1])
        super().move_main_cursor(position)

    # Kitty's keyboard protocol

    @property
    def keyboard_flags(self) -> int:
        """What the program asked of kitty's keyboard protocol."""
        return self._keyboards[-1]

    def push_keyboard(self, flags: int = 0) -> None:
        """CSI > u: ask for flags until they are popped."""
        self._keyboards = [*self._keyboards, flags & KEYBOARD_FLAGS][-MAX_KEYBOARDS:]

    def pop_keyboard(self, count: int = 0) -> None:
        """CSI < u: go back to the flags before."""
        self._keyboards = self._keyboards[: -(count or 1)] or [0]

    def set_keyboard(self, flags: int = 0, how: int = 1) -> None:
        """CSI = u: 1 sets exactly these flags, 2 adds, 3 removes them."""
        before = self._keyboards[-1]
        changed = {2: before | flags, 3: before & ~flags}.get(how, flags)
        self._keyboards[-1] = changed & KEYBOARD_FLAGS
