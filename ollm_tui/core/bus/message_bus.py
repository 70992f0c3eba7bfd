"""The message bus: confirmations by correlation id, and typed notices (001 R8, 000 Properties 38-42)."""

from __future__ import annotations

import asyncio
import heapq
import inspect
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import timedelta

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock, IdSource, RandomIds, SystemClock, iso_time
from ollm_tui.core.base.errors import ConfirmationCancelled, ConfirmationTimeout
from ollm_tui.core.bus.confirmation import ConfirmationDetails, ConfirmationRequest, ConfirmationResponse
from ollm_tui.core.bus.notices import Confirmation, ConfirmationHeld, ConfirmationRequested, ConfirmationSettled, Notice
from ollm_tui.core.bus.states import ConfirmationState, Origin

log = logging.getLogger(__name__)

Subscriber = Callable[[Notice], Awaitable[None] | None]

MAX_HOLD_SECONDS = 600.0
"""The longest that looking at a confirmation can stop its clock, in total."""

SUBSCRIBER_BACKLOG = 10_000
"""Notices kept for an asynchronous subscriber that does not keep up; the oldest go first."""


@dataclass
class OpenConfirmation:
    """A confirmation that was put into the queue; whoever put it there learns its end from `settlement`."""

    confirmation: Confirmation
    settlement: asyncio.Future[ConfirmationSettled]
    expires: float | None
    """Monotonic; while held the moment at which holding has lasted too long. None without a limit."""
    hold_left: float = MAX_HOLD_SECONDS
    held_since: float = 0.0
    time_left: float = 0.0


