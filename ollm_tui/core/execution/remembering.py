"""Remember approvals: what a rule would do, told before it is saved (contract section 6), and saving it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Protocol

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.bus.states import RememberScope
from ollm_tui.core.execution.calls import CallContext, CallToJudge, Judged
from ollm_tui.core.policy.approvals import ApprovalStore, PastConfirmation, RememberOffer
from ollm_tui.core.policy.engine import JudgedCall, PolicyEngine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.base import SessionOffer


@dataclass(frozen=True)
class RuleEffect:
    """What a rule would do, shown before it is saved."""

    wording: str
    refusal: str = ""
    """Why it cannot be saved; empty where it can."""
    allows: tuple[bool, ...] = ()
    """Which of the questions it would have allowed, in their order."""
    past: tuple[str, ...] = ()
    """Earlier calls that asked and would have run unasked, newest first, as a person reads them."""
    looked_at: int = 0
    """Number of earlier calls it was held against."""


class Judge(Protocol):
    """What judges calls; its policy knows each rule once it is saved."""

    policy: PolicyEngine

    async def judge_proposed(self, call: CallToJudge) -> Judged:
        """Judge a call that is only proposed. Raises ToolFailure."""
        ...


class CallApprovals:
    """What is remembered of a person's answers; without a `store` that is what tools remember themselves."""

    def __init__(self, judge: Judge, store: ApprovalStore | None) -> None:
        self._judge = judge
        self.store = store
        self.saving = asyncio.Lock()
        """Held while the policy changes, so that no two changes are made of the same one."""

    async def save_rule(self, judged: Judged, scope: RememberScope, wording: str | None) -> str:
        """Save a rule that allows this call, and judge by it; return what was saved. Raises ValueError."""
        if self.store is None:
            raise ValueError("rules are not kept here")
        async with self.saving:
            self._judge.policy, note = await asyncio.to_thread(
                self.store.remember, self._judge.policy, judged.call, judged.explanation, scope, wording
            )
        return note

    async def remember(self, context: CallContext, judged: Judged, scope: RememberScope, pattern: str | None) -> None:
        """Save an approval, and note in the result what was saved or why not."""
        offer = self._session_offer(judged)
        if offer is not None and scope is RememberScope.SESSION:
            offer.accept()
            context.notes.append(f"allowed for this session: {offer.text}")
            return
        if self.store is None:
            return
        try:
            note = await self.save_rule(judged, scope, pattern)
        except ValueError as refusal:
            note = f"the approval was not remembered: {refusal}"
        context.notes.append(note)

    async def offer(self, judged: Judged, signal: AbortSignal) -> RememberOffer | None:
        """Return what "approve and remember" would save; None where it is not offered."""
        offer = self._session_offer(judged)
        if offer is not None:
            return RememberOffer(session_only=offer.text)
        if self.store is None:
            return None
        return await signal.in_thread(self.store.offer, self._judge.policy, judged.call, judged.explanation)

    def _session_offer(self, judged: Judged) -> SessionOffer | None:
        """Return what a yes for the session would have the tool go on allowing.

        None unless this very call would then run unasked.
        """
        offer = judged.invocation.facts().offer
        if offer is None or len(judged.call.floors) != 1:  # the one that asks because it is not allowed yet
            return None
        then = self._judge.policy.explain(replace(judged.call, floors=(), virtual=offer.virtual))
        return offer if then.decision is Decision.ALLOW else None

    async def effect(self, questions: Sequence[CallToJudge], past: Sequence[CallToJudge], wording: str) -> RuleEffect:
        """Return what a rule in this wording, made from the first question, would do to all and to past calls."""
        if self.store is None:
            return RuleEffect(wording, "rules are not kept here")
        earlier: list[JudgedCall] = []
        try:
            asked = [await self._judge.judge_proposed(one) for one in questions]
            for one in past:
                with suppress(ToolFailure):  # a tool that is gone, a path outside: no rule allows it
                    earlier.append((await self._judge.judge_proposed(one)).call)
            others = (*(one.call for one in asked), *earlier)
            first = asked[0]
            allowed = await asyncio.to_thread(
                self.store.newly_allowed, self._judge.policy, first.call, first.explanation, wording, others
            )
        except (ToolFailure, ValueError) as refusal:
            return RuleEffect(wording, str(refusal))
        shown = [PastConfirmation(call).shown for call, yes in zip(earlier, allowed[len(asked) :], strict=True) if yes]
        return RuleEffect(wording, "", tuple(allowed[: len(asked)]), tuple(dict.fromkeys(shown)), len(past))
