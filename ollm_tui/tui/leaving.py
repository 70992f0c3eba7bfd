"""Leaving the dashboard: asked first while something is live, at once on signals, always in order.

Each signal leaves as the quit key does, so that screen, log and commands end in order.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.backend_holder import BackendHolder
from ollm_tui.tui.decisions import KeyPresses
from ollm_tui.tui.notifications import Notifier

if TYPE_CHECKING:
    from textual.app import App

    from ollm_tui.tui.screens.question_screens import QuitChoice

FATAL = (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
"""Signals from outside; ctrl+c in the terminal is a key, and SIGKILL asks nobody."""
OF_KEYS = (signal.SIGINT, signal.SIGQUIT)
"""While a program has the terminal, its keys make these."""
EXIT_ON_SIGNAL = 130
"""Exit code after a signal (contract section 0)."""


class Leaving:
    """Closes the backend, which saves, and then the screen."""

    def __init__(self, app: App[int], holder: BackendHolder, notifier: Notifier, presses: KeyPresses) -> None:
        self._app = app
        self._holder = holder
        self._notifier = notifier
        self._presses = presses

    async def ask(self) -> None:
        """Quit; while something is live, ask first."""
        backend = self._holder.backend
        unfinished = backend.unfinished() if backend is not None else None
        if not unfinished:
            await self.leave()
            return
        from ollm_tui.tui.screens.question_screens import QuitScreen

        if not isinstance(self._app.screen, QuitScreen):
            self._app.push_screen(QuitScreen(unfinished, self._presses), self._leave_as)

    async def _leave_as(self, how: QuitChoice | None) -> None:
        """Quit in the way that was chosen; stay when jobs cannot be left running."""
        backend = self._holder.backend
        if how is None or backend is None:
            return
        if how == "leave":
            failures = await backend.leave_jobs()
            for failure in failures:
                self._app.notify(visible(failure), severity="error", markup=False, timeout=15)
            if failures:
                return
        else:
            await backend.end_jobs()
        await self.leave()

    async def leave(self, code: int = 0) -> None:
        """Close without a question."""
        if self._holder.backend is not None:
            self._app.notify("Closing ...", markup=False)
        self._notifier.give_title_back()
        await self._holder.close()
        self._app.exit(code)

    def on_signals(self, terminal_is_lent: Callable[[], bool]) -> None:
        """Leave once a signal or a hangup arrives; ctrl+c is meant for who has the terminal."""
        loop = asyncio.get_running_loop()

        def leave() -> None:
            self._app.run_worker(self.leave(EXIT_ON_SIGNAL), name="leave on signal", exit_on_error=False)

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
