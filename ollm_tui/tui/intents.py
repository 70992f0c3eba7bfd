"""The one base of everything the screen asks of the house, and who takes it; the app knows no more of the house."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from textual.message import Message

from ollm_tui.tui.news import News
from ollm_tui.tui.values import Unfinished


class Intent(Message):
    """A wish of the person, carrying plain data. Subclasses are nested in the widget that emits them."""


class Steward(Protocol):
    """What stands behind the screen; the bridge in life, something smaller in tests."""

    def handle(self, intent: Intent) -> None:
        """Take a wish; what comes of it arrives as news. Returns at once."""
        ...

    def unfinished(self) -> Unfinished:
        """What quitting now would end."""
        ...

    async def leave_jobs(self) -> tuple[str, ...]:
        """Let the jobs go on when the dashboard is gone; says which could not, and those are as before."""
        ...

    async def end_jobs(self) -> None:
        """End what would not end by itself with the dashboard."""
        ...

    def last_words(self) -> tuple[str, ...]:
        """What the person has to know after the dashboard has closed, for their terminal."""
        ...


Tell = Callable[[News], object]
"""Posts news to the screen; safe from any task or thread."""

OpenHouse = Callable[[Tell], AbstractAsyncContextManager[Steward]]
"""Builds everything behind the screen and takes it down again."""
