"""Jobs between the hub and the screen: looked at while their list is in sight, ended, left running, told of again."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping
from contextlib import suppress

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.detached_jobs import DetachedJob, JobRecords
from ollm_tui.core.shell.hub import CannotDetachError, CommandHub, CommandStatus, UnknownCommandError
from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.process_usage import ProcessUsage, UsageReading, UsageWatcher
from ollm_tui.tui import protocol
from ollm_tui.tui.controllers.commands_controller import mark_of
from ollm_tui.tui.controllers.detached_jobs_controller import DetachedJobsController
from ollm_tui.tui.conversation_entries import NoteEntry
from ollm_tui.tui.protocol import Tell
from ollm_tui.tui.values import CommandMark, JobRow

LOOK_EVERY = 1.0
"""Seconds between two looks at the jobs while their list is in sight."""

NEXT_TIME = "In this folder, ollm-tui lists what still runs under /jobs and can end it."

log = logging.getLogger(__name__)


class JobsController:
    """Knows the jobs of this dashboard from the hub, and those that outlived an earlier one from the book."""

    def __init__(
        self, hub: CommandHub, book: JobRecords, left: DetachedJobsController, tell: Tell, clock: Clock
    ) -> None:
        self._hub = hub
        self._left = left
        self._book = book
        self._tell = tell
        self._clock = clock
        self._watcher = UsageWatcher()
        self._families: dict[str, ProcessTree] = {}
        self._earlier: tuple[DetachedJob, ...] = ()
        self._again = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    # -- the list ----------------------------------------------------------------------------------------------------

    def watch(self, *, on: bool) -> None:
        """Look at the jobs every second, or no longer."""
        if on and self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        elif not on and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _watch(self) -> None:
        while True:
            self._again.clear()
            try:
                look = await asyncio.to_thread(self._look, self._jobs())
            except OSError as error:
                self._tell(protocol.ToastUpdate(f"The jobs cannot be looked at: {error}", failed=True))
                return
            self._left.show(self._earlier)
            self._tell(protocol.JobsUpdate(self._rows(look), look.unknown))
            with suppress(TimeoutError):
                await asyncio.wait_for(self._again.wait(), LOOK_EVERY)

    def _look(self, jobs: list[CommandStatus]) -> UsageReading:
        """At all jobs there are; in a thread, which has the families to itself."""
        self._earlier = tuple(job for job in self._book.detached() if job.running)
        families: dict[str, ProcessTree] = {}
        for job in jobs:
            if job.unfinished:
                with suppress(UnknownCommandError):
                    families[job.id] = self._families.get(job.id) or self._hub.process_tree(job.id)
        for job in self._earlier:
            families[job.record.mark] = self._families.get(job.record.mark) or self._book.process_tree(job.record)
        self._families = families
        return self._watcher.look(families)

    def _jobs(self) -> list[CommandStatus]:
        return [state for state in self._hub.list() if state.is_job]

    def _rows(self, look: UsageReading | None = None) -> tuple[JobRow, ...]:
        usage: Mapping[str, ProcessUsage] = {} if look is None else look.usage
        now = self._clock.now()
        earlier = [
            _earlier_row(job, (now - job.record.started).total_seconds(), usage.get(job.record.mark))
            for job in self._earlier
        ]
        return (*earlier, *(_row(job, usage.get(job.id)) for job in self._jobs()))

    def interrupt(self, job_id: str) -> None:
        with suppress(UnknownCommandError):
            self._hub.interrupt(job_id)

    async def end(self, job_id: str) -> None:
        """End a job of this or an earlier dashboard, and say what came of it."""
        earlier = next((job.record for job in self._earlier if job.record.mark == job_id), None)
        try:
            if earlier is not None:
                survivors = await asyncio.to_thread(self._book.end, earlier)
            else:
                survivors = (await self._hub.kill(job_id)).leftovers
        except UnknownCommandError:
            survivors = ()
        name = job_id if earlier is None else earlier.id
        if survivors:
            words = f"{name}: could not be ended: {visible(', '.join(map(str, survivors)))}"
            self._tell(protocol.ToastUpdate(words, failed=True))
        else:
            self._tell(protocol.ToastUpdate(f"{name} is ended."))
        self._again.set()

    # -- at the beginning --------------------------------------------------------------------------------------------

    async def first_notes(self) -> list[NoteEntry]:
        """What became of jobs that outlived an earlier dashboard; those that are over are then forgotten."""
        found = await asyncio.to_thread(self._book.detached)
        self._earlier = tuple(job for job in found if job.running)
        self._left.show(self._earlier)
        for job in found:
            if not job.running:
                await asyncio.to_thread(self._book.remove, job.record.mark)
        told = [job for job in found if job.running or job.record.detached]
        notes = [NoteEntry(f"earlier-{job.record.mark}", _earlier_words(job)) for job in told]
        if self._earlier:
            notes.append(NoteEntry("earlier-jobs", "A tab of the terminal shows what each writes; /jobs can end them."))
        return notes

    # -- at the end --------------------------------------------------------------------------------------------------

    def unfinished(self) -> tuple[JobRow, ...]:
        """What the person has to decide on before quitting; jobs that were left before only beside others."""
        rows = self._rows()
        return tuple(row for row in rows if row.alive) if any(row.alive and not row.earlier for row in rows) else ()

    async def leave_all(self) -> tuple[str, ...]:
        """Let every job go on that can; says which could not, and those run here as before."""
        failures: list[str] = []
        for job in self._jobs():
            if job.unfinished and job.can_detach:
                try:
                    await self._hub.detach(job.id)
                except (CannotDetachError, UnknownCommandError) as failure:
                    failures.append(str(failure))
        return tuple(failures)

    async def end_earlier(self) -> tuple[str, ...]:
        """End what earlier dashboards left; says what could not be ended."""
        groups = await asyncio.gather(*(asyncio.to_thread(self._book.end, job.record) for job in self._earlier))
        return tuple(f"could not be ended: {visible(str(one))}" for group in groups for one in group)

    async def close(self) -> tuple[str, ...]:
        """Stop looking. Returns the names of all that runs on, for the terminal the person comes back to."""
        self.watch(on=False)
        running = [job for job in await asyncio.to_thread(self._book.detached) if job.running]
        words = [line for job in running for line in _last_words(job)]
        return (*words, NEXT_TIME) if words else ()


def _row(job: CommandStatus, usage: ProcessUsage | None) -> JobRow:
    processes = [one.pid for one in (job.leftovers if usage is None else usage.processes)]
    return JobRow(
        id=job.id,
        name=job.id,
        command=job.command,
        state=mark_of(job),
        pid=_pid(job.pid, processes),
        exit_code=job.exit_code,
        seconds=job.seconds(time.monotonic()),
        cpu=None if usage is None else usage.cpu,
        processes=len(processes),
        addresses=() if usage is None else usage.addresses,
        alive=job.unfinished,
        can_stay=job.can_detach,
    )


def _pid(leader: int, running: list[int]) -> int:
    """What to call it by: its leader, or where that is gone the first that still runs."""
    return leader if leader in running or not running else running[0]


def _earlier_row(job: DetachedJob, seconds: float, usage: ProcessUsage | None) -> JobRow:
    record = job.record
    return JobRow(
        id=record.mark,
        name=record.id,
        command=record.command,
        state=CommandMark.LEFT,
        pid=_pid(record.pid, [member.pid for member in job.members]),
        seconds=seconds,
        cpu=None if usage is None else usage.cpu,
        processes=len(job.members),
        addresses=() if usage is None else usage.addresses,
        alive=True,
    )


def _earlier_words(job: DetachedJob) -> str:
    record = job.record
    output = f" Its output: {record.log}" if record.log else " Its output was not kept."
    if not job.running:
        return f"Ended since you left: {record.id} {record.command}.{output}"
    processes = ", ".join(map(str, job.members))
    why = "Still running since you left" if record.detached else "Outlived the ollm-tui that started it"
    return f"{why}: {record.id} {record.command}, processes {processes}.{output}"


def _last_words(job: DetachedJob) -> list[str]:
    record = job.record
    led = any(member.pid == record.pid for member in job.members)
    who = f"pid {record.pid}" if led else f"of it: {', '.join(map(str, job.members))}"
    words = [f"still running: {record.id} ({visible(who)}): {visible(record.command)}"]
    return [*words, f"  its output goes on in {visible(record.log)}"] if record.log else words
