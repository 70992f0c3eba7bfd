"""Confirmations: the queue for the screen, and answers for the message bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from importlib import import_module

from ollm_tui.agent.events import ConfirmationRequestedEvent, ConfirmationSettledEvent
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.bus.states import ConfirmationState, Origin
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.tui.protocol import PostUpdate, intents, updates
from ollm_tui.tui.values import ConfirmationQueueSnapshot

LINGER_SECONDS = 5.0
"""How long a confirmation that nobody answered is still shown."""

POST_INTERVAL = 0.1
"""Least seconds between two snapshots: each one redraws all panes."""


class ConfirmationsController:
    """Handler of confirmation intents; posts the queue after each change."""

    def __init__(
        self,
        bus: MessageBus,
        executor: ToolExecutor,
        post: PostUpdate,
        start: Callable[[Coroutine[None, None, None]], None],
    ) -> None:
        """`start` runs a coroutine in a task."""
        self._bus = bus
        self._executor = executor
        self._post = post
        self._start = start
        self._scheduled = False
        self._posted_at = float("-inf")
        self._requested: dict[str, Confirmation] = {}
        self._said: dict[str, str] = {}
        self._ended: dict[str, Confirmation] = {}
        """Ended confirmations; an answered one is removed once a snapshot has shown the outcome."""

    def handle(self, intent: intents.ConfirmationIntent) -> None:
        """Decide, deny, hold, release or review."""
        match intent:
            case intents.DecideConfirmation():
                self._decide(intent)
            case intents.DenyConfirmations(item_ids):
                for item_id in item_ids:
                    self._bus.respond_to_confirmation(ConfirmationResponse(id=item_id, approved=False))
            case intents.DecideGroup():
                self._decide_group(intent)
            case intents.HoldGroup(item_ids, on):
                for item_id in item_ids:
                    (self._bus.hold if on else self._bus.release)(item_id)
                self.post_soon()
            case intents.HoldConfirmation(item_id):
                self._bus.hold(item_id)
                self.post_soon()
                self._start(self._review(item_id, None))
            case intents.ReleaseConfirmation(item_id):
                self._bus.release(item_id)
                self.post_soon()
            case intents.ReviewArguments(item_id, arguments):
                self._start(self._review(item_id, arguments))
            case _:
                pass

    def requested(self, event: ConfirmationRequestedEvent, said: str = "") -> int | None:
        """Add a confirmation and what the model `said` before it; return its number in the session."""
        confirmation = self._bus.find(event.request.id)
        if confirmation is None:
            return None
        if said and confirmation.request.origin is not Origin.USER:
            self._said[confirmation.id] = said
        preview = confirmation.details.preview
        if preview is not None and preview.kind == "diff":
            self._start(_load_lexers())
        self._requested[confirmation.id] = confirmation
        self.post_soon()
        return confirmation.ordinal

    def settled(self, event: ConfirmationSettledEvent) -> None:
        """Show how a confirmation ended; one that nobody answered for LINGER_SECONDS."""
        confirmation = self._requested.pop(event.request_id, None)
        if confirmation is None:
            return
        self._ended[event.request_id] = replace(confirmation, state=event.outcome, settled_by=event.by, deadline=None)
        if event.outcome in (ConfirmationState.EXPIRED, ConfirmationState.CANCELLED):
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._forget, (event.request_id,))
        self.post_soon()

    def snapshot(self) -> ConfirmationQueueSnapshot:
        """Return the queue by age; an unchanged confirmation stays the same object."""
        known = (*self._ended.values(), *self._bus.confirmations())
        return ConfirmationQueueSnapshot(
            tuple(sorted(known, key=lambda confirmation: confirmation.ordinal)), self._said.copy()
        )

    def post_soon(self) -> None:
        """Schedule one snapshot for all changes until it is posted.

        A thousand confirmations may change at once.
        """
        if not self._scheduled:
            self._scheduled = True
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._posted_at + POST_INTERVAL), self._post_queue)

    def _post_queue(self) -> None:
        self._scheduled, self._posted_at = False, asyncio.get_running_loop().time()
        self._post(updates.QueueUpdate(self.snapshot()))
        answered = (ConfirmationState.APPROVED, ConfirmationState.DENIED)
        self._forget([known.id for known in self._ended.values() if known.state in answered])

    def _decide(self, decision: intents.DecideConfirmation) -> None:
        response = ConfirmationResponse(
            id=decision.item_id,
            approved=decision.approved,
            reason=decision.reason,
            modified_args=decision.modified,
            reviewed=decision.reviewed,
            remember=decision.remember,
            remember_pattern=decision.rule,
        )
        if not self._bus.respond_to_confirmation(response):
            self._post(updates.ToastUpdate("That question was settled before your answer.", failed=True))
            self.post_soon()

    def _decide_group(self, decision: intents.DecideGroup) -> None:
        """Settle each by its own id; one that is settled already stays as it is."""
        count = len(decision.item_ids)
        settled = sum(
            self._bus.respond_to_confirmation(
                ConfirmationResponse(id=item_id, approved=decision.approved, reason=decision.reason)
            )
            for item_id in decision.item_ids
        )
        if settled < count:
            words = f"{count - settled} of {count} questions were settled before your answer."
            self._post(updates.ToastUpdate(words, failed=True))
            self.post_soon()

    async def _review(self, item_id: str, arguments: JsonObject | None) -> None:
        confirmation = self._bus.find(item_id)
        if confirmation is not None:
            details = confirmation.details
            review = await self._executor.review(details.tool_name, details.args if arguments is None else arguments)
            self._post(updates.ReviewUpdate(item_id, review, arguments))

    def _forget(self, item_ids: Sequence[str]) -> None:
        for item_id in item_ids:
            del self._ended[item_id]
            self._said.pop(item_id, None)
        if item_ids:
            self.post_soon()


async def _load_lexers() -> None:
    """Import in a thread what colours a diff: on the event loop it would take 0.2 s before the first one."""
    await asyncio.to_thread(import_module, "pygments.lexers")
