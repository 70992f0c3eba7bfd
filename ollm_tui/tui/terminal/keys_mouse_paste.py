"""Keys, mouse, pastes and focus as bytes for a program (xterm's encoding)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from ollm_tui.tui.terminal.emulator.terminal_modes import InputModes, MouseFormat, MouseReports
from ollm_tui.tui.terminal.raw_keys import PASTE_END, PASTE_START

_CURSOR_KEYS = {"up": "A", "down": "B", "right": "C", "left": "D", "home": "H", "end": "F"}
_TILDE_KEYS = {"insert": 2, "delete": 3, "pageup": 5, "pagedown": 6} | dict(
    zip((f"f{n}" for n in range(5, 13)), (15, 17, 18, 19, 20, 21, 23, 24), strict=True)
)
_F1_TO_F4 = {"f1": "P", "f2": "Q", "f3": "R", "f4": "S"}
_PLAIN_KEYS = {"tab": "\t", "backspace": "\x7f", "escape": "\x1b", "space": " "}
_CONTROL_KEYS = {
    "@": "\x00",
    "at": "\x00",
    "space": "\x00",
    "backslash": "\x1c",
    "right_square_bracket": "\x1d",
    "left_square_bracket": "\x1b",
    "circumflex_accent": "\x1e",
    "underscore": "\x1f",
    "slash": "\x1f",
    "backspace": "\x08",
    "question_mark": "\x7f",
    "2": "\x00",
    "3": "\x1b",
    "4": "\x1c",
    "5": "\x1d",
    "6": "\x1e",
    "7": "\x1f",
    "8": "\x7f",
} | {chr(letter): chr(letter - 0x60) for letter in range(ord("a"), ord("z") + 1)}
"""Ctrl with a key, by Textual's name for it."""

_NOT_PASTED = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")
"""Controls removed from a paste: without ESC nothing in it can end the bracket or run as a sequence."""


_BY_MODE = re.compile(rb"\x1b[\[O][A-DFHPQRS]|\x1b\[13~|\r")
"""Keys whose bytes depend on what the program asked for, and differ between outer terminals."""
_KITTY = re.compile(r"\x1b\[([0-9]+)(?::[0-9:]*)?(?:;([0-9]*)(?::[0-9]*)?)?(?:;([0-9:]+))?u")
_LOCKS_AND_MODIFIERS = frozenset({57358, 57359, 57360, *range(57441, 57455)})
DISAMBIGUATE, ALL_KEYS, WITH_TEXT = 1, 8, 16
"""Flags of kitty's keyboard protocol that programs may ask for; Textual asks the outer terminal for the same."""


def is_kitty_key(raw: bytes) -> bool:
    """Whether the outer terminal uses kitty's keyboard protocol for this key."""
    return raw.endswith(b"u") and _KITTY.fullmatch(raw.decode("ascii", "replace")) is not None


def encode_raw_key(raw: bytes, key: str, character: str | None, modes: InputModes) -> bytes:
    """Return a typed key's bytes as they came, or as the program asked for them."""
    kitty = _KITTY.fullmatch(raw.decode("ascii", "replace")) if raw.endswith(b"u") else None
    if kitty is not None:
        return _encode_kitty(kitty, key, character, modes)
    return encode_key(key, character, modes) if _BY_MODE.fullmatch(raw) else raw


def _encode_kitty(typed: re.Match[str], key: str, character: str | None, modes: InputModes) -> bytes:
    """Return a key of kitty's protocol in the form that the program asked for."""
    code, flags = int(typed[1]), modes.keyboard_flags
    text = "".join(chr(int(point)) for point in (typed[3] or "").split(":") if point)
    modifiers = (int(typed[2] or 1) - 1) & 0x3F  # without caps lock and num lock
    alone = f"\x1b[{code};{modifiers + 1}u" if modifiers else f"\x1b[{code}u"
    if flags & ALL_KEYS:
        return (f"\x1b[{code};{modifiers + 1};{typed[3]}u" if flags & WITH_TEXT and text else alone).encode()
    if code in _LOCKS_AND_MODIFIERS:
        return b""
    shortcut = bool(modifiers & ~1)
    if text and not shortcut:
        return text.encode("utf-8", "replace")
    if flags & DISAMBIGUATE and (modifiers or code not in (9, 13, 127)):
        return alone.encode()
    if shortcut and modes.modify_keys > (1 if chr(code).isalpha() else 0):
        return f"\x1b[27;{modifiers + 1};{code}~".encode()
    return encode_key(key, character, modes)


