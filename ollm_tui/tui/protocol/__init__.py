"""What goes up (`intents`) and down (`updates`) between the screen and the backend behind it.

Two files, because together they are longer than one should be. Panes, screens and controllers import them; they import
none of those.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from ollm_tui.tui.protocol.intents import Intent
    from ollm_tui.tui.protocol.updates import Update
    from ollm_tui.tui.values import UnfinishedWork


class Backend(Protocol):
    """Everything behind the screen: the runtime controller, or something smaller in tests."""

    def handle(self, intent: Intent) -> None:
        """Start what the intent asks for; results arrive as updates."""
        ...

    def unfinished(self) -> UnfinishedWork:
        """Return what quitting now would end."""
        ...

    async def leave_jobs(self) -> tuple[str, ...]:
        """Detach the running jobs; return an error for each that could not be."""
        ...

    async def end_jobs(self) -> None:
        """End the jobs that would outlive the dashboard."""
        ...

    def closing_lines(self) -> tuple[str, ...]:
        """Return the lines to print in the terminal once the dashboard has closed."""
        ...


PostUpdate = Callable[["Update"], object]
"""Posts an update to the screen; safe from any task or thread."""

OpenBackend = Callable[[PostUpdate], AbstractAsyncContextManager[Backend]]
"""Builds everything behind the screen and takes it down again."""
