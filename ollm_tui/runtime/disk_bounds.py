"""Bounds of what the program keeps on disk: full texts of outputs, and sessions. The oldest go first."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.agent.session.catalogue import delete_session, list_sessions
from ollm_tui.agent.session.log import SessionInUseError
from ollm_tui.agent.session.recording import TERMINALS
from ollm_tui.core.shell.detached_jobs import JobRecords

OUTPUT = "output"
"""The folder beside a session's log with the full texts of outputs."""

OUTPUT_BYTES = 1_000_000_000
"""Full texts of outputs and recordings of commands, of all sessions together."""

SESSIONS = 1_000
SESSION_BYTES = 4_000_000_000
"""Logs of all sessions together."""

log = logging.getLogger(__name__)


@dataclass
class OutputBound:
    """Keeps the outputs of all sessions within OUTPUT_BYTES; may be called from any thread."""

    state: Path
    jobs: JobRecords
    most: int = OUTPUT_BYTES

    def __post_init__(self) -> None:
        self._lock = threading.Lock()

    def make_room(self, needed: int, in_use: Collection[Path] = ()) -> None:
        """Remove the oldest outputs until `needed` bytes fit; what a command still writes stays."""
        with self._lock:
            self._make_room(needed, {*in_use, *self.jobs.logs()})

    def _make_room(self, needed: int, in_use: Collection[Path]) -> None:
        files: list[tuple[float, int, Path]] = []
        kept = (each for name in (OUTPUT, TERMINALS) for each in self.state.glob(f"sessions/*/{name}"))
        for folder in (self.state / "outputs", *kept):
            try:
                with os.scandir(folder) as entries:
                    stats = [(Path(one.path), one.stat(follow_symlinks=False)) for one in entries]
            except OSError:
                continue
            files += [(stat.st_mtime, stat.st_blocks * 512, path) for path, stat in stats]
        total = needed + sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= self.most:
                return
            if path not in in_use:
                try:
                    path.unlink()
                    total -= size
                except OSError as error:
                    log.warning("an old output stays: %s", error)


def bound_sessions(sessions: Path, most: int = SESSIONS, most_bytes: int = SESSION_BYTES) -> str:
    """Delete the sessions changed longest ago beyond the bounds; return a sentence about it, if there were any."""
    deleted, taken = 0, 0
    for number, session in enumerate(list_sessions(sessions), start=1):
        taken += session.size
        if number > most or taken > most_bytes:
            try:
                delete_session(session)
                deleted += 1
            except SessionInUseError:
                continue
            except OSError as error:
                log.warning("an old session stays: %s", error)
    if not deleted:
        return ""
    what = "The oldest session was" if deleted == 1 else f"The {deleted} oldest sessions were"
    return f"{what} deleted: {most:,} sessions and {most_bytes // 10**9} GB of logs are kept, in {sessions}."
