"""The memories of one workspace and its user (001 R11.1-R11.4, R11.9, 000 Properties 50-52)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import MemoryFailed
from ollm_tui.core.memory.entries import (
    REBUILD_WORDS,
    SCHEMA,
    MemoryEntry,
    MemoryOrder,
    MemoryPage,
    MemoryScope,
    MemorySearchResult,
    MemorySummary,
    ScopeKey,
    placeholders,
)
from ollm_tui.core.storage.sqlite_file import is_index_damage
from ollm_tui.core.storage.store import Store, workspace_key

if TYPE_CHECKING:
    from ollm_tui.core.memory.ranked_search import RankedSearch
    from ollm_tui.core.search.embedder import Embedder

MAX_KEY_CHARS = 10_000
"""Longest key; a longer text belongs into the value."""

MAX_VALUE_CHARS = 10_000_000
"""Longest value; larger things belong into a file."""

OPENING_CHARS = 2_000
"""How much of a text a page shows; a text of 10 MB costs no more than that."""

_SUMMARY = f"key, place, substr(value, 1, {OPENING_CHARS}), length(CAST(value AS BLOB)), changed_at"


class Memory:
    """The memories of one workspace and its user: any text, blocking, for any thread. Raises StorageFailed."""

    def __init__(
        self, store: Store, workspace: Path, *, clock: Clock | None = None, embedder: Embedder | None = None
    ) -> None:
        self._store = store
        self._places: dict[MemoryScope, ScopeKey] = {
            MemoryScope.WORKSPACE: workspace_key(workspace),
            MemoryScope.USER: "",  # no workspace has an empty name
        }
        self._scopes = {place: scope for scope, place in self._places.items()}
        self._clock = clock or SystemClock()
        self._embedder = embedder
        self._search: RankedSearch | None = None

    def get(self, key: str, scope: MemoryScope | None = None) -> MemoryEntry | None:
        """Return the memory under `key`, the workspace's before the user's (000 Property 50)."""
        with self._store.read(SCHEMA) as db:
            for wanted in _scopes(scope):
                row = db.execute(
                    "SELECT value, changed_at FROM memories WHERE place = ? AND key = ?", (self._places[wanted], key)
                ).fetchone()
                if row is not None:
                    return MemoryEntry(key, row[0], wanted, row[1])
        return None

    def set(self, key: str, value: str, scope: MemoryScope = MemoryScope.WORKSPACE) -> str | None:
        """Store `value` under `key`; return the value before. Raises MemoryFailed if too long."""
        _check_lengths(key, value)
        with self._store.write(SCHEMA) as db:
            before = _value(db, self._places[scope], key)
            self._put(db, self._places[scope], key, value)
        return before

    def replace(
        self, key: str, expected: str | None, value: str | None, scope: MemoryScope = MemoryScope.WORKSPACE
    ) -> bool:
        """Put `value` where `expected` is stored (None is no memory); return False where something else is."""
        _check_lengths(key, value or "")
        place = self._places[scope]
        with self._store.write(SCHEMA) as db:
            if _value(db, place, key) != expected:
                return False
            if value is None:
                _drop(db, place, key)
            else:
                self._put(db, place, key, value)
        return True

    def _put(self, db: sqlite3.Connection, place: ScopeKey, key: str, value: str) -> None:
        moment = iso_time(self._clock.now())
        _with_index(
            db,
            "INSERT INTO memories(place, key, value, created_at, changed_at) VALUES(?, ?, ?, ?, ?) "
            "ON CONFLICT(place, key) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at "
            "WHERE value <> excluded.value",
            (place, key, value, moment, moment),
        )

    def delete(self, key: str, scope: MemoryScope = MemoryScope.WORKSPACE) -> bool:
        """Delete the memory under `key`; return False if there was none (000 Property 51)."""
        with self._store.write(SCHEMA) as db:
            return _drop(db, self._places[scope], key) > 0

    def keys(self, scope: MemoryScope | None = None) -> tuple[str, ...]:
        """Return all keys, each once, in the order of their code points (000 Property 52)."""
        places = self._places_of(scope)
        with self._store.read(SCHEMA) as db:
            rows = db.execute(f"SELECT DISTINCT key FROM memories WHERE place IN ({placeholders(places)})", places)
            return tuple(sorted(row[0] for row in rows))

    def entries(self, scope: MemoryScope | None = None) -> tuple[MemoryEntry, ...]:
        """Return all memories, the workspace's first, by key."""
        places = self._places_of(scope)
        with self._store.read(SCHEMA) as db:
            rows = db.execute(
                f"SELECT key, value, place, changed_at FROM memories WHERE place IN ({placeholders(places)})", places
            )
            found = [self._entry(*row) for row in rows]
        return tuple(sorted(found, key=lambda memory: (memory.scope is MemoryScope.USER, memory.key)))

    def search(
        self, query: str, limit: int = 10, scope: MemoryScope | None = None, signal: AbortSignal | None = None
    ) -> MemorySearchResult:
        """Return the memories that fit `query` best: by words (BM25), and by meaning where a model is installed.

        Those with all words come before those with some; where no word is found the query counts as text.
        By meaning, key and beginning of a value count (500 characters at most); a search reads what is new for
        up to five seconds and says how many memories are left. Raises OperationCancelled once `signal` is aborted.
        """
        ranked = self._ranked_search.rank(query, self._places_of(scope), signal or AbortController().signal)
        return self._ranked_search.matches(ranked, query, limit)

    def page(
        self,
        query: str = "",
        *,
        scope: MemoryScope | None = None,
        order: MemoryOrder = MemoryOrder.KEY,
        offset: int = 0,
        limit: int = 1_000,
        signal: AbortSignal | None = None,
    ) -> MemoryPage:
        """Return a part of what `search` finds, best first; without a query of all memories in `order`."""
        places = self._places_of(scope)
        if query.strip():
            ranked = self._ranked_search.rank(query, places, signal or AbortController().signal)
            numbers = ranked.numbers[offset : offset + limit]
            with self._store.read(SCHEMA) as db:
                rows = db.execute(
                    f"SELECT number, {_SUMMARY} FROM memories WHERE number IN ({placeholders(numbers)})", numbers
                )
                found = {number: self._summary(*row) for number, *row in rows}
            shown = tuple(found[number] for number in numbers if number in found)
            return MemoryPage(shown, len(ranked.numbers), ranked.notes)
        chosen = f"FROM memories WHERE place IN ({placeholders(places)})"
        with self._store.read(SCHEMA) as db:
            total = db.execute(f"SELECT count(*) {chosen}", places).fetchone()[0]
            rows = db.execute(
                f"SELECT {_SUMMARY} {chosen} ORDER BY place = '', {order.value} LIMIT ? OFFSET ?",
                (*places, limit, offset),
            ).fetchall()
        return MemoryPage(tuple(self._summary(*row) for row in rows), total)

    @property
    def _ranked_search(self) -> RankedSearch:
        from ollm_tui.core.memory.ranked_search import RankedSearch  # nothing of it is needed to start

        if self._search is None:
            self._search = RankedSearch(self._store, self._scopes, self._clock, self._embedder)
        return self._search

    def _entry(self, key: str, value: str, place: ScopeKey, changed_at: str) -> MemoryEntry:
        return MemoryEntry(key, value, self._scopes[place], changed_at)

    def _summary(self, key: str, place: ScopeKey, opening: str, size: int, changed_at: str) -> MemorySummary:
        return MemorySummary(key, self._scopes[place], opening, size, changed_at)

    def _places_of(self, scope: MemoryScope | None) -> tuple[ScopeKey, ...]:
        return tuple(self._places[wanted] for wanted in _scopes(scope))


