"""Keys, pastes, focus and mouse as bytes for the program."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.tui.terminal.emulator.terminal_modes import InputModes, MouseFormat, MouseReports
from ollm_tui.tui.terminal.keys_mouse_paste import (
    PASTE_END,
    PASTE_START,
    Action,
    Button,
    MouseAction,
    encode_focus,
    encode_key,
    encode_mouse,
    encode_paste,
    encode_wheel_keys,
)

PLAIN = InputModes()
APP_CURSOR = InputModes(app_cursor=True)


@pytest.mark.parametrize(
    ("key", "character", "sent"),
    [
        ("a", "a", b"a"),
        ("A", "A", b"A"),
        ("é", "é", "é".encode()),
        ("日", "日", "日".encode()),
        ("space", " ", b" "),
        ("full_stop", ".", b"."),
        ("plus", "+", b"+"),
        ("enter", "\r", b"\r"),
        ("ctrl+m", None, b"\r"),
        ("ctrl+j", "\n", b"\n"),
        ("shift+enter", None, b"\r"),
        ("ctrl+enter", None, b"\r"),
        ("alt+enter", None, b"\x1b\r"),
        ("tab", "\t", b"\t"),
        ("ctrl+i", "\t", b"\t"),
        ("shift+tab", None, b"\x1b[Z"),
        ("backspace", "\x7f", b"\x7f"),
        ("ctrl+backspace", None, b"\x08"),
        ("alt+backspace", None, b"\x1b\x7f"),
        ("ctrl+h", "\x08", b"\x08"),
        ("escape", "\x1b", b"\x1b"),
        ("up", None, b"\x1b[A"),
        ("down", None, b"\x1b[B"),
        ("right", None, b"\x1b[C"),
        ("left", None, b"\x1b[D"),
        ("home", None, b"\x1b[H"),
        ("end", None, b"\x1b[F"),
        ("insert", None, b"\x1b[2~"),
        ("delete", None, b"\x1b[3~"),
        ("pageup", None, b"\x1b[5~"),
        ("pagedown", None, b"\x1b[6~"),
        ("f1", None, b"\x1bOP"),
        ("f4", None, b"\x1bOS"),
        ("f5", None, b"\x1b[15~"),
        ("f6", None, b"\x1b[17~"),
        ("f10", None, b"\x1b[21~"),
        ("f11", None, b"\x1b[23~"),
        ("f12", None, b"\x1b[24~"),
        ("shift+f1", None, b"\x1b[1;2P"),
        ("ctrl+f5", None, b"\x1b[15;5~"),
        ("shift+up", None, b"\x1b[1;2A"),
        ("alt+left", None, b"\x1b[1;3D"),
        ("ctrl+right", None, b"\x1b[1;5C"),
        ("ctrl+shift+end", None, b"\x1b[1;6F"),
        ("shift+delete", None, b"\x1b[3;2~"),
        ("ctrl+pageup", None, b"\x1b[5;5~"),
        ("ctrl+a", "\x01", b"\x01"),
        ("ctrl+c", "\x03", b"\x03"),
        ("ctrl+z", "\x1a", b"\x1a"),
        ("ctrl+shift+a", None, b"\x01"),
        ("ctrl+@", "\x00", b"\x00"),
        ("ctrl+space", None, b"\x00"),
        ("ctrl+backslash", "\x1c", b"\x1c"),
        ("ctrl+right_square_bracket", "\x1d", b"\x1d"),
        ("ctrl+circumflex_accent", "\x1e", b"\x1e"),
        ("ctrl+underscore", "\x1f", b"\x1f"),
        ("ctrl+slash", None, b"\x1f"),
        ("ctrl+2", None, b"\x00"),
        ("ctrl+3", None, b"\x1b"),
        ("ctrl+8", None, b"\x7f"),
        ("alt+b", None, b"\x1bb"),
        ("alt+shift+b", None, b"\x1bB"),
        ("alt+ctrl+a", None, b"\x1b\x01"),
        ("alt+full_stop", ".", b"\x1b."),
        ("f13", None, b""),
        ("ctrl+f13", None, b""),
        ("ctrl+1", None, b""),
        ("scroll_lock", None, b""),
    ],
)
def test_a_key_is_sent_as_xterm_sends_it(key: str, character: str | None, sent: bytes) -> None:
    assert encode_key(key, character, PLAIN) == sent


@pytest.mark.parametrize(
    ("key", "sent"),
    [
        ("up", b"\x1bOA"),
        ("left", b"\x1bOD"),
        ("home", b"\x1bOH"),
        ("end", b"\x1bOF"),
        ("ctrl+up", b"\x1b[1;5A"),
        ("delete", b"\x1b[3~"),
        ("f1", b"\x1bOP"),
    ],
)
def test_application_cursor_keys(key: str, sent: bytes) -> None:
    assert encode_key(key, None, APP_CURSOR) == sent


def test_newline_mode_sends_both_with_enter() -> None:
    assert encode_key("enter", "\r", InputModes(newline=True)) == b"\r\n"


@given(st.text(max_size=12), st.none() | st.characters(exclude_categories=["Cs"]), st.booleans())
def test_any_key_can_be_encoded(key: str, character: str | None, app: bool) -> None:
    assert isinstance(encode_key(key, character, InputModes(app_cursor=app)), bytes)


def test_a_paste_sends_line_ends_as_enter_does() -> None:
    assert encode_paste("a\nb\r\nc\td", PLAIN) == b"a\rb\rc\td"


@given(st.text())
def test_nothing_in_a_paste_can_end_the_bracket_or_run_as_a_sequence(text: str) -> None:
    hostile = text + "\x1b[201~rm -rf ~\n" + "\x9b201~" + text
    sent = encode_paste(hostile, InputModes(bracketed_paste=True))
    assert sent.startswith(PASTE_START)
    assert sent.endswith(PASTE_END)
    inside = sent[len(PASTE_START) : -len(PASTE_END)].decode()
    assert not any((char < " " and char not in "\t\r") or "\x7f" <= char <= "\x9f" for char in inside)
    assert b"\x1b" not in encode_paste(hostile, PLAIN)


def test_focus_is_reported_only_where_asked_for() -> None:
    assert encode_focus(True, PLAIN) == encode_focus(False, PLAIN) == b""
    asked = InputModes(focus_reports=True)
    assert (encode_focus(True, asked), encode_focus(False, asked)) == (b"\x1b[I", b"\x1b[O")


PRESS = MouseAction(Action.PRESS, Button.LEFT, 4, 9)
RELEASE = MouseAction(Action.RELEASE, Button.LEFT, 4, 9)
DRAG = MouseAction(Action.MOVE, Button.LEFT, 4, 9)
HOVER = MouseAction(Action.MOVE, Button.NONE, 4, 9)
WHEEL = MouseAction(Action.PRESS, Button.WHEEL_DOWN, 4, 9)


@pytest.mark.parametrize(
    ("reports", "sent"),
    [
        (MouseReports.OFF, []),
        (MouseReports.CLICKS, [PRESS]),
        (MouseReports.BUTTONS, [PRESS, RELEASE, WHEEL]),
        (MouseReports.DRAGS, [PRESS, RELEASE, DRAG, WHEEL]),
        (MouseReports.MOTION, [PRESS, RELEASE, DRAG, HOVER, WHEEL]),
    ],
)
def test_each_mode_hears_what_it_asked_for(reports: MouseReports, sent: list[MouseAction]) -> None:
    modes = InputModes(mouse=reports, mouse_format=MouseFormat.SGR)
    assert [mouse for mouse in (PRESS, RELEASE, DRAG, HOVER, WHEEL) if encode_mouse(mouse, modes)] == sent


def test_sgr_reports() -> None:
    modes = InputModes(mouse=MouseReports.MOTION, mouse_format=MouseFormat.SGR)
    assert encode_mouse(PRESS, modes) == b"\x1b[<0;5;10M"
    assert encode_mouse(RELEASE, modes) == b"\x1b[<0;5;10m"
    assert encode_mouse(DRAG, modes) == b"\x1b[<32;5;10M"
    assert encode_mouse(HOVER, modes) == b"\x1b[<35;5;10M"
    assert encode_mouse(WHEEL, modes) == b"\x1b[<65;5;10M"
    held = MouseAction(Action.PRESS, Button.RIGHT, 0, 0, shift=True, alt=True, ctrl=True)
    assert encode_mouse(held, modes) == b"\x1b[<30;1;1M"


def test_legacy_and_urxvt_reports() -> None:
    modes = InputModes(mouse=MouseReports.BUTTONS)
    assert encode_mouse(PRESS, modes) == b"\x1b[M \x25\x2a"
    assert encode_mouse(RELEASE, modes) == b"\x1b[M#\x25\x2a"
    assert encode_mouse(MouseAction(Action.PRESS, Button.LEFT, 223, 0), modes) == b""
    urxvt = InputModes(mouse=MouseReports.BUTTONS, mouse_format=MouseFormat.URXVT)
    assert encode_mouse(RELEASE, urxvt) == b"\x1b[35;5;10M"


def test_the_wheel_sends_arrows_to_a_full_screen_program_without_mouse() -> None:
    assert encode_wheel_keys(True, PLAIN) == b""
    full = InputModes(alternate_screen=True)
    assert encode_wheel_keys(True, full) == b"\x1b[A" * 3
    assert encode_wheel_keys(False, InputModes(alternate_screen=True, app_cursor=True)) == b"\x1bOB" * 3
    assert encode_wheel_keys(True, InputModes(alternate_screen=True, alternate_scroll=False)) == b""
