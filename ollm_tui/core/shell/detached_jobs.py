"""Jobs that outlive the program: a record of each on disk, and the start of its host process.

An agent's command is recorded from its start to its end. A detached job stays recorded, and so does what ran
when the program was killed.
"""

from __future__ import annotations

import errno
import logging
import os
import select
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.fence.secrets import looks_secret
from ollm_tui.core.files.atomic import replace_text
from ollm_tui.core.shell import detached_job_host
from ollm_tui.core.shell.process_tree import ProcessTree, birth_of
from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus, ProcessName
from ollm_tui.core.shell.termination import GRACE, Termination

SECRET_COMMAND = "(a command line with a secret in it)"
"""Replaces a command line that must not be on disk."""

log = logging.getLogger(__name__)


class JobRecord(BaseModel):
    """A job that may outlive its starter; `born` and `owner_born` tell reused pids apart."""

    model_config = ConfigDict(frozen=True, defer_build=True)

    id: str
    command: str
    workspace: str
    pid: int
    born: str
    mark: str
    started: datetime
    owner: int
    owner_born: str
    log: str | None = None
    """Where its output is; None while that is in memory only."""
    detached: bool = False
    """Whether it was left running on purpose."""


@dataclass(frozen=True)
class DetachedJob:
    """A job of an earlier process, and which of its processes still run."""

    record: JobRecord
    members: tuple[ProcessName, ...]

    @property
    def running(self) -> bool:
        """Whether anything of it still runs."""
        return bool(self.members)

    def status(self, now: datetime) -> CommandStatus:
        """Return its status at `now`; `id` is unique here, `name` the id it had."""
        record = self.record
        return CommandStatus(
            id=record.mark,
            command=record.command,
            phase=CommandPhase.RUNNING if self.running else CommandPhase.EXITED,
            name=record.id,
            cwd=record.workspace,
            started=time.monotonic() - (now - record.started).total_seconds(),
            pid=record.pid,
            background=True,
            detached=True,
            leftovers=self.members,
        )


class JobRecords:
    """The records of one workspace, a file each in `folder`. All methods read or write the disk."""

    def __init__(self, folder: Path, workspace: Path, *, clock: Clock | None = None) -> None:
        self._folder = folder
        self._workspace = _text(workspace)
        self._clock = clock or SystemClock()
        self._recorded: dict[str, JobRecord] = {}

    # Of this process

    def update(self, status: CommandStatus, mark: str) -> str:
        """Record a running agent's command, or remove it once it is over; return why that failed, if it did."""
        unfinished = status.kind is CommandKind.AGENT and status.unfinished and bool(status.pid)
        try:
            if unfinished and mark not in self._recorded:
                self._write(self._record(status, mark))
            elif not unfinished and mark in self._recorded:
                self.remove(mark)
        except OSError as error:
            log.warning("Command %s is not recorded: %s", status.id, error)
            why = f"{self._folder}: {error.strerror or error}"
            return f"its record cannot be written, so that after a crash nothing would know of it: {why}"
        return ""

    def mark_detached(self, status: CommandStatus, mark: str, output: Path | None) -> JobRecord:
        """Record a job as detached on purpose. Raises OSError."""
        known = self._recorded.get(mark) or self._record(status, mark)
        record = known.model_copy(update={"log": None if output is None else _text(output), "detached": True})
        self._write(record)
        return record

    def unmark_detached(self, record: JobRecord) -> None:
        """Undo `mark_detached`."""
        with suppress(OSError):
            self._write(record.model_copy(update={"detached": False}))

    def remove(self, mark: str) -> None:
        """Forget a job."""
        self._recorded.pop(mark, None)
        with suppress(FileNotFoundError):
            self._path(mark).unlink()

    # Of those before

    def detached(self) -> list[DetachedJob]:
        """Return this workspace's jobs that are detached or whose starter is gone, oldest first."""
        found: list[DetachedJob] = []
        for record in self._records():
            owner_runs = birth_of(record.owner) == record.owner_born != ""
            if record.workspace == self._workspace and (record.detached or not owner_runs):
                members = self.process_tree(record).members()
                found.append(DetachedJob(record, tuple(ProcessName(one.pid, one.name) for one in members)))
        return sorted(found, key=lambda job: job.record.started)

    def logs(self) -> set[Path]:
        """Return the files that the output of recorded jobs goes to."""
        return {Path(record.log) for record in self._records() if record.log is not None}

    def process_tree(self, record: JobRecord) -> ProcessTree:
        """Return the processes of an earlier job, to be looked for in one thread."""
        return ProcessTree.of_earlier_process(record.pid, record.born, record.mark)

    def end(self, record: JobRecord, grace: float = GRACE) -> tuple[ProcessName, ...]:
        """End an earlier job; return the processes that could not be ended. Blocks up to `grace` and a bit."""
        termination = Termination(self.process_tree(record), grace=grace)
        termination.run_to_end()
        if not termination.survivors:
            self.remove(record.mark)
        return termination.survivors

    # Internals

    def _record(self, status: CommandStatus, mark: str) -> JobRecord:
        return JobRecord(
            id=status.id,
            command=SECRET_COMMAND if looks_secret(status.command) else _text(status.command),
            workspace=self._workspace,
            pid=status.pid,
            born=birth_of(status.pid),
            mark=mark,
            started=self._clock.now(),
            owner=os.getpid(),
            owner_born=birth_of(os.getpid()),
        )

    def _write(self, record: JobRecord) -> None:
        replace_text(self._path(record.mark), record.model_dump_json(indent=1) + "\n")
        self._recorded[record.mark] = record

    def _records(self) -> list[JobRecord]:
        records: list[JobRecord] = []
        for path in sorted(self._folder.glob("*.json")):
            try:
                records.append(JobRecord.model_validate_json(path.read_bytes()))
            except (OSError, ValidationError) as error:
                log.warning("%s cannot be read: %s", path, error)
        return records

    def _path(self, mark: str) -> Path:
        return self._folder / f"{mark}.json"


def _text(value: str | Path) -> str:
    """Return a path or command line with every byte that is no UTF-8 made readable."""
    return os.fsencode(value).decode("utf-8", "backslashreplace")


HOST_SECONDS = 10.0
"""Seconds that a host process gets to start."""


def start_job_host(end: int, log: Path, leader: int, room: int) -> None:
    """Start the process that appends the output of `end` to `log`, up to `room` bytes.

    It outlives this process; the caller must read `end` no more. Blocks until it runs. Raises OSError.
    """
    ready, written = os.pipe()
    output = -1
    try:
        output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", detached_job_host.__file__, str(leader), str(room)],
            stdin=end,
            stdout=output,
            stderr=written,
            cwd="/",
            env={},  # without the mark of any command: it is none of their processes
            start_new_session=True,
        )
        os.close(written)
        written = -1
        waiting = select.poll()
        waiting.register(ready, select.POLLIN)
        expected = detached_job_host.READY
        if not waiting.poll(HOST_SECONDS * 1000) or os.read(ready, len(expected)) != expected:
            process.kill()
            process.wait()
            os.set_blocking(end, False)
            raise OSError(errno.ECHILD, "the process that would go on reading it could not be started", sys.executable)
        # It is meant to outlive this process; else `subprocess` warns that it does.
        process.returncode = 0
    finally:
        for descriptor in (ready, written, output):
            if descriptor >= 0:
                os.close(descriptor)
