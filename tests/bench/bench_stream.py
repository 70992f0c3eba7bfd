"""A streamed answer in the dashboard: time and CPU of 20,000 tokens, and how late the event loop is meanwhile.

Run: python -m tests.bench.bench_stream. Everything is real but the model, which gives tokens by the clock. The reference is
Textual's `MarkdownStream` in a minimal app with the same tokens at the same times. Bars: the answer is whole after <= 1.05x
of the time that its tokens take to come; its CPU time <= 0.2x of the reference's; with 1,000 messages above an answer
of 100 tokens a second the event loop is late by <= 8x of what it is when idle (p99).
"""

from __future__ import annotations

import asyncio
import gc
import os
import sys
import tempfile
import time
from collections.abc import AsyncGenerator, AsyncIterator
from importlib.metadata import version
from pathlib import Path

from textual.app import App, ComposeResult
from textual.containers import VerticalScroll
from textual.widgets import Markdown

from ollm_tui.agent.providers.provider import ChatRequest, FinishReason, StreamEvent, StreamFinished, TextDelta
from ollm_tui.agent.providers.scripted import ScriptedProvider
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.options import Options
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.controllers.runtime_controller import RuntimeController
from ollm_tui.tui.protocol.intents import SendMessage
from ollm_tui.tui.values import Activity
from tests.bench.bench_session import write_log
from tests.bench.bench_terminal import heartbeat, percentile

TOKENS = 20_000
RATE = 2_500
SLOW_RATE = 100
SECONDS = 10.0
"""How long the event loop is watched."""
IDLE_SECONDS = 10.0
MESSAGES = 1_000
SIZE = (120, 40)
SESSION = "20260131-090000-bench"

TIME_GOAL = 1.05
CPU_GOAL = 0.2
LATENESS_GOAL = 8.0

END = "That is all of it."
PARAGRAPH = """\
Function {number} reads the **whole** file, then looks at each line in turn; what it `skips` it counts as well.

- the first pass finds the names
- the second one writes them

```python
def names_{number}(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines() if line]
```

"""


