"""Memory that outlives a session: texts under keys, for a workspace or for its user (001 R11.1-R11.4, R11.9)."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import MemoryFailed
from ollm_tui.core.base.sqlite_file import is_index_damage
from ollm_tui.core.base.store import Schema, Store, workspace_key

MAX_KEY_CHARS = 10_000
"""Longest key; a longer text belongs into the value."""

MAX_VALUE_CHARS = 10_000_000
"""Longest value; larger things belong into a file."""

SNIPPET_CHARS = 240
"""How much of a value a search shows around the first word found."""

_SEARCHED_WORDS = 32

SCHEMA = Schema(
    "memory",
    (
        (
            """CREATE TABLE memories(
                number INTEGER PRIMARY KEY, place NOT NULL, key TEXT NOT NULL, value TEXT NOT NULL,
                created_at TEXT NOT NULL, changed_at TEXT NOT NULL, UNIQUE(place, key))""",
            """CREATE VIRTUAL TABLE memory_index USING fts5(
                key, value, content = 'memories', content_rowid = 'number',
                tokenize = 'porter unicode61 remove_diacritics 2')""",
            """CREATE TRIGGER memory_added AFTER INSERT ON memories BEGIN
                INSERT INTO memory_index(rowid, key, value) VALUES(new.number, new.key, new.value); END""",
            """CREATE TRIGGER memory_removed AFTER DELETE ON memories BEGIN
                INSERT INTO memory_index(memory_index, rowid, key, value)
                VALUES('delete', old.number, old.key, old.value); END""",
            """CREATE TRIGGER memory_changed AFTER UPDATE OF key, value ON memories BEGIN
                INSERT INTO memory_index(memory_index, rowid, key, value)
                VALUES('delete', old.number, old.key, old.value);
                INSERT INTO memory_index(rowid, key, value) VALUES(new.number, new.key, new.value); END""",
        ),
    ),
)


class MemoryScope(StrEnum):
    """Who a memory is for."""

    WORKSPACE = "workspace"
    """Everybody who works in this workspace; where memories go unless said otherwise."""
    USER = "user"
    """This user, in every workspace."""


@dataclass(frozen=True)
class Remembered:
    """One memory. `changed_at` is UTC in ISO 8601."""

    key: str
    value: str
    scope: MemoryScope
    changed_at: str


@dataclass(frozen=True)
class Found:
    """A memory that a search found; `snippet` is one line around the first word that matched."""

    memory: Remembered
    snippet: str


class Memory:
    """The memories of one workspace and its user. Every method blocks for a moment; any thread may call it.

    Keys and values are any text, empty ones included. Raises StorageFailed.
    """

    def __init__(self, store: Store, workspace: Path, *, clock: Clock | None = None) -> None:
        self._store = store
        self._places: dict[MemoryScope, str | bytes] = {
            MemoryScope.WORKSPACE: workspace_key(workspace),
            MemoryScope.USER: "",  # no workspace has an empty name
        }
        self._scopes = {place: scope for scope, place in self._places.items()}
        self._clock = clock or SystemClock()

    def get(self, key: str, scope: MemoryScope | None = None) -> Remembered | None:
        """The memory under `key`: the workspace's, else the user's, unless `scope` says which (000 Property 50)."""
        with self._store.read(SCHEMA) as db:
            for wanted in _scopes(scope):
                row = db.execute(
                    "SELECT value, changed_at FROM memories WHERE place = ? AND key = ?", (self._places[wanted], key)
                ).fetchone()
                if row is not None:
                    return Remembered(key, row[0], wanted, row[1])
        return None

    def set(self, key: str, value: str, scope: MemoryScope = MemoryScope.WORKSPACE) -> str | None:
        """Store `value` under `key` and return what stood there before. Raises MemoryFailed for what is too long."""
        _check_length("key", key, MAX_KEY_CHARS, "Shorten it; the text itself belongs into value")
        _check_length("value", value, MAX_VALUE_CHARS, "Write it to a file and remember the file's path")
        place, moment = self._places[scope], iso_time(self._clock.now())
        with self._store.write(SCHEMA) as db:
            row = db.execute("SELECT value FROM memories WHERE place = ? AND key = ?", (place, key)).fetchone()
            _with_index(
                db,
                "INSERT INTO memories(place, key, value, created_at, changed_at) VALUES(?1, ?2, ?3, ?4, ?4) "
                "ON CONFLICT(place, key) DO UPDATE SET value = ?3, changed_at = ?4 WHERE value <> ?3",
                (place, key, value, moment),
            )
        return row[0] if row else None

    def delete(self, key: str, scope: MemoryScope = MemoryScope.WORKSPACE) -> bool:
        """Forget what stands under `key`; False when there was nothing (000 Property 51)."""
        with self._store.write(SCHEMA) as db:
            return _with_index(db, "DELETE FROM memories WHERE place = ? AND key = ?", (self._places[scope], key)) > 0

    def keys(self, scope: MemoryScope | None = None) -> tuple[str, ...]:
        """All keys, each once, in the order of their code points (000 Property 52)."""
        marks, places = self._among(scope)
        with self._store.read(SCHEMA) as db:
            rows = db.execute(f"SELECT DISTINCT key FROM memories WHERE place IN ({marks})", places)
            return tuple(sorted(row[0] for row in rows))

    def entries(self, scope: MemoryScope | None = None) -> tuple[Remembered, ...]:
        """All memories, the workspace's first, by key."""
        marks, places = self._among(scope)
        with self._store.read(SCHEMA) as db:
            rows = db.execute(f"SELECT key, value, place, changed_at FROM memories WHERE place IN ({marks})", places)
            found = [self._remembered(*row) for row in rows]
        return tuple(sorted(found, key=lambda memory: (memory.scope is MemoryScope.USER, memory.key)))

    def search(self, query: str, limit: int = 10, scope: MemoryScope | None = None) -> tuple[Found, ...]:
        """The memories that fit `query` best, by words (BM25), those with all of its words before those with some.

        Where no word is found the query counts as a piece of text: writing without blanks between words is found so.
        """
        try:
            return self._search(query, limit, scope)
        except _IndexDamaged:
            with self._store.write(SCHEMA) as db:
                db.execute(_REBUILD)
            return self._search(query, limit, scope)

    def _search(self, query: str, limit: int, scope: MemoryScope | None) -> tuple[Found, ...]:
        words = re.findall(r"\w+", query)[:_SEARCHED_WORDS]
        found: dict[int, Remembered] = {}
        marks, places = self._among(scope)
        with self._store.read(SCHEMA) as db:
            for joint in (" AND ", " OR ") if len(words) > 1 else (" AND ",) if words else ():
                if len(found) < limit:
                    terms = joint.join(f'"{word}"' for word in words)
                    self._collect(db, found, _BY_WORDS.format(marks=marks), (terms, *places, limit))
            if not found:
                text = _lower(query.strip())
                # Folding every value takes most of the time, and says nothing where the text has no letters to fold.
                fold = "lower" if any("a" <= letter <= "z" for letter in text) else ""
                self._collect(db, found, _BY_TEXT.format(marks=marks, fold=fold), (*places, text, text, limit))
        snippets = [query.strip(), *words]
        return tuple(Found(memory, _snippet(memory.value, snippets)) for memory in [*found.values()][:limit])

    def _collect(
        self, db: sqlite3.Connection, found: dict[int, Remembered], statement: str, values: Sequence[str | bytes | int]
    ) -> None:
        try:
            for number, *columns in db.execute(statement, values):
                found.setdefault(number, self._remembered(*columns))
        except sqlite3.DatabaseError as error:
            if is_index_damage(error):
                raise _IndexDamaged from error
            raise

    def _remembered(self, key: str, value: str, place: str | bytes, changed_at: str) -> Remembered:
        return Remembered(key, value, self._scopes[place], changed_at)

    def _among(self, scope: MemoryScope | None) -> tuple[str, tuple[str | bytes, ...]]:
        places = tuple(self._places[wanted] for wanted in _scopes(scope))
        return ", ".join("?" * len(places)), places


