"""Starts the dashboard: imports and first frame without the garbage collector, which would find little.

Measured: a sixth of the time from start to first frame. A file of its own, as it has to run before the app is imported.
"""

from __future__ import annotations

import gc
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from ollm_tui.tui.skeleton import skeleton

if TYPE_CHECKING:
    from ollm_tui.options import Options


def run_dashboard(options: Options) -> int:
    """Run the dashboard until the person leaves; return the exit code."""
    gc.disable()
    with skeleton():
        return _run(options)


def _run(options: Options) -> int:
    try:
        from ollm_tui.core.base.log_file import open_log
        from ollm_tui.tui.app import DashboardApp
        from ollm_tui.tui.first_frame import first_frame

        open_log()
        app = DashboardApp(options)
        code = app.run(mouse=first_frame(options).mouse) or 0
        with suppress(OSError):  # the terminal itself may be what is gone
            for line in app.holder.closing_lines:
                print(line, file=sys.stderr)
        return code
    finally:
        gc.enable()
