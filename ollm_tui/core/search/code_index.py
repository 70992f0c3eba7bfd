"""The index of a workspace's text files by words (SQLite FTS5), brought up to date before each search (003)."""

from __future__ import annotations

import hashlib
import json
import os
import re
import sqlite3
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

from ollm_tui.core.search.code_chunks import Chunk, chunks_of, first_words, is_test
from ollm_tui.core.search.code_vectors import TABLE, CodeVectors
from ollm_tui.core.search.file_states import FileStates, content_of
from ollm_tui.core.search.listing import Listing

VERSION = 5
"""Of tables and chunks; an index of another one is built anew."""

MOST_TERMS = 32
A_FILE = 3
"""Most places of one file among the results, so that one file does not fill them."""
COMMIT_EVERY = 200
"""Files; a build that is stopped goes on from there."""
_SUFFIXES = ("", "-wal", "-shm", "-making")
UNUSED_SECONDS = 30 * 24 * 3600

LIKELY_FILES = 40
"""Files, best first, whose places are looked at: each place costs 2 µs; 100 found nothing more for 48 questions."""
CANDIDATES = 400
"""Places that are looked at more closely for a query."""
_TABLES = (
    """
CREATE TABLE files(id INTEGER PRIMARY KEY AUTOINCREMENT, path BLOB NOT NULL UNIQUE, state TEXT NOT NULL,
    test INTEGER NOT NULL);
CREATE TABLE chunks(id INTEGER PRIMARY KEY AUTOINCREMENT, file INTEGER NOT NULL, first INTEGER NOT NULL,
    last INTEGER NOT NULL, symbol TEXT NOT NULL, head TEXT NOT NULL);
CREATE INDEX chunks_of_file ON chunks(file);
CREATE VIRTUAL TABLE words USING fts5(path, symbol, body, content = '', tokenize = 'porter unicode61');
CREATE VIRTUAL TABLE whole USING fts5(path, symbols, body, content = '', tokenize = 'porter unicode61');
CREATE VIRTUAL TABLE outline USING fts5(path, symbols, said, content = '', tokenize = 'porter unicode61');
"""
    + TABLE
)
# The word tables keep no texts and nothing is deleted from them: what is gone is not joined, as no id is used twice.
_SEARCH = """
SELECT files.id, files.path, chunks.first, chunks.last, chunks.symbol, score * (1 - test * :less), place FROM (
    SELECT rowid AS place, bm25(words, 3.0, 4.0, 1.0) AS score FROM words WHERE words MATCH :match
    AND +rowid IN (SELECT id FROM chunks WHERE file IN (SELECT value FROM json_each(:files)))
    ORDER BY score LIMIT :candidates)
JOIN chunks ON chunks.id = place JOIN files ON files.id = chunks.file
"""
_ABOUT = """
SELECT files.id, {score} * (1 - test * :less) FROM {table} CROSS JOIN files ON files.id = {table}.rowid
WHERE {table} MATCH :match AND ({below})
"""
_WHOLE_FILES = (("whole", "bm25(whole, 3.0, 2.0, 1.0)"), ("outline", "bm25(outline)"))
"""What a file is about: all of its words, and those that name and describe what is in it."""
_NEAR = """
SELECT chunks.id, files.path, chunks.first, chunks.last, chunks.symbol FROM chunks JOIN files ON files.id = chunks.file
WHERE chunks.id IN (SELECT value FROM json_each(:near)) AND ({below})
"""
_EVENNESS = 60
"""Of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009): how little the very first ranks count more."""
HEAD_CHARACTERS = 160
"""How much of a place goes into its vector."""
_FILE_COUNTS = 2.0
"""How much more what the whole file is about counts than the place in it; its next best places count as well."""
_TESTS_COUNT_LESS = 0.3
"""By how much, unless a question is about tests: they say the same words as the code, and more often."""
_TEST_WORDS = frozenset(["test", "tests", "tested", "testing", "fixture", "fixtures", "spec", "specs"])
_MARKS = "SELECT (SELECT seq FROM sqlite_sequence WHERE name = 'files'), (SELECT COUNT(*) FROM files)"
"""What changes with every change of the index: no number of a file is used twice."""
_STALE = "SELECT COALESCE((SELECT seq FROM sqlite_sequence WHERE name = 'chunks'), 0) - (SELECT COUNT(*) FROM chunks)"
MOST_STALE = 20_000
"""Places that are gone before the index is built anew, where more are gone than there."""
# Ruled out by one look at the next character, as nearly everywhere, it takes less than half of the time.
_HUMP = re.compile(r"(?=[A-Z0-9])(?:(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[A-Za-z])(?=[0-9]))")
_TERM = re.compile(r"[^\W_]+")
_SMALL_WORDS = """
    a an and are as at be by can do does for from has have how i if in into is it its of on one or so some such than
    that the their them then there these this to was we what when where which while who with without you
"""
"""Words that stand in every question and say nothing about the code."""
_updating = threading.Lock()
"""Held while an index is used: parsers are for one thread at a time."""


