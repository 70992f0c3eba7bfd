"""Which TCP addresses processes listen on, as people type them: `localhost:5173`.

From /proc where there is one, else from `lsof`. Only the network this program is in itself: a socket within a sandbox's
own network leads nowhere from here.
"""

from __future__ import annotations

import ipaddress
import os
import shutil
import subprocess
import sys
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
_LISTENS = "0A"
_PATIENCE = 5.0


class PortsUnknown(Exception):
    """This system does not tell; the message says what is missing."""


def listening_addresses(pids: Collection[int]) -> dict[int, tuple[str, ...]]:
    """The addresses that each of `pids` listens on, by port; who listens on none is left out.

    Reads the disk or runs a program, so not for the event loop. Raises PortsUnknown.
    """
    if not pids:
        return {}
    found = _by_proc(pids) if sys.platform == "linux" else _by_lsof(pids)
    return {pid: _in_order(addresses) for pid, addresses in found.items() if addresses}


def _by_proc(pids: Collection[int]) -> dict[int, set[tuple[int, str]]]:
    sockets: dict[str, tuple[int, str]] = {}
    for table in _TABLES:
        with suppress(OSError):  # a system without IPv6 has no second table
            sockets.update(_listening_sockets(table.read_text("ascii")))
    return {pid: {sockets[inode] for inode in _open_sockets(pid) if inode in sockets} for pid in pids}


def _listening_sockets(table: str) -> Iterator[tuple[str, tuple[int, str]]]:
    """Inode, port and address of each listening socket of a table as the kernel writes it."""
    for row in table.splitlines()[1:]:
        fields = row.split()
        if len(fields) > 9 and fields[3] == _LISTENS:
            address, _, port = fields[1].partition(":")
            yield fields[9], (int(port, 16), _host(_kernel_address(address)))


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


def _by_lsof(pids: Collection[int]) -> dict[int, set[tuple[int, str]]]:
    program = shutil.which("lsof") or shutil.which("lsof", path="/usr/sbin:/usr/bin")
    if program is None:
        raise PortsUnknown("listening ports are not known: the program lsof is missing")
    numbers = ",".join(map(str, sorted(pids)))
    try:
        # It exits with 1 when one of the processes has no such socket; what it printed is right all the same.
        told = subprocess.run(
            [program, "-nP", "-w", "-a", "-p", numbers, "-iTCP", "-sTCP:LISTEN", "-F", "pn"],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_PATIENCE,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PortsUnknown(f"listening ports are not known: {error}") from None
    return _read_lsof(told.stdout)


def _read_lsof(listing: str) -> dict[int, set[tuple[int, str]]]:
    """What `lsof -F pn` prints: a line `p` and a pid, then a line `n` and an address for each socket of it."""
    found: dict[int, set[tuple[int, str]]] = {}
    current: set[tuple[int, str]] = set()
    for row in listing.splitlines():
        if row.startswith("p"):
            current = found.setdefault(int(row[1:]), set())
        elif row.startswith("n"):
            host, _, port = row[1:].rpartition(":")
            if port.isdecimal():
                shown = "0.0.0.0" if host == "*" else host.strip("[]").partition("%")[0]
                with suppress(ValueError):
                    current.add((int(port), _host(ipaddress.ip_address(shown))))
    return found


def _host(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> str:
    """How this machine reaches who listens there: an address that stands for all is reached as localhost."""
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    plain = mapped or address
    if plain.is_unspecified:
        return "localhost"
    return f"[{plain}]" if plain.version == 6 else str(plain)


def _in_order(addresses: Collection[tuple[int, str]]) -> tuple[str, ...]:
    return tuple(f"{host}:{port}" for port, host in sorted(addresses))


__all__ = ["PortsUnknown", "listening_addresses"]