def _value(db: sqlite3.Connection, place: ScopeKey, key: str) -> str | None:
    row = db.execute("SELECT value FROM memories WHERE place = ? AND key = ?", (place, key)).fetchone()
    return row[0] if row else None


def _drop(db: sqlite3.Connection, place: ScopeKey, key: str) -> int:
    return _with_index(db, "DELETE FROM memories WHERE place = ? AND key = ?", (place, key))


def _with_index(db: sqlite3.Connection, statement: str, values: Sequence[str | bytes]) -> int:
    """Change memories, rebuilding a damaged search index if needed; return how many changed."""
    try:
        return db.execute(statement, values).rowcount
    except sqlite3.DatabaseError as error:
        if not is_index_damage(error):
            raise
        db.execute(REBUILD_WORDS)
        return db.execute(statement, values).rowcount


def _scopes(scope: MemoryScope | None) -> tuple[MemoryScope, ...]:
    return tuple(MemoryScope) if scope is None else (scope,)


def _check_lengths(key: str, value: str) -> None:
    _check_length("key", key, MAX_KEY_CHARS, "Shorten it; the text itself belongs into value")
    _check_length("value", value, MAX_VALUE_CHARS, "Write it to a file and remember the file's path")


def _check_length(what: str, text: str, limit: int, remedy: str) -> None:
    if len(text) > limit:
        raise MemoryFailed(f"A {what} of {len(text):,} characters is over the limit of {limit:,}. {remedy}.")
