"""Memory that outlives a session: texts under keys, for a workspace or its user."""

from ollm_tui.core.memory.entries import (
    SCHEMA,
    MemoryEntry,
    MemoryMatch,
    MemoryOrder,
    MemoryPage,
    MemoryScope,
    MemorySearchResult,
    MemorySummary,
    Ranking,
)
from ollm_tui.core.memory.memories import MAX_KEY_CHARS, MAX_VALUE_CHARS, OPENING_CHARS, Memory

__all__ = [
    "MAX_KEY_CHARS",
    "MAX_VALUE_CHARS",
    "OPENING_CHARS",
    "SCHEMA",
    "Memory",
    "MemoryEntry",
    "MemoryMatch",
    "MemoryOrder",
    "MemoryPage",
    "MemoryScope",
    "MemorySearchResult",
    "MemorySummary",
    "Ranking",
]
