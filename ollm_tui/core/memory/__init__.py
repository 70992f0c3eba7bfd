"""Memory that outlives a session: texts under keys, for a workspace or for its user, found by words and by meaning."""

from ollm_tui.core.memory.entries import MemoryEntry, MemoryMatch, MemoryScope, MemorySearchResult, Ranking
from ollm_tui.core.memory.memories import MAX_KEY_CHARS, MAX_VALUE_CHARS, Memory
from ollm_tui.core.memory.tables import SCHEMA

__all__ = [
    "MAX_KEY_CHARS",
    "MAX_VALUE_CHARS",
    "SCHEMA",
    "Memory",
    "MemoryEntry",
    "MemoryMatch",
    "MemoryScope",
    "MemorySearchResult",
    "Ranking",
]
