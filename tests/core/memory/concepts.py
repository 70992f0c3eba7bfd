"""A model of meaning for tests: texts are alike as far as their words stand for the same things."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence

from ollm_tui.core.search.embedder import Comparison, EmbeddingError

THINGS = (
    {"car", "vehicle", "auto", "automobile", "wagen", "車"},
    {"lunch", "food", "mittagessen", "昼食"},
    {"password", "credentials", "passwort"},
    {"printer", "drucker", "プリンター"},
)


class Concepts:
    """Counts what it read (`passages`, `questions`) and where; `before_reading` runs before each passage."""

    chance = 0.5
    spread = 0.4

    def __init__(self, name: str = "concepts 1") -> None:
        self.name = name
        self.passages: list[str] = []
        self.questions: list[str] = []
        self.comparisons: list[int] = []
        """How many passages were made ready for comparing, each time."""
        self.threads: set[int] = set()
        self.before_reading: Callable[[str], object] = lambda _: None
        self.broken = ""

    def passage(self, text: str) -> bytes:
        self.before_reading(text)
        self.passages.append(text)
        return self._vector(text)

    def query(self, text: str) -> bytes:
        self.questions.append(text)
        return self._vector(text)

    def comparison(self, passages: Sequence[bytes]) -> Comparison:
        self.comparisons.append(len(passages))
        held = [_numbers(each) for each in passages]

        def compared(question: bytes) -> list[float]:
            wanted = _numbers(question)
            return [sum(one * other for one, other in zip(wanted, each, strict=True)) for each in held]

        return compared

    def _vector(self, text: str) -> bytes:
        if self.broken:
            raise EmbeddingError(self.broken)
        self.threads.add(threading.get_ident())
        lowered = text.lower()
        return struct.pack(f"{len(THINGS)}f", *(float(any(word in lowered for word in thing)) for thing in THINGS))


def _numbers(vector: bytes) -> tuple[float, ...]:
    return struct.unpack(f"{len(THINGS)}f", vector)
