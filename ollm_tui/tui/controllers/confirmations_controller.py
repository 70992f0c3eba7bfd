"""Confirmations: the queue for the screen, and answers for the message bus."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib import import_module

from ollm_tui.agent.events import ConfirmationRequestedEvent, ConfirmationSettledEvent
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import Confirmation, ConfirmationRequested, ConfirmationSettled, Notice
from ollm_tui.core.bus.states import ConfirmationState, Origin
from ollm_tui.core.execution.calls import CallToJudge
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.policy.rules import Decision
from ollm_tui.tui.protocol import PostUpdate, intents, updates
from ollm_tui.tui.values import ConfirmationQueueSnapshot

LINGER_SECONDS = 5.0
"""How long a confirmation that nobody answered is still shown."""

POST_INTERVAL = 0.04
"""Least seconds between two snapshots: each one redraws all panes."""


class ConfirmationsController:
    """Handler of confirmation intents; posts the queue after each change."""

    def __init__(
        self,
        bus: MessageBus,
        executor: ToolExecutor,
        post: PostUpdate,
        start: Callable[[Coroutine[None, None, None]], None],
        past_calls: Callable[[], Sequence[CallToJudge]] = tuple,
    ) -> None:
        """`start` runs a coroutine in a task; `past_calls` reads the last calls, newest first, and may block."""
        self._past_calls = past_calls
        self._previewed: intents.PreviewRule | None = None
        self._previewing = asyncio.Lock()
        self._past: tuple[tuple[str, ...], Sequence[CallToJudge]] | None = None
        """The last calls, read once for the questions that a rule is made from."""
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
            case intents.PreviewRule():
                self._start(self._preview_rule(intent))
            case intents.SaveRule():
                self._start(self._save_rule(intent))
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

    def heard_elsewhere(self, notice: Notice) -> None:
        """Add a question of another session, or show how it ended."""
        match notice:
            case ConfirmationRequested(confirmation) if confirmation.of_other_session:
                self._requested[confirmation.id] = confirmation
                self.post_soon()
            case ConfirmationSettled(confirmation) if confirmation.of_other_session:
                self._end(confirmation)
            case _:
                pass

    def requested(self, event: ConfirmationRequestedEvent, said: str = "") -> int | None:
        """Add a confirmation and what the model `said` before it; return its number in the session."""
        confirmation = self._bus.find(event.request.id)
        if confirmation is None:
            return None
        if said and confirmation.request.origin != Origin.USER:
            self._said[confirmation.id] = said
        preview = confirmation.details.preview
        if preview is not None and preview.kind == "diff":
            self._start(_load_lexers())
        self._requested[confirmation.id] = confirmation
        self.post_soon()
        return confirmation.ordinal

    def settled(self, event: ConfirmationSettledEvent) -> None:
        """Show how a confirmation ended."""
        confirmation = self._requested.get(event.request_id)
        if confirmation is not None:
            self._end(replace(confirmation, state=event.outcome, settled_by=event.by, deadline=None))

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
            caged=decision.caged,
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

    def _proposed(self, item_ids: Sequence[str]) -> dict[str, CallToJudge]:
        """Return the calls of those of these confirmations that are open and of this session."""
        found = (self._bus.find(item_id) for item_id in item_ids)
        return {
            item.id: CallToJudge(item.details.tool_name, item.details.args, item.request.proposed_by, item.call_id)
            for item in found
            if item is not None and not item.source
        }

    async def _preview_rule(self, intent: intents.PreviewRule) -> None:
        """Tell what the rule would do; while words are typed, only the last ones count."""
        self._previewed = intent
        async with self._previewing:
            calls = self._proposed(intent.item_ids)
            if not calls or self._previewed is not intent:
                return
            if self._past is None or self._past[0] != intent.item_ids:
                self._past = intent.item_ids, await asyncio.to_thread(self._past_calls)
            past = _without_these(self._past[1], calls.values())
            effect = await self._executor.approvals.effect(tuple(calls.values()), past, intent.wording)
            self._post(updates.RuleEffectUpdate(tuple(calls), effect))

    async def _save_rule(self, intent: intents.SaveRule) -> None:
        """Save the rule; then each question that the policy now allows is approved by its own id."""
        calls = self._proposed(intent.item_ids)
        if not calls:
            self._post(updates.ToastUpdate("Those questions were settled before the rule was saved.", failed=True))
            return
        try:
            judged = await self._executor.judge_proposed(next(iter(calls.values())))
            note = await self._executor.approvals.save_rule(judged, intent.scope, intent.wording)
        except (ToolFailure, ValueError) as refusal:
            self._post(updates.ToastUpdate(f"The rule was not saved: {refusal}", failed=True))
            return
        allowed = 0
        for item_id, call in calls.items():
            with suppress(ToolFailure):
                judged = await self._executor.explain(call.name, call.arguments, origin=call.origin)
                if judged.decision is Decision.ALLOW:
                    allowed += self._bus.respond_to_confirmation(ConfirmationResponse(id=item_id, approved=True))
        self._post(updates.ToastUpdate(f"{note}. It allowed {allowed} of {len(calls)} questions."))

    async def _review(self, item_id: str, arguments: JsonObject | None) -> None:
        confirmation = self._bus.find(item_id)
        if confirmation is not None and not confirmation.source:
            details = confirmation.details
            review = await self._executor.review(details.tool_name, details.args if arguments is None else arguments)
            self._post(updates.ReviewUpdate(item_id, review, arguments))

    def _end(self, confirmation: Confirmation) -> None:
        """Show one that was settled; where nobody answered, for LINGER_SECONDS."""
        if self._requested.pop(confirmation.id, None) is None:
            return
        self._ended[confirmation.id] = confirmation
        if confirmation.state in (ConfirmationState.EXPIRED, ConfirmationState.CANCELLED):
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._forget, (confirmation.id,))
        self.post_soon()

    def _forget(self, item_ids: Sequence[str]) -> None:
        for item_id in item_ids:
            del self._ended[item_id]
            self._said.pop(item_id, None)
        if item_ids:
            self.post_soon()


async def _load_lexers() -> None:
    """Import in a thread what colours a diff: on the event loop it would take 0.2 s before the first one."""
    await asyncio.to_thread(import_module, "pygments.lexers")


def _without_these(past: Iterable[CallToJudge], calls: Iterable[CallToJudge]) -> list[CallToJudge]:
    """Return the past calls without the ones that are asked about now, which are the newest of their ids."""
    asked = {call.call_id for call in calls}
    found: list[CallToJudge] = []
    for one in past:
        if one.call_id in asked:
            asked.discard(one.call_id)  # another session may have used the same id
        else:
            found.append(one)
    return found
