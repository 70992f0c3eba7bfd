"""The first picture: painted before the toolkit is imported, where everything will be; it imports next to nothing.

What is typed meanwhile stays in the terminal's queue, in its order, and is read by the dashboard: no key of it decides
anything, as a question counts keys from its own first picture on.
"""

from __future__ import annotations

import os
import signal
import sys
import termios
from collections.abc import Generator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

SCREEN = 2
"""Where the toolkit draws."""
KEYBOARD = 0
LEAST_COLUMNS, LEAST_ROWS = 40, 10
WIDE_COLUMNS = 100
"""As the layout has them."""

_ENTER, _LEAVE = b"\x1b[?1049h\x1b[?25l\x1b[H", b"\x1b[?1049l\x1b[?25h"
_IFLAG, _LFLAG = 0, 3


class _Shown:
    """The picture that is on the screen."""

    modes: list[Any] | None = None
    """The terminal's own, as tcgetattr gives them, until the toolkit takes it."""
    handlers: dict[int, Any] = {}  # noqa: RUF012  # one for the process, as its terminal


@contextmanager
def skeleton() -> Generator[None]:
    """Paint the picture, and leave the terminal as it was: at once where the toolkit never took it."""
    modes = _modes()
    if modes is None:
        yield
        return
    try:
        _paint(modes)
        yield
    finally:
        if _Shown.modes is not None:
            hand_over()
            with suppress(OSError):
                os.write(SCREEN, _LEAVE)
        for number, handler in _Shown.handlers.items():
            if signal.getsignal(number) is _end:
                signal.signal(number, handler)
        _Shown.handlers.clear()


def hand_over() -> None:
    """Give the terminal its own modes back: the toolkit takes them from now on. Does nothing without a picture.

    A signal goes on ending the program from here until the dashboard takes signals itself: the toolkit, which has the
    terminal by then, leaves it as it was.
    """
    if _Shown.modes is None:
        return
    with suppress(termios.error):  # the terminal itself may be what is gone
        termios.tcsetattr(KEYBOARD, termios.TCSANOW, _Shown.modes)
    _Shown.modes = None


def picture(columns: int, rows: int) -> str:
    """Return the rows of the picture: lines where panes meet, without colours."""
    wide = columns >= WIDE_COLUMNS
    lines = [""] * rows
    lines[0] = " STARTING"
    if wide:
        lines[2] = f"─ Chat {'─' * (columns - 7)}"
    lines[rows - (5 if wide else 4)] = f"━ Prompt {'━' * (columns - 9)}"
    lines[rows - 2] = "━" * columns
    return "\r\n".join(lines)


def _modes() -> list[Any] | None:
    """Return the terminal's modes; None where no picture can or should be painted."""
    if os.environ.get("TERM", "dumb") == "dumb" or os.environ.get("TEXTUAL_DRIVER"):
        return None
    try:
        columns, rows = os.get_terminal_size(SCREEN)
        if columns < LEAST_COLUMNS or rows < LEAST_ROWS or os.tcgetpgrp(KEYBOARD) != os.getpgrp():
            return None
        return termios.tcgetattr(KEYBOARD)
    except (OSError, termios.error):
        return None


def _paint(modes: list[Any]) -> None:
    quiet = [*modes]
    quiet[_IFLAG] &= ~(termios.ICRNL | termios.IXON)
    quiet[_LFLAG] &= ~(termios.ICANON | termios.ECHO | termios.IEXTEN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_DFL:
            _Shown.handlers[number] = signal.signal(number, _end)
    _Shown.modes = modes
    with suppress(OSError, termios.error):
        termios.tcsetattr(KEYBOARD, termios.TCSANOW, quiet)
        columns, rows = os.get_terminal_size(SCREEN)
        os.write(SCREEN, _ENTER + picture(columns, rows).encode())


def _end(number: int, _: FrameType | None) -> None:
    """End as the signal asks, after the terminal is as it was."""
    sys.exit(128 + number)
