"""One running command: a thread that reads, writes, keeps the limits, ends and reaps it.

Everything that can block happens in that thread, so nothing here holds up the event loop; what other threads ask for
is noted down and the thread woken.
"""

from __future__ import annotations

import logging
import os
import termios
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import Signals
from typing import TypeAlias

from ollm_tui.core.shell.command_loop import CommandLoop
from ollm_tui.core.shell.detached_jobs import start_job_host
from ollm_tui.core.shell.output_log import Broadcast
from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.pty_process import ChildProcess, StartError
from ollm_tui.core.shell.status import (
    CommandEnding,
    CommandKind,
    CommandPhase,
    CommandStatus,
    ProcessName,
    TimeLimits,
    UserInput,
)
from ollm_tui.core.shell.termination import ASKING, ASKING_A_SHELL, GRACE, Termination
from ollm_tui.core.shell.user_input import LineModes, TerminalInput, TypedLines

log = logging.getLogger(__name__)

OnStatus: TypeAlias = Callable[[CommandStatus], None]


class RunningCommand:
    """A command from its start to the last byte of its terminal. All methods may be called from any thread."""

    def __init__(
        self,
        status: CommandStatus,
        start: Callable[[], ChildProcess],
        mark: str,
        output: Broadcast,
        limits: TimeLimits,
        on_status: OnStatus,
        grace: float = GRACE,
    ) -> None:
        self._status = status
        self._start = start
        self.mark = mark
        """What the command's processes carry in their environment."""
        self.output = output
        self.limits = limits
        self._on_status = on_status
        self._grace = grace
        self.started: Future[StartError | None] = Future()
        """Set once the process runs, or with why it does not."""
        self.done: Future[CommandStatus] = Future()
        """Set when the command is complete: its leader has exited and its output is read."""
        self._lock = threading.Lock()
        self.typed: deque[TerminalInput] = deque()
        self._typed_lines = TypedLines()
        self.read_to = 0
        """The byte that reading goes on from, where the reader does not say."""
        self.wanted_end: CommandEnding | None = None
        self._wake_write = -1
        self._child: ChildProcess | None = None
        self._tree: ProcessTree | None = None
        self._terminated = False
        self._detaching: tuple[Callable[[Path], None], Future[None]] | None = None
        self._detached = False
        self._thread = threading.Thread(target=self._run, name=f"command {status.id}", daemon=True)

    @property
    def status(self) -> CommandStatus:
        """Return how it stands."""
        return self._status

    def begin(self) -> None:
        """Start its thread."""
        self._thread.start()

    def write(self, data: bytes) -> bool:
        """Queue what the terminal answers; False when the command is over or its input is empty."""
        return self._queue(TerminalInput(data, by_person=False))

    def type(self, data: bytes) -> bool:
        """As `write`, for what the person typed: an agent's command remembers that they did."""
        return self._queue(TerminalInput(data, by_person=self._status.kind is CommandKind.AGENT))

    def _queue(self, entry: TerminalInput) -> bool:
        child = self._child
        if child is None or not child.takes_input or not self._status.running or self._wake_write < 0:
            return False
        self.typed.append(entry)
        self._wake()
        return True

    def interrupt(self) -> None:
        """Interrupt the command as the person's Ctrl+C does."""
        child = self._child
        if child is None or not self._status.running:
            return
        if child.takes_input:
            self.type(b"\x03")
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, Signals.SIGINT)
                self._change_user_input(lambda user_input: replace(user_input, interrupted=True))

    def take_over(self) -> bool:
        """Let the person go on with an agent's command: only they end it from now on, no limit and no
        interrupted turn. False when it is over, or theirs anyway."""
        if not self._status.running or self._status.kind is CommandKind.PERSON:
            return False
        self.limits = TimeLimits()
        self._change_user_input(lambda user_input: replace(user_input, took_over=True))
        self._wake()
        return True

    def resize(self, columns: int, lines: int) -> None:
        """Tell its terminal the size of the view."""
        with self._lock:
            if self._child is not None and self._wake_write >= 0 and self._child.terminal is not None:
                with suppress(OSError, termios.error):
                    termios.tcsetwinsize(self._child.end, (lines, columns))

    def end(self, ending: CommandEnding = CommandEnding.KILLED) -> None:
        """Ask for the command's end; `done` tells when that is reached."""
        with self._lock:
            self.wanted_end = self.wanted_end or ending
        self._wake()

    def move_to_background(self) -> None:
        """Let it run on without a limit on its time."""
        self.limits = replace(self.limits, wall=None)
        self._change(background=True)

    def detach(self, enter: Callable[[Path], None]) -> Future[None]:
        """Let the command go on without this process: from here on a host process writes its output into its log.

        `enter` is called with that log just before; what it raises, an OSError, calls the whole off. Nothing is
        changed then, and the future says why. The command's own limits end with this process.
        """
        result: Future[None] = Future()
        with self._lock:
            self._detaching = (enter, result)
            over = self._wake_write < 0
        if over:
            self._thread.join()
            self.handed_over()
        else:
            self._wake()
        return result

    @property
    def needs_end(self) -> bool:
        """Whether anything of it may still run or read."""
        return not self._detached and (self._thread.is_alive() or bool(self._status.leftovers))

    def end_leftovers(self) -> tuple[ProcessName, ...]:
        """After `done`: end what the command left running, and return what outlived that. Blocks."""
        self.end()
        self._thread.join()
        if self._tree is None or not self._status.leftovers or self._terminated:
            return self._status.leftovers
        termination = Termination(self._tree, grace=self._grace)
        termination.run_to_end()
        if self._status.leftovers != termination.survivors:
            self._change(leftovers=termination.survivors)
        return termination.survivors

    def _wake(self) -> None:
        with self._lock:
            if self._wake_write >= 0:
                with suppress(BlockingIOError):
                    os.write(self._wake_write, b"!")

    def _change(self, **changes: object) -> None:
        with self._lock:
            self._status = status = replace(self._status, **changes)
        self._on_status(status)

    def _change_user_input(self, change: Callable[[UserInput], UserInput]) -> None:
        """Note what the person did. Another key in a line is no news to anybody."""
        with self._lock:
            before = self._status.user_input
            user_input = change(before)
            self._status = status = replace(self._status, user_input=user_input)
        if replace(user_input, lines=before.lines) != before:
            self._on_status(status)

    # What the pump asks and tells, in the command's thread.

    def waits_for_input(self, waiting: bool) -> None:
        """Note whether it waits for input."""
        if self._status.waiting_for_input != waiting:
            self._change(waiting_for_input=waiting)

    def typed_by_person(self, data: bytes, modes: LineModes) -> None:
        """Note what the person typed and how the terminal treated it."""
        if modes.echo:
            self._typed_lines.feed(data)
        interrupts = modes.signals and b"\x03" in data
        self._change_user_input(
            lambda user_input: replace(
                user_input,
                typed=True,
                unseen=user_input.unseen or (not modes.echo and not interrupts),
                lines=self._typed_lines.lines,
                interrupted=user_input.interrupted or interrupts,
            )
        )

    def settle(
        self,
        exit_code: int | None,
        signal: str | None,
        ending: CommandEnding | None,
        leftovers: tuple[ProcessName, ...],
    ) -> None:
        """Note that it is complete."""
        self._change(
            phase=CommandPhase.KILLED if signal or ending else CommandPhase.EXITED,
            ended=time.monotonic(),
            exit_code=exit_code,
            signal=signal,
            ending=ending,
            leftovers=leftovers,
            waiting_for_input=False,
        )
        self.done.set_result(self._status)

    def new_termination(self, tree: ProcessTree) -> Termination:
        """Return how to terminate its processes."""
        asking = ASKING_A_SHELL if self._status.kind is CommandKind.PERSON else ASKING
        return Termination(tree, asking, self._grace)

    def handed_over(self) -> bool:
        """Hand a detached job to its host; return whether somebody else reads on."""
        with self._lock:
            detaching, self._detaching = self._detaching, None
        if detaching is not None:
            enter, result = detaching
            try:
                log, room = self.output.to_disk()
                enter(log)
                if self._child is not None and self._wake_write >= 0:
                    start_job_host(self._child.end, log, self._child.pid, room)
            except OSError as error:
                result.set_exception(error)
            else:
                self._detached = True
                result.set_result(None)
        return self._detached

    def _not_started(self, failure: StartError | OSError) -> None:
        if isinstance(failure, OSError):
            failure = StartError(f"{failure.strerror or failure}. The command was not started.")
        self._change(phase=CommandPhase.EXITED)
        self.started.set_result(failure)
        self.done.set_result(self._status)

    def _run(self) -> None:
        try:
            wake, wake_write = os.pipe()
        except OSError as error:
            self._not_started(error)
            return
        try:
            child = self._start()
        except (StartError, OSError) as failure:
            os.close(wake)
            os.close(wake_write)
            self._not_started(failure)
            return
        os.set_blocking(wake, False)
        os.set_blocking(wake_write, False)
        tree = ProcessTree(child.pid, self.mark)
        with self._lock:
            self._child, self._tree, self._wake_write = child, tree, wake_write
        self._change(pid=child.pid, on_terminal=child.terminal is not None)
        self.started.set_result(None)
        try:
            pump = CommandLoop(self, child, tree, wake, watch_prompts=self._status.kind is CommandKind.AGENT)
            pump.run()
            if pump.survivors is not None:
                self._terminated = True
                self._change(leftovers=pump.survivors)
        except Exception:  # a defect here must not leave a command running that nobody reads
            log.exception("Command %s is no longer read; it is ended", self._status.id)
            self.new_termination(tree).run_to_end()
            if not self.done.done():
                self.settle(None, None, CommandEnding.KILLED, ())
        finally:
            with self._lock:
                self._wake_write = -1
            os.close(wake)
            os.close(wake_write)
            self.handed_over()
            if self._detached:
                child.release()
            else:
                child.close()
            if self._status.leftovers and not self._detached:
                with suppress(OSError):  # it may still be left running; then its log has to be there
                    self.output.to_disk()
            self.output.close()
