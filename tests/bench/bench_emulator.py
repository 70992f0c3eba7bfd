"""How fast the terminal engine is, as ratios to an unmodified `pyte.Screen` in the same run.

    python -m tests.bench.bench_emulator [--megabytes 1.0] [--rounds 3]

All arms take the same bytes in 4,095-byte pieces (what a PTY delivers), by turns; the median CPU time of each counts.
pyte gets a part of each corpus, because it needs seconds for what ours does at once. Where node and @xterm/headless
are installed (`tests/tui/terminal/xterm.py` says how) the ratio to it is told too; nothing depends on it. It is told
twice: with megabytes taken before, when all it runs is compiled, and for the first 300 KB of a process.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass, field
from importlib.metadata import version

import pyte

from ollm_tui.tui.terminal.emulator import SCROLLBACK_LINES, LiveScreen, LiveStream
from tests.bench.terminal_output import COLUMNS, CORPORA, LINES, RECORDINGS, log_lines
from tests.tui.terminal.xterm import Xterm

PIECE = 4095
GOALS = {
    "log": 30.0,
    "ls": 20.0,
    "seq": 40.0,
    "progress": 5.0,
    "cjk": 3.0,
    "programs": 4.0,
    "colour": 2.5,
    "dense": 10.0,
    "motion": 1.5,
    "scripts": 2.0,
    "region": 8.0,
    "long line": 20.0,
    "alternate": 30.0,
}
"""Ratios to pyte. None for emoji: pyte drops what follows a joiner, and is quick at that."""
XTERM_GOALS = {"dense": 0.4, "motion": 0.4, "scripts": 0.4, "joined": 0.4}
GEOMETRIC_GOAL = 10.0
XTERM_BYTES = 4_000_000
FRESH_BYTES = 300_000
SCROLLBACK_GOAL = 5_000_000


class TolerantStream(pyte.ByteStream):
    """pyte raises on some sequences of real programs and forgets the piece; it goes on with the next one here."""

    def feed(self, data: bytes) -> None:
        with contextlib.suppress(TypeError, UnboundLocalError, AssertionError, IndexError):
            super().feed(data)


def cpu_seconds(feed: Callable[[bytes], None], data: bytes) -> float:
    gc.collect()
    start = time.process_time()
    for offset in range(0, len(data), PIECE):
        feed(data[offset : offset + PIECE])
    return time.process_time() - start


def ours(data: bytes) -> float:
    """Megabytes a CPU second, with 10,000 lines of scrollback."""
    return len(data) / cpu_seconds(LiveStream(LiveScreen(COLUMNS, LINES)).feed, data) / 1e6


def stock(data: bytes) -> float:
    return len(data) / cpu_seconds(TolerantStream(pyte.Screen(COLUMNS, LINES)).feed, data) / 1e6


def xterm_speed(xterm: Xterm, data: bytes, size: int = XTERM_BYTES) -> float:
    """Megabytes a CPU second of the whole node process, which needs a few megabytes to get up to speed."""
    data = (data * max(1, size // len(data)))[:size]
    return len(data) / xterm.seconds(data, COLUMNS, LINES, SCROLLBACK_LINES, PIECE) / 1e6


def fresh_xterm_speed(data: bytes) -> float:
    """Megabytes a CPU second of a process that just began."""
    xterm = Xterm()
    try:
        return xterm_speed(xterm, data, FRESH_BYTES)
    finally:
        xterm.close()


def started_xterm() -> Xterm | None:
    try:
        return Xterm()
    except FileNotFoundError:
        return None


def scrollback_bytes() -> int:
    lines = log_lines(1_300_000, random.Random(5)).splitlines(keepends=True)[:10_040]
    data = b"".join(line[:119].rstrip(b"\r\n") + b"\r\n" for line in lines)
    tracemalloc.start()
    screen = LiveScreen(COLUMNS, LINES)
    LiveStream(screen).feed(data)
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert len(screen.scrollback) == 10_000, len(screen.scrollback)
    return size


@dataclass
class Speeds:
    """Megabytes a CPU second of each arm, one for each round."""

    ours: list[float] = field(default_factory=list)
    pyte: list[float] = field(default_factory=list)
    xterm: list[float] = field(default_factory=list)
    fresh: list[float] = field(default_factory=list)

    def ratio(self, to: list[float]) -> float:
        return statistics.median(self.ours) / statistics.median(to)


def measured(data: bytes, rounds: int, xterm: Xterm | None) -> Speeds:
    speeds = Speeds()
    if xterm:
        xterm_speed(xterm, data)  # compiles what it will run
    for _ in range(rounds):
        speeds.ours.append(ours(data))
        speeds.pyte.append(stock(data[: max(len(data) // 8, 100_000)]))
        if xterm:
            speeds.xterm.append(xterm_speed(xterm, data))
            speeds.fresh.append(fresh_xterm_speed(data))
    return speeds


def row(name: str, speeds: Speeds) -> str:
    goal = f"{GOALS[name]:>6}x" if name in GOALS else f"{'-':>7}"
    line = f"{name:<10}{statistics.median(speeds.ours):>10.2f}{statistics.median(speeds.pyte):>10.2f}"
    line += f"{speeds.ratio(speeds.pyte):>8.1f}x{goal}"
    if speeds.xterm:
        xterm_goal = f"{XTERM_GOALS[name]:>6}x" if name in XTERM_GOALS else f"{'-':>7}"
        line += f"{statistics.median(speeds.xterm):>11.2f}{speeds.ratio(speeds.xterm):>8.2f}x{xterm_goal}"
        line += f"{statistics.median(speeds.fresh):>11.2f}{speeds.ratio(speeds.fresh):>8.2f}x"
    return line


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    size = int(options.megabytes * 1e6)
    xterm = started_xterm()
    other = f"@xterm/headless {xterm.version}" if xterm else "no @xterm/headless"
    print(f"python {sys.version.split()[0]}, pyte {version('pyte')}, {other}, {COLUMNS}x{LINES} cells")
    print(f"{options.megabytes} MB of each corpus, median of {options.rounds} rounds, MB a CPU second")
    heads = f"{'corpus':<10}{'ours':>10}{'pyte':>10}{'ratio':>9}{'goal':>7}"
    print(f"{heads}{'xterm.js':>11}{'ratio':>9}{'goal':>7}{'fresh':>11}{'ratio':>9}" if xterm else heads)
    all_speeds: dict[str, Speeds] = {}
    for name, make in CORPORA.items():
        if data := make(size, random.Random(7)):
            all_speeds[name] = measured(data, options.rounds, xterm)
            print(row(name, all_speeds[name]))
        else:
            print(f"{name:<10} no recordings in {RECORDINGS}")
    mean = statistics.geometric_mean(speeds.ratio(speeds.pyte) for speeds in all_speeds.values())
    memory = scrollback_bytes()
    print(f"geometric mean {mean:.1f}x (goal {GEOMETRIC_GOAL}x)")
    if xterm:
        to_xterm = [speeds.ratio(speeds.xterm) for speeds in all_speeds.values()]
        print(f"geometric mean of the ratio to @xterm/headless {statistics.geometric_mean(to_xterm):.2f}x (no goal)")
        xterm.close()
    print(f"10,000 plain rows of scrollback: {memory / 1e6:.2f} MB (goal {SCROLLBACK_GOAL / 1e6} MB)")
    short = any(speeds.ratio(speeds.pyte) < GOALS.get(name, 0) for name, speeds in all_speeds.items())
    return 1 if short or mean < GEOMETRIC_GOAL or memory > SCROLLBACK_GOAL else 0


if __name__ == "__main__":
    raise SystemExit(main())
