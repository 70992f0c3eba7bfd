"""What a rule about several questions would do, told before it is saved (contract section 6)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.execution.calls import CallToJudge
from ollm_tui.core.execution.judging import CallJudge
from ollm_tui.core.policy.approvals import PastConfirmation
from ollm_tui.core.policy.engine import JudgedCall


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


async def rule_effect(
    judge: CallJudge, questions: Sequence[CallToJudge], past: Sequence[CallToJudge], wording: str
) -> RuleEffect:
    """Return what a rule in this wording, made from the first question, would do to all and to past calls."""
    if judge.approvals is None:
        return RuleEffect(wording, "rules are not kept here")
    earlier: list[JudgedCall] = []
    try:
        asked = [await judge.judge_proposed(one) for one in questions]
        for one in past:
            with suppress(ToolFailure):  # a tool that is gone, a path outside: no rule allows it
                earlier.append((await judge.judge_proposed(one)).call)
        others = (*(one.call for one in asked), *earlier)
        first = asked[0]
        allowed = await asyncio.to_thread(
            judge.approvals.newly_allowed, judge.policy, first.call, first.explanation, wording, others
        )
    except (ToolFailure, ValueError) as refusal:
        return RuleEffect(wording, str(refusal))
    shown = [PastConfirmation(call).shown for call, yes in zip(earlier, allowed[len(asked) :], strict=True) if yes]
    return RuleEffect(wording, "", tuple(allowed[: len(asked)]), tuple(dict.fromkeys(shown)), len(past))
