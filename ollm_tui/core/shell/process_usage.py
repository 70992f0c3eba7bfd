"""What jobs use: processor time, and the addresses they listen on as people type them (`localhost:5353/udp`).

From /proc where there is one, else from `lsof`; only in this program's own network namespace.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from ollm_tui.core.shell.process_tree import TICKS, ProcessInfo, ProcessTree, running_processes
from ollm_tui.core.shell.status import ProcessName, ProcessUsage

_LISTENING, _UNCONNECTED = "0A", "07"
_TABLES = (
    (Path("/proc/net/tcp"), _LISTENING, ""),
    (Path("/proc/net/tcp6"), _LISTENING, ""),
    (Path("/proc/net/udp"), _UNCONNECTED, "/udp"),
    (Path("/proc/net/udp6"), _UNCONNECTED, "/udp"),
)
"""The kernel's tables, the socket state to find in each, and the suffix of its addresses.

UDP has no listening: a socket that is bound and not connected takes what anybody sends.
"""

_LSOF_SECONDS = 5.0


class PortsUnknownError(Exception):
    """This system does not show ports; the message says what is missing."""


class ListeningAddress(NamedTuple):
    """Where somebody listens; in order of ports."""

    port: int
    host: str
    protocol: str = ""

    def __str__(self) -> str:
        return f"{self.host}:{self.port}{self.protocol}"


def listening_addresses(pids: Collection[int]) -> dict[int, tuple[str, ...]]:
    """Return the addresses that each of `pids` listens on, by port; who listens on none is left out.

    Reads the disk or runs a program, so not for the event loop. Raises PortsUnknownError.
    """
    if not pids:
        return {}
    found = addresses_by_proc(pids) if sys.platform == "linux" else addresses_by_lsof(pids)
    return {pid: tuple(map(str, sorted(addresses))) for pid, addresses in found.items() if addresses}


def addresses_by_proc(pids: Collection[int]) -> dict[int, set[ListeningAddress]]:
    """Read the addresses of processes from the kernel's tables."""
    sockets: dict[str, ListeningAddress] = {}
    for table, state, protocol in _TABLES:
        with suppress(OSError):  # a system without IPv6 has no second tables
            sockets.update(_listening_sockets(table.read_text("ascii"), state, protocol))
    return {pid: {sockets[inode] for inode in _open_sockets(pid) if inode in sockets} for pid in pids}


def _listening_sockets(table: str, state: str, protocol: str) -> Iterator[tuple[str, ListeningAddress]]:
    """Yield inode and address of each socket in that state of a kernel table."""
    for row in table.splitlines()[1:]:
        fields = row.split()
        if len(fields) > 9 and fields[3] == state:
            address, _, port = fields[1].partition(":")
            yield fields[9], ListeningAddress(int(port, 16), _host(_kernel_address(address)), protocol)


