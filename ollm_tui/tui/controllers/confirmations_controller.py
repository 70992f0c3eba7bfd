"""Confirmations: snapshots for the screen, and answers for the message bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace

from ollm_tui.agent.events import ConfirmationRequestedEvent, ConfirmationSettledEvent
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import ConfirmationRequest, ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import ConfirmationState, RememberScope
from ollm_tui.core.execution.calls import CallReview
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.tui.protocol import PostUpdate, intents, updates
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
"""How long a confirmation that nobody answered is still shown."""


class ConfirmationQueue:
    """Numbered confirmations of a session and how each ended."""

    def __init__(self, bus: MessageBus, now: Callable[[], float]) -> None:
        self._bus = bus
        self._now = now
        self._items: dict[str, ConfirmationItem] = {}
        self._count = 0

    def add(self, event: ConfirmationRequestedEvent) -> int:
        """Add a confirmation; return its number."""
        self._count += 1
        self._items[event.request.id] = _item_of(event.request, self._count)
        return self._count

    def settle(self, event: ConfirmationSettledEvent) -> bool:
        """Record how a confirmation ended; return True if nobody answered it."""
        item = self._items.get(event.request_id)
        if item is None:
            return False
        self._items[item.id] = replace(item, state=_state(event.outcome), deadline=None, held=False)
        return event.outcome in (ConfirmationState.EXPIRED, ConfirmationState.CANCELLED)

    def forget(self, item_id: str) -> None:
        """Remove a confirmation."""
        self._items.pop(item_id, None)

    def find(self, item_id: str) -> ConfirmationItem | None:
        """Return the confirmation of this id."""
        return self._items.get(item_id)

    def snapshot(self) -> ConfirmationQueueSnapshot:
        """Return the queue; an unchanged confirmation stays the same object."""
        return ConfirmationQueueSnapshot(tuple(self._timed(item) for item in list(self._items.values())))

    def hold(self, item_id: str, *, held: bool) -> None:
        """Stop the clock of a confirmation, or start it again."""
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
        """Settle a confirmation. False when it was settled before."""
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
    """Return the core's review as a value for the screen."""
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


POST_INTERVAL = 0.1
"""Least seconds between two snapshots: each one redraws all panes."""


class ConfirmationsController:
    """Handler of confirmation intents; posts the queue after each change."""

    def __init__(
        self,
        queue: ConfirmationQueue,
        executor: ToolExecutor,
        post: PostUpdate,
        start: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        """`start` runs a coroutine in a task."""
        self._queue = queue
        self._executor = executor
        self._post = post
        self._start = start
        self._scheduled = False
        self._posted_at = float("-inf")
        self._settled: list[str] = []
        """Answered confirmations, removed once a snapshot has shown the outcome."""

    def handle(self, intent: intents.ConfirmationIntent) -> None:
        """Decide, deny, hold, release or review."""
        match intent:
            case intents.DecideConfirmation():
                self._decide(intent)
            case intents.DenyConfirmations(item_ids):
                for item_id in item_ids:
                    self._queue.answer(item_id, approved=False)
            case intents.HoldConfirmation(item_id):
                self._hold(item_id, held=True)
                self._start(self._review(item_id, None))
            case intents.ReleaseConfirmation(item_id):
                self._hold(item_id, held=False)
            case intents.ReviewArguments(item_id, arguments):
                self._start(self._review(item_id, arguments))
            case _:
                pass

    def post_soon(self) -> None:
        """Schedule one snapshot for all changes until it is posted.

        A thousand confirmations may change at once.
        """
        if not self._scheduled:
            self._scheduled = True
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._posted_at + POST_INTERVAL), self._post_queue)

    def settled(self, event: ConfirmationSettledEvent) -> None:
        """Remove a settled confirmation; one that nobody answered only after LINGER_SECONDS."""
        if self._queue.settle(event):
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._forget, event.request_id)
        else:
            self._settled.append(event.request_id)

    def _post_queue(self) -> None:
        self._scheduled, self._posted_at = False, asyncio.get_running_loop().time()
        self._post(updates.QueueUpdate(self._queue.snapshot()))
        settled, self._settled = self._settled, []
        self._forget(*settled)

    def _decide(self, decision: intents.DecideConfirmation) -> None:
        won = self._queue.answer(
            decision.item_id,
            approved=decision.approved,
            reason=decision.reason,
            modified=decision.modified,
            reach=decision.reach,
            rule=decision.rule,
        )
        if not won:
            self._post(updates.ToastUpdate("That question was settled before your answer.", failed=True))
            self.post_soon()

    def _hold(self, item_id: str, *, held: bool) -> None:
        self._queue.hold(item_id, held=held)
        self.post_soon()

    async def _review(self, item_id: str, arguments: JsonObject | None) -> None:
        item = self._queue.find(item_id)
        if item is not None:
            review = await self._executor.review(item.tool, item.arguments if arguments is None else arguments)
            self._post(updates.ReviewUpdate(item_id, review_value(review), arguments))

    def _forget(self, *item_ids: str) -> None:
        for item_id in item_ids:
            self._queue.forget(item_id)
        if item_ids:
            self.post_soon()