class MessageBus:
    """Queue of confirmations, each settled exactly once, and publisher of notices. Lives on one event loop.

    `clock` gives deadlines; `expire_due` applies them and is called by one timer for all of them.
    """

    def __init__(self, clock: Clock | None = None, ids: IdSource | None = None) -> None:
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._pending: dict[str, OpenConfirmation] = {}
        self._count = 0
        self._deadlines: list[tuple[float, str]] = []
        self._timer: asyncio.TimerHandle | None = None
        self._subscribers: dict[int, _Subscription] = {}
        self._next_subscriber = 0

    # -- confirmations -----------------------------------------------------------------------------------------------

    async def request_confirmation(
        self,
        details: ConfirmationDetails,
        signal: AbortSignal | None = None,
        timeout: float | None = 60.0,
        *,
        call_id: str = "",
    ) -> ConfirmationResponse:
        """Ask, and wait for the answer, whether or not anybody listens.

        Args:
            details: What the person is shown.
            signal: Cancels the request when it aborts.
            timeout: Seconds until it expires; None for no limit.
            call_id: The call that it is about.

        Raises:
            ConfirmationTimeout: Nobody answered in time.
            ConfirmationCancelled: The request was cancelled; an already aborted signal raises before it is made.
        """
        if signal is not None and signal.aborted:
            raise ConfirmationCancelled
        settled = await self.settlement(self.open_confirmation(details, timeout, call_id=call_id), signal)
        match settled.confirmation.state:
            case ConfirmationState.EXPIRED:
                raise ConfirmationTimeout
            case ConfirmationState.CANCELLED:
                raise ConfirmationCancelled
            case _:
                assert settled.response is not None, "an answer settles by its response"
                return settled.response

    def open_confirmation(
        self,
        details: ConfirmationDetails,
        timeout: float | None = 60.0,
        *,
        call_id: str = "",
        reason: str = "",
        origin: str = Origin.MODEL,
        replaces: str | None = None,
        source: str = "",
    ) -> OpenConfirmation:
        """Put a confirmation into the queue; whoever does awaits its `settlement`, or hears of it."""
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
        self._count += 1
        confirmation = Confirmation(request, self._count, deadline=deadline, source=source)
        pending = OpenConfirmation(confirmation, asyncio.get_running_loop().create_future(), deadline)
        self._pending[request.id] = pending
        self._watch(pending)
        self.publish(ConfirmationRequested(confirmation))
        return pending

    async def settlement(self, opened: OpenConfirmation, signal: AbortSignal | None = None) -> ConfirmationSettled:
        """Wait until a confirmation is settled; cancel it when the signal aborts or the waiter is cancelled."""
        request_id = opened.confirmation.id
        stop_listening = signal.subscribe(lambda: self.cancel_request(request_id, by="signal")) if signal else None
        try:
            # Shielded, so that the settlement of a waiter that was cancelled is known as well.
            return await asyncio.shield(opened.settlement)
        finally:
            if stop_listening:
                stop_listening()
            self.cancel_request(request_id, by="caller")

    def respond_to_confirmation(self, response: ConfirmationResponse, by: str = "user") -> bool:
        """Settle by an answer; False when that id is unknown or settled already, and then nothing happens."""
        state = ConfirmationState.APPROVED if response.approved else ConfirmationState.DENIED
        return self._settle(response.id, state, by, response)

    def cancel_request(self, request_id: str, by: str = "user") -> bool:
        """Withdraw a confirmation. False when it is not pending."""
        return self._settle(request_id, ConfirmationState.CANCELLED, by)

    def pending(self) -> list[ConfirmationRequest]:
        """Return the open requests, oldest first."""
        return [pending.confirmation.request for pending in self._pending.values()]

    def confirmations(self) -> tuple[Confirmation, ...]:
        """Return the open confirmations, oldest first; one that did not change is the same object as before."""
        return tuple(pending.confirmation for pending in self._pending.values())

    def find(self, request_id: str) -> Confirmation | None:
        """Return the open confirmation of this id."""
        pending = self._pending.get(request_id)
        return None if pending is None else pending.confirmation

    def hold(self, request_id: str) -> bool:
        """Stop a confirmation's clock for MAX_HOLD_SECONDS in all. False when it is not pending."""
        pending = self._pending.get(request_id)
        if pending is None:
            return False
        if pending.expires is not None and not pending.confirmation.held and pending.hold_left > 0:
            now = self._clock.monotonic()
            pending.held_since = now
            pending.time_left = pending.expires - now
            pending.expires = now + pending.hold_left + pending.time_left
            self._hold_changed(pending, replace(pending.confirmation, deadline=None, held=True))
        return True

    def release(self, request_id: str) -> bool:
        """Let a held confirmation's clock go on. False when it is not pending."""
        pending = self._pending.get(request_id)
        if pending is None:
            return False
        if pending.confirmation.held:
            now = self._clock.monotonic()
            held = now - pending.held_since
            overdrawn = max(0.0, held - pending.hold_left)
            pending.hold_left = max(0.0, pending.hold_left - held)
            pending.expires = now + pending.time_left - overdrawn
            self._hold_changed(pending, replace(pending.confirmation, deadline=pending.expires, held=False))
        return True

    def expire_due(self) -> None:
        """Expire every confirmation whose deadline has passed, and set the timer for the next."""
        now = self._clock.monotonic()
        while self._deadlines:
            deadline, request_id = self._deadlines[0]
            pending = self._pending.get(request_id)
            if pending is None or pending.expires != deadline:
                heapq.heappop(self._deadlines)
            elif deadline <= now:
                heapq.heappop(self._deadlines)
                self._settle(request_id, ConfirmationState.EXPIRED, "timeout")
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
        """Deliver a notice to every subscriber."""
        for subscription in list(self._subscribers.values()):
            subscription.deliver(notice)

    # -- inside ------------------------------------------------------------------------------------------------------

    def _settle(
        self, request_id: str, state: ConfirmationState, by: str, response: ConfirmationResponse | None = None
    ) -> bool:
        pending = self._pending.pop(request_id, None)
        if pending is None:
            return False
        settled = ConfirmationSettled(
            replace(pending.confirmation, state=state, deadline=None, held=False, settled_by=by), response
        )
        if not pending.settlement.done():  # a loop that is closing cancels it
            pending.settlement.set_result(settled)
        if not self._pending:
            self._deadlines.clear()
            self._disarm()
        self.publish(settled)
        return True

    def _hold_changed(self, pending: OpenConfirmation, confirmation: Confirmation) -> None:
        pending.confirmation = confirmation
        self._watch(pending)
        self.publish(ConfirmationHeld(confirmation))

    def _watch(self, pending: OpenConfirmation) -> None:
        if pending.expires is not None:
            heapq.heappush(self._deadlines, (pending.expires, pending.confirmation.id))
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
    """One subscriber, kept apart from the others: neither its errors nor its slowness reach them."""

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