_BY_WORDS = """SELECT m.number, m.key, m.value, m.place, m.changed_at
    FROM memory_index JOIN memories m ON m.number = memory_index.rowid
    WHERE memory_index MATCH ? AND m.place IN ({marks}) ORDER BY bm25(memory_index, 3.0, 1.0), m.number LIMIT ?"""

_BY_TEXT = """SELECT number, key, value, place, changed_at FROM memories
    WHERE place IN ({marks}) AND (instr({fold}(key), ?) OR instr({fold}(value), ?)) ORDER BY key LIMIT ?"""


_REBUILD = "INSERT INTO memory_index(memory_index) VALUES('rebuild')"


class _IndexDamaged(Exception):
    """The search index does not fit the memories; it can be made anew from them."""


def _with_index(db: sqlite3.Connection, statement: str, values: Sequence[str | bytes]) -> int:
    """Change memories, making a damaged search index anew if it stands in the way; returns how many changed."""
    try:
        return db.execute(statement, values).rowcount
    except sqlite3.DatabaseError as error:
        if not is_index_damage(error):
            raise
        db.execute(_REBUILD)
        return db.execute(statement, values).rowcount


def _scopes(scope: MemoryScope | None) -> tuple[MemoryScope, ...]:
    return tuple(MemoryScope) if scope is None else (scope,)


def _check_length(what: str, text: str, limit: int, remedy: str) -> None:
    if len(text) > limit:
        raise MemoryFailed(f"A {what} of {len(text):,} characters is over the limit of {limit:,}. {remedy}.")


def _lower(text: str) -> str:
    """As SQLite's `lower`: the letters of ASCII alone."""
    return "".join(letter.lower() if letter.isascii() else letter for letter in text)


def _snippet(value: str, wanted: Sequence[str]) -> str:
    folded = value.lower()
    places = [place for word in wanted if word and (place := folded.find(word.lower())) >= 0]
    start = max((places[0] if places else 0) - SNIPPET_CHARS // 3, 0)
    end = start + SNIPPET_CHARS
    cut = " ".join(value[start:end].split())
    return f"{'... ' if start else ''}{cut}{' ...' if end < len(value) else ''}"
