"""The person's input to a command: keys, typed lines, and prompts that wait for it."""

from __future__ import annotations

import codecs
import os
import platform
import re
import sys
import termios
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.process_tree import ProcessInfo

KEPT_LINES = 10
"""Typed lines that are reported; of more, the last ones."""

KEPT_CHARACTERS = 200
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
    """Makes lines of keys as the terminal's own line editing does; only the last lines are kept."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._done: deque[str] = deque(maxlen=KEPT_LINES)
        self._line = ""

    def feed(self, data: bytes) -> None:
        """Take the next keys."""
        for character in _KEY.sub("", self._decoder.decode(data)):
            if character in "\r\n":
                self._done.append(self._line)
                self._line = ""
            elif character in _ERASE:
                self._line = self._line[:-1]
            elif character == _ERASE_WORD:
                self._line = re.sub(r"\S*\s*\Z", "", self._line)
            elif character in (_ERASE_LINE, _INTERRUPT):
                self._line = ""
            elif character >= " " and len(self._line) < KEPT_CHARACTERS:
                self._line += character

    @property
    def lines(self) -> tuple[str, ...]:
        """The kept lines, the one that is not ended yet last."""
        lines = (*self._done, self._line) if self._line else tuple(self._done)
        return tuple(visible(line) for line in lines[-KEPT_LINES:])


@dataclass(frozen=True)
class LineModes:
    """What a terminal does with a key at this moment."""

    echo: bool = False
    signals: bool = False
    """Whether Ctrl+C interrupts."""


def line_modes(terminal: int) -> LineModes:
    """How the terminal behind a descriptor is set; where it does not say, as if nothing were shown."""
    try:
        local = int(termios.tcgetattr(terminal)[_LOCAL_MODES])
    except (OSError, termios.error):
        return LineModes()
    return LineModes(echo=bool(local & termios.ECHO), signals=bool(local & termios.ISIG))


_READS = {"x86_64": {0, 19}, "aarch64": {63, 65}}
"""System call numbers of read and readv."""

_POLLS = {"x86_64": {7, 23, 232, 270, 271, 281, 441}, "aarch64": {22, 72, 73, 441}}
"""Those of poll, select, epoll_wait and their variants."""


def reads_terminal(master: int, terminal: str, members: Iterable[ProcessInfo]) -> bool:
    """Whether one of `members` waits for input from the terminal behind `master`, `terminal` by name.

    Where the terminal has a foreground group only its members count, and all of them: in `cat | cat` the first is not
    the one that reads. A program that takes keys as they come (no line editing by the system) waits while it polls.
    False where the system does not tell.
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
