"""How soon a key shows in the dashboard: idle, below a streamed answer, beside a flood in the terminal, as a paste.

Run: python -m tests.bench.bench_keys. The real program runs in a PTY; a key is timed from its byte written to its echo in
what the program writes. Bars: streaming and flooding <= 3x of idle (medians); a paste of 200 KB of Chinese text shows in
<= 100 ms; a session of 10,000 messages opens in <= 3x of the time of an empty one and takes <= 1.8x of its memory.
"""

from __future__ import annotations

import json
import os
import random
import re
import select
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.bench_session import write_log
from tests.bench.bench_start import Watched

ROUNDS = 5
KEYS = 60
MESSAGES = 10_000
STREAMING_MESSAGES = 1_000
PASTE_BYTES = 200_000
SESSION = "20260131-090000-bench"
ESCAPES = re.compile(rb"\x1b(\[[0-9;?<>=]*[ -/]*[@-~]|\][^\x07\x1b]*(\x07|\x1b\\)|[()][0-9A-Za-z]|[78=>])")

LOADED_GOAL = 3.0
PASTE_GOAL = 0.100
OPEN_GOAL = 3.0
MEMORY_GOAL = 1.8


class Dashboard(Watched):
    """The dashboard in a PTY."""

    def wait_for(self, text: bytes) -> float:
        """Return the moment when the output shows a text."""
        return self.began + self.until(lambda seen: text in ESCAPES.sub(b"", seen[-100_000:]))

    def settle(self, seconds: float) -> None:
        """Take what is written in this time."""
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            self.read(0.01)

    def echo_of(self, data: bytes, shows: bytes) -> float:
        """Return the seconds from these bytes to a text in what is written next."""
        self.seen = b""
        sent = time.perf_counter()
        os.write(self.process.fd, data)
        while shows not in self.seen:
            assert time.perf_counter() < sent + 5, f"no {shows!r} in {self.seen[-500:]!r}"
            self.read(0.05)
        return time.perf_counter() - sent

    def echoes(self) -> list[float]:
        """Return how long each of KEYS took; the keys come at odd moments."""
        chance, taken = random.Random(1), list[float]()
        for number in range(KEYS):
            key = "ąćęłńśżźðøþß"[number % 12].encode()  # in no other text on the screen
            taken.append(self.echo_of(key, key))
            self.settle(chance.uniform(0.03, 0.07))
        os.write(self.process.fd, b"\x15")  # delete the line
        self.settle(0.3)
        return taken


@contextmanager
def dashboard(folder: Path, *options: str) -> Iterator[Dashboard]:
    """Start the dashboard with the settings of this run."""
    program = str(Path(sys.executable).parent / "ollm-tui")
    watched = Dashboard([program, *options], str(folder))
    try:
        yield watched
    finally:
        watched.close()


def keys(folder: Path) -> bool:
    """Compare keys below a streamed answer and beside a flood with idle ones."""
    script = folder / "script.json"
    words = " ".join(f"word{number}" for number in range(20_000))
    script.write_text(json.dumps([{"text": words, "pieceDelayMs": 9}]))
    with dashboard(folder, "--provider", "scripted", "--script", str(script), "--resume", SESSION) as shown:
        shown.wait_for(b"word word")
        shown.settle(3.0)
        idle = shown.echoes()
        os.write(shown.process.fd, b"go\r")
        shown.wait_for(b"word1 ")
        shown.settle(1.0)
        streaming = shown.echoes()
    other = folder / "flood"  # a folder has the draft that was left in it
    other.mkdir()
    with dashboard(other, "--provider", "offline") as shown:
        shown.wait_for(b"IDLE")
        shown.settle(3.0)
        empty = shown.echoes()
        os.write(shown.process.fd, b"!yes $((6*7))001\r")
        shown.until(lambda seen: b"42001" in seen[-100_000:])
        os.write(shown.process.fd, b"\x1d")  # back to the prompt
        shown.settle(1.5)
        flooding = shown.echoes()
    met = report("below an answer of 100 words a second, 1,000 messages above", streaming, idle)
    return met & report("beside `yes` in the terminal", flooding, empty)


