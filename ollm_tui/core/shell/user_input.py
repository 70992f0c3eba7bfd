"""The state of one command and the person's input to it: typed lines, prompts that wait, changes published."""

from __future__ import annotations

import codecs
import os
import platform
import re
import sys
import termios
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeAlias

from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.output_log import OutputLog
from ollm_tui.core.shell.process_tree import ProcessInfo, ProcessTree
from ollm_tui.core.shell.status import (
    CommandEnding,
    CommandKind,
    CommandPhase,
    CommandStatus,
    ProcessName,
    TimeLimits,
    UserInput,
)
from ollm_tui.core.shell.termination import GRACE, HANGUP, TERMINATE, Termination

MAX_LINES = 10
"""Typed lines that are reported; of more, the last ones."""

MAX_LINE_CHARACTERS = 200
"""Characters of one typed line that are reported."""

_LOCAL_MODES = 3
"""Where termios.tcgetattr keeps the flag word that has ECHO and ISIG."""

_KEY = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)
"""An arrow or function key, and the marks around a paste: nothing that ends up in a line."""

_ERASE, _ERASE_WORD, _ERASE_LINE, _INTERRUPT = ("\x7f", "\x08"), "\x17", "\x15", "\x03"


@dataclass(frozen=True)
class TerminalInput:
    """Bytes on their way into a command. Never printed: a password may be among them."""

    data: bytes = field(repr=False)
    by_person: bool
    """False for what the terminal itself answers to a program's questions."""


