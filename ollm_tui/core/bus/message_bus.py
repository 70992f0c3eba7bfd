"""The message bus: confirmations by correlation id, and typed notices (001 R8, 000 Properties 38-42)."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import timedelta

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock, IdSource, RandomIds, SystemClock, iso_time
from ollm_tui.core.base.errors import ConfirmationCancelled, ConfirmationTimeout
from ollm_tui.core.bus.confirmation import ConfirmationDetails, ConfirmationRequest, ConfirmationResponse, Origin
from ollm_tui.core.bus.notices import (
    ConfirmationHeld,
    ConfirmationOutcome,
    ConfirmationRequested,
    ConfirmationSettled,
    Notice,
)

log = logging.getLogger(__name__)

Subscriber = Callable[[Notice], Awaitable[None] | None]

MAX_HOLD_SECONDS = 600.0
"""The longest that looking at a question can stop its clock, in total."""

SUBSCRIBER_BACKLOG = 10_000
"""Notices kept for an asynchronous subscriber that does not keep up; the oldest go first."""


@dataclass
class _Pending:
    """A question in the queue. `deadline` is monotonic; None while held, or where there is no limit."""

    request: ConfirmationRequest
    answer: asyncio.Future[ConfirmationResponse]
    deadline: float | None
    hold_left: float = MAX_HOLD_SECONDS
    held_since: float | None = None
    time_left: float = field(default=0.0)


class MessageBus:
    """Questions settle exactly once: approved, denied, expired or cancelled. Lives on one event loop.

    `clock` gives deadlines; `expire_due` applies them and is called by one timer for all of them.
    """

    def __init__(self, clock: Clock | None = None, ids: IdSource | None = None) -> None:
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._pending: dict[str, _Pending] = {}
        self._deadlines: list[tuple[float, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._subscribers: dict[int, _Subscription] = {}
        self._next_subscriber = 0

    # -- questions ---------------------------------------------------------------------------------------------------

    async def request_confirmation(
        self,
        details: ConfirmationDetails,
        signal: AbortSignal | None = None,
        timeout: float | None = 60.0,
        *,
        call_id: str = "",
        reason: str = "",
        origin: Origin = Origin.MODEL,
        replaces: str | None = None,
    ) -> ConfirmationResponse:
        """Ask, and wait for the answer, whether or not anybody listens.

        `timeout` is in seconds, None for no limit. Raises ConfirmationTimeout, or ConfirmationCancelled when the
        signal aborts or the request is cancelled; an already aborted signal raises before a request is made.
        """
        if signal is not None and signal.aborted:
            raise ConfirmationCancelled
        now = self._clock.now()
        request = ConfirmationRequest(
            id=self._ids.new_id("confirm"),
            call_id=call_id,
            details=details,
            reason=reason,
            origin=origin,
            created_at=iso_time(now),
            timeout=timeout,
            deadline=None if timeout is None else iso_time(now + timedelta(seconds=timeout)),
            replaces=replaces,
        )
        deadline = None if timeout is None else self._clock.monotonic() + timeout
        pending = _Pending(request, asyncio.get_running_loop().create_future(), deadline)
        self._pending[request.id] = pending
        self._watch(pending)
        stop_listening = (
            signal.subscribe(lambda: self._settle(request.id, ConfirmationOutcome.CANCELLED, by="signal"))
            if signal
            else None
        )
        self.publish(ConfirmationRequested(request))
        try:
            return await pending.answer
        finally:
            if stop_listening:
                stop_listening()
            self._settle(request.id, ConfirmationOutcome.CANCELLED, by="caller")

    def respond_to_confirmation(self, response: ConfirmationResponse, by: str = "user") -> bool:
        """Settle by an answer; False when that id is unknown or settled already, and then nothing happens."""
        outcome = ConfirmationOutcome.APPROVED if response.approved else ConfirmationOutcome.DENIED
        return self._settle(response.id, outcome, by=by, response=response)

    def cancel_request(self, request_id: str, by: str = "user") -> bool:
        """Withdraw a question: its waiter gets ConfirmationCancelled. False when it is not pending."""
        return self._settle(request_id, ConfirmationOutcome.CANCELLED, by=by)

    def pending(self) -> list[ConfirmationRequest]:
        """The open questions, oldest first."""
        return [pending.request for pending in self._pending.values()]

    def hold(self, request_id: str) -> bool:
        """Stop a question's clock while somebody looks at it, for MAX_HOLD_SECONDS in all. False when not pending."""
        pending = self._pending.get(request_id)
        if pending is None:
            return False
        if pending.deadline is not None and pending.held_since is None and pending.hold_left > 0:
            now = self._clock.monotonic()
            pending.held_since = now
            pending.time_left = pending.deadline - now
            pending.deadline = now + pending.hold_left + pending.time_left
            self._watch(pending)
            self.publish(ConfirmationHeld(request_id, held=True))
        return True

    def release(self, request_id: str) -> bool:
        """Let a held question's clock go on. False when it is not pending."""
        pending = self._pending.get(request_id)
        if pending is None:
            return False
        if pending.held_since is not None:
            now = self._clock.monotonic()
            held = now - pending.held_since
            overdrawn = max(0.0, held - pending.hold_left)
            pending.hold_left = max(0.0, pending.hold_left - held)
            pending.held_since = None
            pending.deadline = now + pending.time_left - overdrawn
            self._watch(pending)
            self.publish(ConfirmationHeld(request_id, held=False))
        return True

    def seconds_left(self, request_id: str) -> float | None:
        """Until a pending question expires; None without a limit, while held, or when it is not pending."""
        pending = self._pending.get(request_id)
        if pending is None or pending.deadline is None or pending.held_since is not None:
            return None
        return max(0.0, pending.deadline - self._clock.monotonic())

    def expire_due(self) -> None:
        """Expire every question whose deadline has passed, and set the timer for the next."""
        now = self._clock.monotonic()
        while self._deadlines:
            deadline, request_id = self._deadlines[0]
            pending = self._pending.get(request_id)
            if pending is None or pending.deadline != deadline:
                heapq.heappop(self._deadlines)
            elif deadline <= now:
                heapq.heappop(self._deadlines)
                self._settle(request_id, ConfirmationOutcome.EXPIRED, by="timeout")
            else:
                break
        self._arm()

    # -- notices -----------------------------------------------------------------------------------------------------

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with each notice from now on; returns how to stop.

        A plain function is called at once and must be quick; a coroutine function gets a queue and a task of its own.
        Whatever a subscriber raises is logged and reaches nobody else.
        """
        key = self._next_subscriber
        self._next_subscriber += 1
        self._subscribers[key] = _Subscription(callback)

        def unsubscribe() -> None:
            subscription = self._subscribers.pop(key, None)
            if subscription is not None:
                subscription.close()

        return unsubscribe

    def publish(self, notice: Notice) -> None:
        """Tell every subscriber."""
        for subscription in list(self._subscribers.values()):
            subscription.deliver(notice)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _settle(
        self, request_id: str, outcome: ConfirmationOutcome, *, by: str, response: ConfirmationResponse | None = None
    ) -> bool:
        pending = self._pending.pop(request_id, None)
        if pending is None:
            return False
        if not pending.answer.done():
            match outcome:
                case ConfirmationOutcome.EXPIRED:
                    pending.answer.set_exception(ConfirmationTimeout())
                case ConfirmationOutcome.CANCELLED:
                    pending.answer.set_exception(ConfirmationCancelled())
                case ConfirmationOutcome.APPROVED | ConfirmationOutcome.DENIED:
                    assert response is not None, "an answer settles by its response"
                    pending.answer.set_result(response)
            # A waiter that was cancelled will never look: asyncio must not complain about that.
            if not pending.answer.cancelled():
                pending.answer.exception()
        if not self._pending:
            self._deadlines.clear()
            self._disarm()
        self.publish(ConfirmationSettled(pending.request, outcome, by, response))
        return True

    def _watch(self, pending: _Pending) -> None:
        if pending.deadline is not None:
            heapq.heappush(self._deadlines, (pending.deadline, pending.request.id))
            self._arm()

    def _arm(self) -> None:
        self._disarm()
        if self._deadlines:
            delay = max(0.0, self._deadlines[0][0] - self._clock.monotonic())
            self._timer = asyncio.get_running_loop().call_later(delay, self.expire_due)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class _Subscription:
    """One subscriber, kept apart from the others: neither its faults nor its slowness reach them."""

    def __init__(self, callback: Subscriber) -> None:
        self._callback = callback
        self._queue: asyncio.Queue[Notice] | None = None
        self._task: asyncio.Task[None] | None = None
        if inspect.iscoroutinefunction(callback):
            self._queue = asyncio.Queue(SUBSCRIBER_BACKLOG)
            self._task = asyncio.get_running_loop().create_task(self._drain(self._queue))

    def deliver(self, notice: Notice) -> None:
        if self._queue is None:
            try:
                self._callback(notice)
            except Exception:  # isolation is the point: a faulty reader may not stop the core
                log.exception("a subscriber failed on %s", type(notice).__name__)
            return
        if self._queue.full():
            self._queue.get_nowait()
            log.warning("a subscriber is %d notices behind; the oldest was dropped", SUBSCRIBER_BACKLOG)
        self._queue.put_nowait(notice)

    def close(self) -> None:
        if self._task is not None:
            with suppress(RuntimeError):
                self._task.cancel()

    async def _drain(self, queue: asyncio.Queue[Notice]) -> None:
        while True:
            notice = await queue.get()
            try:
                outcome = self._callback(notice)
                if outcome is not None:
                    await outcome
            except Exception:  # as in `deliver`
                log.exception("a subscriber failed on %s", type(notice).__name__)
