"""A flood in the terminal pane: against a bare drain loop, what it does to the event loop, and how soon ctrl+c ends it.

Run it: `python -m tests.bench.bench_terminal`. The whole way is measured: a command on its PTY, the thread that reads
it, the engine, and the widget that draws in a running (headless) Textual app. The reference reads the same command's
PTY and does nothing with it, in turns with ours.
"""

from __future__ import annotations

import asyncio
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from textual.pilot import Pilot

from ollm_tui.core.shell.hub import CommandHub, awaitable_of
from tests.bench.bench_shell import drain
from tests.tui.terminal.live import LiveTerminal

ROUNDS = 3
FLOODS = 5
SIZE = (120, 40)
LAST = 500_000
DRAIN_GOAL = 3.0
LATENESS_GOAL = 0.020
INTERRUPT_GOAL = 0.300


async def flooded(app: LiveTerminal, late: list[float]) -> float:
    """Seconds until the last line of a flood is on the screen; how late the event loop was meanwhile goes to `late`."""
    app.view.engine.feed(b"\x1bc")
    await app.until_shown("")
    over = asyncio.Event()
    beating = asyncio.ensure_future(heartbeat(over, late))
    began = time.perf_counter()
    command = await app.start(f"seq 1 {LAST}")
    await app.until_shown(str(LAST))
    seconds = time.perf_counter() - began
    over.set()
    await beating
    await awaitable_of(command.done)
    return seconds


async def heartbeat(over: asyncio.Event, late: list[float]) -> None:
    while not over.is_set():
        due = time.perf_counter() + 0.005
        await asyncio.sleep(0.005)
        late.append(time.perf_counter() - due)


async def interrupted(app: LiveTerminal, pilot: Pilot[None]) -> float:
    """Seconds from ctrl+c in the midst of a flood to the end of the command."""
    command = await app.start("seq 1 1000000000")
    await pilot.pause(0.4)
    began = time.perf_counter()
    await pilot.press("ctrl+c")
    await awaitable_of(command.done)
    return time.perf_counter() - began


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[len(values) * percent // 100]


async def main() -> int:
    late: list[float] = []
    idle: list[float] = []
    bare: list[float] = []
    ours: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        hub = CommandHub(Path(folder))
        app = LiveTerminal(hub)
        async with app.run_test(size=SIZE) as pilot:
            await flooded(app, [])  # imports and first use
            for _ in range(ROUNDS):
                bare.append(
                    await asyncio.to_thread(drain, ["/bin/bash", "--noprofile", "--norc", "-c", f"seq 1 {LAST}"])
                )
                ours.append(await flooded(app, late))
                over = asyncio.Event()
                asyncio.get_running_loop().call_later(1.0, over.set)
                await heartbeat(over, idle)
            ends = [await interrupted(app, pilot) for _ in range(FLOODS)]
        assert await hub.close() == ()
    ratio = statistics.median(ours) / statistics.median(bare)
    p99 = percentile(late, 99)
    print(f"textual {version('textual')}, {SIZE[0]}x{SIZE[1]} cells, medians of {ROUNDS}")
    print(f"seq 1 {LAST}: drain {statistics.median(bare):.2f} s, in the pane {statistics.median(ours):.2f} s", end="")
    print(f"   ratio {ratio:.2f} (goal {DRAIN_GOAL})")
    print(
        f"event loop meanwhile: {len(late)} beats, late by p50 {percentile(late, 50) * 1000:.1f} ms, "
        f"p99 {p99 * 1000:.1f} ms (goal {LATENESS_GOAL * 1000:.0f}), max {max(late) * 1000:.1f} ms; "
        f"idle p99 {percentile(idle, 99) * 1000:.1f} ms"
    )
    print(
        f"ctrl+c to the end of a flood: median {statistics.median(ends) * 1000:.0f} ms, "
        f"worst of {FLOODS} {max(ends) * 1000:.0f} ms (goal {INTERRUPT_GOAL * 1000:.0f})"
    )
    return 1 if ratio > DRAIN_GOAL or p99 > LATENESS_GOAL or max(ends) > INTERRUPT_GOAL else 0


if __name__ == "__main__":
    raise SystemExit(asyncio.run(main()))
