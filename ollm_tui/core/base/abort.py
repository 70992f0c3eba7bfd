"""Abort signals: one way for a cancellation to travel from a turn to every wait (000 Property 48, 001 R8.6, R10.5)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import ParamSpec, TypeVar

from ollm_tui.core.base.errors import OperationCancelled

T = TypeVar("T")
P = ParamSpec("P")


class AbortSignal:
    """The receiving half: whether the work was given up. `aborted` may be read from any thread."""

    def __init__(self) -> None:
        self._aborted = False
        self._reason: str | None = None
        self._listeners: dict[int, Callable[[], object]] = {}
        self._next_listener = 0

    @property
    def aborted(self) -> bool:
        """Whether the work was given up."""
        return self._aborted

    @property
    def reason(self) -> str | None:
        """Why, in words for a person; None while not aborted or when nobody said."""
        return self._reason

    def throw_if_aborted(self) -> None:
        """Raise OperationCancelled once the signal is aborted."""
        if self._aborted:
            raise OperationCancelled(self._reason)

    def subscribe(self, callback: Callable[[], object]) -> Callable[[], None]:
        """Call `callback` once when the signal aborts (at once if it already has); returns how to stop listening."""
        if self._aborted:
            callback()
            return lambda: None
        key = self._next_listener
        self._next_listener += 1
        self._listeners[key] = callback

        def unsubscribe() -> None:
            self._listeners.pop(key, None)

        return unsubscribe

    async def guard(self, awaitable: Awaitable[T]) -> T:
        """Await something; on abort cancel it, await its end, and raise OperationCancelled unless it was done."""
        task = asyncio.ensure_future(awaitable)
        if self._aborted:
            task.cancel()
        unsubscribe = self.subscribe(task.cancel)
        try:
            return await task
        except asyncio.CancelledError:
            if self._aborted and not _is_being_cancelled():
                raise OperationCancelled(self._reason) from None
            raise
        finally:
            unsubscribe()
            if not task.done():
                task.cancel()

    async def in_thread(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """Run blocking work in a thread; on abort the wait ends at once (the work should look at `aborted` itself)."""
        return await self.guard(asyncio.to_thread(function, *args, **kwargs))

    def __await__(self) -> Generator[object, None, None]:
        """Wait until the signal aborts."""
        if self._aborted:
            return
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        unsubscribe = self.subscribe(lambda: None if future.done() else future.set_result(None))
        try:
            yield from future
        finally:
            unsubscribe()

    def _abort(self, reason: str | None) -> None:
        if self._aborted:
            return
        self._aborted, self._reason = True, reason
        listeners, self._listeners = list(self._listeners.values()), {}
        for listener in listeners:
            listener()


class AbortController:
    """The sending half; `abort` is idempotent, the first reason stays."""

    def __init__(self) -> None:
        self.signal = AbortSignal()

    def abort(self, reason: str | None = None) -> None:
        """Abort the signal, with a reason for a person."""
        self.signal._abort(reason)  # pyright: ignore[reportPrivateUsage]  # the two halves are one thing in this module


@contextmanager
def linked(*signals: AbortSignal | None) -> Generator[AbortController]:
    """Open a controller that aborts with the first of `signals` while the block runs."""
    controller = AbortController()
    undo = [
        signal.subscribe(lambda signal=signal: controller.abort(signal.reason))
        for signal in signals
        if signal is not None
    ]
    try:
        yield controller
    finally:
        for stop in undo:
            stop()


def _is_being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
