"""The bus's open questions as snapshots for the screen, and a person's answers back to the bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import replace

from ollm_tui.agent.events import ConfirmationRequestedEvent, ConfirmationSettledEvent
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import ConfirmationRequest, ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import ConfirmationState, RememberScope
from ollm_tui.core.execution.calls import CallReview
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.tui import protocol
from ollm_tui.tui.protocol import Tell
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
from ollm_tui.tui.values import (
    ConfirmationItem,
    ConfirmationQueueSnapshot,
    QueueState,
    Reach,
    ReviewValue,
    RiskLevel,
    RuleOffer,
)

LINGER_SECONDS = 5.0
"""How long a question that ended by itself is still shown."""


class ConfirmationQueue:
    """Gives each question its number for this session and knows how each ended. Holds no futures."""

    def __init__(self, bus: MessageBus, now: Callable[[], float]) -> None:
        self._bus = bus
        self._now = now
        self._items: dict[str, ConfirmationItem] = {}
        self._count = 0

    def asked(self, event: ConfirmationRequestedEvent) -> int:
        """A question was put; returns its number."""
        self._count += 1
        self._items[event.request.id] = _item_of(event.request, self._count)
        return self._count

    def answered(self, event: ConfirmationSettledEvent) -> bool:
        """A question ended. True when it should linger, to be forgotten after LINGER_SECONDS."""
        item = self._items.get(event.request_id)
        if item is None:
            return False
        self._items[item.id] = replace(item, state=_state(event.outcome), deadline=None, held=False)
        return event.outcome in (ConfirmationState.EXPIRED, ConfirmationState.CANCELLED)

    def forget(self, item_id: str) -> None:
        """A question that ended is not shown any more."""
        self._items.pop(item_id, None)

    def find(self, item_id: str) -> ConfirmationItem | None:
        return self._items.get(item_id)

    def snapshot(self) -> ConfirmationQueueSnapshot:
        """The queue now, with the bus's clocks; a question that did not change is the same object as before."""
        return ConfirmationQueueSnapshot(tuple(self._timed(item) for item in list(self._items.values())))

    def hold(self, item_id: str, *, held: bool) -> None:
        """Stop a question's clock while it is looked at, or let it go on."""
        if held:
            self._bus.hold(item_id)
        else:
            self._bus.release(item_id)

    def answer(
        self,
        item_id: str,
        *,
        approved: bool,
        reason: str | None = None,
        modified: JsonObject | None = None,
        reach: Reach | None = None,
        rule: str | None = None,
    ) -> bool:
        """The person's word; False when the question was settled before."""
        remember = None if reach is None else RememberScope(reach.value)
        return self._bus.respond_to_confirmation(
            ConfirmationResponse(
                id=item_id,
                approved=approved,
                reason=reason,
                modified_args=modified,
                remember=remember,
                remember_pattern=rule if remember is not None else None,
            )
        )

    def _timed(self, item: ConfirmationItem) -> ConfirmationItem:
        if not item.pending or item.timeout is None:
            return item
        confirmation = self._bus.find(item.id)
        if confirmation is not None and (item.deadline, item.held) != (confirmation.deadline, confirmation.held):
            item = self._items[item.id] = replace(item, deadline=confirmation.deadline, held=confirmation.held)
        return item


def review_value(review: CallReview) -> ReviewValue:
    """The core's review as the screen reads it."""
    offers: tuple[RuleOffer, ...] = ()
    if review.offer is not None:
        text, also = review.offer.text, review.offer.also_allows
        offers = (RuleOffer(Reach.SESSION, text, also=also),)
        if not review.offer.session_only:
            offers = (*offers, RuleOffer(Reach.WORKSPACE, text, review.offer.editable, also))
    return ReviewValue(
        faults=review.errors,
        decision=review.decision.value,
        risk=RiskLevel(review.risk.value),
        reason=review.reason,
        preview=review.preview,
        offers=offers,
    )


def _item_of(request: ConfirmationRequest, ordinal: int) -> ConfirmationItem:
    details = request.details
    return ConfirmationItem(
        id=request.id,
        ordinal=ordinal,
        call_id=request.call_id,
        tool=details.tool_name,
        description=details.description,
        risk=RiskLevel(details.risk.value),
        reason=request.reason,
        origin=request.origin.value,
        locations=details.locations,
        arguments=details.args,
        preview=details.preview,
        timeout=request.timeout,
        follows_change=request.replaces is not None,
    )


def _state(outcome: ConfirmationState) -> QueueState:
    return QueueState(outcome.value)


TELL_INTERVAL = 0.1
"""Seconds between two snapshots, at least: all panes are drawn anew for each."""


class ConfirmationsController:
    """Puts answers to the queue, and tells the queue whenever it has changed."""

    def __init__(self, queue: ConfirmationQueue, executor: ToolExecutor, tell: Tell) -> None:
        self._queue = queue
        self._executor = executor
        self._tell = tell
        self._telling = False
        self._told_at = float("-inf")
        self._over: list[str] = []
        """Answered; they leave the queue once a snapshot has told how they ended."""

    def tell(self) -> None:
        """Soon, and once for all that changes until then: a thousand questions may come at once, or be denied."""
        if not self._telling:
            self._telling = True
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._told_at + TELL_INTERVAL), self._tell_now)

    def _tell_now(self) -> None:
        self._telling, self._told_at = False, asyncio.get_running_loop().time()
        self._tell(protocol.QueueUpdate(self._queue.snapshot()))
        over, self._over = self._over, []
        self._forget(*over)

    def settled(self, event: ConfirmationSettledEvent) -> None:
        """A question ended; it leaves the queue, and where nobody answered it, only after a while."""
        if self._queue.answered(event):
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._forget, event.request_id)
        else:
            self._over.append(event.request_id)

    def decide(self, decision: ConfirmationScreen.Decided) -> None:
        won = self._queue.answer(
            decision.item_id,
            approved=decision.approved,
            reason=decision.reason,
            modified=decision.modified,
            reach=decision.reach,
            rule=decision.rule,
        )
        if not won:
            self._tell(protocol.ToastUpdate("That question was settled before your answer.", failed=True))
            self.tell()

    def deny(self, item_ids: Iterable[str]) -> None:
        for item_id in item_ids:
            self._queue.answer(item_id, approved=False)

    def hold(self, item_id: str, *, held: bool) -> None:
        """Its clock stands while the person looks at it."""
        self._queue.hold(item_id, held=held)
        self.tell()

    async def review(self, item_id: str, arguments: JsonObject | None) -> None:
        """Judge a question's call, or the same call with these arguments, and tell what came out."""
        item = self._queue.find(item_id)
        if item is not None:
            judged = item.arguments if arguments is None else arguments
            review = await self._executor.review(item.tool, judged)
            self._tell(protocol.ReviewUpdate(item_id, review_value(review), arguments))

    def _forget(self, *item_ids: str) -> None:
        for item_id in item_ids:
            self._queue.forget(item_id)
        if item_ids:
            self.tell()
