"""The audit log: what was decided about every call, by whom, and how it ended.

Each line's digest includes the one before, so that a line edited, dropped or inserted later is found (`verify`). That
detects mistakes and clumsy tampering: someone who can rewrite the whole file can also rewrite every digest. Arguments
are kept as a SHA-256 only.
"""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
from collections import deque
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.results import ExecutionPlace, Wire
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.policy.audit_chain import (
    IS_GAP,
    BrokenLine,
    ChainEnd,
    EndFile,
    digest_of_line,
    first_broken,
    missing_before,
)
from ollm_tui.core.policy.engine import Explanation, Layer, TraceLine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.storage.background import BackgroundWriter
from ollm_tui.core.storage.store import Schema, Store

SCHEMA = Schema(
    "audit",
    (
        (
            "CREATE TABLE audit(number INTEGER PRIMARY KEY, entry TEXT NOT NULL, digest TEXT NOT NULL)",
            """CREATE TABLE audit_end(
                single INTEGER PRIMARY KEY CHECK(single = 1), number INTEGER NOT NULL, digest TEXT NOT NULL)""",
            "INSERT INTO audit_end VALUES(1, 0, '')",
            """CREATE TRIGGER audit_stays BEFORE UPDATE ON audit
                BEGIN SELECT RAISE(ABORT, 'lines of the audit log are never changed'); END""",
            """CREATE TRIGGER audit_keeps BEFORE DELETE ON audit
                BEGIN SELECT RAISE(ABORT, 'lines of the audit log are never deleted'); END""",
        ),
    ),
    salvaged=("audit",),
    after_salvage="""UPDATE audit_end SET (number, digest) =
        (SELECT number, digest FROM audit ORDER BY number DESC LIMIT 1) WHERE EXISTS (SELECT 1 FROM audit)""",
)


WRITTEN_SECONDS = 5.0
"""How long a call waits for its line before it is refused."""


class AuditEvent(StrEnum):
    """What a line is about."""

    DECIDED = "decided"
    """The policy judged a call."""
    SETTLED = "settled"
    """A question about a call was answered, expired or was withdrawn."""
    FINISHED = "finished"
    """A call ended, having run or not."""
    GAP = "gap"
    """Lines before this one could not be written; its outcome says how many, and why."""


class AuditEntry(Wire):
    """What is known about one event of a call; times are in milliseconds."""

    event: AuditEvent
    call_id: str
    tool: str
    origin: Origin
    arguments_sha256: str
    decision: Decision | None = None
    layer: Layer | None = None
    """The layer whose word decided."""
    rule: int | None = None
    file: str | None = None
    line: int | None = None
    outcome: str | None = None
    """`approved`, `denied`, `expired`, `cancelled` for a settlement; `ok` or the error's type for a finished call."""
    by: str | None = None
    """Who settled it: `user`, `timeout`, `signal`, ..."""
    latency_ms: int | None = None
    """From the question to its answer for a settlement; the whole call for a finished one."""
    place: ExecutionPlace | None = None
    """Where the programs of a finished call ran."""
    process: int | None = None
    """The process that took the call on: where a line about its end is missing, whether it can still come."""


def with_decision(entry: AuditEntry, explanation: Explanation | None) -> AuditEntry:
    """Return the entry with this process's id, and the decision and what decided."""
    line = deciding_line(explanation) if explanation else None
    found: dict[str, object] = {"process": os.getpid()}
    if explanation:
        found["decision"] = explanation.decision
    if line:
        found.update(layer=line.layer, rule=line.rule, file=line.file, line=line.line)
    return entry.model_copy(update=found)


class AuditLine(Wire):
    """A stored line; `time` is UTC in ISO 8601."""

    number: int
    time: str
    entry: AuditEntry | None
    """None where the stored text can no longer be read; `verify` names such a line."""
    digest: str


class CallEnd(StrEnum):
    """State of a call whose end is not in the log."""

    RUNNING = "running"
    """Its process lives (or another one has its number by now)."""
    LOST = "lost"
    """Its process was killed while the call was on its way: whether the call took effect is not known."""


def unfinished_calls(lines: Sequence[AuditLine]) -> dict[int, CallEnd]:
    """Return the calls without a logged end, each by the number of its last line."""
    latest: dict[tuple[int | None, str], int] = {}
    for line in lines:
        if line.entry is None or line.entry.event is AuditEvent.GAP:
            continue
        call = (line.entry.process, line.entry.call_id)
        if line.entry.event is AuditEvent.FINISHED:
            latest.pop(call, None)
        else:
            latest[call] = line.number
    return {
        number: CallEnd.RUNNING if process is not None and _lives(process) else CallEnd.LOST
        for (process, _), number in latest.items()
    }


