"""The memories of one workspace and its user (001 R11.1-R11.4, R11.9, 000 Properties 50-52)."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import MemoryFailed
from ollm_tui.core.memory.entries import MemoryEntry, MemoryScope, MemorySearchResult
from ollm_tui.core.memory.tables import REBUILD_WORDS, SCHEMA, Place, marks
from ollm_tui.core.storage.sqlite_file import is_index_damage
from ollm_tui.core.storage.store import Store, workspace_key

if TYPE_CHECKING:
    from ollm_tui.core.memory.embedding import Embedder
    from ollm_tui.core.memory.lookup import MemorySearch

MAX_KEY_CHARS = 10_000
"""Longest key; a longer text belongs into the value."""

MAX_VALUE_CHARS = 10_000_000
"""Longest value; larger things belong into a file."""


class Memory:
    """The memories of one workspace and its user. Every method blocks for a moment; any thread may call it.

    Keys and values are any text, empty ones included. Raises StorageFailed.
    """

    def __init__(
        self, store: Store, workspace: Path, *, clock: Clock | None = None, embedder: Embedder | None = None
    ) -> None:
        self._store = store
        self._places: dict[MemoryScope, Place] = {
            MemoryScope.WORKSPACE: workspace_key(workspace),
            MemoryScope.USER: "",  # no workspace has an empty name
        }
        self._scopes = {place: scope for scope, place in self._places.items()}
        self._clock = clock or SystemClock()
        self._embedder = embedder
        self._search: MemorySearch | None = None

    def get(self, key: str, scope: MemoryScope | None = None) -> MemoryEntry | None:
        """The memory under `key`: the workspace's, else the user's, unless `scope` says which (000 Property 50)."""
        with self._store.read(SCHEMA) as db:
            for wanted in _scopes(scope):
                row = db.execute(
                    "SELECT value, changed_at FROM memories WHERE place = ? AND key = ?", (self._places[wanted], key)
                ).fetchone()
                if row is not None:
                    return MemoryEntry(key, row[0], wanted, row[1])
        return None

    def set(self, key: str, value: str, scope: MemoryScope = MemoryScope.WORKSPACE) -> str | None:
        """Store `value` under `key` and return what stood there before. Raises MemoryFailed for what is too long."""
        _check_lengths(key, value)
        with self._store.write(SCHEMA) as db:
            before = _value(db, self._places[scope], key)
            self._put(db, self._places[scope], key, value)
        return before

    def replace(
        self, key: str, expected: str | None, value: str | None, scope: MemoryScope = MemoryScope.WORKSPACE
    ) -> bool:
        """Put `value` where `expected` stands, in one step; False where something else does, which then stays.

        None is no memory at all, before or after. Raises MemoryFailed for what is too long.
        """
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

    def _put(self, db: sqlite3.Connection, place: Place, key: str, value: str) -> None:
        moment = iso_time(self._clock.now())
        _with_index(
            db,
            "INSERT INTO memories(place, key, value, created_at, changed_at) VALUES(?, ?, ?, ?, ?) "
            "ON CONFLICT(place, key) DO UPDATE SET value = excluded.value, changed_at = excluded.changed_at "
            "WHERE value <> excluded.value",
            (place, key, value, moment, moment),
        )

    def delete(self, key: str, scope: MemoryScope = MemoryScope.WORKSPACE) -> bool:
        """Forget what stands under `key`; False when there was nothing (000 Property 51)."""
        with self._store.write(SCHEMA) as db:
            return _drop(db, self._places[scope], key) > 0

    def keys(self, scope: MemoryScope | None = None) -> tuple[str, ...]:
        """All keys, each once, in the order of their code points (000 Property 52)."""
        places = self._among(scope)
        with self._store.read(SCHEMA) as db:
            rows = db.execute(f"SELECT DISTINCT key FROM memories WHERE place IN ({marks(places)})", places)
            return tuple(sorted(row[0] for row in rows))

    def entries(self, scope: MemoryScope | None = None) -> tuple[MemoryEntry, ...]:
        """All memories, the workspace's first, by key."""
        places = self._among(scope)
        with self._store.read(SCHEMA) as db:
            rows = db.execute(
                f"SELECT key, value, place, changed_at FROM memories WHERE place IN ({marks(places)})", places
            )
            found = [self._remembered(*row) for row in rows]
        return tuple(sorted(found, key=lambda memory: (memory.scope is MemoryScope.USER, memory.key)))

    def search(
        self, query: str, limit: int = 10, scope: MemoryScope | None = None, signal: AbortSignal | None = None
    ) -> MemorySearchResult:
        """The memories that fit `query` best: by words (BM25), and by meaning where a model is installed.

        By words those with all of them come before those with some; where no word is found the query counts as a piece
        of text. By meaning, key and beginning of a value count (500 characters at most); a search reads what is new for
        up to five seconds and says how many memories are left. Raises OperationCancelled once `signal` is aborted.
        """
        from ollm_tui.core.memory.lookup import MemorySearch  # nothing of it is needed to start

        if self._search is None:
            self._search = MemorySearch(self._store, self._scopes, self._clock, self._embedder)
        return self._search.search(query, self._among(scope), limit, signal or AbortController().signal)

    def _remembered(self, key: str, value: str, place: Place, changed_at: str) -> MemoryEntry:
        return MemoryEntry(key, value, self._scopes[place], changed_at)

    def _among(self, scope: MemoryScope | None) -> tuple[Place, ...]:
        return tuple(self._places[wanted] for wanted in _scopes(scope))


def _value(db: sqlite3.Connection, place: Place, key: str) -> str | None:
    row = db.execute("SELECT value FROM memories WHERE place = ? AND key = ?", (place, key)).fetchone()
    return row[0] if row else None


def _drop(db: sqlite3.Connection, place: Place, key: str) -> int:
    return _with_index(db, "DELETE FROM memories WHERE place = ? AND key = ?", (place, key))


def _with_index(db: sqlite3.Connection, statement: str, values: Sequence[str | bytes]) -> int:
    """Change memories, making a damaged search index anew if it stands in the way; returns how many changed."""
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
