"""Mouse actions as the reports a program asked for."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from ollm_tui.tui.terminal.modes import InputModes, MouseFormat, MouseReports

WHEEL_LINES = 3
"""Lines a wheel step moves, and arrow keys it sends to a full-screen program without mouse reports."""
MAX_LEGACY = 223
"""The last column or line the old three-byte report can name."""


class Action(Enum):
    PRESS = "press"
    RELEASE = "release"
    MOVE = "move"


class Button(Enum):
    """Buttons by the number xterm gives them."""

    LEFT = 0
    MIDDLE = 1
    RIGHT = 2
    NONE = 3
    WHEEL_UP = 64
    WHEEL_DOWN = 65
    WHEEL_LEFT = 66
    WHEEL_RIGHT = 67


@dataclass(frozen=True)
class MouseAction:
    """Something done with the mouse at a 0-based cell of the screen."""

    action: Action
    button: Button
    column: int
    line: int
    shift: bool = False
    alt: bool = False
    ctrl: bool = False


def encode_mouse(mouse: MouseAction, modes: InputModes) -> bytes:
    """The report for an action; empty when the program did not ask for it or it cannot be said."""
    if not _wanted(mouse, modes.mouse):
        return b""
    code = mouse.button.value + 4 * mouse.shift + 8 * mouse.alt + 16 * mouse.ctrl
    if modes.mouse is MouseReports.CLICKS:
        code = mouse.button.value
    if mouse.action is Action.MOVE:
        code += 32
    column, line = mouse.column + 1, mouse.line + 1
    if modes.mouse_format is MouseFormat.SGR:
        final = "m" if mouse.action is Action.RELEASE else "M"
        return f"\x1b[<{code};{column};{line}{final}".encode()
    if mouse.action is Action.RELEASE:
        code = code - mouse.button.value + Button.NONE.value
    if modes.mouse_format is MouseFormat.URXVT:
        return f"\x1b[{code + 32};{column};{line}M".encode()
    if column > MAX_LEGACY or line > MAX_LEGACY:
        return b""
    return b"\x1b[M" + bytes((code + 32, column + 32, line + 32))


def encode_wheel_keys(up: bool, modes: InputModes) -> bytes:
    """Arrow keys for a wheel step over a full-screen program that has no mouse reports (mode 1007); else empty."""
    if not (modes.alternate_screen and modes.alternate_scroll):
        return b""
    final = b"A" if up else b"B"
    return ((b"\x1bO" if modes.app_cursor else b"\x1b[") + final) * WHEEL_LINES


def _wanted(mouse: MouseAction, reports: MouseReports) -> bool:
    match reports:
        case MouseReports.OFF:
            return False
        case MouseReports.CLICKS:
            return mouse.action is Action.PRESS and mouse.button.value < Button.NONE.value
        case MouseReports.BUTTONS:
            return mouse.action is not Action.MOVE
        case MouseReports.DRAGS:
            return mouse.action is not Action.MOVE or mouse.button is not Button.NONE
        case MouseReports.MOTION:
            return True
