"""Paths that calls wrote although nobody was asked: for a day an approved command that runs one of them asks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from itertools import islice
from pathlib import Path

from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.files.vacated_paths import path_key
from ollm_tui.core.storage.store import InMemoryStore, Schema, Store

UNASKED_WRITES = Schema(
    "unasked_writes",
    (("CREATE TABLE unasked_writes(path BLOB PRIMARY KEY, time TEXT NOT NULL) WITHOUT ROWID",),),
    salvaged=("unasked_writes",),
)

REMEMBERED = timedelta(days=1)
MOST_NOTED = 50_000
"""Paths that are kept of one call."""


class UnaskedWrites:
    """Real paths in the store, so that a restart forgets none; all methods block and work in any thread."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()

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
        keys = [(key,) for path in paths for key in _upwards(path_key(path))]
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
                    keys = _upwards(path_key(path))
                    places = ", ".join("?" * len(keys))
                    query = f"SELECT 1 FROM unasked_writes WHERE time >= ? AND path IN ({places}) LIMIT 1"
                    if db.execute(query, (self._oldest, *keys)).fetchone() is not None:
                        return path
        except StorageFailed:
            return wanted[0]
        return None

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
