"""Modes: the alternate screen, saved cursors, character sets, input modes (xterm ctlseqs)."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from enum import Enum, StrEnum

from pyte import modes as mo

from ollm_tui.tui.terminal.emulator.cells import DEFAULT, CellStyle
from ollm_tui.tui.terminal.emulator.rectangles import RectangleScreen
from ollm_tui.tui.terminal.emulator.screen_rows import Position, ScreenRow
from ollm_tui.tui.terminal.emulator.scrollback import LiveCursor
from ollm_tui.tui.terminal.emulator.writing import CHARSETS

ANSI_MODES = frozenset({4, 20})
"""IRM and LNM."""
PRIVATE_MODES = frozenset({1, 5, 6, 7, 9, 12, 25, 45, 47, 66, 69, 2004, 2026, 2027}) | frozenset(
    {1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1047, 1048, 1049}
)
"""Known DEC modes; others are ignored, so no input fills `screen.mode`."""


KEYBOARD_FLAGS = 0b11001
"""Flags of kitty's keyboard protocol that are passed on: disambiguate, all keys, associated text."""
MAX_KEYBOARDS = 16


class MouseReports(Enum):
    """Which mouse events the program asked for, by the mode number."""

    OFF = 0
    CLICKS = 9
    BUTTONS = 1000
    DRAGS = 1002
    MOTION = 1003


class MouseFormat(StrEnum):
    """How mouse reports are encoded."""

    LEGACY = "legacy"
    SGR = "sgr"
    URXVT = "urxvt"


@dataclass(frozen=True)
class InputModes:
    """What the encoder of keys, mouse and pastes needs to know."""

    app_cursor: bool = False
    app_keypad: bool = False
    newline: bool = False
    bracketed_paste: bool = False
    focus_reports: bool = False
    alternate_screen: bool = False
    alternate_scroll: bool = True
    mouse: MouseReports = MouseReports.OFF
    mouse_format: MouseFormat = MouseFormat.LEGACY
    keyboard_flags: int = 0
    """Of kitty's keyboard protocol."""
    modify_keys: int = 0
    """Level of xterm's modifyOtherKeys."""


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


