"""Every running command by id: its output, input, size and end."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import tempfile
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeVar

from ollm_tui.core.fence.secrets import command_environment, own_environment, person_environment
from ollm_tui.core.shell.command import RunningCommand
from ollm_tui.core.shell.detached_jobs import JobRecord, JobRecords
from ollm_tui.core.shell.orphans import ORPHANS
from ollm_tui.core.shell.output_log import MAX_LOG_BYTES, OnBytes, OutputLog
from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.pty_process import (
    Cage,
    ChildProcess,
    StartError,
    bash_line,
    start_command,
)
from ollm_tui.core.shell.status import CommandEnding, CommandKind, CommandStatus, ProcessName, TimeLimits
from ollm_tui.core.shell.termination import GRACE
from ollm_tui.core.shell.user_input import OnStatus
from ollm_tui.core.shell.user_shell import start_person_shell, usual_shell

MAX_ENDED = 50
"""Ended commands that can still be read; beyond it the oldest is forgotten."""

log = logging.getLogger(__name__)
T = TypeVar("T")


class UnknownCommandError(KeyError):
    """No command of that id; the message names those there are."""

    def __str__(self) -> str:
        return str(self.args[0])


class CannotDetachError(Exception):
    """A job that can not go on without this process; the message says why."""


@dataclass(frozen=True)
class CommandRequest:
    """A command to start; `argv` runs instead of bash, where given."""

    command: str
    cwd: Path
    attended: bool = False
    """Whether somebody can type into it; without, its input is empty."""
    background: bool = False
    call_id: str = ""
    limits: TimeLimits = field(default_factory=TimeLimits)
    argv: Sequence[str] | None = None
    cage: Cage | None = None
    """What holds it; a cage ends with this process."""


class CommandHub:
    """All commands of this process. Belongs to one event loop.

    `folder` takes long logs; the default is temporary. `passed` names variables that commands get although they
    look like secrets. With `records` jobs are recorded and can be detached. `make_room` is called before a log is
    begun, with its largest size and the logs in use.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        passed: Collection[str] = (),
        records: JobRecords | None = None,
        make_room: Callable[[int, Collection[Path]], None] | None = None,
        keep: int = MAX_ENDED,
        grace: float = GRACE,
    ) -> None:
        self._folder = folder
        self._scratch: Path | None = None
        self._environment = environment
        self._passed = tuple(passed)
        self._records = records
        self._make_room = make_room
        self._keep = keep
        self._grace = grace
        self._commands: dict[str, RunningCommand] = {}
        self._ended: list[str] = []
        self._numbers = {prefix: count(1) for prefix in "jcs"}
        self._listeners: set[OnStatus] = set()
        self._closed = False
        self.refused_lines: set[tuple[str, str]] = set()
        """Lines, each with its directory, to which their cage refused something: to run again they need a yes."""

    # Reading

    def list(self) -> tuple[CommandStatus, ...]:
        """Return all commands that run or can still be read, in order of start."""
        return tuple(command.status for command in self._commands.values())

    def find(self, command_id: str) -> RunningCommand:
        """Return a command, to read, write, resize or interrupt it. Raises UnknownCommandError."""
        command = self._commands.get(command_id)
        if command is None:
            known = ", ".join(self._commands) or "none has been started"
            raise UnknownCommandError(f"There is no command {command_id!r}; known: {known}.")
        return command

    def subscribe(self, callback: OnStatus) -> Callable[[], None]:
        """Call `callback` in the event loop with each new status of each command; return how to stop."""
        self._listeners.add(callback)
        return lambda: self._listeners.discard(callback)

    # Starting

    async def start(self, request: CommandRequest, on_bytes: OnBytes | None = None) -> RunningCommand:
        """Start an agent's command; `on_bytes` gets every byte. Raises StartError."""
        mark = secrets.token_hex(8)
        environment = command_environment(
            own_environment() if self._environment is None else self._environment,
            attended=request.attended,
            cwd=str(request.cwd),
            mark=mark,
            passed=self._passed,
        )
        argv = request.argv or bash_line(request.command)
        prefix = "j" if request.background else "c"
        status = CommandStatus(
            id=f"{prefix}{next(self._numbers[prefix])}",
            command=request.command,
            cwd=str(request.cwd),
            call_id=request.call_id,
            started=time.monotonic(),
            background=request.background,
            can_detach=self._records is not None and self._folder is not None and request.argv is request.cage is None,
        )

        def start() -> ChildProcess:
            return start_command(argv, request.cwd, environment, with_input=request.attended, cage=request.cage)

        orphaned = request.cage is not None and not request.cage.ends_alone
        return await self._begin(status, start, mark, request.limits, on_bytes, orphaned=orphaned)

    async def open_person_shell(self, columns: int, lines: int, cwd: Path | None = None) -> str:
        """Start the person's own shell in `cwd` (default: our own); return its id. Raises StartError."""
        mark = secrets.token_hex(8)
        environment = person_environment(own_environment() if self._environment is None else self._environment, mark)
        shell = usual_shell(environment)
        where = cwd or Path.cwd()
        status = CommandStatus(
            id=f"s{next(self._numbers['s'])}",
            command=shell,
            cwd=str(where),
            kind=CommandKind.PERSON,
            started=time.monotonic(),
        )

        def start() -> ChildProcess:
            return start_person_shell(shell, where, environment, columns, lines, self._scratch_folder())

        command = await self._begin(status, start, mark, TimeLimits(), None)
        return command.status.id

    async def kill(self, command_id: str) -> CommandStatus:
        """End a command and everything it started; what outlives SIGKILL is in its `leftovers`."""
        command = self.find(command_id)
        if command.status.running:
            command.end(CommandEnding.KILLED)
            await awaitable_of(command.done)
        if command.status.leftovers:
            await asyncio.to_thread(command.end_leftovers)
        return command.status

    async def detach(self, command_id: str) -> JobRecord:
        """Let a job outlive this process, its output going into a log; forget it here.

        Raises:
            CannotDetachError: Nothing has changed.
        """
        command = self.find(command_id)
        status, records = command.status, self._records
        if records is None or not (status.is_job and status.can_detach and status.unfinished):
            raise CannotDetachError(f"{status.id} is not a job that could be left running.")
        recorded: list[JobRecord] = []
        try:
            left = await asyncio.to_thread(
                command.detach, lambda log: recorded.append(records.mark_detached(command.status, command.mark, log))
            )
            await awaitable_of(left)
        except OSError as error:
            for record in recorded:
                await asyncio.to_thread(records.unmark_detached, record)
            raise CannotDetachError(f"{status.id} can not be left running: {error}.") from None
        del self._commands[command_id]
        return recorded[0]

    def process_tree(self, command_id: str) -> ProcessTree:
        """Return the command's processes, for one thread; reads the disk."""
        command = self.find(command_id)
        tree = ProcessTree(command.status.pid, command.mark)
        if not command.status.running:
            tree.leader_ended()
        return tree

    def unfinished(self) -> tuple[CommandStatus, ...]:
        """Return the commands with processes that may still run, which `close` ends."""
        return tuple(status for status in self.list() if status.unfinished)

    async def close(self) -> tuple[ProcessName, ...]:
        """End everything and wait for it; return the processes that could not be ended."""
        self._closed = True
        unfinished = [command for command in self._commands.values() if command.needs_end]
        for command in unfinished:
            # All at once: each ends in its own thread, and those below only wait for it.
            command.end()
        survivors = await asyncio.gather(*(asyncio.to_thread(command.end_leftovers) for command in unfinished))
        if self._scratch is not None:
            await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)
            self._scratch = None
        return tuple(process for group in survivors for process in group)

    # Internals

    async def _begin(
        self,
        status: CommandStatus,
        start: Callable[[], ChildProcess],
        mark: str,
        limits: TimeLimits,
        on_bytes: OnBytes | None,
        *,
        orphaned: bool = False,
    ) -> RunningCommand:
        if self._closed:
            raise StartError("The commands of this process are being ended; nothing new is started.")
        loop = asyncio.get_running_loop()

        def publish(status: CommandStatus) -> None:
            # Called in the command's thread; the loop may be gone when the last command ends.
            if orphaned and status.pid:
                if status.unfinished:
                    ORPHANS.watch(status.pid, mark)
                else:
                    ORPHANS.forget(mark)
            if self._records is not None:
                error = self._records.update(status, mark)
                if status.background:  # others end with this process, or with their call
                    command.disk_failed(error)
            try:
                loop.call_soon_threadsafe(self._changed, status)
            except RuntimeError:
                log.debug("The event loop is closed; nobody is notified of command %s", status.id)

        output = OutputLog(self.log_folder, status.id, on_bytes)
        command = RunningCommand(status, start, mark, output, limits, publish, self._grace)
        self._commands[status.id] = command
        try:
            command.begin()
            failure = await awaitable_of(command.started)
        except RuntimeError as error:
            failure = StartError(f"{error}. The command was not started.")
        except asyncio.CancelledError:
            await end_and_wait(command)
            raise
        if failure is not None:
            del self._commands[status.id]
            raise failure
        return command

    def _changed(self, status: CommandStatus) -> None:
        if not status.running and status.id not in self._ended and status.id in self._commands:
            self._ended.append(status.id)
            self._forget_old()
        for listener in tuple(self._listeners):
            listener(status)

    def _forget_old(self) -> None:
        for command_id in self._ended[: -self._keep]:
            if not self._commands[command_id].status.leftovers:
                self._ended.remove(command_id)
                del self._commands[command_id]

    def keep_logs_in(self, folder: Path) -> None:
        """Write the long outputs of later commands there."""
        self._folder = folder

    def log_folder(self) -> Path:
        """Return the directory of long outputs, made on first need; callable from any thread."""
        if self._folder is None:
            return self._scratch_folder()
        self._folder.mkdir(parents=True, exist_ok=True)
        if self._make_room is not None:
            logs = (command.output.path for command in tuple(self._commands.values()))
            self._make_room(MAX_LOG_BYTES, [path for path in logs if path is not None])
        return self._folder

    def _scratch_folder(self) -> Path:
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="ollm-tui-"))
        return self._scratch


async def end_and_wait(command: RunningCommand) -> None:
    """End a command whose call is given up, and wait for that, seconds at most.

    A cancelled wait is raised afterwards: a call that is over has left nothing running.
    """
    command.end(CommandEnding.ABORTED)
    again: asyncio.CancelledError | None = None
    while not command.done.done():
        try:
            await awaitable_of(command.done)
        except asyncio.CancelledError as cancelled:
            again = cancelled
    if again is not None:
        raise again


def awaitable_of(future: Future[T]) -> asyncio.Future[T]:
    """Wrap a command's future to be awaited; a cancelled wait does not cancel it."""
    return asyncio.shield(asyncio.wrap_future(future))
