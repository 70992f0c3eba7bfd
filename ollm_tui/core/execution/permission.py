"""Whether a call may run: what the policy judges, and the confirmation that a person or their stand-in settles."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import ConfirmationCancelled, ConfirmationDenied, ConfirmationTimeout, PolicyDenied
from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus, OpenConfirmation
from ollm_tui.core.bus.states import ConfirmationState, Origin
from ollm_tui.core.execution.calls import CallContext, CallRecord, canonical, digest_of
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.audit import AuditEvent
from ollm_tui.core.policy.engine import Explanation, Floor, JudgedCall, PolicyEngine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.base import AnyInvocation, Effect, Question, SessionOffer


class AutoAnswer(StrEnum):
    """Who answers confirmations when no person is there."""

    NOBODY = "nobody"
    YES = "--yes"


async def call_to_judge(
    invocation: AnyInvocation, workspace: Workspace, origin: Origin, signal: AbortSignal
) -> JudgedCall:
    """Return the call with its floors.

    Raises:
        InvalidPath: A path lies outside the workspace, whatever the policy says.
        ToolFailure: What the tool's own `should_confirm_execute` raises.
    """
    floors: list[Floor] = []
    inside = True
    for touched in invocation.touched_paths():
        location = workspace.resolve(touched.path, touched.access, follow=touched.follow)
        inside = inside and location.real.is_relative_to(workspace.root)
        sensitivity = workspace.sensitivity(location, touched.access)
        if sensitivity is not None:
            reason = f"{location.shown} {sensitivity.reason}"
            floors.append(Floor(Decision(sensitivity.decision), reason))
    tool, facts = invocation.tool, invocation.facts()
    if await invocation.should_confirm_execute(signal):
        floors.append(Floor(Decision.ASK, f"{tool.name} always asks for a call like this"))
    if origin is Origin.SALVAGED and facts.effect not in (Effect.READS, Effect.PLANS):
        floors.append(Floor(Decision.ASK, "the call was read out of the model's plain text"))
    return JudgedCall(
        tool=tool,
        arguments=invocation.params.on_the_wire(),
        effect=facts.effect,
        origin=Origin.PLUGIN if tool.plugin else origin,
        virtual=facts.virtual,
        inside_workspace=inside,
        floors=tuple(floors),
    )


def session_offer(policy: PolicyEngine, invocation: AnyInvocation, call: JudgedCall) -> SessionOffer | None:
    """Return what a yes for the session would have the tool go on allowing.

    None unless this very call would then run unasked.
    """
    offer = invocation.facts().offer
    if offer is None or len(call.floors) != 1:  # the one that asks because it is not allowed yet
        return None
    then = policy.explain(replace(call, floors=(), virtual=offer.virtual))
    return offer if then.decision is Decision.ALLOW else None


def approval_digest(invocation: AnyInvocation, workspace: Workspace, question: Question) -> str:
    """Return what an approval is bound to: tool, arguments, working directory, states of the files shown."""
    arguments = canonical(invocation.params.on_the_wire())
    return digest_of(invocation.tool.name, arguments, str(workspace.root), question.state)


@dataclass(frozen=True)
class PermissionGate:
    """Puts a call's question to the person; without one `auto_answer` settles it at once."""

    bus: MessageBus
    clock: Clock
    attended: bool
    auto_answer: AutoAnswer
    hint: str
    """Follows the words that nobody was there to answer."""
    timeout: float | None
    on_record: Callable[[CallRecord], None] | None

    async def ask(
        self,
        context: CallContext,
        invocation: AnyInvocation,
        question: Question,
        explanation: Explanation,
        replaces: str | None,
    ) -> ConfirmationResponse:
        """Wait for the approval; a settlement is recorded before anything comes of it.

        Raises:
            PolicyDenied: Nobody is there to answer.
            ConfirmationDenied: The person said no.
            ConfirmationTimeout: Nobody answered in time.
            ConfirmationCancelled: The confirmation was withdrawn.
            OperationCancelled: The call was cancelled.
        """
        details = invocation.confirmation_details(explanation.risk, await question.preview())
        started = self.clock.monotonic()
        try:
            if context.order.follows_others:
                await context.signal.guard(context.order.my_question())
            context.signal.throw_if_aborted()
            context.order.asked()  # from here to the queue nothing else gets in between
            opened = self.bus.open_confirmation(
                details,
                self.timeout,
                call_id=context.call_id,
                reason=explanation.reason,
                origin=context.origin,
                replaces=replaces,
            )
            try:
                if not self.attended:
                    answer = ConfirmationResponse(
                        id=opened.confirmation.id, approved=self.auto_answer is AutoAnswer.YES
                    )
                    self.bus.respond_to_confirmation(answer, by=self.auto_answer.value)
                await self.bus.settlement(opened, context.signal)
            finally:
                self._record(context, opened, self.clock.monotonic() - started)
        finally:
            context.waited += self.clock.monotonic() - started
        return self._response(context, opened)

    def _record(self, context: CallContext, opened: OpenConfirmation, waited: float) -> None:
        confirmation = opened.settlement.result().confirmation
        context.answer, context.answered_by = confirmation.state.value, confirmation.settled_by
        if self.on_record is not None:
            self.on_record(context.record(AuditEvent.SETTLED, waited=waited))

    def _response(self, context: CallContext, opened: OpenConfirmation) -> ConfirmationResponse:
        settled = opened.settlement.result()
        match settled.confirmation.state:
            case ConfirmationState.EXPIRED:
                raise ConfirmationTimeout
            case ConfirmationState.CANCELLED:
                context.signal.throw_if_aborted()
                raise ConfirmationCancelled
            case ConfirmationState.DENIED if not self.attended:
                said = f"needs confirmation and nobody is there to answer{self.hint}"
                raise PolicyDenied(said, {"decision": "ask"})
            case state:
                response = settled.response
                assert response is not None, "an answer settles by its response"
                if state is ConfirmationState.DENIED:
                    raise ConfirmationDenied(
                        response.reason or "The person denied this call. Ask what they want instead."
                    )
                return response
