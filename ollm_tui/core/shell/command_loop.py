"""The loop of a command's thread: output, input, limits, prompts, reaping, termination."""

from __future__ import annotations

import os
import select
import selectors
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from signal import Signals

from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.pty_process import ChildProcess
from ollm_tui.core.shell.status import CommandEnding, CommandKind, ProcessName
from ollm_tui.core.shell.termination import Termination
from ollm_tui.core.shell.user_input import CommandState, LineModes, line_modes, reads_terminal

READ_AT_ONCE = 65_536
SLICE = 262_144
"""Bytes joined before they are handed on: a terminal gives about 4 KB a read."""

_FLOOD = 2_048
"""Bytes that came at once from which on it is worth waiting for more."""

_MOMENT_MS = 1
_MAX_GATHERING = 0.02

QUIET = 0.1
"""Seconds without output after which a command whose leader has exited is complete; a daemon may hold its terminal."""

MAX_DRAIN = 1.0
"""Seconds after the leader's exit at which it is complete even if others go on writing."""

_FIRST_PROMPT_CHECK = 0.2
_PROMPT_CHECK_SECONDS = 1.0
_MAX_REFUSALS = 2
_END_OF_INPUT = b"\x04"
_REAP_EVERY = 0.02
_NEVER = float("inf")
_MAX_WAIT = 3600.0


