"""Start-up, first key, memory and idle CPU of the dashboard, as ratios to a minimal Textual app in the same run."""

from __future__ import annotations

import os
import select
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from ptyprocess import PtyProcess

ROUNDS = 7
IDLE_SECONDS = 10.0
SETTLE_SECONDS = 3.0

MINIMAL = """
from textual.app import App
from textual.widgets import Footer, Header, Markdown, TextArea
class Minimal(App):
    def compose(self):
        yield Header()
        yield Markdown("# IDLE")
        yield TextArea()
        yield Footer()
    def on_mount(self):
        self.query_one(TextArea).focus()
Minimal().run()
"""

ANSWERS = {b"\x1b[c": b"\x1b[?62;22c", b"\x1b[?2026$p": b"\x1b[?2026;2$y", b"\x1b[6n": b"\x1b[1;1R"}
"""What a terminal answers to the questions that are asked at the start."""


@dataclass(frozen=True)
class Start:
    """Seconds from exec to the first painted frame and to the first echoed key; bytes resident at the first screen."""

    painted: float
    echoed: float
    resident: int


class Watched:
    """A program in a terminal, timed from its exec."""

    def __init__(self, argv: list[str], folder: str) -> None:
        env = {**os.environ, "TERM": "xterm-256color", "COLORTERM": "truecolor", "OLLM_PROBE": "0", "HOME": folder}
        env.pop("TEXTUAL_ANIMATIONS", None)
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        self.began = time.perf_counter()
        self.process = PtyProcess.spawn(argv, cwd=folder, env=env, dimensions=(40, 120))
        self.seen = b""

    def until(self, shows: Callable[[bytes], bool], seconds: float = 20.0) -> float:
        """Seconds since exec when the output shows it."""
        end = time.perf_counter() + seconds
        while not shows(self.seen):
            if time.perf_counter() > end:
                raise TimeoutError(f"not seen in {self.seen[-300:]!r}")
            self.read(0.002)
        return time.perf_counter() - self.began

    def read(self, wait: float) -> None:
        if select.select([self.process.fd], [], [], wait)[0]:
            data = os.read(self.process.fd, 65536)
            self.seen += data
            for question, answer in ANSWERS.items():
                if question in data:
                    os.write(self.process.fd, answer)

    def start(self) -> Start:
        painted = self.until(lambda seen: b"IDLE" in seen)
        mark = len(self.seen)
        echoed = 0.0
        while not echoed:
            os.write(self.process.fd, b"z")
            end = time.perf_counter() + 0.02
            while time.perf_counter() < end:
                self.read(0.002)
            if b"z" in self.seen[mark:]:
                echoed = time.perf_counter() - self.began
        time.sleep(1.0)
        self.read(0)
        return Start(painted, echoed, self.resident())

    def resident(self) -> int:
        fields = Path(f"/proc/{self.process.pid}/statm").read_text().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")

    def cpu(self) -> float:
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(") ", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def idle(self) -> tuple[float, int]:
        """CPU as a share of one core, and bytes written, over IDLE_SECONDS, once the cursor stands still."""
        end = time.perf_counter() + SETTLE_SECONDS
        while time.perf_counter() < end:
            self.read(0.5)
        before, began, written = self.cpu(), time.perf_counter(), len(self.seen)
        while time.perf_counter() < began + IDLE_SECONDS:
            self.read(0.5)
        return (self.cpu() - before) / (time.perf_counter() - began), len(self.seen) - written

    def close(self) -> None:
        self.process.close(force=True)


def outline(argv: list[str], folder: str) -> float:
    """Seconds until the first picture is there."""
    watched = Watched(argv, folder)
    try:
        return watched.until(lambda seen: b"STARTING" in seen)
    finally:
        watched.close()


def timed(argv: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def main() -> None:
    program = str(Path(sys.executable).parent / "ollm-tui")
    with tempfile.TemporaryDirectory() as folder:
        minimal_path = Path(folder) / "minimal.py"
        minimal_path.write_text(MINIMAL)
        minimal, ours = [sys.executable, str(minimal_path)], [program, "--provider", "offline"]

        pairs = [(timed([sys.executable, "-c", "pass"]), timed([program, "--version"])) for _ in range(3 * ROUNDS)]
        reference, mine = (statistics.median(column) for column in zip(*pairs, strict=True))
        print(
            f"--version: {mine * 1000:.0f} ms, python -c pass: {reference * 1000:.0f} ms: {mine / reference:.2f}x (goal 3x)"
        )

        starts: dict[str, list[Start]] = {"minimal": [], "ours": []}
        first = Watched(
            ours, folder
        )  # not counted: it compiles what an installation by pip has compiled, as Textual is
        first.start()
        first.close()
        for _ in range(ROUNDS):
            for name, argv in (("minimal", minimal), ("ours", ours)):
                watched = Watched(argv, folder)
                try:
                    starts[name].append(watched.start())
                finally:
                    watched.close()
        outlines = [outline(ours, folder) for _ in range(ROUNDS)]
        passes = [timed([sys.executable, "-c", "pass"]) for _ in range(ROUNDS)]
        mine, reference = statistics.median(outlines), statistics.median(passes)
        print(f"outline: {mine * 1000:.0f} ms (goal 60 ms), python -c pass: {mine / reference:.2f}x (goal 4x)")
        print(f"reference: minimal app on textual {version('textual')}")
        for label, goal, unit, value in (
            ("first frame", 1.1, 1000.0, lambda start: start.painted),
            ("first echoed key", 1.2, 1000.0, lambda start: start.echoed),
            ("resident memory", 1.7, 1e-6, lambda start: start.resident),
        ):
            mine = statistics.median(value(start) for start in starts["ours"])
            reference = statistics.median(value(start) for start in starts["minimal"])
            name = "ms" if unit == 1000.0 else "MB"
            print(
                f"{label}: {mine * unit:.0f} {name}, minimal {reference * unit:.0f} {name}: {mine / reference:.2f}x (goal {goal}x)"
            )

        watched = Watched(ours, folder)
        try:
            watched.start()
            share, written = watched.idle()
            print(f"idle CPU over {IDLE_SECONDS:.0f} s: {share:.2%} of a core (goal below 0.5 %)")
            print(f"idle writes over {IDLE_SECONDS:.0f} s: {written} bytes (goal 0)")
        finally:
            watched.close()


if __name__ == "__main__":
    main()
