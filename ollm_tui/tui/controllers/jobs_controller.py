"""Jobs: listed, ended, detached at quit and found at the next start."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.detached_jobs import DetachedJob, JobRecords
from ollm_tui.core.shell.hub import CannotDetachError, CommandHub, UnknownCommandError
from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.process_usage import UsageReading, UsageWatcher
from ollm_tui.core.shell.status import CommandStatus
from ollm_tui.tui.controllers.commands_controller import DetachedJobs
from ollm_tui.tui.protocol import PostUpdate, command_intents, updates
from ollm_tui.tui.values import NoteEntry

POLL_SECONDS = 1.0
"""Time between two readings of the jobs while their list is open."""

HOW_TO_END = "In this folder, ollm-tui lists what still runs under /jobs and can end it."

log = logging.getLogger(__name__)


class JobsController:
    """Handler of job intents, for jobs of this and earlier dashboards."""

    def __init__(
        self, hub: CommandHub, records: JobRecords, detached: DetachedJobs, post: PostUpdate, clock: Clock
    ) -> None:
        self._hub = hub
        self._records = records
        self._detached = detached
        self._post = post
        self._clock = clock
        self._usage = UsageWatcher()
        self._families: dict[str, ProcessTree] = {}
        self._earlier: tuple[DetachedJob, ...] = ()
        self._changed = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None

    async def handle(self, intent: command_intents.JobIntent) -> None:
        """Watch, interrupt or end."""
        match intent:
            case command_intents.WatchJobs(on):
                self._set_watching(on=on)
            case command_intents.InterruptJob(job_id):
                with suppress(UnknownCommandError):
                    self._hub.find(job_id).interrupt()
            case command_intents.EndJob(job_id):
                await self._end(job_id)
            case _:
                pass

    # -- the list ----------------------------------------------------------------------------------------------------

    def _set_watching(self, *, on: bool) -> None:
        if on and self._watching is None:
            self._watching = asyncio.get_running_loop().create_task(self._watch())
        elif not on and self._watching is not None:
            self._watching.cancel()
            self._watching = None

    async def _watch(self) -> None:
        while True:
            self._changed.clear()
            if not await self.show():
                return
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), POLL_SECONDS)

    async def show(self) -> bool:
        """Post the jobs as they are now; return whether they could be read."""
        try:
            reading = await asyncio.to_thread(self._read, self._jobs())
        except OSError as error:
            self._post(updates.ToastUpdate(f"The jobs cannot be read: {error}", failed=True))
            return False
        self._detached.show(self._earlier)
        jobs = tuple(job.with_usage(reading.usage.get(job.id)) for job in self._all_jobs())
        self._post(updates.JobsUpdate(jobs, reading.unknown))
        return True

    def _read(self, jobs: list[CommandStatus]) -> UsageReading:
        """Read what all jobs use; runs in a thread.

        Only that thread uses the process trees.
        """
        self._earlier = tuple(job for job in self._records.detached() if job.running)
        families: dict[str, ProcessTree] = {}
        for job in jobs:
            if job.unfinished:
                with suppress(UnknownCommandError):
                    families[job.id] = self._families.get(job.id) or self._hub.process_tree(job.id)
        for job in self._earlier:
            families[job.record.mark] = self._families.get(job.record.mark) or self._records.process_tree(job.record)
        self._families = families
        return self._usage.read(families)

    def _jobs(self) -> list[CommandStatus]:
        return [state for state in self._hub.list() if state.is_job]

    def _all_jobs(self) -> tuple[CommandStatus, ...]:
        now = self._clock.now()
        return (*(job.status(now) for job in self._earlier), *self._jobs())

    async def _end(self, job_id: str) -> None:
        """End a job of any dashboard, and report the result."""
        earlier = next((job.record for job in self._earlier if job.record.mark == job_id), None)
        try:
            if earlier is not None:
                survivors = await asyncio.to_thread(self._records.end, earlier)
            else:
                survivors = (await self._hub.kill(job_id)).leftovers
        except UnknownCommandError:
            survivors = ()
        name = job_id if earlier is None else earlier.id
        if survivors:
            words = f"{name}: could not be ended: {visible(', '.join(map(str, survivors)))}"
            self._post(updates.ToastUpdate(words, failed=True))
        else:
            self._post(updates.ToastUpdate(f"{name} is ended."))
        self._changed.set()

    # -- at start and quit -------------------------------------------------------------------------------------------

    async def first_notes(self) -> list[NoteEntry]:
        """Return notes about earlier jobs; remove the records of ended ones."""
        found = await asyncio.to_thread(self._records.detached)
        self._earlier = tuple(job for job in found if job.running)
        self._detached.show(self._earlier)
        for job in found:
            if not job.running:
                await asyncio.to_thread(self._records.remove, job.record.mark)
        noted = [job for job in found if job.running or job.record.detached]
        notes = [NoteEntry(f"earlier-{job.record.mark}", _earlier_text(job)) for job in noted]
        if self._earlier:
            notes.append(NoteEntry("earlier-jobs", "A tab of the terminal shows what each writes; /jobs can end them."))
        return notes

    def unfinished(self) -> tuple[CommandStatus, ...]:
        """Return the running jobs to decide on before quitting.

        Returns none where all were detached before.
        """
        jobs = tuple(job for job in self._all_jobs() if job.unfinished)
        return () if all(job.detached for job in jobs) else jobs

    async def detach_all(self) -> tuple[str, ...]:
        """Detach every job that can be; return the errors.

        A job that could not be detached runs on as before.
        """
        failures: list[str] = []
        for job in self._jobs():
            if job.unfinished and job.can_detach:
                try:
                    await self._hub.detach(job.id)
                except (CannotDetachError, UnknownCommandError) as failure:
                    failures.append(str(failure))
        return tuple(failures)

    async def end_earlier(self) -> tuple[str, ...]:
        """End the jobs of earlier dashboards; return what could not be ended."""
        groups = await asyncio.gather(*(asyncio.to_thread(self._records.end, job.record) for job in self._earlier))
        return tuple(f"could not be ended: {visible(str(one))}" for group in groups for one in group)

    async def close(self) -> tuple[str, ...]:
        """Stop watching; return lines about jobs that still run."""
        self._set_watching(on=False)
        running = [job for job in await asyncio.to_thread(self._records.detached) if job.running]
        words = [line for job in running for line in _closing_lines(job)]
        return (*words, HOW_TO_END) if words else ()


def _earlier_text(job: DetachedJob) -> str:
    record = job.record
    output = f" Its output: {record.log}" if record.log else " Its output was not saved."
    if not job.running:
        return f"Ended since you left: {record.id} {record.command}.{output}"
    processes = ", ".join(map(str, job.members))
    why = "Still running since you left" if record.detached else "Outlived the ollm-tui that started it"
    return f"{why}: {record.id} {record.command}, processes {processes}.{output}"


def _closing_lines(job: DetachedJob) -> list[str]:
    record = job.record
    led = any(member.pid == record.pid for member in job.members)
    who = f"pid {record.pid}" if led else f"of it: {', '.join(map(str, job.members))}"
    words = [f"still running: {record.id} ({visible(who)}): {visible(record.command)}"]
    return [*words, f"  its output goes on in {visible(record.log)}"] if record.log else words
