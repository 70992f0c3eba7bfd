"""The way into the dashboard: imports and first frame without the garbage collector, which would find little.

Measured: a sixth of the time from start to first frame. `DashboardApp` calls `tidy_memory` after the first frame and
`end_start` once its house stands.
"""

from __future__ import annotations

import gc
import os
import sys
import termios
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ollm_tui.options import Options


def run_dashboard(options: Options) -> int:
    """Run the dashboard until the person leaves; returns the exit code."""
    gc.disable()
    try:
        from ollm_tui.tui.app import DashboardApp
        from ollm_tui.tui.first_frame import first_frame

        app = DashboardApp(options)
        code = app.run(mouse=first_frame(options).mouse) or 0
        with suppress(OSError):  # the terminal itself may be what is gone
            for words in app.last_words:
                print(words, file=sys.stderr)
        return code
    finally:
        gc.enable()


def let_go_of_lost_terminal() -> None:
    """Where the terminal was closed, write nowhere from now on: Textual's writer ends with its first failure, and
    whoever has more to write then waits for it for ever."""
    try:
        termios.tcgetattr(sys.__stderr__ or 2)
    except (termios.error, OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)


def tidy_memory() -> None:
    """Give back what the start has left behind; what lives now lives to the end, and need not be looked at again.

    Does nothing in an app that was not started by `run_dashboard`.
    """
    if not gc.isenabled():
        gc.collect()
        gc.freeze()


def end_start() -> None:
    """From now on the garbage collector works as everywhere."""
    tidy_memory()
    gc.enable()
