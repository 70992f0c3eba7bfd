"""Ask a person before a call runs, until the answer fits what will happen; without a person it is settled at once."""

from __future__ import annotations

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import (
    ConfirmationCancelled,
    ConfirmationDenied,
    ConfirmationTimeout,
    PolicyDenied,
    SandboxUnavailable,
)
from ollm_tui.core.base.results import ExecutionPlace
from ollm_tui.core.bus.confirmation import ConfirmationResponse, origin_of
from ollm_tui.core.bus.message_bus import MessageBus, OpenConfirmation
from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.core.execution.call_hooks import HookedCall
from ollm_tui.core.execution.calls import CallContext, Judged, Transition
from ollm_tui.core.execution.judging import CallJudge
from ollm_tui.core.execution.options import AutoAnswer, ExecutorOptions
from ollm_tui.core.policy.audit import AuditEvent
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.base import Question

MAX_OPEN = 1_000
"""Questions of calls that wait at a time; a further one is refused."""


class PermissionGate:
    """Puts the questions of calls to the person; a settlement is recorded before anything comes of it."""

    def __init__(self, judge: CallJudge, bus: MessageBus, clock: Clock, options: ExecutorOptions) -> None:
        self._judge = judge
        self._bus = bus
        self._clock = clock
        self._auto_answer = options.auto_answer
        self._nobody_hint = options.nobody_hint
        self._timeout = options.confirm_timeout

    async def confirm(self, context: CallContext, judged: Judged, *, attended: bool) -> Judged:
        """Ask until the answer fits what will happen; returns what was approved.

        Raises:
            PolicyDenied: Nobody is there to answer, or the policy denies what the person made of the call.
            ConfirmationDenied: The person said no.
            ConfirmationTimeout: Nobody answered in time.
            ConfirmationCancelled: The confirmation was withdrawn.
            OperationCancelled: The call was cancelled.
            SandboxUnavailable: It was approved for the cage alone, and there is nothing that a cage could hold.
        """
        judged, response = await self._approved(context, judged, attended=attended)
        if response.caged:
            invocation = judged.invocation
            question = await invocation.question()
            if await context.signal.in_thread(question.cage_problem) is None:
                raise SandboxUnavailable(f"{invocation.tool.name} cannot run in a cage. Nothing was run.")
            invocation.chosen_place = ExecutionPlace.WORK_CAGE  # an engine that fails by now is an error, no way out
        return judged

    async def _approved(
        self, context: CallContext, judged: Judged, *, attended: bool
    ) -> tuple[Judged, ConfirmationResponse]:
        """Ask until the answer fits what will happen; returns what was approved, and the answer."""
        judge = self._judge
        replaces: str | None = None
        while True:
            context.advance(Transition.ASK)
            question = await judged.invocation.question()
            fingerprint = judge.fingerprint(judged, question)
            response = await self._ask(context, judged, question, replaces, attended=attended)
            if response.modified_args is not None:
                context.advance(Transition.EDIT)
                context.notes.append("the person changed the arguments before approving")
                judged = await judge.validate_and_judge(context, judged.invocation.tool.name, response.modified_args)
                await judge.preconditions(context, judged)
                if judged.explanation.decision is Decision.ALLOW:
                    judged = await judge.judge_in_turn(context, judged.invocation)
                if judged.explanation.decision is Decision.ALLOW:
                    return judged, response
                if response.reviewed and await self._is_what_was_reviewed(context, judged, response.reviewed):
                    judged.invocation.approved = True
                    return judged, response
            else:
                context.advance(Transition.APPROVE)
                if await self._still_fits(context, judged, fingerprint, response, changed=replaces is not None):
                    judged.invocation.approved = True
                    return judged, response
                context.advance(Transition.STALE)
                await judge.preconditions(context, judged)
            replaces = response.id

    async def _still_fits(
        self, context: CallContext, judged: Judged, fingerprint: str, response: ConfirmationResponse, *, changed: bool
    ) -> bool:
        """Return whether what was approved would happen now, right before it does, and remember the approval."""
        await context.my_turn()
        if await self._fingerprint(judged) != fingerprint:
            return False
        if response.remember is None or changed:  # a rule should not come from what was changed on the way
            return True
        await self._judge.approvals.remember(context, judged, response.remember, response.remember_pattern)
        return await self._fingerprint(judged) == fingerprint

    async def _is_what_was_reviewed(self, context: CallContext, judged: Judged, reviewed: str) -> bool:
        """Return whether the changed call would do now, right before it does, what the person saw of it."""
        await context.my_turn()
        return self._judge.review_digest(judged, await judged.invocation.question()) == reviewed

    async def _fingerprint(self, judged: Judged) -> str:
        return self._judge.fingerprint(judged, await judged.invocation.question())

    async def _ask(
        self, context: CallContext, judged: Judged, question: Question, replaces: str | None, *, attended: bool
    ) -> ConfirmationResponse:
        approvals = self._judge.approvals.store
        if self._judge.hooks is not None:
            call = HookedCall(context.call_id, context.tool, judged.call.arguments, context.origin.value)
            if refusal := await self._judge.hooks.asked(call, judged.explanation.reason, context.signal):
                raise PolicyDenied(f"{refusal[:1].upper()}{refusal[1:]}.", {"decision": "deny", "reason": refusal})
        past = approvals.record_question(judged.call) if approvals and replaces is None else None
        preview = await question.preview()
        problem = await context.signal.in_thread(question.cage_problem)
        if not problem and judged.invocation.place is ExecutionPlace.WORK_CAGE:
            problem = None  # a plain yes leads there
        details = judged.invocation.confirmation_details(judged.explanation.risk, preview, problem)
        started = self._clock.monotonic()
        try:
            if context.order.follows_others:
                await context.signal.guard(context.order.my_question())
            context.signal.throw_if_aborted()
            if len(self._bus.confirmations()) >= MAX_OPEN:
                message = f"{MAX_OPEN:,} questions wait for an answer already; this one was not asked. Ask for less."
                raise PolicyDenied(message, {"decision": "ask"})
            context.order.asked()  # from here to the queue nothing else gets in between
            opened = self._bus.open_confirmation(
                details,
                self._timeout,
                call_id=context.call_id,
                reason=judged.explanation.reason,
                origin=origin_of(context.origin, context.remarks.task),
                replaces=replaces,
            )
            try:
                if not attended:
                    yes = self._auto_answer is AutoAnswer.YES
                    answer = ConfirmationResponse(id=opened.confirmation.id, approved=yes)
                    self._bus.respond_to_confirmation(answer, by=self._auto_answer.value)
                await self._bus.settlement(opened, context.signal)
            finally:
                settled = opened.settlement.result().confirmation
                context.answer, context.answered_by = settled.state.value, settled.settled_by
                self._judge.record(context, AuditEvent.SETTLED, waited=self._clock.monotonic() - started)
        finally:
            context.waited += self._clock.monotonic() - started
        try:
            return self._response(context, opened, attended=attended)
        except (ConfirmationDenied, PolicyDenied):
            if past is not None:
                past.denied = True
            raise

    def _response(self, context: CallContext, opened: OpenConfirmation, *, attended: bool) -> ConfirmationResponse:
        settled = opened.settlement.result()
        match settled.confirmation.state:
            case ConfirmationState.EXPIRED:
                raise ConfirmationTimeout
            case ConfirmationState.CANCELLED:
                context.signal.throw_if_aborted()
                raise ConfirmationCancelled
            case ConfirmationState.DENIED if not attended:
                message = f"needs confirmation and nobody is there to answer{self._nobody_hint}"
                raise PolicyDenied(message, {"decision": "ask"})
            case state:
                response = settled.response
                assert response is not None, "an answer settles by its response"
                if state is ConfirmationState.DENIED:
                    raise ConfirmationDenied(
                        response.reason or "The person denied this call. Ask what they want instead."
                    )
                return response
