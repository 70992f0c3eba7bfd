"""One running command: a thread that reads, writes, keeps the limits, ends and reaps it.

Everything that can block happens in that thread, so nothing here holds up the event loop; other threads leave their
requests in the state and wake it.
"""

from __future__ import annotations

import logging
import os
import struct
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from signal import Signals

from ollm_tui.core.shell.command_loop import CommandLoop
from ollm_tui.core.shell.detached_jobs import start_job_host
from ollm_tui.core.shell.output_log import OutputLog
from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.pty_process import COLUMNS, LINES, ChildProcess, StartError, set_window_size
from ollm_tui.core.shell.status import CommandEnding, CommandKind, CommandPhase, CommandStatus, ProcessName, TimeLimits
from ollm_tui.core.shell.termination import GRACE, Termination
from ollm_tui.core.shell.user_input import CommandState, OnStatus, TerminalInput

log = logging.getLogger(__name__)


class RunningCommand(CommandState):
    """A command from its start to the last byte of its terminal. All methods may be called from any thread."""

    def __init__(
        self,
        status: CommandStatus,
        start: Callable[[], ChildProcess],
        mark: str,
        output: OutputLog,
        limits: TimeLimits,
        on_status: OnStatus,
        grace: float = GRACE,
    ) -> None:
        super().__init__(status, output, on_status, limits=limits, grace=grace)
        self._start = start
        self.mark = mark
        """What the command's processes carry in their environment."""
        self.started: Future[StartError | None] = Future()
        """Set once the process runs, or with why it does not."""
        self.size = (COLUMNS, LINES)
        """The size of its terminal in cells."""
        self._wake_write = -1
        self._child: ChildProcess | None = None
        self._tree: ProcessTree | None = None
        self._terminated = False
        self._detaching: tuple[Callable[[Path], None], Future[None]] | None = None
        self._detached = False
        self._thread = threading.Thread(target=self._run, name=f"command {status.id}", daemon=True)

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def write(self, data: bytes) -> bool:
        """Queue what the terminal answers; False when the command is over or its input is empty."""
        return self._queue(TerminalInput(data, by_person=False))

    def type(self, data: bytes) -> bool:
        """Queue what the person typed; an agent's command records that they did."""
        return self._queue(TerminalInput(data, by_person=self.status.kind is CommandKind.AGENT))

    def _queue(self, entry: TerminalInput) -> bool:
        child = self._child
        if child is None or not child.takes_input or not self.status.running or self._wake_write < 0:
            return False
        self.typed.append(entry)
        self._wake()
        return True

    def interrupt(self) -> None:
        """Interrupt the command as the person's Ctrl+C does."""
        child = self._child
        if child is None or not self.status.running:
            return
        if child.takes_input:
            self.type(b"\x03")
        else:
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(child.pid, Signals.SIGINT)
                self.change_user_input(lambda user_input: replace(user_input, interrupted=True))

    def take_over(self) -> bool:
        """Let the person go on with an agent's command: no limit and no interrupted turn ends it from now on.

        Returns:
            False when it is over, or theirs anyway.
        """
        if not self.status.running or self.status.kind is CommandKind.PERSON:
            return False
        self.limits = TimeLimits()
        self.change_user_input(lambda user_input: replace(user_input, took_over=True))
        self._wake()
        return True

    def resize(self, columns: int, lines: int) -> None:
        """Tell its terminal the size of the view."""
        with self.lock:
            if self._child is not None and self._wake_write >= 0 and self._child.terminal is not None:
                with suppress(OSError, struct.error):
                    set_window_size(self._child.end, columns, lines)
                    self.size = (columns, lines)

    def end(self, ending: CommandEnding = CommandEnding.KILLED) -> None:
        """Request the command's end; `done` is set when that is reached."""
        with self.lock:
            self.wanted_end = self.wanted_end or ending
        self._wake()

    def move_to_background(self) -> None:
        """Let it run on without a limit on its time."""
        self.limits = replace(self.limits, wall=None)
        self.change(background=True)

    def detach(self, enter: Callable[[Path], None]) -> Future[None]:
        """Let the command go on without this process: from here on a host process writes its output into its log.

        `enter` is called with that log just before; when it raises OSError nothing changes, and the future has the
        error. The command's own limits end with this process.
        """
        result: Future[None] = Future()
        with self.lock:
            self._detaching = (enter, result)
            over = self._wake_write < 0
        if over:
            self._thread.join()
            self._handed_over()
        else:
            self._wake()
        return result

    @property
    def needs_end(self) -> bool:
        """Whether a process of it may still run, or its thread."""
        return not self._detached and (self._thread.is_alive() or bool(self.status.leftovers))

    def end_leftovers(self) -> tuple[ProcessName, ...]:
        """After `done`: end what the command left running; return what outlived that. Blocks."""
        self.end()
        self._thread.join()
        if self._tree is None or not self.status.leftovers or self._terminated:
            return self.status.leftovers
        termination = Termination(self._tree, grace=self._grace)
        termination.run_to_end()
        if self.status.leftovers != termination.survivors:
            self.change(leftovers=termination.survivors)
        return termination.survivors

    def _wake(self) -> None:
        with self.lock:
            if self._wake_write >= 0:
                with suppress(BlockingIOError):
                    os.write(self._wake_write, b"!")

    def _handed_over(self) -> bool:
        """Hand a detached job to its host; return whether somebody else reads on."""
        with self.lock:
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
        self.change(phase=CommandPhase.EXITED)
        self.started.set_result(failure)
        self.done.set_result(self.status)

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
        with self.lock:
            self._child, self._tree, self._wake_write = child, tree, wake_write
        self.change(pid=child.pid, on_terminal=child.terminal is not None)
        self.started.set_result(None)
        try:
            loop = CommandLoop(self, child, tree, wake, self._handed_over)
            loop.run()
            if loop.survivors is not None:
                self._terminated = True
                self.change(leftovers=loop.survivors)
        except Exception:  # a defect here must not leave a command running that nobody reads
            log.exception("Command %s is no longer read; it is ended", self.status.id)
            self.new_termination(tree).run_to_end()
            if not self.done.done():
                self.settle(ending=CommandEnding.KILLED)
        finally:
            with self.lock:
                self._wake_write = -1
            os.close(wake)
            os.close(wake_write)
            self._handed_over()
            if self._detached:
                child.release()
            else:
                child.close()
            if self.status.leftovers and not self._detached:
                with suppress(OSError):  # it may still be left running; then its log has to be there
                    self.output.to_disk()
            self.output.close()
