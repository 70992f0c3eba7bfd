"""The driver of a dashboard that a browser shows: Textual's, which also leaves when the server is gone."""

from __future__ import annotations

import os
import signal

from textual.drivers.web_driver import WebDriver

SERVED_DRIVER = f"{__name__}:ServedDriver"
"""What the server sets TEXTUAL_DRIVER to."""


class ServedDriver(WebDriver):
    """Talks with `ollm-tui serve` over its standard streams."""

    def run_input_thread(self) -> None:
        """Read input; its end while the app runs means that the server was killed."""
        super().run_input_thread()
        if not self.exit_event.is_set():
            os.kill(os.getpid(), signal.SIGTERM)
