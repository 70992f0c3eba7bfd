"""The jobs that earlier dashboards left running, as tabs: their logs, read on as they grow. Nobody types into them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from pathlib import Path

from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.detached_jobs import DetachedJob, JobRecord, JobRecords
from ollm_tui.core.shell.output_log import BACKLOG, read_log
from ollm_tui.tui.values import CommandMark, CommandTab

LOOK_EVERY = 1.0
"""Seconds between two looks at a log that is followed: another process writes it and tells nobody."""


class DetachedJobsController:
    """A log is followed from the moment its tab is first opened; `changed` is called when a job has ended."""

    def __init__(self, book: JobRecords, changed: Callable[[], object]) -> None:
        self._book = book
        self._changed = changed
        self._records: dict[str, JobRecord] = {}
        self._over: set[str] = set()
        self._following: dict[str, asyncio.Task[None]] = {}

    def show(self, running: Iterable[DetachedJob]) -> None:
        """These run; whoever was shown before and is not among them is over."""
        before = self.tabs()
        records = {job.record.mark: job.record for job in running}
        self._records |= records
        self._over = self._records.keys() - records.keys()
        if self.tabs() != before:
            self._changed()

    def tabs(self) -> tuple[CommandTab, ...]:
        return tuple(
            CommandTab(
                id=mark,
                label=f"{record.id} {record.command}",
                state=CommandMark.EXITED if mark in self._over else CommandMark.LEFT,
                cwd=record.workspace,
                earlier=True,
            )
            for mark, record in self._records.items()
        )

    def attach(self, job_id: str, feed: Callable[[bytes], None]) -> bool:
        """Give a view the job's log and what it grows by; False where it is none of these jobs."""
        record = self._records.get(job_id)
        if record is not None:
            self.detach(job_id)
            self._following[job_id] = asyncio.get_running_loop().create_task(self._follow(record, feed))
        return record is not None

    def detach(self, job_id: str) -> None:
        task = self._following.pop(job_id, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        for job_id in tuple(self._following):
            self.detach(job_id)

    async def _follow(self, record: JobRecord, feed: Callable[[bytes], None]) -> None:
        if record.log is None:
            feed(_aside("its output was not kept"))
            return
        log = Path(record.log)
        family = self._book.process_tree(record)
        running, at = True, None
        try:
            while running:
                # Looked for before the last reading, so that nothing it wrote in between is missed.
                running = bool(await asyncio.to_thread(family.members))
                at = await asyncio.to_thread(_feed_from, log, at, feed)
                await asyncio.sleep(LOOK_EVERY)
            await asyncio.to_thread(_feed_from, log, at, feed)
        except OSError as error:
            feed(_aside(f"its log cannot be read: {error}"))
            return
        self._over.add(record.mark)
        self._changed()


def _feed_from(log: Path, start: int | None, feed: Callable[[bytes], None]) -> int:
    """Hand on what the log has from a byte on, at first from near its end; returns where it ends. Raises OSError."""
    size = log.stat().st_size
    if start is None:
        start = max(0, size - BACKLOG)
        if start:
            feed(_aside(f"the first {start} bytes are in {log} alone"))
    while start < size and (piece := read_log(log, start, BACKLOG)):
        feed(piece)
        start += len(piece)
    return start


def _aside(words: str) -> bytes:
    """A line of ours among what a program wrote."""
    return f"[{visible(words)}]\r\n".encode()