def encode_key(key: str, character: str | None, modes: InputModes) -> bytes:
    """Return the bytes of a Textual key event; empty for keys terminals lack."""
    modifiers, name = _split(key)
    text = _special_key(name, modifiers, modes)
    if text is None:
        text = _character_key(name, modifiers, character)
    return text.encode("utf-8", "surrogatepass") if text else b""


def encode_paste(text: str, modes: InputModes) -> bytes:
    """Return a paste: Enter's line ends, no controls, bracketed on request."""
    text = text.replace("\r\n", "\r").replace("\n", "\r")
    data = _NOT_PASTED.sub("", text).encode("utf-8", "replace")
    return PASTE_START + data + PASTE_END if modes.bracketed_paste else data


def encode_focus(focused: bool, modes: InputModes) -> bytes:
    """Return the focus report; empty unless requested."""
    if not modes.focus_reports:
        return b""
    return b"\x1b[I" if focused else b"\x1b[O"


def _split(key: str) -> tuple[frozenset[str], str]:
    """Return modifiers and name of a key such as `ctrl+shift+left`."""
    *modifiers, name = key.split("+")
    return frozenset(modifiers), name


def _special_key(name: str, modifiers: frozenset[str], modes: InputModes) -> str | None:
    """Return the sequence of a key that has one of its own; None for others."""
    number = 1 + ("shift" in modifiers) + 2 * ("alt" in modifiers or "meta" in modifiers) + 4 * ("ctrl" in modifiers)
    if name in _CURSOR_KEYS:
        final = _CURSOR_KEYS[name]
        if number > 1:
            return f"\x1b[1;{number}{final}"
        return f"\x1bO{final}" if modes.app_cursor else f"\x1b[{final}"
    if name in _TILDE_KEYS:
        return f"\x1b[{_TILDE_KEYS[name]};{number}~" if number > 1 else f"\x1b[{_TILDE_KEYS[name]}~"
    if name in _F1_TO_F4:
        return f"\x1b[1;{number}{_F1_TO_F4[name]}" if number > 1 else f"\x1bO{_F1_TO_F4[name]}"
    escape = "\x1b" if "alt" in modifiers or "meta" in modifiers else ""
    if name == "enter" or (name == "m" and "ctrl" in modifiers):
        return escape + ("\r\n" if modes.newline else "\r")
    if name == "tab":
        return "\x1b[Z" if "shift" in modifiers else escape + "\t"
    if name == "backspace":
        return escape + ("\x08" if "ctrl" in modifiers else "\x7f")
    if name == "escape":
        return escape + "\x1b"
    return None


def _character_key(name: str, modifiers: frozenset[str], character: str | None) -> str:
    escape = "\x1b" if "alt" in modifiers or "meta" in modifiers else ""
    if "ctrl" in modifiers:
        control = _CONTROL_KEYS.get(name.lower() if len(name) == 1 else name)
        return escape + control if control is not None else ""
    if escape:
        if len(name) == 1:
            return escape + (name.upper() if "shift" in modifiers else name)
        return escape + character if character else escape + _PLAIN_KEYS[name] if name in _PLAIN_KEYS else ""
    if character and (character.isprintable() or len(character) == 1):
        return character
    return _PLAIN_KEYS.get(name, name if len(name) == 1 else "")


WHEEL_LINES = 3
"""Lines a wheel step scrolls, or arrow keys it sends."""
MAX_LEGACY = 223
"""The last column or line of the legacy three-byte report."""


class Action(Enum):
    """What was done with the mouse."""

    PRESS = "press"
    RELEASE = "release"
    MOVE = "move"


class Button(Enum):
    """Buttons by xterm's numbers."""

    LEFT = 0
    MIDDLE = 1
    RIGHT = 2
    NONE = 3
    WHEEL_UP = 64
    WHEEL_DOWN = 65


@dataclass(frozen=True)
class MouseAction:
    """A mouse action at a 0-based cell of the screen."""

    action: Action
    button: Button
    column: int
    line: int
    shift: bool = False
    alt: bool = False
    ctrl: bool = False


def encode_mouse(mouse: MouseAction, modes: InputModes) -> bytes:
    """Return the report of an action; empty when not requested or not encodable."""
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
    """Return arrow keys for a wheel step over a full-screen program (mode 1007)."""
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
