"""The way into the dashboard: imports and first frame without the garbage collector, which would find nothing.

Measured: a sixth of the time from start to first frame. `DashboardApp` calls `tidy_memory` once its house stands.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ollm_tui.options import Options


def run_dashboard(options: Options) -> int:
    """Run the dashboard until the person leaves; returns the exit code."""
    gc.disable()
    try:
        from ollm_tui.tui.app import DashboardApp
        from ollm_tui.tui.first_frame import first_frame

        return DashboardApp(options).run(mouse=first_frame(options).mouse) or 0
    finally:
        gc.enable()


def tidy_memory() -> None:
    """End the start: what lives now lives to the end, and need not be looked at again.

    Does nothing in an app that was not started by `run_dashboard`.
    """
    if not gc.isenabled():
        gc.collect()
        gc.freeze()
        gc.enable()
