"""Which command of this session serves a port, as the system knows it (Linux; elsewhere nobody can tell)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from ollm_tui.core.shell.family import running_processes
from ollm_tui.core.shell.state import CommandState

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_SOCKET = re.compile(r"socket:\[(\d+)\]")


def server_of(port: int, commands: Iterable[CommandState]) -> CommandState | None:
    """The running command that has a process listening at `port`. Reads /proc for milliseconds: not for the event loop.

    Processes count by their session and by whom they descend from.
    """
    leaders = {command.pid: command for command in commands if command.running and command.pid}
    sockets = _sockets_listening_at(port) if leaders else set[str]()
    if not sockets:
        return None
    processes = {process.pid: process for process in running_processes()}
    for process in processes.values():
        owner = leaders.get(process.session)
        above, seen = process, {process.pid}
        while owner is None and above.parent in processes and above.parent not in seen:
            owner = leaders.get(above.pid) or leaders.get(above.parent)
            above = processes[above.parent]
            seen.add(above.pid)
        if owner is not None and not sockets.isdisjoint(_sockets_of(process.pid)):
            return owner
    return None


def _sockets_listening_at(port: int) -> set[str]:
    found: set[str] = set()
    for table in _TABLES:
        with suppress(OSError):
            for row in table.read_text("ascii").splitlines()[1:]:
                fields = row.split()
                if fields[3] == _LISTENS and int(fields[1].rsplit(":", 1)[1], 16) == port:
                    found.add(fields[9])
    return found


def _sockets_of(pid: int) -> set[str]:
    found: set[str] = set()
    folder = f"/proc/{pid}/fd"
    with suppress(OSError):
        for name in os.listdir(folder):
            with suppress(OSError):
                socket = _SOCKET.fullmatch(os.readlink(f"{folder}/{name}"))
                if socket is not None:
                    found.add(socket[1])
    return found
