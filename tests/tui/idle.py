"""Wait until an app has nothing more to do, in the place of Textual's guess from how much CPU the process took.

Textual sleeps in steps of 20 ms until one of them took less than 1 ms of CPU: that is 40 ms for each key where nothing
is to be waited for, up to 1 s where the machine is busy, and too little where the process got no CPU at all. Here the
event loop itself is asked: nothing is ready to run, no timer is due soon, and no thread works for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import textual.app
import textual.pilot

STEP_SECONDS = 1 / 50
IDLE_SECONDS = STEP_SECONDS / 20
"""CPU time of one step below which Textual takes a process for idle."""
SOON_SECONDS = 0.06
"""A timer that is due within this is waited for: the screen's frames, the terminal's, and what follows a new size."""
TIMERS_SECONDS = 0.25
"""Whoever sets timers for longer than this does so again and again."""
QUIET_ROUNDS = 3
"""Rounds of the event loop in which nothing was ready: what arrives at a descriptor needs one to be seen."""

_in_threads: set[Future[Any]] = set()


async def wait_for_idle(min_sleep: float = STEP_SECONDS, max_sleep: float = 1) -> None:
    """Wait until nothing is left to do, with Textual's own limits."""
    loop = asyncio.get_running_loop()
    start = loop.time()
    await asyncio.sleep(min_sleep)
    quiet = 0
    while quiet < QUIET_ROUNDS and loop.time() - start < max_sleep:
        if _in_threads or loop.time() - start > TIMERS_SECONDS:  # nobody can tell how long these take: Textual's way
            used = time.process_time()
            await asyncio.sleep(STEP_SECONDS)
            quiet = QUIET_ROUNDS if time.process_time() - used < IDLE_SECONDS else 0
            continue
        due = min(_due(loop, loop.time() + SOON_SECONDS), default=None)
        await asyncio.sleep(0 if due is None else max(0.0, due - loop.time()))
        quiet = 0 if due is not None or loop._ready else quiet + 1  # type: ignore[attr-defined]  # BaseEventLoop's own: nothing public says whether callbacks wait


def _due(loop: asyncio.AbstractEventLoop, until: float) -> list[float]:
    """When each timer is due that comes until then.

    The loop lists its timers nowhere else, and Textual's own list holds those of its widgets alone: not the terminal's
    frames, not the waits of our controllers.
    """
    timers: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]  # BaseEventLoop's own, as said above
    return [timer.when() for timer in timers if not timer.cancelled() and timer.when() <= until]


def install() -> None:
    """Have every pilot wait like this.

    Work in threads is counted where it is handed over, since a pool tells nobody how many of its threads work: the
    loop's own pool, behind `asyncio.to_thread` and Textual's thread workers, is made by the loop itself.
    """
    submit: Callable[..., Future[Any]] = ThreadPoolExecutor.submit

    def counted(self: ThreadPoolExecutor, *args: Any, **kwargs: Any) -> Future[Any]:
        future = submit(self, *args, **kwargs)
        _in_threads.add(future)
        future.add_done_callback(_in_threads.discard)
        return future

    ThreadPoolExecutor.submit = counted  # type: ignore[method-assign]  # for good, and for pools made before as well
    textual.app.wait_for_idle = textual.pilot.wait_for_idle = wait_for_idle
