"""Opening the question about a write of 50,000 lines: from the question's update to its lines on the screen.

Run: python -m tests.bench.bench_confirmation. Everything is real but the model. Bar: <= 100 ms (median). A question
about a few lines is timed in turns with it, and how long the event loop stands still.
"""

from __future__ import annotations

import asyncio
import gc
import os
import statistics
import sys
import tempfile
import time
from math import inf
from pathlib import Path

from ollm_tui.testing import Reply, tool_call
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.protocol.intents import DecideConfirmation, SendMessage
from ollm_tui.tui.protocol.updates import QueueUpdate, Update
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
from tests.bench.bench_terminal import heartbeat

ROUNDS = 5
LINES = 50_000
SHORT = 20
GOAL = 0.100


async def measure(workspace: Path) -> tuple[dict[int, list[float]], float]:
    """Return the seconds that each opening took by its lines, and the longest standstill of the event loop."""
    script: list[Reply] = []
    for number in range(ROUNDS + 1):
        for lines in (SHORT, LINES):
            changed = "\n".join(f"line {at} of a long file, changed" for at in range(lines))
            call = tool_call("write_file", path=f"{lines}.txt", content=f"{number}\n{changed}\n", overwrite=True)
            script += [call, {"text": "ok"}]
    for lines in (SHORT, LINES):
        (workspace / f"{lines}.txt").write_text("\n".join(f"line {at} of a long file" for at in range(lines)) + "\n")
    taken: dict[int, list[float]] = {SHORT: [], LINES: []}
    late: list[float] = []
    async with open_dashboard(workspace, script) as here:
        for number in range(ROUNDS + 1):
            for lines in (SHORT, LINES):
                seconds, beats = await opened(here)
                if number:  # the first one imports
                    taken[lines].append(seconds)
                    late += beats
    return taken, max(late)


async def opened(here: DashboardHarness) -> tuple[float, list[float]]:
    """Have the model ask; return how long its question took to be painted, and how late the event loop was."""
    app, asked, beats = here.app, 0.0, list[float]()
    assert app.holder.backend is not None
    pass_on = app.dashboard.post_message

    def note(update: Update) -> bool:
        nonlocal asked
        if isinstance(update, QueueUpdate) and update.queue.items and not asked:
            asked = time.perf_counter()
        return pass_on(update)

    app.dashboard.post_message = note
    over = asyncio.Event()
    beating = asyncio.ensure_future(heartbeat(over, beats))
    app.holder.backend.handle(SendMessage("go"))
    while not isinstance(app.screen, ConfirmationScreen) or app.screen.guard.shown_at == inf:
        await asyncio.sleep(0.001)
    painted = time.perf_counter()
    assert "of a long file" in here.text
    app.dashboard.post_message = pass_on
    over.set()
    await beating
    app.holder.backend.handle(DecideConfirmation(app.screen.case.item.id, approved=False))
    await here.wait_until(lambda: app.screen is app.dashboard)
    await here.wait_for_idle()
    return painted - asked, beats


def main() -> None:
    """Print the figure with its goal."""
    with tempfile.TemporaryDirectory() as folder:
        for name in ("CONFIG", "DATA", "STATE"):
            os.environ[f"XDG_{name}_HOME"] = str(Path(folder) / name.lower())
        os.environ["OLLM_PROBE"] = "0"
        workspace = Path(folder) / "workspace"
        workspace.mkdir()
        gc.disable()  # as `run_dashboard` does; the app switches it on again
        taken, late = asyncio.run(measure(workspace))
    median, short = statistics.median(taken[LINES]), statistics.median(taken[SHORT])
    print(
        f"a question about {LINES:,} changed lines opens in {median * 1000:.0f} ms, at most "
        f"{max(taken[LINES]) * 1000:.0f} ms (goal {GOAL * 1000:.0f}{'' if median <= GOAL else ', MISSED'}); about "
        f"{SHORT} lines in {short * 1000:.0f} ms: {median / short:.2f}x; event loop late by at most {late * 1000:.0f} ms"
    )
    sys.exit(0 if median <= GOAL else 1)


if __name__ == "__main__":
    main()
