"""The chain of the audit log's digests: whether a line is missing, changed or slipped in, and how far the log went."""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ollm_tui.core.base.app_dirs import state_dir

IS_GAP = '"event":"gap"'


@dataclass(frozen=True)
class BrokenLine:
    """The first line that differs from what was written."""

    number: int
    reason: str

    @property
    def message(self) -> str:
        """The finding in a sentence."""
        reason = self.reason.rstrip(".")
        return f"Line {self.number} of the audit log: {reason}. The lines before it are as they were written."


class ChainEnd(NamedTuple):
    """The last line of the log: its number, 0 in an empty log, and its digest."""

    number: int
    digest: str


class EndFile:
    """Keeps the log's end outside the store, which so cannot be replaced or set back unnoticed.

    Behind the end it counts the lines that could not be written since: it is as long each time, so that it can be
    written in place where the disk is full. A file without the log, or the log without its file, tells nothing:
    somebody who removes both goes unnoticed.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @classmethod
    def of_store(cls, store: Path) -> EndFile:
        """Return the file for the store at this path."""
        name = hashlib.sha256(os.fsencode(store)).hexdigest()[:8]
        return cls(state_dir() / f"audit-{name}.end")

    def read(self) -> ChainEnd | None:
        """Return the end last kept; None where there is none."""
        with suppress(OSError, ValueError):
            number, digest, *_ = self._path.read_text("ascii").split()
            return ChainEnd(int(number), digest)
        return None

    def missing(self) -> int:
        """Return how many lines could not be written behind the end."""
        with suppress(OSError, ValueError, IndexError):
            return int(self._path.read_text("ascii").split()[2])
        return 0

    def add_missing(self, lines: int) -> None:
        """Count lines that could not be written."""
        self._write(self.read() or ChainEnd(0, "-"), self.missing() + lines)

    def write(self, end: ChainEnd) -> None:
        """Keep an end; where that cannot be, the lines in the store are all there is."""
        self._write(end, 0)

    def _write(self, end: ChainEnd, missing: int) -> None:
        with suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                # In one write: a reader never sees half of it.
                os.write(descriptor, f"{end.number:>20} {end.digest:>64} {missing:>10}\n".encode("ascii"))
            finally:
                os.close(descriptor)


def digest_of_line(before: str, number: int, text: str) -> str:
    """Return the digest of a line, which holds the digest of the line before."""
    return hashlib.sha256(f"{before}\n{number}\n{text}".encode("utf-8", "surrogatepass")).hexdigest()


def missing_before(db: sqlite3.Connection, kept: ChainEnd | None) -> BrokenLine | None:
    """Return the first line that the log had once, as an end kept elsewhere says, and lacks now."""
    if kept is None or kept.number == 0:
        return None
    row = db.execute("SELECT digest FROM audit WHERE number = ?", (kept.number,)).fetchone()
    if row is None:
        last = db.execute("SELECT coalesce(max(number), 0) FROM audit").fetchone()[0]
        return BrokenLine(last + 1, f"it is missing; the log went on to line {kept.number}")
    if row[0] != kept.digest:
        return BrokenLine(kept.number, "it is not the line that was written; the store was replaced")
    return None


def first_broken(db: sqlite3.Connection) -> BrokenLine | None:
    """Return the first line that breaks the chain, or the first gap in it."""
    digest = ""
    expected = 1
    gap: BrokenLine | None = None
    for number, text, stored in db.execute("SELECT number, entry, digest FROM audit ORDER BY number"):
        if number != expected:
            return BrokenLine(min(expected, number), "it is missing" if number > expected else "it was slipped in")
        digest = digest_of_line(digest, number, str(text))
        if digest != stored:
            return BrokenLine(number, "its content is not what was written, or a line before it was taken out")
        if IS_GAP in str(text):
            gap = gap or BrokenLine(number, str(json.loads(text)["outcome"]))
        expected += 1
    last, end = db.execute("SELECT number, digest FROM audit_end").fetchone() or (0, "")
    if last >= expected:
        return BrokenLine(expected, f"it is missing; the log went on to line {last}")
    if (last, end) != (expected - 1, digest):
        return BrokenLine(expected - 1, "it was written by something else than this log")
    return gap