class AuditLog:
    """The log in the store; all methods block, work in any thread and raise StorageFailed."""

    def __init__(self, store: Store, *, clock: Clock | None = None, end_file: EndFile | None = None) -> None:
        """With `end_file` the log knows how far it went where the store is replaced or set back."""
        self._store = store
        self._clock = clock or SystemClock()
        self._end_file = end_file
        self._end: ChainEnd | None = None
        self._is_noted = False

    def append(self, entry: AuditEntry) -> AuditLine:
        """Write a line and return it; it happened now."""
        time = iso_time(self._clock.now())
        number, digest = self.append_at((time, entry))
        return AuditLine(number=number, time=time, entry=entry, digest=digest)

    def append_at(self, *lines: tuple[str, AuditEntry]) -> ChainEnd:
        """Write lines with the time of each, all or none; return the end's number and digest.

        Without lines only that the store was replaced is written, where it was.
        """
        with self._store.write(SCHEMA) as db:
            number, digest = db.execute("SELECT number, digest FROM audit_end").fetchone()
            gap = self._replacement(db) or self._set_back(db, ChainEnd(number, digest))
            if not gap and not (lines and lines[0][1].event is AuditEvent.GAP):  # whose writer has counted them itself
                gap = self._unwritten()
            for time, entry in (*gap, *lines):
                text = _stored(time, entry)
                number, digest = number + 1, digest_of_line(digest, number + 1, text)
                db.execute("INSERT INTO audit(number, entry, digest) VALUES(?, ?, ?)", (number, text, digest))
            db.execute("UPDATE audit_end SET number = ?, digest = ?", (number, digest))
        self._is_noted, self._end = True, ChainEnd(number, digest)
        if self._end_file is not None:
            self._end_file.write(self._end)  # behind the commit: what it names was written
        return self._end

    def read(self, limit: int | None = None) -> list[AuditLine]:
        """Return the last `limit` lines (all if None), oldest first, not verified."""
        with self._store.read(SCHEMA) as db:
            rows = db.execute(
                "SELECT number, entry, digest FROM audit ORDER BY number DESC LIMIT ?",
                (-1 if limit is None else max(limit, 0),),
            ).fetchall()
        return [_line(*row) for row in reversed(rows)]

    def verify(self) -> BrokenLine | None:
        """Return the first line that was changed or is missing; None if there is none."""
        kept = self._end_file.read() if self._end_file else None  # before the snapshot, which others go on from
        with self._store.read(SCHEMA) as db:
            broken = first_broken(db) or missing_before(db, kept)
            last = db.execute("SELECT number FROM audit_end").fetchone()
        number = last[0] if last else 0
        if broken is None and self._store.set_aside is not None:
            return BrokenLine(number, _replaced(self._store.set_aside.kept_as))
        if broken is None and (missing := self._end_file.missing() if self._end_file else 0):
            return BrokenLine(number + 1, f"it is missing; {_lines(missing)} could not be written")
        return broken

    def note_missing(self, lines: int) -> None:
        """Count lines that could not be written, beside the store: who writes next puts a gap in their place."""
        if self._end_file is not None:
            self._end_file.add_missing(lines)

    def _unwritten(self) -> list[tuple[str, AuditEntry]]:
        missing = self._end_file.missing() if self._end_file else 0
        what = f"{_lines(missing)} could not be written by a process that has ended"
        return [(iso_time(self._clock.now()), _gap(what))] if missing else []

    def _replacement(self, db: sqlite3.Connection) -> list[tuple[str, AuditEntry]]:
        """Return the line about a store that was replaced, unless the log has it."""
        copy = None if self._is_noted else self._store.set_aside
        if copy is None:
            return []
        text = _replaced(copy.kept_as)
        known = any(text in str(row[0]) for row in db.execute("SELECT entry FROM audit") if IS_GAP in str(row[0]))
        return [] if known else [(iso_time(self._clock.now()), _gap(text))]

    def _set_back(self, db: sqlite3.Connection, end: ChainEnd) -> list[tuple[str, AuditEntry]]:
        """Return the line about lines that are gone; who wrote the last line itself need not look."""
        if self._end_file is None or end == self._end:
            return []
        broken = missing_before(db, self._end_file.read())
        if broken is None:
            return []
        return [(iso_time(self._clock.now()), _gap(f"line {broken.number} before this one: {broken.reason}"))]


