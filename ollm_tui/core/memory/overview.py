"""Memories seen from afar: keys, openings, sizes and ages of many, without reading their whole texts (001 R11.4)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ollm_tui.core.memory.entries import MemoryScope
from ollm_tui.core.memory.tables import SCHEMA
from ollm_tui.core.storage.store import Store, workspace_key

OPENING_CHARS = 2_000
"""How much of a text's beginning comes along; a text of 10 MB costs no more than that."""


class MemoryOrder(StrEnum):
    """How memories are put in order; the workspace's always stand before the user's."""

    KEY = "key, place"
    NEWEST = "changed_at DESC, key"
    """Last changed first, and by key where the times are the same: the same store gives the same order."""


@dataclass(frozen=True)
class MemorySummary:
    """One memory without its whole text. `size` counts bytes of UTF-8, `changed_at` is UTC in ISO 8601."""

    key: str
    scope: MemoryScope
    opening: str
    size: int
    changed_at: str

    @property
    def whole(self) -> bool:
        """Whether the opening is all there is."""
        return len(self.opening.encode()) == self.size


@dataclass(frozen=True)
class MemoryPage:
    """The first memories in their order, and how many there are in all."""

    glances: tuple[MemorySummary, ...]
    total: int


class MemoryOverview:
    """Lists the memories of one workspace and its user. Blocks for a moment; any thread may call it."""

    def __init__(self, store: Store, workspace: Path) -> None:
        self._store = store
        self._places: dict[MemoryScope, str | bytes] = {
            MemoryScope.WORKSPACE: workspace_key(workspace),
            MemoryScope.USER: "",
        }

    def look(
        self,
        *,
        scope: MemoryScope | None = None,
        containing: str = "",
        order: MemoryOrder = MemoryOrder.KEY,
        limit: int = 1_000,
    ) -> MemoryPage:
        """The memories with `containing` in key or text, letters of either case. Raises StorageFailed."""
        places = [self._places[one] for one in MemoryScope if scope in (None, one)]
        scopes = {place: one for one, place in self._places.items()}
        where = [f"place IN ({', '.join('?' * len(places))})"]
        values: list[str | bytes | int] = [*places]
        if containing:
            # SQLite folds the letters of ASCII alone; of the others the usual ways of writing are tried.
            ways = {_folded(way) for way in (containing, containing.lower(), containing.upper(), containing.title())}
            hits = " OR ".join("instr(lower(key), ?) OR instr(lower(value), ?)" for _ in ways)
            where.append(f"({hits})")
            values += [way for one in sorted(ways) for way in (one, one)]
        chosen = " AND ".join(where)
        with self._store.read(SCHEMA) as db:
            total = db.execute(f"SELECT count(*) FROM memories WHERE {chosen}", values).fetchone()[0]
            rows = db.execute(
                f"""SELECT key, place, substr(value, 1, {OPENING_CHARS}), length(CAST(value AS BLOB)), changed_at
                    FROM memories WHERE {chosen} ORDER BY place = '', {order.value} LIMIT ?""",
                (*values, limit),
            ).fetchall()
        glances = (
            MemorySummary(key, scopes[place], opening, size, changed) for key, place, opening, size, changed in rows
        )
        return MemoryPage(tuple(glances), total)


def _folded(text: str) -> str:
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)
