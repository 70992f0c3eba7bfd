"""What the memory screen asks for; apart from the screen, whose widgets a start without it need not load."""

from __future__ import annotations

from dataclasses import dataclass

from ollm_tui.tui.intents import Intent
from ollm_tui.tui.memory_values import MemoryName, MemoryQuery


class MemoryWish(Intent):
    """Base of all of them."""


@dataclass
class Listed(MemoryWish):
    """Tell which there are, now and after each change."""

    query: MemoryQuery


@dataclass
class Read(MemoryWish):
    """Tell the whole text, now and after each change."""

    name: MemoryName


@dataclass
class Saved(MemoryWish):
    """Put `value` where `expected` stands, None for nothing; do nothing where another text does."""

    name: MemoryName
    expected: str | None
    value: str


@dataclass
class Deleted(MemoryWish):
    """Forget it."""

    name: MemoryName


class Undone(MemoryWish):
    """Put back what stood where the person changed something last."""


class Left(MemoryWish):
    """Nobody looks any more."""
