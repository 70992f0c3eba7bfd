"""The logs of jobs that earlier dashboards left running, as their tabs get them (001 R5.5)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import pytest

from ollm_tui.core.base.clock import SystemClock
from ollm_tui.core.shell.detached_jobs import DetachedJob, JobRecord, JobRecords
from ollm_tui.core.shell.output_log import BACKLOG
from ollm_tui.core.shell.process_tree import birth_of
from ollm_tui.core.shell.status import CommandPhase, ProcessName
from ollm_tui.tui.controllers.commands_controller import DetachedJobs
from tests.core.shell.conftest import until


class Setup:
    """One detached job, what its tab was fed, and how often a change was announced."""

    def __init__(self, folder: Path, process: asyncio.subprocess.Process, log: Path | None) -> None:
        self.process = process
        self.fed = b""
        self.changes = 0
        record = JobRecord(
            id="j1",
            command="serve",
            workspace=str(folder),
            pid=process.pid,
            born=birth_of(process.pid),
            mark="5a5a",
            started=datetime.now(UTC),
            owner=1,
            owner_born="gone",
            log=None if log is None else str(log),
            detached=True,
        )
        self.jobs = DetachedJobs(JobRecords(folder / "jobs", folder), SystemClock())
        self.jobs.on_change = self._changed
        self.jobs.show([DetachedJob(record, (ProcessName(process.pid, "sleep"),))])

    def open(self) -> None:
        assert self.jobs.attach("5a5a", self._feed)

    @property
    def phase(self) -> CommandPhase:
        [job] = self.jobs.commands()
        assert (job.id, job.name, job.command, job.attached) == ("5a5a", "j1", "serve", False)
        return job.phase

    def _feed(self, data: bytes) -> None:
        self.fed += data

    def _changed(self) -> None:
        self.changes += 1


@asynccontextmanager
async def setup(folder: Path, log: Path | None) -> AsyncIterator[Setup]:
    process = await asyncio.create_subprocess_exec("sleep", "60", start_new_session=True)
    made = Setup(folder, process, log)
    try:
        yield made
    finally:
        made.jobs.close()
        if process.returncode is None:
            process.kill()
        await process.wait()


async def test_a_log_is_shown_and_followed_until_its_job_is_over(tmp_path: Path) -> None:
    log = tmp_path / "j1.log"
    log.write_bytes(b"\x1b[32mup\x1b[0m\r\n")
    async with setup(tmp_path, log) as here:
        assert (here.phase, here.changes) == (CommandPhase.RUNNING, 1)
        here.open()
        await until(lambda: here.fed == b"\x1b[32mup\x1b[0m\r\n")
        with log.open("ab") as more:
            more.write(b"request\r\n")
        await until(lambda: here.fed.endswith(b"up\x1b[0m\r\nrequest\r\n"))
        assert here.phase is CommandPhase.RUNNING
        with log.open("ab") as more:
            more.write(b"bye\r\n")
        here.process.kill()
        await here.process.wait()
        await until(lambda: here.phase is CommandPhase.EXITED)
        assert here.fed.endswith(b"request\r\nbye\r\n")
        assert here.changes == 2


async def test_a_log_that_is_no_longer_looked_at_is_no_longer_read(tmp_path: Path) -> None:
    log = tmp_path / "j1.log"
    log.write_bytes(b"up\n")
    async with setup(tmp_path, log) as here:
        here.open()
        await until(lambda: here.fed)
        here.jobs.detach("5a5a")
        await until(lambda: not [task for task in asyncio.all_tasks() if "_follow" in repr(task)])


async def test_of_a_long_log_the_end_is_shown_and_where_the_rest_is(tmp_path: Path) -> None:
    log = tmp_path / "j1.log"
    log.write_bytes(b"x" * 1000 + b"\n" + b"y" * (BACKLOG - 1))
    async with setup(tmp_path, log) as here:
        here.open()
        await until(lambda: here.fed.endswith(b"y"))
        notice, _, shown = here.fed.partition(b"\r\n")
        assert notice == f"[the first 1000 bytes are in {log} alone]".encode()
        assert shown == b"\n" + b"y" * (BACKLOG - 1)


@pytest.mark.parametrize("kind", ["none", "missing", "link"])
async def test_a_log_that_cannot_be_read_is_said(tmp_path: Path, kind: str) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    (tmp_path / "link").symlink_to("secret")
    async with setup(tmp_path, None if kind == "none" else tmp_path / kind) as here:
        here.open()
        await until(lambda: here.fed)
        assert (b"was not saved" if kind == "none" else b"cannot be read") in here.fed
        assert b"secret" not in here.fed.replace(bytes(tmp_path), b"")


async def test_what_is_no_left_job_is_not_taken(tmp_path: Path) -> None:
    async with setup(tmp_path, None) as here:
        assert not here.jobs.attach("j1", lambda data: None)
        here.jobs.show([])
        assert here.phase is CommandPhase.EXITED