@dataclass
class _LastLook:
    """What was last seen of a directory's files, and the marks of its index once that held it all."""

    index: Path
    marks: tuple[int, int] | None = None
    files: FileStates = field(default_factory=FileStates)


_looks: deque[_LastLook] = deque(maxlen=1)
"""Of the index that was used last; for whoever holds `_updating`."""


@dataclass(frozen=True)
class CodeMatch:
    """A place that answers a query; `path` is relative to the indexed directory."""

    path: bytes
    chunk: Chunk


@dataclass(frozen=True)
class CodeMatches:
    """Places, best first."""

    places: tuple[CodeMatch, ...]
    keyword_only: bool
    """Whether the meaning did not count."""


@dataclass(frozen=True)
class IndexSource:
    """The files to index: those of a listing of the indexed directory."""

    listing: Listing
    progress: Callable[[int, int], object] = lambda done, total: None
    """Takes how many of how many changed files are indexed, during a longer update."""
    check: Callable[[], object] = lambda: None
    """May raise, which stops an update; what is done stays."""


class CodeIndex:
    """The index of one directory in a file of its own; for any thread, one at a time. All methods block."""

    def __init__(self, folder: Path, root: Path, meaning: CodeVectors | None = None) -> None:
        """`folder` is where the indexes of all directories are; without `meaning` words alone count."""
        self._meaning = meaning
        key = hashlib.blake2b(os.fsencode(root), digest_size=8).hexdigest()
        self._path = folder / f"{re.sub(r'[^A-Za-z0-9._-]', '_', root.name)[:40]}-{key}.db"

    def search(self, source: IndexSource, query: str, limit: int, below: Sequence[bytes] = ()) -> CodeMatches:
        """Bring the index up to date and return the best places, best first.

        Args:
            source: The files.
            query: Words in any order; names of code count by their parts.
            limit: Most places.
            below: Files or directories, relative, that the places must lie in.

        Raises:
            OSError: The directory or the index cannot be read or written.
        """
        with _updating:
            try:
                try:
                    return self._search(source, query, limit, below)
                except sqlite3.DatabaseError as error:
                    if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                        raise
                self._remove()
                return self._search(source, query, limit, below)
            except sqlite3.Error as error:
                raise OSError(f"the index {self._path} cannot be used: {error}") from error

    def _remove(self) -> None:
        """Remove the index: it holds nothing that the files do not."""
        for suffix in _SUFFIXES:
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)

    def _search(self, source: IndexSource, query: str, limit: int, below: Sequence[bytes]) -> CodeMatches:
        with closing(self._open()) as db:
            _update(db, self._path, source)
            terms = terms_of(query)
            if not terms:
                return CodeMatches((), keyword_only=True)
            values: dict[str, str | float | bytes] = {
                "match": " OR ".join(f'"{term}"' for term in terms),
                "candidates": CANDIDATES,
                "less": 0.0 if _TEST_WORDS.intersection(terms) else _TESTS_COUNT_LESS,
            }
            place = "files.path = :at{0} OR (files.path > :from{0} AND files.path < :to{0})"
            inside = " OR ".join(place.format(number) for number in range(len(below))) or "TRUE"
            for number, path in enumerate(below):
                values |= {f"at{number}": path, f"from{number}": path + b"/", f"to{number}": path + b"0"}
            places = {row[0]: row for row in _by_words(db, values, inside)}
            scores = {number: 1 / (_EVENNESS + rank) for rank, number in enumerate(places)}
            near = self._meaning.nearest(db, self._path, query).numbers if self._meaning is not None else None
            if near is not None:
                values["near"] = json.dumps(near)
                places |= {row[0]: row for row in db.execute(_NEAR.format(below=inside), values)}
                for rank, number in enumerate(number for number in near if number in places):
                    scores[number] = scores.get(number, 0.0) + 1 / (_EVENNESS + rank)
        found: list[CodeMatch] = []
        count: dict[bytes, int] = {}
        for number in sorted(scores, key=scores.__getitem__, reverse=True):
            _, path, first, last, symbol = places[number]
            count[path] = count.get(path, 0) + 1
            if count[path] <= A_FILE and len(found) < limit:
                found.append(CodeMatch(path, Chunk(first, last, symbol)))
        return CodeMatches(tuple(found), keyword_only=near is None)

    def _open(self) -> sqlite3.Connection:
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if not self._path.exists():
            os.close(os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
            _remove_unused(self._path.parent)
        db = sqlite3.connect(self._path, timeout=10, isolation_level=None)
        os.utime(self._path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = OFF")  # what a power cut damages is built anew
        if db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            _make_tables(db)
        return db


_Place: TypeAlias = tuple[int, bytes, int, int, str]
"""Number, path, first and last line, symbol."""


def _by_words(db: sqlite3.Connection, values: dict[str, str | float | bytes], inside: str) -> list[_Place]:
    """Return the places with words of a query, best first; `inside` is the condition on paths."""
    about: Counter[int] = Counter()
    for table, score in _WHOLE_FILES:
        about.update(dict(db.execute(_ABOUT.format(table=table, score=score, below=inside), values).fetchall()))
    values = {**values, "files": json.dumps(sorted(about, key=about.__getitem__)[:LIKELY_FILES])}
    rows = db.execute(_SEARCH, values).fetchall()
    rows.sort(key=itemgetter(5))
    more: dict[int, list[float]] = {}
    for row in rows:
        more.setdefault(row[0], []).append(row[5])
    files = {number: _FILE_COUNTS * about[number] + sum(scores[1:A_FILE]) for number, scores in more.items()}
    rows.sort(key=lambda row: row[5] + files[row[0]])
    return [(row[6], *row[1:5]) for row in rows]


def _make_tables(db: sqlite3.Connection) -> None:
    names = ("files", "chunks", "words", "whole", "outline", "vectors")
    dropped = " ".join(f"DROP TABLE IF EXISTS {name};" for name in names)
    db.executescript(f"BEGIN; {dropped} {_TABLES} PRAGMA user_version = {VERSION}; COMMIT;")


def _update(db: sqlite3.Connection, path: Path, source: IndexSource) -> None:
    count = db.execute("SELECT COUNT(*) FROM chunks").fetchone()[0]
    if db.execute(_STALE).fetchone()[0] > max(count, MOST_STALE):
        _make_tables(db)
    last = _looks[0] if _looks and _looks[0].index == path else _LastLook(path)
    new = last.files.look(source.listing)
    if last.marks is None or last.marks != db.execute(_MARKS).fetchone():
        known: dict[bytes, str] = dict(db.execute("SELECT path, state FROM files"))
        present = last.files.by_path
        new = {path: state for path, state in present.items() if known.get(path) != state}
        new |= dict.fromkeys(known.keys() - present.keys())
    gone = [path for path, state in new.items() if state is None]
    changed = sorted((path, state) for path, state in new.items() if state is not None)
    last.marks = None
    if gone or changed:
        last.files.wait_until_settled()
        _write(db, source, gone, changed)
    last.marks = db.execute(_MARKS).fetchone()
    _looks.append(last)


def _write(
    db: sqlite3.Connection, source: IndexSource, gone: Sequence[bytes], changed: Sequence[tuple[bytes, str]]
) -> None:
    db.execute("BEGIN IMMEDIATE")
    try:
        for path in gone:
            _remove(db, path)
        for done, (path, state) in enumerate(changed, 1):
            source.check()
            _remove(db, path)
            _add(db, path, state, content_of(source.listing, path))
            if done % COMMIT_EVERY == 0:
                db.execute("COMMIT")
                source.progress(done, len(changed))
                db.execute("BEGIN IMMEDIATE")
    finally:
        with suppress(sqlite3.OperationalError):  # a failed COMMIT has ended it
            db.execute("COMMIT")


def terms_of(query: str) -> list[str]:
    """Return the words of a query that say something, names of code in their parts."""
    small = _SMALL_WORDS.split()
    words = [word.lower() for word in _TERM.findall(_HUMP.sub(" ", query))]
    return list(dict.fromkeys(word for word in words if word not in small) or dict.fromkeys(words))[:MOST_TERMS]


def _remove(db: sqlite3.Connection, path: bytes) -> None:
    row = db.execute("SELECT id FROM files WHERE path = ?", (path,)).fetchone()
    if row is not None:
        db.execute("DELETE FROM vectors WHERE place IN (SELECT id FROM chunks WHERE file = ?)", row)
        db.execute("DELETE FROM chunks WHERE file = ?", row)
        db.execute("DELETE FROM files WHERE id = ?", row)


def _add(db: sqlite3.Connection, path: bytes, state: str, data: bytes) -> None:
    shown = os.fsdecode(path).encode("utf-8", "replace").decode()
    number = db.execute("INSERT INTO files(path, state, test) VALUES(?, ?, ?)", (path, state, is_test(shown))).lastrowid
    if not data:
        return
    name = _HUMP.sub(" ", shown)
    lines = _HUMP.sub(" ", data.decode("utf-8", "replace")).split("\n")
    chunks = chunks_of(shown.rpartition(".")[2].lower(), data)
    symbols = [_HUMP.sub(" ", chunk.symbol) for chunk in chunks]
    db.execute(
        "INSERT INTO whole(rowid, path, symbols, body) VALUES(?, ?, ?, ?)",
        (number, name, " ".join(symbols), "\n".join(lines)),
    )
    bodies = ["\n".join(lines[chunk.start - 1 : chunk.end]) for chunk in chunks]
    said = [first_words(text) for text in ("\n".join(lines), *bodies)]
    db.execute(
        "INSERT INTO outline(rowid, path, symbols, said) VALUES(?, ?, ?, ?)",
        (number, name, " ".join(symbols), " ".join(said)),
    )
    used = db.execute("SELECT COALESCE(MAX(seq), 0) FROM sqlite_sequence WHERE name = 'chunks'").fetchone()[0]
    numbers = range(used + 1, used + 1 + len(chunks))
    db.executemany(
        "INSERT INTO chunks(id, file, first, last, symbol, head) VALUES(?, ?, ?, ?, ?, ?)",
        [
            (
                place,
                number,
                chunk.start,
                chunk.end,
                chunk.symbol,
                _head(shown, chunk.symbol, lines[chunk.start - 1 : chunk.end]),
            )
            for place, chunk in zip(numbers, chunks, strict=True)
        ],
    )
    db.executemany(
        "INSERT INTO words(rowid, path, symbol, body) VALUES(?, ?, ?, ?)",
        [(place, name, symbol, body) for place, symbol, body in zip(numbers, symbols, bodies, strict=True)],
    )


def _head(path: str, symbol: str, lines: Sequence[str]) -> str:
    """Return what a place is known by: its name, and how it begins."""
    name = symbol or path.rpartition("/")[2]
    return f"{name}: {' '.join(' '.join(lines[:12]).split())}"[:HEAD_CHARACTERS]


def _remove_unused(folder: Path) -> None:
    """Remove the indexes of directories in which nobody searched for a month."""
    for path in folder.glob("*.db"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - UNUSED_SECONDS:
                for suffix in _SUFFIXES:
                    path.with_name(path.name + suffix).unlink(missing_ok=True)
