"""The values of memory: entries, pages of a list, and search results."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MemoryScope(StrEnum):
    """Who a memory is for."""

    WORKSPACE = "workspace"
    """Everybody who works in this workspace; the default."""
    USER = "user"
    """This user, in every workspace."""


@dataclass(frozen=True)
class MemoryEntry:
    """One memory. `changed_at` is UTC in ISO 8601."""

    key: str
    value: str
    scope: MemoryScope
    changed_at: str


class MemoryOrder(StrEnum):
    """The order of a list; the workspace's memories always come before the user's."""

    KEY = "key, place"
    NEWEST = "changed_at DESC, key"
    """Last changed first; by key where the times are the same, so that the order is fixed."""


@dataclass(frozen=True)
class MemorySummary:
    """One memory without its whole text. `size` is in bytes of UTF-8, `changed_at` UTC in ISO 8601."""

    key: str
    scope: MemoryScope
    opening: str
    size: int
    changed_at: str

    @property
    def whole(self) -> bool:
        """Whether the opening is the whole text."""
        return len(self.opening.encode()) == self.size


@dataclass(frozen=True)
class MemoryPage:
    """A part of a list or of what a search found; `total` counts all of it."""

    entries: tuple[MemorySummary, ...]
    total: int
    notes: tuple[str, ...] = ()
    """What the reader should know about the search."""


class Ranking(StrEnum):
    """What a search ranked by, or what one memory was found by."""

    KEYWORD_ONLY = "keyword only"
    WORDS_AND_MEANING = "words and meaning"
    MEANING_ONLY = "meaning only"


@dataclass(frozen=True)
class MemoryMatch:
    """A memory that a search found; `snippet` is one line around the first matching word."""

    memory: MemoryEntry
    snippet: str
    by: Ranking


@dataclass(frozen=True)
class MemorySearchResult:
    """What a search found, best first."""

    found: tuple[MemoryMatch, ...]
    ranking: Ranking
    notes: tuple[str, ...] = ()
    """What the reader should know about the search."""
