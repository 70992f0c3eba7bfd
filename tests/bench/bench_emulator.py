"""How fast the terminal engine is, as ratios to an unmodified `pyte.Screen` in the same run.

    python -m tests.bench.bench_emulator [--megabytes 1.0] [--rounds 3]

All arms take the same bytes in 4,095-byte pieces (what a PTY delivers), by turns; the median CPU time of each counts.
pyte gets a part of each corpus, because it needs seconds for what ours does at once. Where node and @xterm/headless
are installed (`tests/tui/terminal/xterm.py` says how) the ratio to it is told too; nothing depends on it.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import random
import statistics
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable
from importlib.metadata import version

import pyte

from ollm_tui.tui.terminal.emulator import SCROLLBACK_LINES, LiveScreen, LiveStream
from tests import DATA_DIR
from tests.tui.terminal.xterm import Xterm

COLUMNS, LINES = 120, 40
PIECE = 4095
RECORDINGS = DATA_DIR / "terminal"
GOALS = {"log": 30.0, "ls": 20.0, "seq": 40.0, "progress": 5.0, "cjk": 3.0, "programs": 4.0, "colour": 2.5}
GEOMETRIC_GOAL = 10.0
XTERM_BYTES = 4_000_000
SCROLLBACK_GOAL = 5_000_000


class TolerantStream(pyte.ByteStream):
    """pyte raises on some sequences of real programs and forgets the piece; it goes on with the next one here."""

    def feed(self, data: bytes) -> None:
        with contextlib.suppress(TypeError, UnboundLocalError, AssertionError, IndexError):
            super().feed(data)


def log_lines(size: int, seed: random.Random) -> bytes:
    out: list[str] = []
    total = 0
    number = 0
    while total < size:
        number += 1
        words = " ".join(seed.choice(WORDS) for _ in range(seed.randint(6, 14)))
        out.append(
            f"2025-03-{number % 28 + 1:02d}T12:{number % 60:02d}:07.{number % 1000:03d}Z"
            f" INFO [worker-{number % 8}] {words}\r\n"
        )
        total += len(out[-1])
    return "".join(out).encode()


WORDS = [
    "request",
    "finished",
    "cache",
    "miss",
    "for",
    "key",
    "user:8812",
    "in",
    "12ms",
    "connection",
    "retry",
    "status=200",
    "bytes",
    "flushed",
]


def ls_colours(size: int, seed: random.Random) -> bytes:
    try:
        out = subprocess.run(
            ["ls", "-lR", "--color=always", sys.prefix, "/usr/lib"],
            capture_output=True,
            check=False,
            env={"LC_ALL": "C.UTF-8"},
        ).stdout
    except OSError:
        out = b"-rw-r--r-- 1 root root 512 Jan  1 00:00 \x1b[01;34mname\x1b[0m\n" * 10_000
    return out[:size].replace(b"\n", b"\r\n")


def seq(size: int, seed: random.Random) -> bytes:
    return b"".join(b"%d\r\n" % n for n in range(1, size // 7))


def progress(size: int, seed: random.Random) -> bytes:
    out: list[bytes] = []
    total = 0
    step = 0
    while total < size:
        step += 1
        done = step % 60
        out.append(
            f"\r\x1b[K{step % 100:3d}% |{'█' * done}{' ' * (60 - done)}| {step}/30000 [00:12<00:03, 812 it/s]".encode()
        )
        total += len(out[-1])
    return b"".join(out)


def cjk(size: int, seed: random.Random) -> bytes:
    pieces = [
        "日本語のテキスト",
        "中文字符测试",
        "한국어 문장",
        "😀🚀✨",
        "café naïve",
        "plain words",
        "ファイル名.txt",
        "データ処理中",
    ]
    out: list[bytes] = []
    total = 0
    while total < size:
        out.append((" ".join(seed.choice(pieces) for _ in range(seed.randint(3, 8))) + "\r\n").encode())
        total += len(out[-1])
    return b"".join(out)


def colour(size: int, seed: random.Random) -> bytes:
    out: list[bytes] = []
    total = 0
    while total < size:
        line = ""
        for _ in range(10):
            if seed.random() < 0.5:
                line += f"\x1b[38;5;{seed.randrange(256)}m"
            else:
                line += f"\x1b[38;2;{seed.randrange(256)};{seed.randrange(256)};{seed.randrange(256)}m"
            line += "".join(seed.choices("abcdefgh ", k=seed.randint(4, 12)))
        out.append((line + "\x1b[0m\r\n").encode())
        total += len(out[-1])
    return b"".join(out)


def programs(size: int, seed: random.Random) -> bytes:
    """Recordings of vim, less and htop, again and again."""
    recorded = b"".join(
        path.read_bytes() for path in sorted(RECORDINGS.glob("*.raw")) if path.stem in ("vim", "less", "htop")
    )
    return recorded * max(1, size // max(1, len(recorded)))


CORPORA: dict[str, Callable[[int, random.Random], bytes]] = {
    "log": log_lines,
    "ls": ls_colours,
    "seq": seq,
    "progress": progress,
    "cjk": cjk,
    "programs": programs,
    "colour": colour,
}


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


def xterm_speed(xterm: Xterm, data: bytes) -> float:
    """Megabytes a CPU second of the whole node process, which needs a few megabytes to get up to speed."""
    data *= max(1, XTERM_BYTES // len(data))
    return len(data) / xterm.seconds(data, COLUMNS, LINES, SCROLLBACK_LINES, PIECE) / 1e6


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


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    size = int(options.megabytes * 1e6)
    xterm = started_xterm()
    other = f"@xterm/headless {xterm.version}" if xterm else "no @xterm/headless"
    print(f"python {sys.version.split()[0]}, pyte {version('pyte')}, {other}, {COLUMNS}x{LINES} cells")
    print(f"{options.megabytes} MB of each corpus, median of {options.rounds} rounds")
    heads = f"{'corpus':<10}{'ours MB/s':>12}{'pyte MB/s':>12}{'ratio':>9}{'goal':>7}"
    print(f"{heads}{'xterm MB/s':>12}{'ratio':>9}" if xterm else heads)
    ratios: list[float] = []
    to_xterm: list[float] = []
    short = False
    for name, make in CORPORA.items():
        data = make(size, random.Random(7))
        if not data:
            print(f"{name:<10} no recordings in {RECORDINGS}")
            continue
        fast: list[float] = []
        slow: list[float] = []
        third: list[float] = []
        if xterm:
            xterm_speed(xterm, data)  # compiles what it will run
        for _ in range(options.rounds):
            fast.append(ours(data))
            slow.append(stock(data[: max(len(data) // 8, 100_000)]))
            if xterm:
                third.append(xterm_speed(xterm, data))
        ratio = statistics.median(fast) / statistics.median(slow)
        ratios.append(ratio)
        short = short or ratio < GOALS[name]
        line = (
            f"{name:<10}{statistics.median(fast):>12.2f}{statistics.median(slow):>12.2f}{ratio:>8.1f}x{GOALS[name]:>6}x"
        )
        if third:
            to_xterm.append(statistics.median(fast) / statistics.median(third))
            line += f"{statistics.median(third):>12.2f}{to_xterm[-1]:>8.2f}x"
        print(line)
    mean = statistics.geometric_mean(ratios)
    memory = scrollback_bytes()
    print(f"geometric mean {mean:.1f}x (goal {GEOMETRIC_GOAL}x)")
    if xterm:
        print(f"geometric mean of the ratio to @xterm/headless {statistics.geometric_mean(to_xterm):.2f}x (no goal)")
        xterm.close()
    print(f"10,000 plain rows of scrollback: {memory / 1e6:.2f} MB (goal {SCROLLBACK_GOAL / 1e6} MB)")
    return 1 if short or mean < GEOMETRIC_GOAL or memory > SCROLLBACK_GOAL else 0


if __name__ == "__main__":
    raise SystemExit(main())
