"""The one base of everything the screen asks of the house, and who takes it; the app knows no more of the house."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from textual.message import Message

from ollm_tui.tui.news import News


class Intent(Message):
    """A wish of the person, carrying plain data. Subclasses are nested in the widget that emits them."""


class Steward(Protocol):
    """What stands behind the screen; the bridge in life, something smaller in tests."""

    def handle(self, intent: Intent) -> None:
        """Take a wish; what comes of it arrives as news. Returns at once."""
        ...

    def unfinished(self) -> tuple[str, ...]:
        """What quitting now would end, in words."""
        ...


Tell = Callable[[News], object]
"""Posts news to the screen; safe from any task or thread."""

OpenHouse = Callable[[Tell], AbstractAsyncContextManager[Steward]]
"""Builds everything behind the screen and takes it down again."""