class ModesScreen(RectangleScreen):
    """A screen with modes; `mode` is as in pyte, private ones shifted by five."""

    def __init__(self, columns: int, lines: int, scrollback_lines: int) -> None:
        self.saved = SavedCursor()
        self._saved_of_main = self._saved_of_alternate = SavedCursor()
        self.synchronized_since: float | None = None
        """Monotonic time at which synchronized output (mode 2026) began."""
        self.cursor_shape = 0
        """DECSCUSR: 0-2 block, 3-4 underline, 5-6 bar."""
        self._charset_tables = [CHARSETS["B"], CHARSETS["B"]]
        self._keyboards = [0]
        """Kitty's flags, each program's above its caller's."""
        self._keyboards_of_main = [0]
        self._modify_keys = 0
        super().__init__(columns, lines, scrollback_lines)
        self.mode.add(1007 << 5)

    @property
    def input_modes(self) -> InputModes:
        """The modes of keyboard, mouse and pastes."""
        mode = self.mode
        mouse = next((kind for kind in _BY_PRECEDENCE if kind.value << 5 in mode), MouseReports.OFF)
        encoding = MouseFormat.LEGACY
        if 1006 << 5 in mode:
            encoding = MouseFormat.SGR
        elif 1015 << 5 in mode:
            encoding = MouseFormat.URXVT
        return InputModes(
            app_cursor=1 << 5 in mode,
            app_keypad=66 << 5 in mode,
            newline=mo.LNM in mode,
            bracketed_paste=2004 << 5 in mode,
            focus_reports=1004 << 5 in mode,
            alternate_screen=self.alternate_screen,
            alternate_scroll=1007 << 5 in mode,
            mouse=mouse,
            mouse_format=encoding,
            keyboard_flags=self.keyboard_flags,
            modify_keys=self._modify_keys,
        )

    def reset(self) -> None:
        """RIS: the state at power-up; the scrollback stays."""
        self._leave_alternate()
        self.rows[:] = [ScreenRow() for _ in range(self.lines)]
        self.margins = self.sides = None
        self.mode = {mo.DECAWM, mo.DECTCEM, 1007 << 5}
        self._keyboards, self._modify_keys = [0], 0
        self.title = ""
        self.tabstops = set(range(8, self.columns, 8))
        self.cursor = LiveCursor()
        self.soft_reset()
        self.dirty.clear()
        self.mark_all_dirty()

    def soft_reset(self) -> None:
        """DECSTR: modes and pen to their defaults; the text stays."""
        self.margins = self.sides = self.full_at = None
        self.changes_rectangles = False
        self.mode.difference_update({mo.DECOM, mo.IRM, 1 << 5, 45 << 5, 66 << 5, 69 << 5})
        self.mode.update({mo.DECAWM, mo.DECTCEM})
        self.cursor.hidden = False
        self.cursor.style = DEFAULT
        self.saved = SavedCursor()
        self.cursor_shape = 0
        self.synchronized_since = None
        self._charset_tables = [CHARSETS["B"], CHARSETS["B"]]
        self._select_charset(0)

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

    def keypad_application(self) -> None:
        """DECKPAM."""
        self.mode.add(66 << 5)

    def keypad_numeric(self) -> None:
        """DECKPNM."""
        self.mode.discard(66 << 5)

    # Keyboard protocols

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

    def modify_keys(self, resource: int = 0, level: int = 0) -> None:
        """XTMODKEYS: 4 is modifyOtherKeys."""
        if resource in (0, 4):
            self._modify_keys = min(level, 2)

    # Saved cursors

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

    # The alternate screen

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

    # Setting and resetting

    def set_mode(self, *modes: int, **kwargs: bool) -> None:
        """SM and DECSET; unknown modes are ignored."""
        for number in modes:
            if kwargs.get("private"):
                self._set_private(number)
            elif number in ANSI_MODES:
                self.mode.add(number)

    def reset_mode(self, *modes: int, **kwargs: bool) -> None:
        """RM and DECRST; unknown modes are ignored."""
        for number in modes:
            if kwargs.get("private"):
                self._reset_private(number)
            elif number in ANSI_MODES:
                self.mode.discard(number)

    def _set_private(self, number: int) -> None:
        if number not in PRIVATE_MODES:
            return
        self.mode.add(number << 5)
        match number:
            case 5:
                self.mark_all_dirty()
            case 6:
                self.cursor_position()
            case 25:
                self.cursor.hidden = False
                self.dirty.add(self.cursor.y)
            case 1048:
                self.save_cursor()
            case 1049:
                if self.main_rows is None:
                    self.save_cursor()
                self._enter_alternate(clear=True)
            case 47 | 1047:
                self._enter_alternate(clear=False)
            case 2026:
                self.synchronized_since = time.monotonic()
            case 9 | 1000 | 1002 | 1003:
                self.mode.difference_update(kind.value << 5 for kind in MouseReports if kind.value != number)
            case 1005 | 1006 | 1015:  # as on xterm, the last one asked for counts
                self.mode.difference_update({1005 << 5, 1006 << 5, 1015 << 5} - {number << 5})
            case _:
                pass

    def _reset_private(self, number: int) -> None:
        if number not in PRIVATE_MODES:
            return
        self.mode.discard(number << 5)
        match number:
            case 5:
                self.mark_all_dirty()
            case 6:
                self.cursor_position()
            case 7:
                self.clear_pending_wrap()
            case 69:
                self.sides = None
            case 25:
                self.cursor.hidden = True
                self.dirty.add(self.cursor.y)
            case 1048:
                self.restore_cursor()
            case 1049:
                self._leave_alternate()
                self.restore_cursor()
            case 47 | 1047:
                self._leave_alternate()
            case 2026:
                self.synchronized_since = None
            case _:
                pass
        if number in (47, 1047, 1049):
            self.mode.difference_update({47 << 5, 1047 << 5, 1049 << 5})


_BY_PRECEDENCE = (MouseReports.MOTION, MouseReports.DRAGS, MouseReports.BUTTONS, MouseReports.CLICKS)
