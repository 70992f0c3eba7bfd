"""Commands measured: starting one in a large process, 100 MB of output, and reading against a bare drain loop.

Run it: `python -m tests.bench.bench_shell`. Every reference is an installed program or an unmodified library, run in
the same process, in turns with ours.
"""

from __future__ import annotations

import asyncio
import os
import pty
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from pathlib import Path

from ptyprocess import PtyProcess

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.shell.hub import CommandHub, CommandRequest, awaitable_of
from ollm_tui.core.shell.shell_service import ShellService

BALLAST = 400_000_000
SPAWNS = 25
ROUNDS = 3


def resident() -> int:
    """Bytes this process holds."""
    pages = Path("/proc/self/statm").read_text().split()[1]
    return int(pages) * resource.getpagesize()


async def timed(action: Callable[[], Awaitable[object]]) -> float:
    began = time.perf_counter()
    await action()
    return time.perf_counter() - began


def popen_bash() -> subprocess.Popen[bytes]:
    return subprocess.Popen(["/bin/bash", "--noprofile", "--norc", "-c", "true"], stdin=subprocess.DEVNULL)


async def starting(hub: CommandHub, folder: Path) -> None:
    ballast = bytearray(os.urandom(1 << 20) * (BALLAST >> 20))
    environment = dict(os.environ)

    async def ours() -> None:
        live = await hub.start(CommandRequest("true", folder, attended=True))
        costs["ours, until it runs"].append(time.perf_counter() - began)
        await awaitable_of(live.done)

    async def by_fork() -> None:
        process = PtyProcess.spawn(["/bin/bash", "--noprofile", "--norc", "-c", "true"], env=environment)
        costs["ptyprocess.spawn"].append(time.perf_counter() - began)
        await asyncio.to_thread(process.close)

    async def bare() -> None:  # blocking on purpose: it is what is measured
        process = popen_bash()
        costs["subprocess.Popen, no terminal"].append(time.perf_counter() - began)
        process.wait()

    costs: dict[str, list[float]] = {}
    whole: list[float] = []
    for name in ("ours, until it runs", "ptyprocess.spawn", "subprocess.Popen, no terminal"):
        costs[name] = []
    for _ in range(SPAWNS):
        for action in (ours, by_fork, bare):
            began = time.perf_counter()
            await action()
            if action is ours:
                whole.append(time.perf_counter() - began)
    print(f"Starting in a process of {resident() / 1e6:.0f} MB, medians of {SPAWNS} (ms, worst in brackets)")
    for name, values in costs.items():
        print(f"  {name:32} {statistics.median(values) * 1000:7.2f}  ({max(values) * 1000:.1f})")
    print(f"  {'ours, `true` start to end':32} {statistics.median(whole) * 1000:7.2f}  ({max(whole) * 1000:.1f})")
    del ballast


def drain(argv: list[str]) -> float:
    """Seconds in which a bare loop reads the same output from a terminal."""
    master, slave = pty.openpty()
    began = time.perf_counter()
    process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=slave, start_new_session=True)
    os.close(slave)
    try:
        while os.read(master, 65_536):
            pass
    except OSError:
        pass
    seconds = time.perf_counter() - began
    process.wait()
    os.close(master)
    return seconds


async def reading(hub: CommandHub, folder: Path) -> None:
    service = ShellService(hub, 100_000, 2_000)
    log = folder / "log"
    log.write_bytes(b"2031-05-06 07:08:09 INFO worker-3 request finished in 12 ms status=200\n" * 1_400_000)
    lines = {
        f"cat, {log.stat().st_size / 1e6:.0f} MB of log lines": f"cat {log}",
        "seq 1 2000000": "seq 1 2000000",
        "100 MB of zeros, no newline": "head -c 100000000 /dev/zero | tr '\\0' x",
    }
    python = sys.version.split()[0]
    print(f"\nReading (medians of {ROUNDS}); reference: a bare os.read loop on a terminal, Python {python}")
    for name, line in lines.items():
        bare: list[float] = []
        full: list[float] = []
        before = resident()
        peak = 0
        for _ in range(ROUNDS):
            bare.append(drain(["/bin/bash", "--noprofile", "--norc", "-c", line]))
            full.append(
                await timed(lambda line=line: service.run(CommandRequest(line, folder), AbortController().signal))
            )
            peak = max(peak, resident() - before)
        ours, reference = statistics.median(full), statistics.median(bare)
        print(
            f"  {name:32} drain {reference:6.2f} s   ours (folded, logged, cut) {ours:6.2f} s"
            f"   ratio {ours / reference:5.2f}   memory +{peak / 1e6:.0f} MB"
        )


async def lateness(hub: CommandHub, folder: Path) -> None:
    late: list[float] = []
    stop = asyncio.Event()

    async def heartbeat() -> None:
        while not stop.is_set():
            due = time.perf_counter() + 0.005
            await asyncio.sleep(0.005)
            late.append(time.perf_counter() - due)

    beating = asyncio.ensure_future(heartbeat())
    service = ShellService(hub, 100_000, 2_000)
    await service.run(CommandRequest("seq 1 3000000", folder), AbortController().signal, lambda text: None)
    stop.set()
    await beating
    late.sort()
    print(
        f"\nEvent loop while a command floods: {len(late)} beats, late by "
        f"p50 {late[len(late) // 2] * 1000:.1f} ms, p99 {late[len(late) * 99 // 100] * 1000:.1f} ms, "
        f"max {late[-1] * 1000:.1f} ms"
    )


async def main() -> None:
    print(f"ptyprocess {version('ptyprocess')}")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        hub = CommandHub(folder / "logs")
        await starting(hub, folder)
        await reading(hub, folder)
        await lateness(hub, folder)
        assert await hub.close() == ()


if __name__ == "__main__":
    asyncio.run(main())
