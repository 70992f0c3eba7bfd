"""The processes of a command: its session, their descendants, and whatever carries its mark.

Killing the leader's group does not reach job-control children (each job has a group of its own), and `setsid`
leaves the session altogether; so a command's processes are found, not assumed (001 R5.3).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from signal import Signals

from ollm_tui.core.fence.secrets import MARK

_PROC = Path("/proc")
_GONE_STATES = ("Z", "X")
_PS_TIME = re.compile(r"(?:(?:(\d+)-)?(\d+):)?(\d+):(\d+(?:[.,]\d+)?)")

TICKS = os.sysconf("SC_CLK_TCK")
"""Clock ticks a second."""


@dataclass(frozen=True)
class ProcessInfo:
    """One process as the system lists it; `started` tells reused pids apart. Times are in clock ticks."""

    pid: int
    parent: int
    group: int
    session: int
    started: int
    cpu: int
    name: str


def running_processes() -> list[ProcessInfo]:
    """Return every process that has not ended; takes milliseconds, not for the event loop."""
    if sys.platform != "linux":
        return processes_by_ps()
    found: list[ProcessInfo] = []
    with os.scandir(_PROC) as entries:
        for entry in entries:
            if entry.name.isdecimal():
                process = _read_process(int(entry.name))
                if process is not None:
                    found.append(process)
    return found


def birth_of(pid: int) -> str:
    """Return what identifies a process beyond its reusable pid; empty if it does not run."""
    if sys.platform != "linux":
        command = ["ps", "-o", "lstart=", "-p", str(pid)]
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()
    process = _read_process(pid)
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
    except OSError:
        boot = ""
    return "" if process is None else f"{boot} {process.started}"


class ProcessTree:
    """The processes of one command, found again each time: members come and go.

    Belongs to one thread. `leader` is the pid of the session's leader.
    """

    def __init__(self, leader: int, mark: str) -> None:
        self.leader = leader
        self._mark = f"{MARK}={mark}".encode()
        own = _read_process(leader, even_ended=True) if sys.platform == "linux" else None
        self._since = own.started if own is not None else 0
        self._session: int | None = leader
        self._leader_runs = True
        self._known: dict[int, int] = {}
        """Members seen so far, by pid, with their start: children that left the session stay ours."""

    @classmethod
    def of_earlier_process(cls, leader: int, born: str, mark: str) -> ProcessTree:
        """Return the tree of a command that another process started; `born` is its leader's `birth_of` then.

        The pid of a leader that is gone may be another's: then only what carries the mark counts.
        """
        tree = cls(leader, mark)
        if not born or birth_of(leader) != born:
            tree._session, tree._leader_runs, tree._since = None, False, 0
        return tree

    def members(self, processes: Sequence[ProcessInfo] | None = None) -> list[ProcessInfo]:
        """Return the members that run now, or those among `processes`."""
        if processes is not None:
            members = self._found_among(processes)
        else:
            # Who is started while the list is being read can be missing in it.
            members = self._found_among(running_processes()) or self._found_among(running_processes())
        self._known = {process.pid: process.started for process in members}
        if not self._leader_runs and not any(process.session == self._session for process in members):
            self._signal_leaders_group(0)  # forgets the session unless somebody is left in that group, unseen
        return members

    def leader_ended(self) -> None:
        """Record that the leader was reaped: its pid stays the session's only while somebody is in it."""
        self._leader_runs = False

    def force_unseen(self) -> bool:
        """Kill what forks too fast to be listed: a signal to a group misses nobody.

        Returns:
            False when the leader's group is empty; zombies count as in it.
        """
        return self._signal_leaders_group(Signals.SIGKILL)

    def send(self, signals: Sequence[Signals], members: Iterable[ProcessInfo]) -> None:
        """Signal every process group of the session, and each member that is in none of them."""
        members = list(members)
        groups = {process.group for process in members if process.session == self._session}
        for signal in signals:
            for group in groups:
                with suppress(ProcessLookupError, PermissionError):
                    os.killpg(group, signal)
            for process in members:
                if process.group not in groups:
                    with suppress(ProcessLookupError, PermissionError):
                        os.kill(process.pid, signal)

    def _signal_leaders_group(self, signal: int) -> bool:
        if self._session is None:
            return False
        try:
            os.killpg(self._session, signal)
        except ProcessLookupError:
            if not self._leader_runs:  # nobody has the number any more; from here on it may become another's
                self._session = None
            return False
        except PermissionError:  # how some systems say that all of it have ended and wait to be reaped
            return False
        return True

    def _found_among(self, processes: Sequence[ProcessInfo]) -> list[ProcessInfo]:
        members = [process for process in processes if self._is_member(process)]
        taken = {process.pid for process in members}
        grown = True
        while grown:
            children = [p for p in processes if p.parent in taken and p.pid not in taken and p.started >= self._since]
            members += children
            taken.update(child.pid for child in children)
            grown = bool(children)
        return members

    def _is_member(self, process: ProcessInfo) -> bool:
        if process.session == self._session and self._session is not None:
            return True
        if self._known.get(process.pid) == process.started:
            return True
        return process.started >= self._since and self._mark in _environment_of(process.pid)


def _read_process(pid: int, *, even_ended: bool = False) -> ProcessInfo | None:
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    opening, closing = stat.index(b"("), stat.rindex(b")")
    fields = stat[closing + 2 :].split()
    if fields[0].decode() in _GONE_STATES and not even_ended:
        return None
    return ProcessInfo(
        pid=pid,
        parent=int(fields[1]),
        group=int(fields[2]),
        session=int(fields[3]),
        started=int(fields[19]),
        cpu=int(fields[11]) + int(fields[12]),
        name=stat[opening + 1 : closing].decode("utf-8", "replace"),
    )


def _environment_of(pid: int) -> list[bytes]:
    if sys.platform != "linux":
        return []
    try:
        return (_PROC / str(pid) / "environ").read_bytes().split(b"\0")
    except OSError:
        return []


def processes_by_ps() -> list[ProcessInfo]:
    """List processes without /proc: no start times and no marks, only sessions and parents."""
    listing = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid=,pgid=,stat=,time=,comm="], capture_output=True, text=True, check=False
    ).stdout
    found: list[ProcessInfo] = []
    for line in listing.splitlines():
        pid, parent, group, state, used, *name = line.split(None, 5)
        if state[:1] in _GONE_STATES:
            continue
        with suppress(OSError):
            session = os.getsid(int(pid))
            cpu = round(parse_ps_time(used) * TICKS)
            found.append(ProcessInfo(int(pid), int(parent), int(group), session, 0, cpu, name[0] if name else "?"))
    return found


def parse_ps_time(used: str) -> float:
    """Return the seconds in `[[days-]hours:]minutes:seconds`, with a fraction on some systems."""
    parts = _PS_TIME.fullmatch(used)
    if parts is None:
        return 0.0
    days, hours, minutes = (int(part or 0) for part in parts.group(1, 2, 3))
    return ((days * 24 + hours) * 60 + minutes) * 60 + float(parts[4].replace(",", "."))