def tokens(count: int) -> list[str]:
    """Return so many pieces of four characters, as a model gives them."""
    text = "".join(PARAGRAPH.format(number=number) for number in range(count * 4 // len(PARAGRAPH) + 1))
    return [*(text[at : at + 4] for at in range(0, count * 4, 4)), f"\n```\n\n{END}"]


async def paced(pieces: list[str], rate: int) -> AsyncIterator[str]:
    """Yield each piece when it is due; late ones at once."""
    began = time.perf_counter()
    for number, piece in enumerate(pieces):
        wait = began + number / rate - time.perf_counter()
        if wait > 0:
            await asyncio.sleep(wait)
        yield piece


class PacedModel(ScriptedProvider):
    """Gives an answer by the clock."""

    def __init__(self, pieces: list[str], rate: int) -> None:
        super().__init__(())
        self._pieces, self._rate = pieces, rate

    async def stream(self, request: ChatRequest, signal: AbortSignal) -> AsyncGenerator[StreamEvent, None]:
        async for piece in paced(self._pieces, self._rate):
            signal.throw_if_aborted()
            yield TextDelta(piece)
        yield StreamFinished(FinishReason.STOP)


def use_model(here: DashboardHarness, pieces: list[str], rate: int) -> None:
    backend = here.app.holder.backend
    assert isinstance(backend, RuntimeController)
    backend._runtime.agent.use(PacedModel(pieces, rate))  # pyright: ignore[reportPrivateUsage]  # no other way in


async def turn(here: DashboardHarness) -> tuple[float, float]:
    """Send a message; return seconds and CPU seconds until its answer is whole on the screen."""
    backend, idle = here.app.holder.backend, (Activity.IDLE, Activity.FAILED)
    assert backend is not None
    began, cpu = time.perf_counter(), time.process_time()
    backend.handle(SendMessage("go"))
    while here.app.dashboard.status.activity in idle:
        await asyncio.sleep(0.001)
    while here.app.dashboard.status.activity not in idle:
        await asyncio.sleep(0.01)
    await here.pilot.pause()
    assert here.app.dashboard.status.activity is Activity.IDLE, here.text
    seconds, used = time.perf_counter() - began, time.process_time() - cpu
    assert END in here.text, f"the answer is not whole:\n{here.text}"
    return seconds, used


class Reference(App[None]):
    """Textual's own way to show a streamed answer."""

    def compose(self) -> ComposeResult:
        """Put the answer into a scrolling container."""
        with VerticalScroll():
            yield Markdown()


async def of_markdown_stream(pieces: list[str], rate: int) -> tuple[float, float]:
    """Return seconds and CPU seconds of the same answer in the reference."""
    app = Reference()
    async with app.run_test(size=SIZE) as pilot:
        app.query_one(VerticalScroll).anchor()
        stream = Markdown.get_stream(app.query_one(Markdown))
        began, cpu = time.perf_counter(), time.process_time()
        async for piece in paced(pieces, rate):
            await stream.write(piece)
        await stream.stop()
        await pilot.pause()
        return time.perf_counter() - began, time.process_time() - cpu


async def lateness(seconds: float) -> list[float]:
    """Return how late the event loop was at each beat."""
    over, late = asyncio.Event(), list[float]()
    asyncio.get_running_loop().call_later(seconds, over.set)
    await heartbeat(over, late)
    return late


async def measure(workspace: Path) -> bool:
    """Print each figure with its goal; return whether all are met."""
    pieces, ideal = tokens(TOKENS), TOKENS / RATE
    their_seconds, their_cpu = await of_markdown_stream(pieces, RATE)
    gc.disable()  # as `run_dashboard` does; the app switches it on again
    async with open_dashboard(workspace, [], size=SIZE) as here:
        use_model(here, tokens(500), RATE)
        await turn(here)  # imports and first use
        use_model(here, pieces, RATE)
        seconds, cpu = await turn(here)
    print(f"{TOKENS:,} tokens at {RATE:,} a second: {seconds:.2f} s, ideal {ideal:.2f} s", end=": ")
    met = report(seconds / ideal, TIME_GOAL)
    print(f"CPU {cpu:.2f} s, MarkdownStream {their_cpu:.2f} s (it took {their_seconds:.1f} s)", end=": ")
    met &= report(cpu / their_cpu, CPU_GOAL)

    log = state_dir() / "sessions" / SESSION / "events.jsonl"
    log.parent.mkdir(parents=True)
    gc.disable()
    write_log(log, total=MESSAGES * 3, workspace=str(workspace))
    async with open_dashboard(workspace, [], size=SIZE, options=Options(resume=SESSION)) as here:
        await here.wait_for("word word")
        use_model(here, tokens(int((SECONDS + 3) * SLOW_RATE)), SLOW_RATE)
        await asyncio.sleep(1.5)  # the collection after the start
        idle = await lateness(IDLE_SECONDS)
        streaming = asyncio.ensure_future(turn(here))
        await asyncio.sleep(1.0)
        late = await lateness(SECONDS)
        await streaming
    reference, mine = percentile(idle, 99), percentile(late, 99)
    print(
        f"{MESSAGES:,} messages, {SLOW_RATE} tokens a second: the event loop is late by p50 "
        f"{percentile(late, 50) * 1000:.1f} ms, p99 {mine * 1000:.1f} ms, at most {max(late) * 1000:.1f} ms; "
        f"idle p99 {reference * 1000:.1f} ms",
        end=": ",
    )
    return met & report(mine / reference, LATENESS_GOAL)


def report(ratio: float, goal: float) -> bool:
    print(f"{ratio:.2f}x (goal {goal:g}x{'' if ratio <= goal else ', MISSED'})", flush=True)
    return ratio <= goal


def main() -> None:
    """Measure with folders of its own."""
    print(f"textual {version('textual')}, {SIZE[0]}x{SIZE[1]} cells")
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CONFIG", "DATA", "STATE"):
            os.environ[f"XDG_{name}_HOME"] = str(Path(folder) / name.lower())
        os.environ["OLLM_PROBE"] = "0"
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        met = asyncio.run(measure(workspace))
    sys.exit(0 if met else 1)


if __name__ == "__main__":
    main()
