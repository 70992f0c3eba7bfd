"""What becomes of a damaged store: it is set aside and said, what can be read is salvaged, and a person accepts it."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

from ollm_tui.core.storage.sqlite_file import beside

_MARK = ".corrupt-"
_ACCEPTED = ".accepted-"
_MOST_QUERIES = 5_000
"""Queries that searching one table for readable rows may take."""
_LAST_ROW = (1 << 63) - 1


@dataclass(frozen=True)
class DamagedStoreCopy:
    """A damaged database that is kept under another name, while a new one goes on with what could be read of it."""

    path: Path
    kept_as: Path
    reason: str

    @property
    def message(self) -> str:
        """The sentences for the person; they stand until `doctor --accept`."""
        return (
            f"{self.path} was damaged ({self.reason}). It is kept as {self.kept_as}, and a new one holds what could be "
            "read of memory, todos and the audit log; the rest is missing. `sqlite3 FILE .recover` may read more. "
            "`ollm-tui doctor --accept` ends this notice."
        )


def set_aside(path: Path, reason: str, moment: str) -> DamagedStoreCopy:
    """Rename a damaged database with what belongs to it. Raises OSError."""
    kept, number = beside(path, f"{_MARK}{moment}"), 2
    while kept.exists():
        kept, number = beside(path, f"{_MARK}{moment}-{number}"), number + 1
    for suffix in ("-shm", "-wal", ""):
        with suppress(FileNotFoundError):
            os.rename(beside(path, suffix), beside(kept, suffix))
    with suppress(OSError):  # a full disk: then the notice has no reason
        beside(kept, "-reason").write_text(reason, encoding="utf-8")
    return DamagedStoreCopy(path, kept, reason)


def unaccepted(path: Path) -> DamagedStoreCopy | None:
    """Return the last damaged database beside `path` that nobody has accepted."""
    copies = _copies(path)
    if not copies:
        return None
    try:
        reason = beside(copies[-1], "-reason").read_text(encoding="utf-8", errors="replace")
    except OSError:
        reason = "the reason is not known"
    return DamagedStoreCopy(path, copies[-1], reason)


def accept(path: Path) -> list[Path]:
    """End the notice: give the damaged databases names that say it; return them. Raises OSError."""
    accepted: list[Path] = []
    for copy in _copies(path):
        other = copy.with_name(copy.name.replace(_MARK, _ACCEPTED))
        for suffix in ("-reason", "-shm", "-wal", ""):
            with suppress(FileNotFoundError):
                os.rename(beside(copy, suffix), beside(other, suffix))
        accepted.append(other)
    return accepted


def salvage(damaged: Path, tables: Sequence[str], into: sqlite3.Connection) -> None:
    """Copy the rows of `tables` that can be read; those that are there already stay."""
    source = sqlite3.connect(f"file:{quote(os.fsencode(damaged))}?mode=ro", uri=True)
    source.text_factory = _decoded
    with closing(source):
        for table in tables:
            columns = [str(row[1]) for row in into.execute(f"PRAGMA table_info({table})")]
            names, marks = ", ".join(columns), ", ".join("?" * len(columns))
            for row in _readable_rows(source, table, names):
                with suppress(sqlite3.IntegrityError):  # a row that damage has made nonsense of
                    into.execute(f"INSERT OR IGNORE INTO {table}({names}) VALUES({marks})", row)


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


def _readable_rows(source: sqlite3.Connection, table: str, names: str) -> Iterator[tuple[object, ...]]:
    """Yield rows from the beginning to the damage and, where they are numbered, from behind it; some come twice."""
    try:
        yield from source.execute(f"SELECT {names} FROM {table}")
    except sqlite3.DatabaseError:
        # Ranges of row numbers, halved where they cannot be read, find what lies between damaged pages.
        ranges, left = [(-_LAST_ROW, _LAST_ROW)], _MOST_QUERIES
        while ranges and left:
            low, high = ranges.pop()
            left -= 1
            try:
                yield from source.execute(f"SELECT {names} FROM {table} WHERE rowid BETWEEN ? AND ?", (low, high))
            except sqlite3.OperationalError:
                return  # no such table, or one without row numbers
            except sqlite3.DatabaseError:
                if low < high:
                    middle = (low + high) // 2
                    ranges += [(middle + 1, high), (low, middle)]


def _copies(path: Path) -> list[Path]:
    try:
        names = sorted(os.listdir(path.parent))
    except OSError:
        return []
    start, ends = f"{path.name}{_MARK}", ("-shm", "-wal", "-reason")
    return [path.with_name(name) for name in names if name.startswith(start) and not name.endswith(ends)]
