"""Putting a call's question to the person, or to whoever stands in for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import (
    ConfirmationCancelled,
    ConfirmationDenied,
    ConfirmationTimeout,
    PolicyDenied,
    ToolFailure,
)
from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import ConfirmationSettled
from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.core.execution.calls import AutoAnswer, CallContext
from ollm_tui.core.policy.engine import Explanation, JudgedCall, PolicyEngine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.base import AnyInvocation


def kept_by_tool(policy: PolicyEngine, invocation: AnyInvocation, call: JudgedCall) -> str | None:
    """What a yes for the session would have the tool itself go on allowing, in words.

    None unless this very call would then run unasked.
    """
    offer = invocation.session_offer()
    if offer is None or len(call.floors) != 1:  # the one that asks because it is not allowed yet
        return None
    then = policy.explain(replace(call, floors=(), virtual=offer.virtual))
    return offer.text if then.decision is Decision.ALLOW else None


@dataclass(frozen=True)
class PermissionGate:
    """How questions are asked; where nobody is there to answer, `standin` does at once, and `hint` follows its no."""

    bus: MessageBus
    attended: bool
    standin: AutoAnswer
    hint: str
    timeout: float | None
    clock: Clock
    on_settled: Callable[[CallContext, float], None]
    """Told of every settlement and how many seconds it took, the moment it is."""

    async def ask(
        self, journey: CallContext, invocation: AnyInvocation, explanation: Explanation, replaces: str | None
    ) -> ConfirmationResponse:
        """Wait for the one answer. Raises ConfirmationTimeout, ConfirmationCancelled, OperationCancelled."""
        details = await invocation.confirmation_details(explanation.risk, await invocation.preview())
        started = self.clock.monotonic()
        try:
            await journey.signal.guard(journey.place.my_question())
            journey.signal.throw_if_aborted()
            journey.place.asked()  # from here to the queue nothing else gets in between
            opened = self.bus.open_confirmation(
                details,
                self.timeout,
                call_id=journey.call_id,
                reason=explanation.reason,
                origin=journey.origin,
                replaces=replaces,
            )
            try:
                if not self.attended:
                    answer = ConfirmationResponse(id=opened.confirmation.id, approved=self.standin is AutoAnswer.YES)
                    self.bus.respond_to_confirmation(answer, by=self.standin.value)
                settled = await self.bus.settlement(opened, journey.signal)
            finally:
                self._settled(journey, opened.settlement.result(), self.clock.monotonic() - started)
        finally:
            journey.waited += self.clock.monotonic() - started
        match settled.confirmation.state:
            case ConfirmationState.EXPIRED:
                raise ConfirmationTimeout
            case ConfirmationState.CANCELLED:
                journey.signal.throw_if_aborted()
                raise ConfirmationCancelled
            case _:
                assert settled.response is not None, "an answer settles by its response"
                return settled.response

    def _settled(self, journey: CallContext, settled: ConfirmationSettled, waited: float) -> None:
        journey.answer = settled.confirmation.state.value
        journey.answered_by = settled.confirmation.settled_by
        self.on_settled(journey, waited)

    def denial(self, response: ConfirmationResponse) -> ToolFailure:
        """What a "no" means for the call: a person's reason word for word, or that nobody was there."""
        if not self.attended:
            return PolicyDenied(f"needs confirmation and nobody is there to answer{self.hint}", {"decision": "ask"})
        return ConfirmationDenied(response.reason or "The person denied this call. Ask what they want instead.")
