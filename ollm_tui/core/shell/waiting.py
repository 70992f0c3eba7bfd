"""Telling whether a command waits for somebody to type: a member of its foreground group reads the terminal."""

from __future__ import annotations

import os
import platform
import sys
import termios
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ollm_tui.core.shell.family import Process

_READS = {"x86_64": {0, 19}, "aarch64": {63, 65}}
"""System call numbers of read and readv."""

_POLLS = {"x86_64": {7, 23, 232, 270, 271, 281, 441}, "aarch64": {22, 72, 73, 441}}
"""Those of poll, select, epoll_wait and their variants."""

_LOCAL_MODES = 3
"""Where termios.tcgetattr keeps the flag word that has ICANON."""


def reads_terminal(master: int, terminal: str, members: Iterable[Process]) -> bool:
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
