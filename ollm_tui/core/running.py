"""Running an approved call: within its limit, its output told as it comes, its end awaited whatever happens."""

from __future__ import annotations

import asyncio

from ollm_tui.core.base.abort import AbortController, linked
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import ToolTimeout
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus import MessageBus
from ollm_tui.core.calls import CallState, Journey
from ollm_tui.core.notices import OutputProduced
from ollm_tui.core.tools.base import AnyInvocation

GRACE_SECONDS = 2.0
"""How long a call that reached its time limit may take to end by itself before it is cancelled."""


async def run_invocation(
    journey: Journey, invocation: AnyInvocation, longest: float, bus: MessageBus, clock: Clock
) -> ToolResult:
    """Run for at most `longest` seconds, or the tool's own shorter limit; not at all where it keeps one itself.

    Raises ToolTimeout, and whatever the tool raises.
    """
    own = invocation.tool.time_limit
    limit = None if own is None else min(own, longest)
    started = clock.monotonic()
    with linked(journey.signal) as controller:
        task = asyncio.ensure_future(invocation.execute(controller.signal, _teller(journey, bus)))
        try:
            done, _ = await asyncio.wait({task}, timeout=limit)
            if not done:
                await _stop(task, controller)
                elapsed = clock.monotonic() - started
                raise ToolTimeout(
                    f"{journey.name} took longer than its limit of {limit:g} s and was stopped after "
                    f"{elapsed:.1f} s. Ask for less at once.",
                    {"limitSeconds": limit, "elapsedSeconds": round(elapsed, 3)},
                )
            return task.result()
        except asyncio.CancelledError:
            await _stop(task, controller)
            raise
        finally:
            journey.ran = clock.monotonic() - started


def _teller(journey: Journey, bus: MessageBus) -> UpdateOutput:
    def tell(text: str) -> None:
        if journey.state is not CallState.RUNNING or not text:
            return
        bus.publish(OutputProduced(journey.call_id, text))
        if journey.update_output is not None:
            journey.update_output(text)

    return tell


async def _stop(task: asyncio.Task[ToolResult], controller: AbortController) -> None:
    """End a call that may not go on: ask it to stop, and cancel it if it does not."""
    controller.abort("the call was stopped")
    try:
        done, _ = await asyncio.wait({task}, timeout=GRACE_SECONDS)
    finally:
        task.cancel()  # also where whoever waits here is cancelled a second time: nothing goes on unwatched
    if not done:
        await asyncio.wait({task}, timeout=GRACE_SECONDS)
    if task.done() and not task.cancelled():
        task.exception()
