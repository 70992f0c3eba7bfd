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
from ollm_tui.core.shell.command import OnStatus, RunningCommand
from ollm_tui.core.shell.detached_jobs import JobRecord, JobRecords
from ollm_tui.core.shell.output_log import Broadcast, OnBytes, OutputLog
from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.pty_process import ChildProcess, StartError, bash_line, start_command
from ollm_tui.core.shell.status import CommandEnding, CommandKind, CommandPhase, CommandStatus, ProcessName, TimeLimits
from ollm_tui.core.shell.termination import GRACE
from ollm_tui.core.shell.user_shell import start_person_shell, usual_shell

__all__ = [
    "CannotDetachError",
    "CommandEnding",
    "CommandHub",
    "CommandKind",
    "CommandPhase",
    "CommandRequest",
    "CommandStatus",
    "StartError",
    "TimeLimits",
    "UnknownCommandError",
    "awaitable_of",
    "end_and_wait",
]

KEPT_AFTER_END = 50
"""Commands that are over and can still be looked at, before the oldest is forgotten."""

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
    """A command to start. `argv` is what really runs where it is not `command` by bash (a sandbox around it)."""

    command: str
    cwd: Path
    attended: bool = False
    """Whether somebody can type into it; without, its input is empty."""
    background: bool = False
    call_id: str = ""
    limits: TimeLimits = field(default_factory=TimeLimits)
    argv: Sequence[str] | None = None