def report(what: str, loaded: list[float], idle: list[float]) -> bool:
    ratio = statistics.median(loaded) / statistics.median(idle)
    print(
        f"a key {what}: median {statistics.median(loaded) * 1000:.1f} ms, p95 {sorted(loaded)[len(loaded) * 95 // 100] * 1000:.1f} ms, "
        f"idle {statistics.median(idle) * 1000:.1f} ms: {ratio:.2f}x (goal {LOADED_GOAL}x{missed(ratio, LOADED_GOAL)})",
        flush=True,
    )
    return ratio <= LOADED_GOAL


def missed(value: float, goal: float) -> str:
    return "" if value <= goal else ", MISSED"


def paste(folder: Path) -> bool:
    """Time a paste of Chinese text to what the prompt shows of it."""
    text = "".join(chr(0x4E00 + at % 5_000) for at in range(PASTE_BYTES // 3)).encode()
    taken: list[float] = []
    for _ in range(ROUNDS):
        with dashboard(folder, "--provider", "offline") as shown:
            shown.wait_for(b"IDLE")
            shown.settle(2.0)
            shown.seen = b""
            os.set_blocking(shown.process.fd, False)
            left, sent = b"\x1b[200~" + text + b"\x1b[201~", time.perf_counter()
            while b"pasted" not in shown.seen:
                assert time.perf_counter() < sent + 20, shown.seen[-500:]
                if select.select([shown.process.fd], [shown.process.fd] if left else [], [], 0.1)[1]:
                    left = left[os.write(shown.process.fd, left[:4096]) :]
                shown.read(0)
            taken.append(time.perf_counter() - sent)
    median = statistics.median(taken)
    print(
        f"a paste of {PASTE_BYTES // 1000} KB of Chinese: {median * 1000:.0f} ms (goal {PASTE_GOAL * 1000:.0f}"
        f"{missed(median, PASTE_GOAL)})",
        flush=True,
    )
    return median <= PASTE_GOAL


def opening(folder: Path, long: str, short: str) -> bool:
    """Compare the start with a long session to one with an empty session."""
    times: dict[str, list[float]] = {long: [], short: []}
    sizes: dict[str, list[int]] = {long: [], short: []}
    shows: dict[str, Callable[[bytes], bool]] = {
        long: lambda seen: b"word word" in seen,
        short: lambda seen: b"MARK" in seen,
    }
    for _ in range(ROUNDS):
        for session, shown_in in shows.items():
            with dashboard(folder, "--provider", "offline", "--resume", session) as shown:
                times[session].append(shown.until(lambda seen, it=shown_in: it(ESCAPES.sub(b"", seen))))
                shown.settle(4.0)
                sizes[session].append(shown.resident())
    took, reference = (statistics.median(times[session]) for session in (long, short))
    size, empty = (statistics.median(sizes[session]) for session in (long, short))
    print(
        f"{MESSAGES:,} messages: {took * 1000:.0f} ms, an empty session {reference * 1000:.0f} ms: {took / reference:.2f}x "
        f"(goal {OPEN_GOAL}x{missed(took / reference, OPEN_GOAL)})"
    )
    print(
        f"memory: {size / 1e6:.0f} MB, an empty session {empty / 1e6:.0f} MB: {size / empty:.2f}x "
        f"(goal {MEMORY_GOAL}x{missed(size / empty, MEMORY_GOAL)})",
        flush=True,
    )
    return took <= reference * OPEN_GOAL and size <= empty * MEMORY_GOAL


def main() -> None:
    """Print each figure with its goal."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sessions = folder / ".local" / "state" / "ollm-tui" / "sessions"
        for session, total in (
            (SESSION, STREAMING_MESSAGES * 3),
            ("20260131-080000-long", MESSAGES * 3),
            ("20260131-070000-short", 2),
        ):
            log = sessions / session / "events.jsonl"
            log.parent.mkdir(parents=True)
            write_log(log, total=total, workspace=str(folder))
        short = sessions / "20260131-070000-short" / "events.jsonl"
        short.write_text("".join(line.replace("word ", "MARK ") + "\n" for line in short.read_text().splitlines()[:7]))
        met = [
            keys(folder),
            paste(folder),
            opening(folder, "20260131-080000-long", "20260131-070000-short"),
        ]
    sys.exit(0 if all(met) else 1)


if __name__ == "__main__":
    main()