class CommandLoop:
    """Runs once, in the command's thread.

    `wake` is a descriptor that becomes readable when the state was changed by others. `handed_over` is asked between
    two pieces of output whether somebody else reads from here on.
    """

    def __init__(
        self,
        state: CommandState,
        child: ChildProcess,
        tree: ProcessTree,
        wake: int,
        handed_over: Callable[[], bool],
    ) -> None:
        self._state = state
        self._handed_over = handed_over
        self._child = child
        self._tree = tree
        self._selector = selectors.PollSelector() if sys.platform == "linux" else selectors.SelectSelector()
        self._more = select.poll()
        self._wake = wake
        self._leader = _watch_leader(child.pid)
        self._returncode: int | None = None
        self._ended_at: float | None = None
        self._at_end_of_output = False
        self._settled = False
        self._termination: Termination | None = None
        self._ending: CommandEnding | None = None
        self._started_at = self._last_output = self._last_activity = time.monotonic()
        self._cpu: int | None = None
        self._refused = 0
        self._watch_prompts = state.status.kind is CommandKind.AGENT and child.terminal is not None
        self._prompt_check_at = self._started_at + _FIRST_PROMPT_CHECK if self._watch_prompts else _NEVER

    def run(self) -> None:
        """Run until the command is complete and its terminal closed by everybody, or terminated."""
        self._selector.register(self._child.end, selectors.EVENT_READ)
        self._more.register(self._child.end, select.POLLIN)
        self._selector.register(self._wake, selectors.EVENT_READ)
        if self._leader is not None:
            self._selector.register(self._leader, selectors.EVENT_READ)
        try:
            wait = 0.0
            while not self._finished() and not self._handed_over():
                for key, events in self._selector.select(wait):
                    self._handle(key.fd, events)
                wait = min(_MAX_WAIT, max(0.0, self._step() - time.monotonic()))
        finally:
            self._selector.close()
            if self._leader is not None:
                os.close(self._leader)

    @property
    def survivors(self) -> tuple[ProcessName, ...] | None:
        """Processes that outlived termination; None where it was not terminated."""
        return None if self._termination is None or not self._termination.done else self._termination.survivors

    def _finished(self) -> bool:
        return self._settled and (self._at_end_of_output or (self._termination is not None and self._termination.done))

    def _handle(self, descriptor: int, events: int) -> None:
        if descriptor == self._wake:
            with suppress(BlockingIOError):
                os.read(self._wake, 4096)
        elif descriptor == self._child.end:
            if events & selectors.EVENT_WRITE:
                self._write()
            if events & selectors.EVENT_READ:
                self._read()
        else:
            self._reap()

    def _step(self) -> float:
        """Do what is due; return the monotonic time of the next step."""
        now = time.monotonic()
        due: list[float] = []
        if self._returncode is None and self._leader is None:
            self._reap()
            due.append(now + _REAP_EVERY)
        if self._termination is None:
            ending = self._state.wanted_end or self._overrun(now)
            if ending is not None:
                self._ending = ending if self._returncode is None else None
                self._termination = self._state.new_termination(self._tree)
        if self._termination is not None and not self._termination.done:
            due.append(self._termination.step(now))
        if not self._settled:
            due += [self._settle_when_complete(now), *self._limits_due()]
            due.append(self._check_prompt(now))
        if not self._at_end_of_output:
            wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if self._state.typed else 0)
            if self._selector.get_key(self._child.end).events != wanted:
                self._selector.modify(self._child.end, wanted)
        return min(due, default=_NEVER)

    def _read(self) -> None:
        pieces: list[bytes] = []
        size = 0
        give_up_at = time.monotonic() + _MAX_GATHERING
        while size < SLICE:
            try:
                piece = os.read(self._child.end, READ_AT_ONCE)
            except BlockingIOError:
                # In a flood the next piece is a moment away; what comes slowly is handed on at once.
                if size < _FLOOD or time.monotonic() > give_up_at or not self._more.poll(_MOMENT_MS):
                    break
                continue
            except OSError:
                # Linux says EIO when the last process has closed the terminal; nothing more can come.
                self._end_of_output()
                break
            if not piece:
                self._end_of_output()
                break
            pieces.append(piece)
            size += len(piece)
        if pieces:
            self._last_output = time.monotonic()
            self._active(self._last_output)
            self._state.output.publish(b"".join(pieces))
            self._state.disk_failed(self._state.output.error)

    def _end_of_output(self) -> None:
        self._at_end_of_output = True
        self._selector.unregister(self._child.end)

    def _write(self) -> None:
        if not self._state.typed:
            return
        entry = self._state.typed.popleft()
        before = line_modes(self._child.end) if entry.by_person else LineModes()
        try:
            written = os.write(self._child.end, entry.data)
        except BlockingIOError:
            written = 0
        except OSError:
            return
        if written < len(entry.data):
            self._state.typed.appendleft(replace(entry, data=entry.data[written:]))
        if entry.by_person and written:
            # The program may turn the echo off while we write: it counts as shown only where it was on throughout.
            after = line_modes(self._child.end)
            modes = LineModes(before.echo and after.echo, before.signals)
            self._state.typed_by_person(entry.data[:written], modes)
        self._active(time.monotonic())

    def _active(self, now: float) -> None:
        self._last_activity = now
        self._cpu = None
        if self._watch_prompts:
            self._prompt_check_at = now + _FIRST_PROMPT_CHECK
            self._state.waits_for_input(False)

    def _reap(self) -> None:
        self._returncode = self._child.reap()
        if self._returncode is None:
            return
        self._ended_at = time.monotonic()
        self._tree.leader_ended()
        if self._leader is not None:
            self._selector.unregister(self._leader)
            os.close(self._leader)
            self._leader = None

    def _settle_when_complete(self, now: float) -> float:
        """Settle if the command is complete; return when to check again."""
        if self._termination is not None:
            if not self._termination.done:
                return _NEVER
            if self._returncode is None:
                self._reap()
        elif self._ended_at is None:
            return _NEVER
        # A leader that even SIGKILL does not end is not waited for.
        ended = now - MAX_DRAIN if self._ended_at is None else self._ended_at
        complete_at = min(max(ended, self._last_output) + QUIET, ended + MAX_DRAIN)
        leftovers = self._tree.members() if self._at_end_of_output or now >= complete_at else []
        if now < complete_at and not (self._at_end_of_output and not leftovers):
            # What still runs may be on its way out, too.
            return min(complete_at, now + QUIET / 3) if self._at_end_of_output else complete_at
        code, signal = (None, None) if self._returncode is None else _exit_code_of(self._returncode)
        self._settled = True
        self._prompt_check_at = _NEVER
        self._state.settle(code, signal, self._ending, tuple(ProcessName(p.pid, p.name) for p in leftovers))
        return _NEVER

    def _limits_due(self) -> list[float]:
        if self._termination is not None or self._returncode is not None:
            return []
        limits = self._state.limits
        due: list[float] = []
        if limits.wall is not None:
            due.append(self._started_at + limits.wall)
        if limits.idle is not None:
            silent_until = self._last_activity + limits.idle
            halfway = limits.idle_counts_cpu and self._cpu is None
            due.append(silent_until - limits.idle / 2 if halfway else silent_until)
        return due

    def _refuse_input(self) -> None:
        """Answer a prompt that nobody attends with end of input; after some of these the command is ended."""
        self._refused += 1
        if self._refused <= _MAX_REFUSALS:
            with suppress(OSError):
                os.write(self._child.end, _END_OF_INPUT)

    def _overrun(self, now: float) -> CommandEnding | None:
        """Return which limit the command is beyond."""
        if self._returncode is not None:
            return None
        if self._refused > _MAX_REFUSALS:
            return CommandEnding.NEEDS_INPUT
        limits = self._state.limits
        if limits.wall is not None and now >= self._started_at + limits.wall:
            return CommandEnding.TIMED_OUT
        if limits.idle is None or now < self._last_activity + limits.idle / 2:
            return None
        if limits.idle_counts_cpu and self._cpu is None:
            # Compared at the end of the silence: a compiler says nothing for long and is not idle.
            self._cpu = self._processor_ticks()
        if now < self._last_activity + limits.idle:
            return None
        if limits.idle_counts_cpu:
            ticks = self._processor_ticks()
            if ticks != self._cpu:
                self._cpu = ticks
                self._last_activity = now - limits.idle / 2
                return None
        return CommandEnding.IDLE

    def _processor_ticks(self) -> int:
        return sum(process.cpu for process in self._tree.members())

    def _check_prompt(self, now: float) -> float:
        if self._returncode is not None:
            return _NEVER
        if now >= self._prompt_check_at and self._child.terminal is not None:
            # Listing also makes members known that will have left the session by the time they are to be ended.
            waiting = reads_terminal(self._child.end, self._child.terminal, self._tree.members())
            if self._child.takes_input:
                self._state.waits_for_input(waiting, by_line=line_modes(self._child.end).by_line)
            elif waiting:
                self._refuse_input()
            self._prompt_check_at = now + (_PROMPT_CHECK_SECONDS if self._refused == 0 else _FIRST_PROMPT_CHECK)
        return self._prompt_check_at


def _exit_code_of(returncode: int) -> tuple[int, str | None]:
    """Return the exit code as shells number it (128+n after signal n), and the signal's name."""
    if returncode >= 0:
        return returncode, None
    try:
        name = Signals(-returncode).name
    except ValueError:
        name = f"signal {-returncode}"
    return 128 - returncode, name


def _watch_leader(pid: int) -> int | None:
    """Return a descriptor that becomes readable when the process ends, if the system has one."""
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None
