"""What memory holds: entries, pages, search results, and the tables they lie in."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import TypeAlias

from ollm_tui.core.storage.store import Schema


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


ScopeKey: TypeAlias = str | bytes
"""What the column `place` holds: a workspace's key, or empty text for the user."""

UNSPACED = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Myanmar, Khmer
    "\u3005-\u3007\u3040-\u30ff\u3105-\u312f\u31f0-\u31ff"  # Japanese syllables, Bopomofo
    "\u1100-\u11ff\u3130-\u318f\uac00-\ud7ff"  # Hangul: blanks stand there, but endings cling to words
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"  # Han
)
"""Ranges of a character class: scripts that write without blanks between words."""


@cache
def unspaced_letter() -> re.Pattern[str]:
    """Compile the pattern when first needed: so large a class takes milliseconds."""
    return re.compile(f"[{UNSPACED}]")


def searchable(text: str) -> str:
    """Return `text` as the word index stores it; changing this needs a migration that rebuilds the index.

    Text is normalised (NFKC), and each letter of a script without blanks is a word of its own, so that any
    part of such a text is found as a phrase.
    """
    if text.isascii():
        return text
    return unspaced_letter().sub(r" \g<0> ", unicodedata.normalize("NFKC", text))


def _as_columns(row: str) -> str:
    """Return the indexed columns of the row named `row`."""
    return f"searchable({row}.key), searchable({row}.value)"


_FORGET_WORDS = f"""INSERT INTO memory_index(memory_index, rowid, key, value)
    VALUES('delete', old.number, {_as_columns("old")});"""
_INDEX_WORDS = f"INSERT INTO memory_index(rowid, key, value) VALUES(new.number, {_as_columns('new')});"
_FORGET_MEANING = "DELETE FROM memory_vectors WHERE number = old.number;"

_COUNT = "BEGIN UPDATE memory_revision SET revision = revision + 1; END"

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
        (
            "DROP TRIGGER memory_added",
            "DROP TRIGGER memory_removed",
            "DROP TRIGGER memory_changed",
            "DROP TABLE memory_index",
            """CREATE VIEW memory_texts AS
                SELECT number, searchable(key) AS key, searchable(value) AS value FROM memories""",
            """CREATE VIRTUAL TABLE memory_index USING fts5(
                key, value, content = 'memory_texts', content_rowid = 'number',
                tokenize = 'porter unicode61 remove_diacritics 2')""",
            "INSERT INTO memory_index(memory_index) VALUES('rebuild')",
            # A row stands only as long as the text it was made from: a changed memory is read anew.
            "CREATE TABLE memory_vectors(number INTEGER PRIMARY KEY, model TEXT NOT NULL, vector BLOB NOT NULL)",
            f"CREATE TRIGGER memory_added AFTER INSERT ON memories BEGIN {_INDEX_WORDS} END",
            f"CREATE TRIGGER memory_removed AFTER DELETE ON memories BEGIN {_FORGET_WORDS} {_FORGET_MEANING} END",
            f"""CREATE TRIGGER memory_changed AFTER UPDATE OF key, value ON memories BEGIN
                {_FORGET_WORDS} {_INDEX_WORDS} {_FORGET_MEANING} END""",
        ),
        (
            # Shows whether anything has changed since a search; starts at random, so that no two files agree.
            "CREATE TABLE memory_revision(revision INTEGER NOT NULL)",
            "INSERT INTO memory_revision VALUES(random() / 2)",
            f"CREATE TRIGGER count_added AFTER INSERT ON memories {_COUNT}",
            f"CREATE TRIGGER count_removed AFTER DELETE ON memories {_COUNT}",
            f"CREATE TRIGGER count_changed AFTER UPDATE ON memories {_COUNT}",
            f"CREATE TRIGGER count_vectors_added AFTER INSERT ON memory_vectors {_COUNT}",
            f"CREATE TRIGGER count_vectors_removed AFTER DELETE ON memory_vectors {_COUNT}",
        ),
    ),
    functions={"searchable": searchable},
    salvaged=("memories",),
)

REBUILD_WORDS = "INSERT INTO memory_index(memory_index) VALUES('rebuild')"
"""Rebuilds the word index from the texts."""


def placeholders(values: Sequence[object]) -> str:
    """Return a placeholder for each value, for `IN (...)`."""
    return ", ".join("?" * len(values))
