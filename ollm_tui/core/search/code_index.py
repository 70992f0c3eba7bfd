"""The index of a workspace's text files by words (SQLite FTS5), brought up to date before each search (003)."""

from __future__ import annotations

import atexit
import hashlib
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ollm_tui.core.search.code_chunks import Chunk
from ollm_tui.core.search.code_ranking import (
    RankedPlace,
    condition_of,
    first_of_each,
    fused,
    places_by_number,
    places_by_words,
    terms_of,
)
from ollm_tui.core.search.code_tables import VERSION, add_file, is_stale, make_tables, remove_file
from ollm_tui.core.search.code_vectors import CodeVectors
from ollm_tui.core.search.listing import Listing
from ollm_tui.core.search.workspace_scan import FileStates, content_of

COMMIT_EVERY = 200
"""Files; a build that is stopped goes on from there."""
CACHE_KB = 16_000
"""Of the index that was used last: without it a query takes a fifth longer."""
_SUFFIXES = ("", "-wal", "-shm", "-making")
UNUSED_SECONDS = 30 * 24 * 3600


@dataclass
class _OpenIndex:
    """An index that stays open, and what was last seen of its files."""

    path: Path
    db: sqlite3.Connection
    identity: tuple[int, int] | None
    version: int | None = None
    """SQLite's count of what others change, as it was once the index held everything that was seen."""
    files: FileStates = field(default_factory=FileStates)


class _LastIndex:
    """Holds the index that was used last open: a second search of the same directory is much the cheaper one."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        """Held while an index is used: parsers are for one thread at a time."""
        self._open: _OpenIndex | None = None

    def get(self, path: Path) -> _OpenIndex:
        """Return an index, made where there is none; for whoever holds the lock. Raises OSError, sqlite3.Error."""
        last = self._open
        if last is None or last.path != path or last.identity != _identity(path):
            self.close()
            self._open = last = _opened(path)
        os.utime(path)
        if last.db.execute("PRAGMA user_version").fetchone()[0] != VERSION:
            make_tables(last.db)
            last.version = None
        return last

    def close(self) -> None:
        """Close what is open; for whoever holds the lock."""
        last, self._open = self._open, None
        if last is not None:
            last.db.close()


_last = _LastIndex()
atexit.register(_last.close)


def _opened(path: Path) -> _OpenIndex:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    if not path.exists():
        os.close(os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600))
        _remove_unused(path.parent)
    db = sqlite3.connect(path, timeout=10, isolation_level=None, check_same_thread=False)
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("PRAGMA synchronous = OFF")  # what a power cut damages is built anew
    db.execute(f"PRAGMA cache_size = -{CACHE_KB}")
    return _OpenIndex(path, db, _identity(path))


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


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
        with _last.lock:
            try:
                try:
                    return self._search(source, query, limit, below)
                except sqlite3.DatabaseError as error:
                    if error.sqlite_errorcode & 0xFF not in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
                        raise
                _last.close()
                _remove(self._path)
                return self._search(source, query, limit, below)
            except sqlite3.Error as error:
                _last.close()
                raise OSError(f"the index {self._path} cannot be used: {error}") from error

    def _search(self, source: IndexSource, query: str, limit: int, below: Sequence[bytes]) -> CodeMatches:
        index = _last.get(self._path)
        terms, inside = terms_of(query), condition_of(below)
        version = index.db.execute("PRAGMA data_version").fetchone()[0]
        whole = index.version == version
        # Asked while the files are looked at, which takes longer and nearly always finds them as they were: SQLite runs
        # beside it, without the interpreter's lock.
        with ThreadPoolExecutor(1, "search_code") as beside:
            early = beside.submit(places_by_words, index.db, terms, inside) if whole else None
            changes = index.files.look(source.listing)
        if not whole:
            changes = _differences(index)
        if changes and is_stale(index.db):
            make_tables(index.db)
            changes = _differences(index)
        if changes:
            index.version = None
            index.files.wait_until_settled()
            _write(index.db, source, changes)
        index.version = version
        ranked = places_by_words(index.db, terms, inside) if changes or early is None else early.result()
        if not terms:
            return CodeMatches((), keyword_only=True)
        near = self._meaning.nearest(index.db, self._path, query).numbers if self._meaning is not None else None
        if near is not None:
            ranked = fused(ranked, places_by_number(index.db, near, inside))
        found = _matches(index.db, first_of_each(ranked, limit))
        return CodeMatches(found, keyword_only=near is None)


def _matches(db: sqlite3.Connection, places: Sequence[RankedPlace]) -> tuple[CodeMatch, ...]:
    read = "SELECT first, last, symbol FROM chunks WHERE id = ?"
    rows = [(place, db.execute(read, (place.number,)).fetchone()) for place in places]
    return tuple(CodeMatch(place.path, Chunk(*row)) for place, row in rows if row is not None)


def _differences(index: _OpenIndex) -> dict[bytes, str | None]:
    """Return what differs between the files that were seen and those in the index."""
    known: dict[bytes, str] = dict(index.db.execute("SELECT path, state FROM files"))
    present = index.files.by_path
    new: dict[bytes, str | None] = {path: state for path, state in present.items() if known.get(path) != state}
    return new | dict.fromkeys(known.keys() - present.keys())


def _write(db: sqlite3.Connection, source: IndexSource, changes: Mapping[bytes, str | None]) -> None:
    changed = sorted((path, state) for path, state in changes.items() if state is not None)
    db.execute("BEGIN IMMEDIATE")
    try:
        for path in changes:
            remove_file(db, path)
        for done, (path, state) in enumerate(changed, 1):
            source.check()
            add_file(db, path, state, content_of(source.listing, path))
            if done % COMMIT_EVERY == 0:
                db.execute("COMMIT")
                source.progress(done, len(changed))
                db.execute("BEGIN IMMEDIATE")
    except sqlite3.Error:
        db.rollback()  # a file of which a part is written would be taken for whole
        raise
    finally:
        if db.in_transaction:
            db.execute("COMMIT")


def _remove(index: Path) -> None:
    """Remove an index: it holds nothing that the files do not."""
    for suffix in _SUFFIXES:
        index.with_name(index.name + suffix).unlink(missing_ok=True)


def _remove_unused(folder: Path) -> None:
    """Remove the indexes of directories in which nobody searched for a month."""
    for path in folder.glob("*.db"):
        with suppress(OSError):
            if path.stat().st_mtime < time.time() - UNUSED_SECONDS:
                _remove(path)