class CommandHub:
    """All commands of this process. Belongs to one event loop; the listeners of `attach` are called in other threads.

    `folder` takes long logs; the default is temporary. `passed` names variables that commands get although they
    look like secrets. With `records` jobs are recorded and can be detached.
    """

    def __init__(
        self,
        folder: Path | None = None,
        *,
        environment: Mapping[str, str] | None = None,
        passed: Collection[str] = (),
        records: JobRecords | None = None,
        keep: int = KEPT_AFTER_END,
        grace: float = GRACE,
    ) -> None:
        self._folder = folder
        self._scratch: Path | None = None
        self._environment = environment
        self._passed = tuple(passed)
        self._records = records
        self._keep = keep
        self._grace = grace
        self._commands: dict[str, RunningCommand] = {}
        self._over: list[str] = []
        self._numbers = {prefix: count(1) for prefix in "jcs"}
        self._listeners: list[OnStatus] = []
        self._closed = False

    # Reading

    def list(self) -> tuple[CommandStatus, ...]:
        """All commands that run or are still kept, in order of start."""
        return tuple(command.status for command in self._commands.values())

    def status(self, command_id: str) -> CommandStatus:
        """Return how a command stands. Raises UnknownCommandError, as everything that takes an id."""
        return self.find(command_id).status

    def find(self, command_id: str) -> RunningCommand:
        """Return the command itself, for code in the core."""
        command = self._commands.get(command_id)
        if command is None:
            known = ", ".join(self._commands) or "none has been started"
            raise UnknownCommandError(f"There is no command {command_id!r}; known: {known}.")
        return command

    def subscribe(self, callback: OnStatus) -> Callable[[], None]:
        """Call `callback` in the event loop with each new state of each command; returns how to stop."""
        self._listeners.append(callback)

        def unsubscribe() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return unsubscribe

    # Starting

    async def start(self, request: CommandRequest, on_bytes: OnBytes | None = None) -> RunningCommand:
        """Start an agent's command; `on_bytes` gets every byte from the first. Raises StartError."""
        mark = secrets.token_hex(8)
        environment = command_environment(
            self._own_environment(),
            attended=request.attended,
            cwd=str(request.cwd),
            mark=mark,
            passed=self._passed,
        )
        argv = request.argv or bash_line(request.command)
        status = CommandStatus(
            id=self._new_id("j" if request.background else "c"),
            command=request.command,
            cwd=str(request.cwd),
            call_id=request.call_id,
            kind=CommandKind.AGENT,
            started=time.monotonic(),
            background=request.background,
            can_detach=self._records is not None and self._folder is not None and request.argv is None,
        )

        def start() -> ChildProcess:
            return start_command(argv, request.cwd, environment, with_input=request.attended)

        return await self._begin(status, start, mark, request.limits, on_bytes)

    async def open_person_shell(self, columns: int, lines: int, cwd: Path | None = None) -> str:
        """Start the person's own shell in `cwd` (else where this process is); returns its id. Raises StartError."""
        mark = secrets.token_hex(8)
        environment = person_environment(self._own_environment(), mark)
        shell = usual_shell(environment)
        where = cwd or Path.cwd()
        status = CommandStatus(
            id=self._new_id("s"),
            command=shell,
            cwd=str(where),
            call_id="",
            kind=CommandKind.PERSON,
            started=time.monotonic(),
        )

        def start() -> ChildProcess:
            return start_person_shell(shell, where, environment, columns, lines, self._scratch_folder())

        command = await self._begin(status, start, mark, TimeLimits(), None)
        return command.status.id

    # Using

    def attach(self, command_id: str, callback: OnBytes) -> Callable[[], None]:
        """Hand `callback` the last bytes now and all further ones as they come, from other threads; returns how to
        stop. Who is slow in it slows the command down; who fails in it is dropped."""
        return self.find(command_id).output.attach(callback)

    def write(self, command_id: str, data: bytes) -> bool:
        """Bytes for the command that nobody typed, as a terminal's answers; never waits. False when it is over or
        takes no input."""
        return self.find(command_id).write(data)

    def type(self, command_id: str, data: bytes) -> bool:
        """As `write`, for what the person typed: the result of an agent's command says that they did."""
        return self.find(command_id).type(data)

    def take_over(self, command_id: str) -> bool:
        """Let the person go on with the agent's command; return False if it is over or theirs."""
        return self.find(command_id).take_over()

    def resize(self, command_id: str, columns: int, lines: int) -> None:
        """Tell the command's terminal the size of the view."""
        self.find(command_id).resize(columns, lines)

    def interrupt(self, command_id: str) -> None:
        """Ctrl+C."""
        self.find(command_id).interrupt()

    async def kill(self, command_id: str) -> CommandStatus:
        """End the command and everything it started; what outlives even SIGKILL is in the state's `leftovers`."""
        command = self.find(command_id)
        if command.status.running:
            command.end(CommandEnding.KILLED)
            await awaitable_of(command.done)
        if command.status.leftovers:
            await asyncio.to_thread(command.end_leftovers)
        return command.status

    async def detach(self, command_id: str) -> JobRecord:
        """Let a job go on when this process ends, its output going into a log; the hub then knows it no more.

        Raises CannotDetachError, and then nothing has changed.
        """
        command = self.find(command_id)
        status, records = command.status, self._records
        if records is None or not (status.is_job and status.can_detach and status.unfinished):
            raise CannotDetachError(f"{status.id} is not a job that could be left running.")
        entered: list[JobRecord] = []
        try:
            left = await asyncio.to_thread(
                command.detach, lambda log: entered.append(records.mark_detached(command.status, command.mark, log))
            )
            await awaitable_of(left)
        except OSError as error:
            for record in entered:
                await asyncio.to_thread(records.unmark_detached, record)
            raise CannotDetachError(f"{status.id} can not be left running: {error}.") from None
        del self._commands[command_id]
        return entered[0]

    def process_tree(self, command_id: str) -> ProcessTree:
        """Return the command's processes, for use in one thread. Reads the disk."""
        command = self.find(command_id)
        tree = ProcessTree(command.status.pid, command.mark)
        if not command.status.running:
            tree.leader_ended()
        return tree

    def unfinished(self) -> tuple[CommandStatus, ...]:
        """Return what `close` will end: commands with processes that may still run."""
        return tuple(status for status in self.list() if status.unfinished)

    async def close(self) -> tuple[ProcessName, ...]:
        """End everything and wait for it; returns the processes that could not be ended."""
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
    ) -> RunningCommand:
        if self._closed:
            raise StartError("The commands of this process are being ended; nothing new is started.")
        loop = asyncio.get_running_loop()

        def publish(status: CommandStatus) -> None:
            # From the command's thread; the loop may be gone when the last command ends.
            if self._records is not None:
                self._records.update(status, mark)
            try:
                loop.call_soon_threadsafe(self._changed, status)
            except RuntimeError:
                log.debug("Nobody is left to hear of command %s", status.id)

        output = Broadcast(OutputLog(self.log_folder, status.id), status.id, on_bytes)
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
        if not status.running and status.id not in self._over and status.id in self._commands:
            self._over.append(status.id)
            self._forget_old()
        for listener in tuple(self._listeners):
            listener(status)

    def _forget_old(self) -> None:
        for command_id in self._over[: -self._keep]:
            if not self._commands[command_id].status.leftovers:
                self._over.remove(command_id)
                del self._commands[command_id]

    def _new_id(self, prefix: str) -> str:
        return f"{prefix}{next(self._numbers[prefix])}"

    def _own_environment(self) -> Mapping[str, str]:
        return own_environment() if self._environment is None else self._environment

    def log_folder(self) -> Path:
        """Where long outputs go; made if need be. May be called from any thread."""
        if self._folder is None:
            return self._scratch_folder()
        self._folder.mkdir(parents=True, exist_ok=True)
        return self._folder

    def _scratch_folder(self) -> Path:
        if self._scratch is None:
            self._scratch = Path(tempfile.mkdtemp(prefix="ollm-tui-"))
        return self._scratch


async def end_and_wait(command: RunningCommand) -> None:
    """End a command whose call is given up, and wait until that is reached: which takes seconds at most.

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
