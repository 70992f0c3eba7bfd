"""Paths that calls vacated, or wrote unasked: for a day writing to the one, or running the other, asks."""

from __future__ import annotations

import os
from collections.abc import Iterable
from datetime import timedelta
from itertools import islice
from pathlib import Path

from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.fence.protected_paths import fold
from ollm_tui.core.storage.store import InMemoryStore, Schema, Store

VACATED_PATHS = Schema(
    "vacated",
    (("CREATE TABLE vacated_paths(path BLOB PRIMARY KEY, time TEXT NOT NULL) WITHOUT ROWID",),),
    salvaged=("vacated_paths",),
)
UNASKED_WRITES = Schema(
    "unasked_writes",
    (("CREATE TABLE unasked_writes(path BLOB PRIMARY KEY, time TEXT NOT NULL) WITHOUT ROWID",),),
    salvaged=("unasked_writes",),
)

REMEMBERED = timedelta(days=1)
"""How long a path is remembered."""
MOST_NOTED = 50_000
"""Paths that are kept of one call."""


class _RecentPaths:
    """Real paths in the store, so that a restart forgets none; all methods block and work in any thread."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()

    @property
    def _is_there(self) -> bool:
        """Whether there is a store: whoever only judges makes none."""
        return isinstance(self._store, InMemoryStore) or self._store.path.exists()

    @property
    def _oldest(self) -> str:
        return iso_time(self._clock.now() - REMEMBERED)


class VacatedPaths(_RecentPaths):
    """Paths that a call moved away or deleted: they count as existing, so that writing there asks."""

    def note(self, path: Path) -> None:
        """Record a path before what is there is taken away. Raises StorageFailed: nothing may be taken then."""
        with self._store.write(VACATED_PATHS) as db:
            db.execute("DELETE FROM vacated_paths WHERE time < ?", (self._oldest,))
            db.execute(
                "INSERT OR REPLACE INTO vacated_paths VALUES(?, ?)", (path_key(path), iso_time(self._clock.now()))
            )

    def covers(self, path: Path) -> bool:
        """Return whether this path, one above it or one below it was vacated within a day; true if that is unknown."""
        if not self._is_there:
            return False
        key, *above = keys_upwards(path)
        places = ", ".join("?" * (len(above) + 1))
        try:
            with self._store.read(VACATED_PATHS) as db:
                found = db.execute(
                    f"""SELECT 1 FROM vacated_paths WHERE time >= ?
                    AND (path IN ({places}) OR (path > ? AND path < ?)) LIMIT 1""",
                    (self._oldest, *above, key, key + b"/", key + b"0"),
                ).fetchone()
        except StorageFailed:
            return True
        return found is not None


class UnaskedWrites(_RecentPaths):
    """Paths that calls wrote although nobody was asked: an approved command that runs one of them asks."""

    def note(self, paths: Iterable[Path]) -> None:
        """Record files, or directories with all in them. Raises StorageFailed."""
        moment = iso_time(self._clock.now())
        rows = [(path_key(path), moment) for path in islice(paths, MOST_NOTED)]
        if rows:
            with self._store.write(UNASKED_WRITES) as db:
                db.execute("DELETE FROM unasked_writes WHERE time < ?", (self._oldest,))
                db.executemany("INSERT OR REPLACE INTO unasked_writes VALUES(?, ?)", rows)

    def forget(self, paths: Iterable[Path]) -> None:
        """Forget what a person has seen and approved since. Raises StorageFailed."""
        keys = [(key,) for path in paths for key in keys_upwards(path)]
        if keys and self._is_there:
            with self._store.write(UNASKED_WRITES) as db:
                db.executemany("DELETE FROM unasked_writes WHERE path = ?", keys)

    def among(self, paths: Iterable[Path]) -> Path | None:
        """Return one that was written unasked within a day, or lies in what was; the first if that is unknown."""
        wanted = list(paths)
        if not wanted or not self._is_there:
            return None
        try:
            with self._store.read(UNASKED_WRITES) as db:
                for path in wanted:
                    keys = keys_upwards(path)
                    places = ", ".join("?" * len(keys))
                    query = f"SELECT 1 FROM unasked_writes WHERE time >= ? AND path IN ({places}) LIMIT 1"
                    if db.execute(query, (self._oldest, *keys)).fetchone() is not None:
                        return path
        except StorageFailed:
            return wanted[0]
        return None


def path_key(path: Path) -> bytes:
    """Return one key for all spellings that some file system takes for the same path."""
    return os.fsencode("/".join(map(fold, path.parts[1:])))


def keys_upwards(path: Path) -> list[bytes]:
    """Return the key of a path, and those of all directories above it."""
    key = path_key(path)
    return [key, *(key[:end] for end in range(1, len(key)) if key[end : end + 1] == b"/")]
