"""Signals that end the program: each leaves as the quit key does, so that screen, log and commands end in order."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable

FATAL = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals from outside; ctrl+c in the terminal is a key, and SIGKILL asks nobody."""
OF_KEYS = (signal.SIGINT, signal.SIGQUIT)
"""While a program has the terminal, its keys make these."""


def leave_on_signals(leave: Callable[[], None], terminal_is_lent: Callable[[], bool]) -> None:
    """Call `leave` in the event loop once one of them or a hangup arrives; ctrl+c is meant for who has the terminal."""
    loop = asyncio.get_running_loop()

    def leave_unless_lent() -> None:
        if not terminal_is_lent():
            leave()

    for number in FATAL:
        loop.add_signal_handler(number, leave_unless_lent if number in OF_KEYS else leave)

    def hung_up(number: int, frame: object) -> None:
        # At once, not from the loop: the SIGCONT that comes along makes Textual write to the terminal.
        release_lost_terminal()
        loop.call_soon_threadsafe(leave)

    signal.signal(signal.SIGHUP, hung_up)


def release_lost_terminal() -> None:
    """Write to the null device from now on if the terminal was closed."""
    # Textual's writer ends with its first failure, and whoever has more to write then waits for it for ever.
    try:
        termios.tcgetattr(sys.__stderr__ or 2)
    except (termios.error, OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)
