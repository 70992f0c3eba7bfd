"""Modes: setting, resetting, and what the encoder of keys and mouse needs to know of them (xterm ctlseqs)."""

from __future__ import annotations

import time
from dataclasses import dataclass
from enum import Enum, StrEnum

from pyte import modes as mo

from ollm_tui.tui.terminal.emulator.alternate_screen import AlternateScreen, SavedCursor
from ollm_tui.tui.terminal.emulator.cells import DEFAULT
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.emulator.scrollback import LiveCursor
from ollm_tui.tui.terminal.emulator.writing import CHARSETS

ANSI_MODES = frozenset({4, 20})
"""IRM and LNM."""
PRIVATE_MODES = frozenset({1, 5, 6, 7, 9, 12, 25, 45, 47, 66, 69, 2004, 2026, 2027}) | frozenset(
    {1000, 1002, 1003, 1004, 1005, 1006, 1007, 1015, 1047, 1048, 1049}
)
"""Known DEC modes; others are ignored, so no input fills `screen.mode`."""


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


class ModesScreen(AlternateScreen):
    """A screen with modes; `mode` is as in pyte, private ones shifted by five."""

    def __init__(self, columns: int, lines: int, scrollback_lines: int) -> None:
        self.synchronized_since: float | None = None
        """Monotonic time at which synchronized output (mode 2026) began."""
        self.cursor_shape = 0
        """DECSCUSR: 0-2 block, 3-4 underline, 5-6 bar."""
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

    def keypad_application(self) -> None:
        """DECKPAM."""
        self.mode.add(66 << 5)

    def keypad_numeric(self) -> None:
        """DECKPNM."""
        self.mode.discard(66 << 5)

    def modify_keys(self, resource: int = 0, level: int = 0) -> None:
        """XTMODKEYS: 4 is modifyOtherKeys."""
        if resource in (0, 4):
            self._modify_keys = min(level, 2)

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
