"""Questions of many sessions in one queue, and what a hook costs.

Run: python tests/bench/bench_sources.py. Bars: 50 sessions with 10 questions a second each take <= 1.5x of the CPU of one
session with 500; a question there is in the queue here within 50 ms (p95); a call with one hook that runs `true` takes at
most 6 ms longer (median).
"""

from __future__ import annotations

import asyncio
import os
import statistics
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path

from ollm_tui.agent.hooks.entries import Hook, HookEvent
from ollm_tui.agent.hooks.process import run_hook
from ollm_tui.cli.questions import QuestionServer, on_socket
from ollm_tui.core import ConfirmationDetails, MessageBus
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.bus.states import Risk
from ollm_tui.runtime.sources import Sources

DETAILS = ConfirmationDetails(tool_name="shell", description="Run it", risk=Risk.MEDIUM)
QUESTIONS = 1_000
EACH_SECOND = 500
HOOKS = 60


def report(what: str, value: float, goal: float, unit: str) -> bool:
    print(f"{what}: {value:.2f} {unit} (goal {goal:g}{'' if value <= goal else ', MISSED'})")
    return value <= goal


async def measured(sessions: int) -> tuple[float, list[float]]:
    """Return the CPU seconds of QUESTIONS, each answered as soon as it is here, and how late each was (ms)."""
    late: list[float] = []
    asked_at: dict[str, float] = {}
    here = MessageBus()

    def answer(notice: Notice) -> None:
        if isinstance(notice, ConfirmationRequested):
            late.append((time.perf_counter() - asked_at[notice.confirmation.details.description]) * 1_000)
            response = ConfirmationResponse(id=notice.confirmation.id, approved=True)
            asyncio.get_running_loop().call_soon(here.respond_to_confirmation, response)

    sources = Sources(here, lambda _: None)
    async with AsyncExitStack() as stack:
        buses: list[MessageBus] = []
        for number in range(sessions):
            bus = MessageBus()
            server = QuestionServer(bus, {"session": f"s{number}", "workspace": "/w"})
            await stack.enter_async_context(on_socket(server, f"s{number}"))
            stack.push_async_callback(server.aclose)
            buses.append(bus)
        sources.watch()
        while len(sources.report()) < sessions:
            await asyncio.sleep(0.02)
        here.subscribe(answer)
        began, cpu = time.perf_counter(), time.process_time()
        waiting: list[asyncio.Future[object]] = []
        for number in range(QUESTIONS):
            await asyncio.sleep(max(0.0, began + number / EACH_SECOND - time.perf_counter()))
            asked_at[f"q{number}"] = time.perf_counter()
            details = DETAILS.model_copy(update={"description": f"q{number}"})
            opened = buses[number % sessions].open_confirmation(details, None)
            waiting.append(asyncio.ensure_future(opened.settlement))
        await asyncio.gather(*waiting)
        used = time.process_time() - cpu
        await sources.aclose()
    return used, late


async def hooks() -> float:
    """Return the milliseconds that one hook takes (median)."""
    hook = Hook(HookEvent.PRE_TOOL_USE, "true")
    took: list[float] = []
    for _ in range(HOOKS):
        began = time.perf_counter()
        await run_hook(hook, {"tool_name": "Bash", "tool_input": {"command": "ls"}}, Path("/tmp"), AbortSignal())
        took.append((time.perf_counter() - began) * 1_000)
    return statistics.median(took)


async def main() -> bool:
    with tempfile.TemporaryDirectory(prefix="ollm-bench-") as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        one = min([await measured(1) for _ in range(3)], key=lambda each: each[0])
        many = min([await measured(50) for _ in range(3)], key=lambda each: each[0])
    p95 = sorted(many[1])[int(len(many[1]) * 0.95)]
    print(f"CPU of {QUESTIONS} questions: one session {one[0]:.2f} s, fifty {many[0]:.2f} s")
    kept = report("50 sessions against one, CPU", many[0] / one[0], 1.5, "x")
    kept &= report("a question there to its place in the queue here, p95", p95, 50, "ms")
    kept &= report("one hook", await hooks(), 6, "ms")
    return kept


if __name__ == "__main__":
    raise SystemExit(0 if asyncio.run(main()) else 1)