def _kernel_address(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    """Words of 32 bits, each in this machine's byte order."""
    words = [int(text[at : at + 8], 16).to_bytes(4, sys.byteorder) for at in range(0, len(text), 8)]
    return ipaddress.ip_address(b"".join(words))


def _open_sockets(pid: int) -> Iterator[str]:
    with suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with suppress(OSError):
                target = os.readlink(entry.path)
                if target.startswith("socket:["):
                    yield target[8:-1]


def addresses_by_lsof(pids: Collection[int]) -> dict[int, set[ListeningAddress]]:
    """Read the addresses of processes with `lsof`. Raises PortsUnknownError."""
    program = shutil.which("lsof") or shutil.which("lsof", path="/usr/sbin:/usr/bin")
    if program is None:
        raise PortsUnknownError("listening ports are not known: the program lsof is missing")
    numbers = ",".join(map(str, sorted(pids)))
    try:
        # It exits with 1 when one of the processes has no such socket; what it printed is right all the same.
        listed = subprocess.run(
            [program, "-nP", "-w", "-a", "-p", numbers, "-i", "-F", "pPnT"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_LSOF_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PortsUnknownError(f"listening ports are not known: {error}") from None
    return parse_lsof(listed.stdout)


def parse_lsof(listing: str) -> dict[int, set[ListeningAddress]]:
    """Parse the lines of `lsof -F pPnT`: `p` pid, then a socket's `P` protocol, `n` address, `T` states."""
    found: dict[int, set[ListeningAddress]] = {}
    current: set[ListeningAddress] = set()
    udp, listening = False, None
    for row in listing.splitlines():
        if row.startswith("p"):
            current = found.setdefault(int(row[1:]), set())
        elif row.startswith("P"):
            udp = row == "PUDP"
        elif row.startswith("n"):
            listening = _address_named(row[1:], "/udp" if udp else "")
        if listening is not None and row.startswith("n" if udp else "TST=LISTEN"):
            current.add(listening)
    return found


def _address_named(name: str, protocol: str) -> ListeningAddress | None:
    """Return the address that lsof names; None for a connection, which has two."""
    host, _, port = name.rpartition(":")
    shown = "0.0.0.0" if host == "*" else host.strip("[]").partition("%")[0]
    try:
        return ListeningAddress(int(port), _host(ipaddress.ip_address(shown)), protocol)
    except ValueError:
        return None


def _host(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """Return the host to connect to; localhost for an unspecified address."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    plain = mapped or address
    if plain.is_unspecified:
        return "localhost"
    return f"[{plain}]" if plain.version == 6 else str(plain)


@dataclass(frozen=True)
class UsageReading:
    """All jobs at one moment; `unknown` says what this system does not show, if anything."""

    usage: Mapping[str, ProcessUsage]
    unknown: str = ""


def server_of(port: int, trees: Mapping[str, ProcessTree]) -> str | None:
    """Return the id of the job that listens at `port`, if known; takes milliseconds, not for the event loop."""
    processes = running_processes()
    members = {job: {process.pid for process in tree.members(processes)} for job, tree in trees.items()}
    try:
        addresses = listening_addresses({pid for pids in members.values() for pid in pids})
    except PortsUnknownError:
        return None
    serving = {pid for pid, listed in addresses.items() if any(address.endswith(f":{port}") for address in listed)}
    return next((job for job, pids in members.items() if pids & serving), None)


class UsageWatcher:
    """Reads the usage of process trees repeatedly; for one thread at a time, each reading takes milliseconds."""

    def __init__(self) -> None:
        self._last: dict[str, dict[tuple[int, int], int]] = {}
        """Ticks of each process, by pid and start, at the last reading."""
        self._read_at = 0.0

    def read(self, trees: Mapping[str, ProcessTree]) -> UsageReading:
        """Return the usage of process trees by the id of their job."""
        now = time.monotonic()
        processes = running_processes()
        members = {job: tree.members(processes) for job, tree in trees.items()}
        unknown = ""
        addresses: dict[int, tuple[str, ...]] = {}
        try:
            addresses = listening_addresses({process.pid for group in members.values() for process in group})
        except PortsUnknownError as reason:
            unknown = str(reason)
        usage = {
            job: ProcessUsage(
                processes=tuple(ProcessName(one.pid, one.name) for one in group),
                cpu=self._percent(job, group, now - self._read_at),
                addresses=tuple(dict.fromkeys(one for process in group for one in addresses.get(process.pid, ()))),
            )
            for job, group in members.items()
        }
        self._last = {job: {(one.pid, one.started): one.cpu for one in group} for job, group in members.items()}
        self._read_at = now
        return UsageReading(usage, unknown)

    def _percent(self, job: str, group: list[ProcessInfo], seconds: float) -> float | None:
        before = self._last.get(job)
        if before is None or seconds <= 0:
            return None
        # A process that was not there the last time has done all its work since.
        ticks = sum(max(0, process.cpu - before.get((process.pid, process.started), 0)) for process in group)
        return 100 * ticks / TICKS / seconds
