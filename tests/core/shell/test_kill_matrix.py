"""The kill matrix: whatever a command has started, its end takes all of it within three seconds (001 R5.3)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from ollm_tui.core.shell.process_tree import running_processes
from tests.core.shell.conftest import Bench, alive, data_of, in_session, until

RELAY = """import os, time
end = time.monotonic() + 20
while time.monotonic() < end:
    if os.fork(): os._exit(0)
    time.sleep(0.001)"""
"""Runs on in a new process each millisecond: looking at the processes one after the other mostly misses it."""

TREES = {
    "a child that waits": "sleep 71 & wait",
    "one that ignores SIGTERM": "trap '' TERM; while :; do sleep 0.2; done",
    "a tree that ignores SIGTERM": "trap '' TERM INT HUP; sleep 71 & bash -c \"trap '' TERM; sleep 71 & wait\" & wait",
    "job-control children": "set -m; sleep 71 & sleep 72 & bash -mc 'sleep 73 & wait' & wait",
    "a daemon in a session of its own": "setsid sleep 71 & wait",
    "a daemon whose parents are gone": "(setsid bash -c 'sleep 71 & sleep 72' >/dev/null 2>&1 </dev/null &) ; sleep 73",
    "nohup": "nohup sleep 71 >/dev/null 2>&1 & wait",
    "a stopped process": "sleep 71 & sleep 0.05; kill -STOP $!; wait",
    "a relay of processes": f"python3 -c '{RELAY}' & sleep 30",
    "one that forks on SIGTERM": "trap 'sleep 71 & sleep 72' TERM; while :; do sleep 0.1; done",
}


def family_of(mark_holder: str) -> list[int]:
    """Pids of all processes whose environment has the marker variable."""
    found: list[int] = []
    for process in running_processes():
        try:
            environment = Path(f"/proc/{process.pid}/environ").read_bytes()
        except OSError:
            continue
        if mark_holder.encode() in environment.split(b"\0"):
            found.append(process.pid)
    return found


@pytest.mark.parametrize("attended", [False, True], ids=["alone", "attended"])
@pytest.mark.parametrize("tree", TREES)
async def test_a_time_out_ends_the_whole_tree_in_time(bench: Bench, tree: str, attended: bool) -> None:
    if attended:
        bench = bench.attended()
    call = asyncio.ensure_future(bench.shell(f"export WITNESS=w{id(bench)}; {TREES[tree]}", timeout=300))
    started: list[int] = []

    def seen() -> bool:  # on a busy machine its time may be over before anybody looks
        started.extend(family_of(f"WITNESS=w{id(bench)}"))
        return bool(started) or call.done()

    await until(seen)
    async with asyncio.timeout(10):
        result = await call
    data = data_of(result)
    assert data.timed_out
    assert in_session(data.pid) == []
    assert [pid for pid in started if alive(pid)] == []
    assert family_of(f"WITNESS=w{id(bench)}") == []
    assert bench.hub.find(data.id).status.leftovers == ()