class AuditWriter:
    """Appends lines in order in a thread; who needs them on the disk waits for `written`.

    Lines that come while the store is locked are written together. After an error the next lines are tried, behind one
    about the gap; `missing` says in words what the log lacks now.
    """

    def __init__(self, log: AuditLog, *, clock: Clock | None = None) -> None:
        self._log = log
        self._clock = clock or SystemClock()
        self._writer = BackgroundWriter("audit", lambda failure: None)
        self._queue: deque[tuple[str, AuditEntry]] = deque()
        self._missing = 0
        self._failure: StorageFailed | None = None
        self._is_late = False

    @property
    def missing(self) -> str:
        """How many of the last lines could not be written, and why; empty where none is missing."""
        if self._failure is None:
            return ""
        return f"{_lines(self._missing)} could not be written: {self._failure.message}"

    @property
    def is_stuck(self) -> bool:
        """Whether the last attempt failed, or has lasted too long."""
        return self._is_late or self._failure is not None

    def record(self, entry: AuditEntry) -> None:
        """Queue a line with the time of this call; returns at once."""
        self._queue.append((iso_time(self._clock.now()), entry))
        try:
            self._writer.submit(self._append_queued)
        except StorageFailed as failure:
            self._queue.clear()
            self._missing, self._failure = self._missing + 1, self._failure or failure
            self._log.note_missing(1)

    async def written(self) -> None:
        """Wait until all lines recorded so far are written. Raises StorageFailed, after WRITTEN_SECONDS too."""
        try:
            await asyncio.wait_for(self._writer.idle(), WRITTEN_SECONDS)
        except TimeoutError:
            self._is_late = True
            what = f"the audit log could not be written within {WRITTEN_SECONDS:g} s. Try again"
        else:
            if self._failure is None:
                return
            what = f"the audit log could not be written. {self._failure.message}"
        raise StorageFailed(f"The call was not run: {what}")

    def _append_queued(self) -> None:
        lines = [self._queue.popleft() for _ in range(len(self._queue))]
        if not lines:
            return
        gap = [(lines[0][0], _gap(self.missing))] if self._failure else []
        try:
            self._log.append_at(*gap, *lines)
        except StorageFailed as failure:
            self._missing, self._failure = self._missing + len(lines), failure
            self._log.note_missing(len(lines))
            raise
        self._missing, self._failure, self._is_late = 0, None, False

    def flush(self) -> None:
        """Wait until everything recorded so far is written."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is left and end the thread; blocks. Idempotent."""
        self._writer.close()


def deciding_line(explanation: Explanation) -> TraceLine | None:
    """Return the trace line that decided: the last with the same decision and reason."""
    alike = [line for line in explanation.trace if line.decision is explanation.decision]
    return next(
        (line for line in reversed(alike) if explanation.reason.startswith(line.reason)), alike[-1] if alike else None
    )


def _replaced(kept_as: Path) -> str:
    return f"the store was damaged and replaced here; lines may be missing. It is kept as {kept_as.name}"


def _lines(count: int) -> str:
    return "1 line" if count == 1 else f"{count} lines"


def _gap(outcome: str) -> AuditEntry:
    return AuditEntry(
        event=AuditEvent.GAP, call_id="", tool="", origin=Origin.USER, arguments_sha256="", outcome=outcome
    )


def _stored(time: str, entry: AuditEntry) -> str:
    fields = {"time": time, **entry.model_dump(mode="json", by_alias=True, exclude_none=True)}
    return json.dumps(fields, sort_keys=True, separators=(",", ":"))


def _line(number: int, text: str, digest: str) -> AuditLine:
    try:
        fields = json.loads(text)
        time = str(fields.pop("time"))
        return AuditLine(number=number, time=time, entry=AuditEntry.model_validate(fields), digest=digest)
    except (ValueError, TypeError, KeyError, AttributeError, ValidationError):
        return AuditLine(number=number, time="", entry=None, digest=digest)


def _lives(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # somebody else's, so it is there
    try:
        stat = Path(f"/proc/{process}/stat").read_text("utf-8", "replace")
    except OSError:
        return True  # no such files on this system
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")  # ended, and waiting to be told so to its parent
