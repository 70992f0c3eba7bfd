"""A long session of the dashboard: memory, CPU a turn and the log after 200 turns and at the end.

Run: python -m tests.bench.bench_soak [TURNS]; 2,000 turns by default, which takes ten minutes. The model is a
script, tools, store, log and screen are real: each turn reads, edits and searches files and changes the todo list.
Bars: memory at the end <= 1.5x, CPU a turn <= 1.25x of what they were at turn 200.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.results import JsonObject
from ollm_tui.options import Options
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.testing.fakes import Reply
from ollm_tui.tui.protocol.intents import SendMessage
from ollm_tui.tui.values import Activity

FIRST = 200
"""The turn that the end is compared with: caches are full by then."""
SAMPLE = 50
"""Turns over which CPU time is averaged."""

ANSWER = """\
Step {turn} is **done**: the value in `data.txt` went from {turn} to the next.

- the list has one item more
- nothing else was touched

```python
def step() -> int:
    return {turn}
```
"""


@dataclass(frozen=True)
class Sample:
    """What a session takes after so many turns."""

    turn: int
    megabytes: float
    cpu: float
    """Seconds a turn."""
    pace: float
    """What a fixed piece of work took meanwhile: on a machine that does other things CPU time varies by half."""
    log_megabytes: float

    def __str__(self) -> str:
        return (
            f"turn {self.turn:5}: {self.megabytes:6.1f} MB, CPU a turn {self.cpu * 1000:6.1f} ms = "
            f"{self.cpu / self.pace:6.1f} x reference, log {self.log_megabytes:5.2f} MB"
        )


def script(turns: int) -> list[Reply]:
    """Return two replies a turn: four calls, and an answer."""
    replies: list[Reply] = []
    for turn in range(turns):
        edit: JsonObject = {"target": f"value {turn}\n", "replacement": f"value {turn + 1}\n"}
        todo: JsonObject = {"action": "add", "task": f"step {turn}"}
        if turn % 20 == 19:
            todo = {"action": "clear", "id": "all"}
        calls: list[JsonValue] = [
            {"name": "read_file", "arguments": {"path": "data.txt"}},
            {"name": "edit_file", "arguments": {"path": "data.txt", "edits": [edit]}},
            {"name": "grep", "arguments": {"pattern": "value"}},
            {"name": "write_todos", "arguments": todo},
        ]
        replies.append({"toolCalls": calls})
        replies.append({"text": ANSWER.format(turn=turn)})
    return replies


async def run_session(folder: Path, turns: int) -> list[Sample]:
    """Play the session and return a sample after each tenth of it, and after FIRST turns."""
    (folder / "data.txt").write_text("value 0\n" + "".join(f"line {number} of the file\n" for number in range(100)))
    options = Options(mode="yolo")
    samples: list[Sample] = []
    async with open_dashboard(folder, script(turns), options=options) as dashboard:
        cpu: list[float] = []
        pace: list[float] = []
        for turn in range(1, turns + 1):
            begun = time.process_time()
            await one_turn(dashboard, turn)
            ended = time.process_time()
            cpu.append(ended - begun)
            reference_work()
            pace.append(time.process_time() - ended)
            if turn % SAMPLE == 0 and (turn == FIRST or turn % max(SAMPLE, turns // 10) == 0):
                samples.append(sample(turn, statistics.median(cpu[-SAMPLE:]), statistics.median(pace[-SAMPLE:])))
                print(samples[-1], flush=True)
    assert f"value {turns}\n" in (folder / "data.txt").read_text(), "the calls did not run"
    return samples


async def one_turn(dashboard: DashboardHarness, turn: int) -> None:
    """Send a message and wait for the end of its turn."""
    app = dashboard.app
    assert app.holder.backend is not None
    app.holder.backend.handle(SendMessage(f"go on with step {turn}"))
    while app.dashboard.status.activity in (Activity.IDLE, Activity.FAILED):
        await asyncio.sleep(0.002)
    while app.dashboard.status.activity not in (Activity.IDLE, Activity.FAILED):
        await asyncio.sleep(0.01)
    assert app.dashboard.status.activity is Activity.IDLE, dashboard.text


def reference_work() -> None:
    """Do a fixed piece of work, about 5 ms."""
    json.loads(json.dumps([{"number": number, "text": "x" * 20} for number in range(1_500)]))


def sample(turn: int, cpu: float, pace: float) -> Sample:
    """Return what the process takes now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    log = sum(path.stat().st_size for path in (state_dir() / "sessions").glob("*/events.jsonl"))
    return Sample(turn, pages * os.sysconf("SC_PAGESIZE") / 1e6, cpu, pace, log / 1e6)


def main() -> None:
    """Print the samples and the ratios."""
    turns = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000
    print(f"Python {platform.python_version()}, Textual {version('textual')}, {turns} turns of 4 calls")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CONFIG", "DATA", "STATE"):
            os.environ[f"XDG_{name}_HOME"] = str(Path(folder) / name.lower())
        os.environ["OLLM_PROBE"] = "0"
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        samples = asyncio.run(run_session(workspace, turns))
    first = next((each for each in samples if each.turn >= FIRST), samples[0])
    last = samples[-1]
    print(f"memory {last.megabytes / first.megabytes:.2f}x of turn {first.turn} (bar 1.5)")
    print(f"CPU a turn, by the reference, {last.cpu / last.pace / (first.cpu / first.pace):.2f}x (bar 1.25)")


if __name__ == "__main__":
    main()
