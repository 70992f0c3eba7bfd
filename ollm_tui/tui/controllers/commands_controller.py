"""Commands as terminal tabs, and the bytes between command and view."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.detached_jobs import DetachedJob, JobRecord, JobRecords
from ollm_tui.core.shell.hub import CommandHub, UnknownCommandError
from ollm_tui.core.shell.output_log import BACKLOG, read_log
from ollm_tui.core.shell.pty_process import StartError
from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus, ProcessName
from ollm_tui.tui.protocol import PostUpdate, command_intents, updates

POLL_SECONDS = 1.0
"""Time between two reads of a followed log, which another process writes."""


class CommandsController:
    """Handler of terminal intents.

    Raw bytes go from the hub's threads straight into a view's engine.
    """

    def __init__(
        self,
        hub: CommandHub,
        detached: DetachedJobs,
        workspace: Path,
        post: PostUpdate,
        start: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        """`start` runs a coroutine in a task."""
        self._hub = hub
        self._detached = detached
        self._workspace = workspace
        self._post = post
        self._start = start
        self._attached: dict[str, Callable[[], None]] = {}
        self._told: set[str] = set()
        self._unsubscribe = hub.subscribe(self._changed)
        detached.on_change = self._post_commands

    def _changed(self, status: CommandStatus) -> None:
        for error in status.disk_errors:
            if error not in self._told:
                self._told.add(error)
                self._post(updates.ToastUpdate(f"{status.id}: {error}", failed=True))
        self._post_commands()

    def close(self) -> None:
        """Stop listening; the commands go on."""
        self._unsubscribe()
        for detach in self._attached.values():
            detach()
        self._attached.clear()
        self._detached.close()

    def running(self) -> int:
        """Return how many commands of the agent quitting would end."""
        return sum(state.running and not state.is_job for state in self._hub.list() if state.kind is CommandKind.AGENT)

    def handle(self, intent: command_intents.CommandIntent) -> None:
        """Carry out an intent; ignore one whose command is gone."""
        match intent:
            case command_intents.OpenShell():
                self._start(self._open_shell(intent))
            case command_intents.CloseShell():
                self._start(self._close_shell(intent))
            case command_intents.AttachTerminal(command_id, feed):
                self._attach(command_id, feed)
            case command_intents.DetachTerminal(command_id):
                self._detach(command_id)
            case _:
                with suppress(UnknownCommandError):
                    self._pass_to_hub(intent)

    def _pass_to_hub(self, intent: command_intents.CommandIntent) -> None:
        match intent:
            case command_intents.TypeKeys(command_id, data):
                self._hub.find(command_id).type(data)
            case command_intents.SendReply(command_id, data):
                self._hub.find(command_id).write(data)
            case command_intents.InterruptCommand(command_id):
                self._hub.find(command_id).interrupt()
            case command_intents.TakeOverCommand(command_id):
                self._hub.find(command_id).take_over()
            case command_intents.ResizeTerminal(command_id, columns, lines):
                self._hub.find(command_id).resize(columns, lines)
            case _:
                pass

    async def _open_shell(self, intent: command_intents.OpenShell) -> None:
        try:
            command_id = await self._hub.open_person_shell(intent.columns, intent.lines, self._workspace)
        except StartError as error:
            self._post(updates.ShellErrorUpdate(str(error)))
            return
        self._post_commands()
        if intent.typed:
            self._hub.find(command_id).type(intent.typed.encode())

    async def _close_shell(self, intent: command_intents.CloseShell) -> None:
        def others() -> tuple[ProcessName, ...]:
            tree = self._hub.process_tree(intent.command_id)
            members = [one for one in tree.members() if one.pid != tree.leader]
            return tuple(ProcessName(one.pid, visible(one.name)) for one in members)

        with suppress(UnknownCommandError):
            busy = () if intent.although_busy else await asyncio.to_thread(others)
            if busy:
                self._post(updates.ShellBusyUpdate(intent.command_id, busy))
            else:
                await self._hub.kill(intent.command_id)

    def _attach(self, command_id: str, feed: Callable[[bytes], None]) -> None:
        """Attach a view to the command's bytes, earlier ones first."""
        self._detach(command_id)
        if self._detached.attach(command_id, feed):
            return
        try:
            self._attached[command_id] = self._hub.find(command_id).output.attach(feed)
        except UnknownCommandError:
            feed(b"[this command is no longer known]\r\n")

    def _detach(self, command_id: str) -> None:
        self._detached.detach(command_id)
        detach = self._attached.pop(command_id, None)
        if detach is not None:
            detach()

    def _post_commands(self) -> None:
        self._post(updates.CommandsUpdate((*self._detached.commands(), *self._hub.list())))


