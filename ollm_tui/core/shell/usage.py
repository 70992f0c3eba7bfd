"""What the processes of jobs take and offer at one moment: their number, processor time, listening addresses."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from ollm_tui.core.shell.family import TICKS, Family, Process, running_processes
from ollm_tui.core.shell.listening import PortsUnknown, listening_addresses


@dataclass(frozen=True)
class Usage:
    """Of one job. `cpu` is in percent of one processor since the last look; None at the first."""

    processes: tuple[Process, ...]
    cpu: float | None
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Look:
    """All jobs at one moment; `unknown` says what this system does not tell, empty where it tells all."""

    usage: Mapping[str, Usage]
    unknown: str = ""


def server_of(port: int, families: Mapping[str, Family]) -> str | None:
    """The id of the job that has a process listening at `port`; None also where the system does not tell.

    Takes milliseconds: not for the event loop.
    """
    everyone = running_processes()
    members = {job: {process.pid for process in family.members(everyone)} for job, family in families.items()}
    try:
        addresses = listening_addresses({pid for pids in members.values() for pid in pids})
    except PortsUnknown:
        return None
    serving = {pid for pid, told in addresses.items() if any(address.endswith(f":{port}") for address in told)}
    return next((job for job, pids in members.items() if pids & serving), None)


class Watcher:
    """Looks at families again and again. Belongs to one thread at a time; each look takes milliseconds."""

    def __init__(self) -> None:
        self._last: dict[str, dict[tuple[int, int], int]] = {}
        """Ticks of each process, by pid and start, at the last look at its job."""
        self._looked_at = 0.0

    def look(self, families: Mapping[str, Family]) -> Look:
        """At the families, by id of their job."""
        now = time.monotonic()
        everyone = running_processes()
        members = {job: family.members(everyone) for job, family in families.items()}
        unknown = ""
        addresses: dict[int, tuple[str, ...]] = {}
        try:
            addresses = listening_addresses({process.pid for group in members.values() for process in group})
        except PortsUnknown as reason:
            unknown = str(reason)
        usage = {
            job: Usage(
                processes=tuple(group),
                cpu=self._percent(job, group, now - self._looked_at),
                addresses=tuple(dict.fromkeys(one for process in group for one in addresses.get(process.pid, ()))),
            )
            for job, group in members.items()
        }
        self._last = {job: {(one.pid, one.started): one.cpu for one in group} for job, group in members.items()}
        self._looked_at = now
        return Look(usage, unknown)

    def _percent(self, job: str, group: list[Process], seconds: float) -> float | None:
        before = self._last.get(job)
        if before is None or seconds <= 0:
            return None
        # A process that was not there the last time has done all its work since.
        ticks = sum(max(0, process.cpu - before.get((process.pid, process.started), 0)) for process in group)
        return 100 * ticks / TICKS / seconds