class TypedLines:
    """Makes lines of keys as the terminal's own line editing does; it remembers only the last lines."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._ended: deque[str] = deque(maxlen=MAX_LINES)
        self._line = ""

    def feed(self, data: bytes) -> None:
        """Take the next keys."""
        for character in _KEY.sub("", self._decoder.decode(data)):
            if character in "\r\n":
                self._ended.append(self._line)
                self._line = ""
            elif character in _ERASE:
                self._line = self._line[:-1]
            elif character == _ERASE_WORD:
                self._line = re.sub(r"\S*\s*\Z", "", self._line)
            elif character in (_ERASE_LINE, _INTERRUPT):
                self._line = ""
            elif character >= " " and len(self._line) < MAX_LINE_CHARACTERS:
                self._line += character

    @property
    def lines(self) -> tuple[str, ...]:
        """The last lines, the one that is not ended yet included."""
        lines = (*self._ended, self._line) if self._line else tuple(self._ended)
        return tuple(visible(line) for line in lines[-MAX_LINES:])


@dataclass(frozen=True)
class LineModes:
    """What a terminal does with a key at this moment."""

    echo: bool = False
    signals: bool = False
    """Whether Ctrl+C interrupts."""
    by_line: bool = False
    """Whether programs read whole lines."""


def line_modes(terminal: int) -> LineModes:
    """Return how the terminal behind a descriptor is set; where it does not say, no echo."""
    try:
        local = int(termios.tcgetattr(terminal)[_LOCAL_MODES])
    except (OSError, termios.error):
        return LineModes()
    return LineModes(bool(local & termios.ECHO), bool(local & termios.ISIG), bool(local & termios.ICANON))


_READS = {"x86_64": {0, 19}, "aarch64": {63, 65}}
"""System call numbers of read and readv."""

_POLLS = {"x86_64": {7, 23, 232, 270, 271, 281, 441}, "aarch64": {22, 72, 73, 441}}
"""Those of poll, select, epoll_wait and their variants."""


def reads_terminal(master: int, terminal: str, members: Iterable[ProcessInfo]) -> bool:
    """Whether one of `members` waits for input from the terminal behind `master`, `terminal` by name.

    Where the terminal has a foreground group only its members count, and all of them: in `cat | cat` the first is not
    the one that reads. A program in raw mode waits while it polls. False where the system does not tell.
    """
    if sys.platform != "linux":
        return False
    try:
        foreground = os.tcgetpgrp(master)
        by_line = bool(termios.tcgetattr(master)[_LOCAL_MODES] & termios.ICANON)
    except (OSError, termios.error):
        return False
    return any(_waits_on(process.pid, terminal, by_line) for process in members if foreground in (0, process.group))


def _waits_on(pid: int, terminal: str, by_line: bool) -> bool:
    try:
        call, *arguments = Path(f"/proc/{pid}/syscall").read_text("ascii").split()
    except (OSError, ValueError):
        return False
    if not call.isdecimal():
        return False
    machine = platform.machine()
    if int(call) in _READS.get(machine, ()) and arguments:
        return _leads_to(pid, int(arguments[0], 16), terminal)
    return not by_line and int(call) in _POLLS.get(machine, ())


def _leads_to(pid: int, descriptor: int, terminal: str) -> bool:
    with suppress(OSError):
        return os.readlink(f"/proc/{pid}/fd/{descriptor}") in (terminal, "/dev/tty")
    return False


OnStatus: TypeAlias = Callable[[CommandStatus], None]


class CommandState:
    """What is known and wanted of one command; its methods may be called from any thread."""

    def __init__(
        self,
        status: CommandStatus,
        output: OutputLog,
        on_status: OnStatus,
        *,
        limits: TimeLimits | None = None,
        grace: float = GRACE,
    ) -> None:
        self.status = status
        self.output = output
        self._on_status = on_status
        self.limits = limits or TimeLimits()
        """The limits that hold now."""
        self._grace = grace
        self.typed: deque[TerminalInput] = deque()
        """What is still to be written to it."""
        self._typed_lines = TypedLines()
        self.wanted_end: CommandEnding | None = None
        """Why it is to be ended, if it is."""
        self.read_to = 0
        """The byte that reading continues at, where the reader names none."""
        self.done: Future[CommandStatus] = Future()
        """Set when the command is complete: its leader has exited and its output is read."""
        self.lock = threading.Lock()
        self._reads_line = False

    def change(self, **changes: object) -> None:
        """Change and publish the status."""
        with self.lock:
            self.status = status = replace(self.status, **changes)
        self._on_status(status)

    def disk_failed(self, error: str) -> None:
        """Tell once what could not be written; nothing where `error` is empty."""
        if error and error not in self.status.disk_errors:
            self.change(disk_errors=(*self.status.disk_errors, error))

    def change_user_input(self, change: Callable[[UserInput], UserInput]) -> None:
        """Record what the person did; another key in a line is not published."""
        with self.lock:
            before = self.status.user_input
            user_input = change(before)
            self.status = status = replace(self.status, user_input=user_input)
        if replace(user_input, lines=before.lines) != before:
            self._on_status(status)

    @property
    def attended(self) -> bool:
        """Whether it waits for the person: at a prompt, or in a program that they have typed into."""
        return self.status.waiting_for_input and (self._reads_line or self.status.user_input.typed)

    def waits_for_input(self, waiting: bool, *, by_line: bool = False) -> None:
        """Record whether it waits for input, and for a line or for keys."""
        self._reads_line = by_line
        if self.status.waiting_for_input != waiting:
            self.change(waiting_for_input=waiting)

    def typed_by_person(self, data: bytes, modes: LineModes) -> None:
        """Record what the person typed and how the terminal treated it."""
        if modes.echo:
            self._typed_lines.feed(data)
        interrupts = modes.signals and b"\x03" in data
        self.change_user_input(
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
        exit_code: int | None = None,
        signal: str | None = None,
        ending: CommandEnding | None = None,
        leftovers: tuple[ProcessName, ...] = (),
    ) -> None:
        """Record that it is complete."""
        self.change(
            phase=CommandPhase.KILLED if signal or ending else CommandPhase.EXITED,
            ended=time.monotonic(),
            exit_code=exit_code,
            signal=signal,
            ending=ending,
            leftovers=leftovers,
            waiting_for_input=False,
        )
        self.done.set_result(self.status)

    def new_termination(self, tree: ProcessTree) -> Termination:
        """Return how to terminate its processes."""
        return Termination(tree, HANGUP if self.status.kind is CommandKind.PERSON else TERMINATE, self._grace)