class DetachedJobs:
    """Jobs that earlier dashboards left running; read-only.

    A log is followed once its tab is opened.
    """

    def __init__(self, records: JobRecords, clock: Clock) -> None:
        self._store = records
        self._clock = clock
        self.on_change: Callable[[], None] = lambda: None
        """Called when a job has ended or another is shown."""
        self._records: dict[str, JobRecord] = {}
        self._commands: dict[str, CommandStatus] = {}
        self._following: dict[str, asyncio.Task[None]] = {}

    def show(self, running: Iterable[DetachedJob]) -> None:
        """Show these as running, and those shown before as ended."""
        before = self.commands()
        jobs = {job.record.mark: job for job in running}
        for mark, job in jobs.items():
            self._records[mark] = job.record
            self._commands.setdefault(mark, job.status(self._clock.now()))
        for mark in self._commands.keys() - jobs.keys():
            self._end(mark)
        if self.commands() != before:
            self.on_change()

    def commands(self) -> tuple[CommandStatus, ...]:
        """Return each job shown so far."""
        return tuple(self._commands.values())

    def _end(self, mark: str) -> None:
        if self._commands[mark].running:
            ended = self._clock.monotonic()
            self._commands[mark] = replace(self._commands[mark], phase=CommandPhase.EXITED, leftovers=(), ended=ended)

    def attach(self, job_id: str, feed: Callable[[bytes], None]) -> bool:
        """Attach a view to a job's growing log; False for other ids."""
        record = self._records.get(job_id)
        if record is not None:
            self.detach(job_id)
            self._following[job_id] = asyncio.get_running_loop().create_task(self._follow(record, feed))
        return record is not None

    def detach(self, job_id: str) -> None:
        """Stop following a job's log."""
        task = self._following.pop(job_id, None)
        if task is not None:
            task.cancel()

    def close(self) -> None:
        """Stop following every log."""
        for job_id in tuple(self._following):
            self.detach(job_id)

    async def _follow(self, record: JobRecord, feed: Callable[[bytes], None]) -> None:
        if record.log is None:
            feed(_remark("its output was not saved"))
            return
        log = Path(record.log)
        processes = self._store.process_tree(record)
        running, at = True, None
        try:
            while running:
                # Checked before the read, so that output written just before the end is not missed.
                running = bool(await asyncio.to_thread(processes.members))
                at = await asyncio.to_thread(_feed_from, log, at, feed)
                await asyncio.sleep(POLL_SECONDS)
            await asyncio.to_thread(_feed_from, log, at, feed)
        except OSError as error:
            feed(_remark(f"its log cannot be read: {error}"))
            return
        self._end(record.mark)
        self.on_change()


def _feed_from(log: Path, start: int | None, feed: Callable[[bytes], None]) -> int:
    """Feed the log from a byte on; return where it ends.

    A start of None means near the end. Raises OSError.
    """
    size = log.stat().st_size
    if start is None:
        start = max(0, size - BACKLOG)
        if start:
            feed(_remark(f"the first {start} bytes are in {log} alone"))
    while start < size and (piece := read_log(log, start, BACKLOG)):
        feed(piece)
        start += len(piece)
    return start


def _remark(words: str) -> bytes:
    """Return a message of the dashboard, for a view of program output."""
    return f"[{visible(words)}]\r\n".encode()
