"""Search of code by meaning: a vector for each place of an index, made by a process that only runs where others rest.

A vector takes some 20 ms, an index of 5,000 places two minutes: nobody waits for that, and until it is done the search
goes by words.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from ollm_tui.core.search.embedder import Comparison, Embedder, EmbeddingError, installed_embedder

MOST_PLACES = 30_000
"""Of an index that is read by meaning: more would take a quarter of an hour and 50 MB."""

DEPTH = 60
"""Places nearest to a query that count."""

_BATCH = 16
"""Vectors stored at once."""
_BUSY_SECONDS = 60.0
_LOWEST = 19

TABLE = "CREATE TABLE vectors(place INTEGER PRIMARY KEY, model TEXT NOT NULL, vector BLOB NOT NULL);"
_MISSING = """
SELECT id, head FROM chunks WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE place = id AND model = ?) ORDER BY id LIMIT ?
"""
_KEPT = "SELECT COUNT(*), COALESCE(MAX(place), 0) FROM vectors WHERE model = ?"

_PROGRAM = """import sys
sys.path.append(sys.argv[1])
from ollm_tui.core.search import code_vectors
code_vectors.main(sys.argv[2])"""

Start: TypeAlias = Callable[[Path], "subprocess.Popen[bytes]"]


@dataclass(frozen=True)
class NearPlaces:
    """Numbers of an index's places, nearest first; None where their vectors are not all made."""

    numbers: Sequence[int] | None = None


def start_maker(index: Path) -> subprocess.Popen[bytes]:
    """Start the process that makes an index's vectors; it ends when they are made, or with this program."""
    return subprocess.Popen(
        [sys.executable, "-I", "-c", _PROGRAM, str(Path(__file__).parents[3]), str(index)],
        cwd="/",
        env={"OMP_NUM_THREADS": "1", "PATH": os.defpath},
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


class CodeVectors:
    """The places of indexes by meaning. For any thread, one at a time; all methods block."""

    def __init__(self, embedder: Embedder, start: Start = start_maker) -> None:
        self._embedder = embedder
        self._start = start
        self._makers: dict[Path, subprocess.Popen[bytes]] = {}
        self._known: tuple[tuple[Path, int, int], Sequence[int], Comparison] | None = None
        self._closed = False

    def nearest(self, db: sqlite3.Connection, index: Path, query: str) -> NearPlaces:
        """Return the places nearest to a query, or have their vectors made. Raises sqlite3.Error."""
        count = db.execute("SELECT COUNT(*) FROM chunks").fetchone()[0]
        vectors, last = db.execute(_KEPT, (self._embedder.name,)).fetchone()
        if not 0 < count <= MOST_PLACES:
            return NearPlaces()
        if vectors < count:
            self._make(index)
            return NearPlaces()
        try:
            return NearPlaces(self._ranked(db, (index, vectors, last), query))
        except EmbeddingError:  # `doctor` says why; words alone find most
            return NearPlaces()

    def close(self) -> None:
        """End what makes vectors; what is made stays."""
        self._closed = True
        for process in self._makers.values():
            process.kill()
            process.wait()
        self._makers.clear()

    def _make(self, index: Path) -> None:
        process = self._makers.get(index)
        if not self._closed and (process is None or process.poll() is not None):
            with suppress(OSError):  # the next search tries again
                self._makers[index] = self._start(index)

    def _ranked(self, db: sqlite3.Connection, state: tuple[Path, int, int], query: str) -> Sequence[int]:
        if self._known is None or self._known[0] != state:
            rows = db.execute("SELECT place, vector FROM vectors WHERE model = ?", (self._embedder.name,)).fetchall()
            places, vectors = zip(*rows, strict=True)
            self._known = state, places, self._embedder.comparison(vectors)
        _, places, comparison = self._known
        near = sorted(zip(comparison(self._embedder.query(query)), places, strict=True), reverse=True)[:DEPTH]
        return [place for likeness, place in near if likeness >= self._embedder.chance]


def make_vectors(index: Path, embedder: Embedder) -> None:
    """Make the vectors that an index's places have not. Raises EmbeddingError, sqlite3.Error."""
    with closing(
        sqlite3.connect(f"{index.as_uri()}?mode=rw", timeout=_BUSY_SECONDS, isolation_level=None, uri=True)
    ) as db:
        while rows := db.execute(_MISSING, (embedder.name, _BATCH)).fetchall():
            made = [(place, embedder.name, embedder.passage(head)) for place, head in rows]
            db.execute("BEGIN IMMEDIATE")
            # A place that is gone meanwhile gets none.
            db.executemany(
                "INSERT OR REPLACE INTO vectors SELECT ?1, ?2, ?3 WHERE EXISTS (SELECT 1 FROM chunks WHERE id = ?1)",
                made,
            )
            db.execute("COMMIT")


def main(index: str) -> None:
    """Make an index's vectors as the process for that, unless another one does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_LOWEST)
    if sys.platform == "linux":
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    threading.Thread(target=_end_with_parent, daemon=True).start()
    with open(f"{index}-making", "wb") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return
        embedder = installed_embedder()
        if embedder is not None:
            with suppress(EmbeddingError, sqlite3.Error):  # the index may be built anew just now
                make_vectors(Path(index), embedder)


def _end_with_parent() -> None:
    while os.read(0, 1):  # nothing is ever sent
        pass
    os._exit(0)
