"""Paths that calls wrote although nobody was asked: for a day an approved command that runs one of them asks."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.files.vacated_paths import path_key
from ollm_tui.core.storage.store import InMemoryStore, Schema, Store

UNASKED_WRITES = Schema(
    "unasked_writes",
    (
        ("CREATE TABLE unasked_writes(path BLOB PRIMARY KEY, time TEXT NOT NULL) WITHOUT ROWID",),
        ("ALTER TABLE unasked_writes ADD COLUMN name BLOB",),
    ),
    salvaged=("unasked_writes",),
)

REMEMBERED = timedelta(days=1)
MOST_NOTED = 50_000
"""Paths that are kept of one call."""

_INSTALLED = frozenset({".git", "node_modules", ".venv", "venv", "__pycache__"})
_MOST_SEEN = 10_000
"""Directories of one that was put in place that are looked at for code."""


class CodePlace(NamedTuple):
    """A directory below which a program loads code by itself, of files with some endings."""

    folder: Path
    endings: frozenset[str]


class UnaskedWrites:
    """Real paths in the store, so that a restart forgets none; all methods block and work in any thread."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._not_stored: dict[bytes, bytes] = {}
        """What the disk did not take: paths by their keys."""

    def note(self, paths: Iterable[Path]) -> None:
        """Record files, or directories with all in them. Raises StorageFailed, and knows them all the same."""
        moment = iso_time(self._clock.now())
        rows = [(path_key(path), moment, os.fsencode(path)) for path in islice(paths, MOST_NOTED)]
        if not rows:
            return
        try:
            with self._store.write(UNASKED_WRITES) as db:
                db.execute("DELETE FROM unasked_writes WHERE time < ?", (self._oldest,))
                db.executemany("INSERT OR REPLACE INTO unasked_writes VALUES(?, ?, ?)", rows)
        except StorageFailed:
            self._not_stored.update((key, name) for key, _, name in rows)
            raise

    def forget(self, paths: Iterable[Path], places: Iterable[CodePlace] = ()) -> None:
        """Forget what a person has seen and approved since. Raises StorageFailed."""
        keys = [key for path in paths for key in _upwards(path_key(path))]
        keys += [key for key, _ in self._code_in(places)]
        for key in keys:
            self._not_stored.pop(key, None)
        if keys and self._is_there:
            with self._store.write(UNASKED_WRITES) as db:
                db.executemany("DELETE FROM unasked_writes WHERE path = ?", [(key,) for key in keys])

    def among(self, paths: Iterable[Path]) -> Path | None:
        """Return one that was written unasked within a day, or lies in what was; the first if that is unknown."""
        wanted = list(paths)
        if self._not_stored:
            known = (path for path in wanted if not self._not_stored.keys().isdisjoint(_upwards(path_key(path))))
            if (path := next(known, None)) is not None:
                return path
        if not wanted or not self._is_there:
            return None
        try:
            with self._store.read(UNASKED_WRITES) as db:
                for path in wanted:
                    keys = _upwards(path_key(path))
                    places = ", ".join("?" * len(keys))
                    query = f"SELECT 1 FROM unasked_writes WHERE time >= ? AND path IN ({places}) LIMIT 1"
                    if db.execute(query, (self._oldest, *keys)).fetchone() is not None:
                        return path
        except StorageFailed:
            return wanted[0]
        return None

    def code_in(self, places: Iterable[CodePlace]) -> list[Path]:
        """Return the code in these places that was written unasked within a day; a place itself if that is unknown."""
        wanted = list(places)
        try:
            return list(dict.fromkeys(path for _, path in self._code_in(wanted)))
        except StorageFailed:
            return [place.folder for place in wanted]

    def _code_in(self, places: Iterable[CodePlace]) -> Iterator[tuple[bytes, Path]]:
        """Yield the key of each row, and a file with code that is there because of it. Raises StorageFailed."""
        for folder, endings in places:
            key = path_key(folder)
            for found, name in self._rows_around(key):
                path = Path(os.fsdecode(name))
                if not found.startswith(key + b"/"):
                    path = folder  # it was put in place with a directory above
                if path.is_dir() and not path.is_symlink():
                    code = _first_code(path, endings)
                    if code is not None:
                        yield found, code
                elif path.suffix.casefold() in endings and os.path.lexists(path):
                    yield found, path

    def _rows_around(self, key: bytes) -> list[tuple[bytes, bytes]]:
        """Return what was noted below a path, at it and above."""
        above = _upwards(key)
        rows = [each for each in self._not_stored.items() if each[0] in above or each[0].startswith(key + b"/")]
        if self._is_there:
            query = f"""SELECT path, coalesce(name, '/' || path) FROM unasked_writes
                WHERE time >= ? AND (path IN ({", ".join("?" * len(above))}) OR (path > ? AND path < ?))"""
            with self._store.read(UNASKED_WRITES) as db:
                rows += db.execute(query, (self._oldest, *above, key + b"/", key + b"0")).fetchall()
        return rows

    @property
    def _is_there(self) -> bool:
        """Whether there is a store: whoever only judges makes none."""
        return isinstance(self._store, InMemoryStore) or self._store.path.exists()

    @property
    def _oldest(self) -> str:
        return iso_time(self._clock.now() - REMEMBERED)


def _upwards(key: bytes) -> list[bytes]:
    """Return the key of a path, and those of all directories above it."""
    return [key, *(key[:end] for end in range(1, len(key)) if key[end : end + 1] == b"/")]


def _first_code(folder: Path, endings: frozenset[str]) -> Path | None:
    """Return a file with code in a directory; the directory where there is too much to look at."""
    for seen, (path, folders, files) in enumerate(os.walk(folder)):
        if seen >= _MOST_SEEN:
            return folder
        folders[:] = [name for name in folders if name not in _INSTALLED]
        code = next((name for name in sorted(files) if os.path.splitext(name)[1].casefold() in endings), None)
        if code is not None:
            return Path(path, code)
    return None
