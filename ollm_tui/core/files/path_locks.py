"""Effects on files: ordered per path, and either done or not done when a call is given up (000 Property 48)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import OperationCancelled

T = TypeVar("T")
P = ParamSpec("P")

GRACE_SECONDS = 2.0
"""How long a cancelled call waits for its thread to reach the next point where it looks at the signal."""

_locks: WeakValueDictionary[tuple[int, Path], asyncio.Lock] = WeakValueDictionary()


@asynccontextmanager
async def exclusive(signal: AbortSignal, *places: Path) -> AsyncGenerator[None]:
    """Hold `places` alone among the calls of this event loop, first come, first served.

    Raises OperationCancelled when the signal aborts while waiting.
    """
    loop = id(asyncio.get_running_loop())
    async with AsyncExitStack() as stack:
        for place in sorted(set(places)):  # one order for all, or two moves could wait for each other
            lock = _locks.setdefault((loop, place), asyncio.Lock())
            await signal.guard(lock.acquire())
            stack.callback(lock.release)
        yield


async def carry_out(signal: AbortSignal, effect: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an effect in a thread and know how it ended, also when the call is given up meanwhile.

    `effect` calls `signal.throw_if_aborted` before each step that cannot be taken back; it is then either done (its
    result is returned) or it raises OperationCancelled and has changed nothing. Only an effect that the system itself
    holds up for longer than GRACE_SECONDS is left behind, and its OperationCancelled says so.
    """
    signal.throw_if_aborted()
    work = asyncio.ensure_future(asyncio.to_thread(effect, *args, **kwargs))
    work.add_done_callback(_take_outcome)
    try:
        return await signal.guard(asyncio.shield(work))
    except (OperationCancelled, asyncio.CancelledError) as given_up:
        await asyncio.wait({work}, timeout=GRACE_SECONDS)
        if isinstance(given_up, asyncio.CancelledError):
            raise
        if work.done():
            return work.result()
        reason = "the file system did not answer; the change may still be made"
        raise OperationCancelled(f"{signal.reason}; {reason}" if signal.reason else reason) from None


def _take_outcome(work: asyncio.Future[T]) -> None:
    """Look at the outcome, so that asyncio does not report an exception that nobody is left to be told about."""
    if not work.cancelled():
        work.exception()
