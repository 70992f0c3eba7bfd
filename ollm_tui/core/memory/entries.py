"""The values of memory: one remembered text, and what a search answers."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class MemoryScope(StrEnum):
    """Who a memory is for."""

    WORKSPACE = "workspace"
    """Everybody who works in this workspace; where memories go unless said otherwise."""
    USER = "user"
    """This user, in every workspace."""


@dataclass(frozen=True)
class MemoryEntry:
    """One memory. `changed_at` is UTC in ISO 8601."""

    key: str
    value: str
    scope: MemoryScope
    changed_at: str


class Ranking(StrEnum):
    """By what a search went, or by what one memory was found."""

    KEYWORD_ONLY = "keyword only"
    WORDS_AND_MEANING = "words and meaning"
    MEANING_ONLY = "meaning only"


@dataclass(frozen=True)
class MemoryMatch:
    """A memory that a search found; `snippet` is one line around the first word that matched."""

    memory: MemoryEntry
    snippet: str
    by: Ranking


@dataclass(frozen=True)
class MemorySearchResult:
    """What was found, best first, by what all memories were ranked, and what the reader should know about that."""

    found: tuple[MemoryMatch, ...]
    ranking: Ranking
    notes: tuple[str, ...] = ()
