"""MCP servers through the process that holds them, against the SDK alone.

Run: python tests/bench/bench_mcp.py. Bars: a call <= 3x of the SDK's own; five stubborn servers close in <= 2.5 s; while a
result of 10 MB comes, the event loop is late by <= 8x of what it is when idle (p99), and this process grows by <= 5 MB.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from pathlib import Path

import psutil
from mcp import Client, StdioServerParameters

from ollm_tui.agent.mcp.host import McpHost
from ollm_tui.mcp_host.frames import Asked, ElicitationAnswer, ServerSpec

FAKE = str(Path(__file__).parents[1] / "data" / "mcp_server.py")
CALLS = 300
STUBBORN = 5
TICK = 0.002


def report(what: str, value: float, goal: float, unit: str) -> bool:
    print(f"{what}: {value:.2f} {unit} (goal {goal:g}{'' if value <= goal else ', MISSED'})")
    return value <= goal


async def decline(asked: Asked) -> ElicitationAnswer:
    return ElicitationAnswer(id=asked.id, action="decline")


async def host_with(*servers: tuple[str, str]) -> McpHost:
    """Return a host connected to fake servers, each a name and a mode."""
    heard: set[str] = set()
    news = asyncio.Event()

    def hear(report: object) -> None:
        heard.add(getattr(report, "server", ""))
        news.set()

    host = McpHost(hear, decline)
    for name, mode in servers:
        await host.connect(ServerSpec(name=name, command=sys.executable, args=("-I", FAKE, mode)))
    while len(heard) < len(servers):
        news.clear()
        await news.wait()
    return host


async def calls() -> float:
    """Return how many times longer a call takes than with the SDK alone (medians, by turns)."""
    host = await host_with(("good", "good"))
    ours: list[float] = []
    theirs: list[float] = []
    async with Client(
        StdioServerParameters(command=sys.executable, args=["-I", FAKE, "good"]), mode="legacy"
    ) as client:
        for _ in range(CALLS):
            began = time.perf_counter()
            await client.call_tool("echo", {"text": "x"})
            theirs.append(time.perf_counter() - began)
            began = time.perf_counter()
            await host.call("good", "echo", {"text": "x"})
            ours.append(time.perf_counter() - began)
    await host.aclose()
    print(f"  {1_000 * statistics.median(ours):.2f} ms against {1_000 * statistics.median(theirs):.2f} ms")
    return statistics.median(ours) / statistics.median(theirs)


async def closing() -> float:
    """Return the seconds until five servers that ignore everything are gone."""
    host = await host_with(*((f"s{at}", "slowclose") for at in range(STUBBORN)))
    began = time.perf_counter()
    await host.aclose()
    return time.perf_counter() - began


async def lateness(seconds: float, until: asyncio.Future[object] | None = None) -> float:
    """Return by how many milliseconds the event loop is late at worst, one tick of a hundred left out."""
    late: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end if until is None else not until.done():
        began = time.perf_counter()
        await asyncio.sleep(TICK)
        late.append(time.perf_counter() - began - TICK)
    return 1_000 * sorted(late)[int(len(late) * 0.99) - 1]


async def large() -> tuple[float, float]:
    """Return the lateness while 10 MB come by what it is when idle, and the megabytes that this process grew."""
    host = await host_with(("big", "big"))
    idle = await lateness(2)
    before = psutil.Process().memory_info().rss
    busy = await lateness(0, asyncio.ensure_future(host.call("big", "echo", {"text": "x"})))
    grown = (psutil.Process().memory_info().rss - before) / 1e6
    await host.aclose()
    print(f"  {busy:.2f} ms against {idle:.2f} ms")
    return busy / idle, grown


def main() -> None:
    """Print each figure with its goal."""
    met = [
        report("a call by one of the SDK alone", asyncio.run(calls()), 3, "x"),
        report(f"{STUBBORN} stubborn servers closed", asyncio.run(closing()), 2.5, "s"),
    ]
    late, grown = asyncio.run(large())
    met += [report("lateness while 10 MB come", late, 8, "x"), report("memory for 10 MB", grown, 5, "MB")]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
