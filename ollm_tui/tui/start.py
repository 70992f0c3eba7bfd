"""Starts the dashboard: imports and first frame without the garbage collector, which would find little.

Measured: a sixth of the time from start to first frame. `DashboardApp` calls `collect_garbage` after the first frame
and `end_start` once its backend is ready.
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
    """Run the dashboard until the person leaves; return the exit code."""
    gc.disable()
    try:
        from ollm_tui.tui.app import DashboardApp
        from ollm_tui.tui.first_frame import first_frame

        app = DashboardApp(options)
        code = app.run(mouse=first_frame(options).mouse) or 0
        with suppress(OSError):  # the terminal itself may be what is gone
            for line in app.closing_lines:
                print(line, file=sys.stderr)
        return code
    finally:
        gc.enable()


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


def collect_garbage() -> None:
    """Collect the garbage of the start once; objects that live now live to the end.

    Does nothing in an app that was not started by `run_dashboard`.
    """
    if not gc.isenabled():
        gc.collect()
        gc.freeze()


def end_start() -> None:
    """Switch the garbage collector on again."""
    collect_garbage()
    gc.enable()
