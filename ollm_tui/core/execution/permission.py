"""Putting a call's question to the person, or to whoever stands in for one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import (
    ConfirmationCancelled,
    ConfirmationDenied,
    OperationCancelled,
    PolicyDenied,
    ToolFailure,
)
from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import ConfirmationRequested, ConfirmationSettled, Notice
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
        stop_listening = self.bus.subscribe(self._listener(journey, started))
        try:
            await journey.signal.guard(journey.place.my_question())
            journey.place.asked()  # from here to the queue nothing else gets in between
            return await self.bus.request_confirmation(
                details,
                journey.signal,
                self.timeout,
                call_id=journey.call_id,
                reason=explanation.reason,
                origin=journey.origin,
                replaces=replaces,
            )
        except ConfirmationCancelled:
            if journey.signal.aborted:
                raise OperationCancelled(journey.signal.reason) from None
            raise
        finally:
            journey.waited += self.clock.monotonic() - started
            stop_listening()

    def denial(self, response: ConfirmationResponse) -> ToolFailure:
        """What a "no" means for the call: a person's reason word for word, or that nobody was there."""
        if not self.attended:
            return PolicyDenied(f"needs confirmation and nobody is there to answer{self.hint}", {"decision": "ask"})
        return ConfirmationDenied(response.reason or "The person denied this call. Ask what they want instead.")

    def _listener(self, journey: CallContext, started: float) -> Callable[[Notice], None]:
        def hear(notice: Notice) -> None:
            match notice:
                case ConfirmationRequested(request) if request.call_id == journey.call_id and not self.attended:
                    answer = ConfirmationResponse(id=request.id, approved=self.standin is AutoAnswer.YES)
                    self.bus.respond_to_confirmation(answer, by=self.standin.value)
                case ConfirmationSettled(request, outcome, by) if request.call_id == journey.call_id:
                    journey.answer, journey.answered_by = outcome.value, by
                    self.on_settled(journey, self.clock.monotonic() - started)
                case _:
                    pass

        return hear
