"""How often approvals let a command run, and when last: kept in the store, not in policy files (contract 2)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.storage.background_writer import BackgroundWriter
from ollm_tui.core.storage.store import Schema, Store

SCHEMA = Schema(
    "approvals",
    (
        (
            """CREATE TABLE approval_uses(
                file TEXT NOT NULL, pattern TEXT NOT NULL, uses INTEGER NOT NULL, last_used TEXT NOT NULL,
                PRIMARY KEY(file, pattern)) WITHOUT ROWID""",
        ),
    ),
)


class ApprovalKey(NamedTuple):
    """An approval that lasts: the policy file it stands in, and its pattern."""

    file: str
    pattern: str


@dataclass(frozen=True)
class ApprovalUse:
    """What is known of one approval; `last_used` is UTC in ISO 8601."""

    uses: int
    last_used: str


class ApprovalUses:
    """The counts. `record` returns at once; what cannot be written is reported to `on_failure`, from another thread."""

    def __init__(
        self, store: Store, on_failure: Callable[[StorageFailed], None], *, clock: Clock | None = None
    ) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._writer = BackgroundWriter("approval-uses", on_failure)

    def record(self, approvals: Sequence[ApprovalKey]) -> None:
        """Count one command line that ran unasked because of these approvals, each counting once."""
        self._writer.submit(self._write, tuple(dict.fromkeys(approvals)), iso_time(self._clock.now()))

    def read(self) -> dict[ApprovalKey, ApprovalUse]:
        """Everything that was ever counted; blocks. Raises StorageFailed."""
        with self._store.read(SCHEMA) as db:
            rows = db.execute("SELECT file, pattern, uses, last_used FROM approval_uses").fetchall()
        return {ApprovalKey(file, pattern): ApprovalUse(uses, last) for file, pattern, uses, last in rows}

    def flush(self) -> None:
        """Wait until everything recorded so far is written; blocks."""
        self._writer.flush()

    def close(self) -> None:
        """Write what is left; blocks. Idempotent."""
        self._writer.close()

    def _write(self, approvals: tuple[ApprovalKey, ...], moment: str) -> None:
        with self._store.write(SCHEMA) as db:
            db.executemany(
                """INSERT INTO approval_uses VALUES(?, ?, 1, ?) ON CONFLICT(file, pattern)
                DO UPDATE SET uses = uses + 1, last_used = max(last_used, excluded.last_used)""",
                [(*key, moment) for key in approvals],
            )
