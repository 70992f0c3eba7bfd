"""Paths that a call moved away or deleted: for a day they count as existing, so that writing there asks."""

from __future__ import annotations

import os
from datetime import timedelta
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

REMEMBERED = timedelta(days=1)
"""How long a path counts as existing after a call took away what was there."""


class VacatedPaths:
    """Real paths in the store, so that a restart forgets none; all methods block and work in any thread."""

    def __init__(self, store: Store, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()

    def note(self, path: Path) -> None:
        """Record a path before what is there is taken away. Raises StorageFailed: nothing may be taken then."""
        with self._store.write(VACATED_PATHS) as db:
            db.execute("DELETE FROM vacated_paths WHERE time < ?", (self._oldest,))
            db.execute(
                "INSERT OR REPLACE INTO vacated_paths VALUES(?, ?)", (path_key(path), iso_time(self._clock.now()))
            )

    def covers(self, path: Path) -> bool:
        """Return whether this path, one above it or one below it was vacated within a day; true if that is unknown."""
        if not isinstance(self._store, InMemoryStore) and not self._store.path.exists():
            return False  # whoever only judges makes no store
        key = path_key(path)
        above = [key[:end] for end in range(1, len(key)) if key[end : end + 1] == b"/"]
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

    @property
    def _oldest(self) -> str:
        return iso_time(self._clock.now() - REMEMBERED)


def path_key(path: Path) -> bytes:
    """Return one key for all spellings that some file system takes for the same path."""
    return os.fsencode("/".join(map(fold, path.parts[1:])))
