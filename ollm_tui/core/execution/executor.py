"""The only way a tool runs: validate, judge, confirm, run, excerpt, record (architecture, "The way of a tool call")."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.clock import Clock, IdSource, RandomIds, SystemClock
from ollm_tui.core.base.errors import (
    EditNoChange,
    EditTargetAmbiguous,
    EditTargetNotFound,
    Internal,
    OperationCancelled,
    PolicyDenied,
    ToolFailure,
)
from ollm_tui.core.base.output import OutputStore
from ollm_tui.core.base.results import JsonObject, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import ConfirmationResponse, Preview
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import CallState, Origin, RememberScope, Risk
from ollm_tui.core.execution.call_states import Transition
from ollm_tui.core.execution.calls import (
    AutoAnswer,
    CallContext,
    CallOrder,
    CallRecord,
    CallReview,
    approval_digest,
    arguments_digest,
    call_to_judge,
    raw_digest,
)
from ollm_tui.core.execution.permission import PermissionGate, kept_by_tool
from ollm_tui.core.execution.running import excerpted, notes_kept, run_invocation, shown
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.approvals import ApprovalStore, RememberOffer
from ollm_tui.core.policy.audit import AuditEvent
from ollm_tui.core.policy.command_warnings import ShellCommandReader
from ollm_tui.core.policy.engine import Explanation, JudgedCall, PolicyEngine
from ollm_tui.core.policy.rules import Decision, Mode
from ollm_tui.core.tools.argument_repair import mend
from ollm_tui.core.tools.base import AnyInvocation, Effect, Limits, ToolContext
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.core.tools.schema import function_schema

log = logging.getLogger(__name__)

TELLS_CONTENT = (EditTargetNotFound, EditTargetAmbiguous, EditNoChange)
"""Failures whose message quotes the file: about a protected file they wait for the person's answer."""


class ToolExecutor:
    """Runs calls for the agent, the command line and plug-ins alike. `execute` always returns.

    `attended` says whether a person answers questions; without one each question is settled at once by `standin`.
    `policy` and `mode` may be replaced while running; a call is judged by those that hold when it is judged.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        policy: PolicyEngine,
        bus: MessageBus,
        workspace: Workspace,
        attended: bool = False,
        *,
        context: ToolContext | None = None,
        mode: Mode = Mode.ASK,
        standin: AutoAnswer = AutoAnswer.NOBODY,
        standin_hint: str = "",
        confirm_timeout: float | None = 60.0,
        forgiving: bool = True,
        outputs: OutputStore | None = None,
        approvals: ApprovalStore | None = None,
        on_record: Callable[[CallRecord], None] | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
    ) -> None:
        self.registry = registry
        self.policy = policy
        self.bus = bus
        self.workspace = workspace
        self.attended = attended
        self.mode = mode
        self.approvals = approvals
        context = context or ToolContext(bus=bus)
        reader = context.command_reader or ShellCommandReader()
        self._context = replace(context, bus=bus, workspace=workspace, attended=attended, command_reader=reader)
        self._forgiving = forgiving
        self._outputs = outputs
        self._on_record = on_record
        self._clock = clock or SystemClock()
        self._ids = ids or RandomIds()
        self._asking = PermissionGate(bus, attended, standin, standin_hint, confirm_timeout, self._clock, self._settled)
        self._remembering = asyncio.Lock()

    @property
    def limits(self) -> Limits:
        return self._context.limits

    async def execute(
        self,
        name: str,
        arguments: JsonValue,
        signal: AbortSignal | None = None,
        update_output: UpdateOutput | None = None,
        *,
        call_id: str = "",
        origin: Origin = Origin.USER,
        place: CallOrder | None = None,
    ) -> ToolResult:
        """Take a call through the whole pipeline. Never raises but for asyncio's own cancellation.

        `place` is the call's place among others that must be asked about and run in order.
        """
        journey = CallContext(
            call_id=call_id or self._ids.new_id("call"),
            name=name,
            origin=origin,
            signal=signal or AbortController().signal,
            update_output=update_output,
            place=place or CallOrder(),
            tool=name,
            digest=raw_digest(arguments) if self._on_record else "",
        )
        ended: str | None = OperationCancelled.type  # what the audit says where asyncio itself ends the call
        try:
            result = await self._result(journey, arguments)
            ended = result.error.type if result.error else None
            return result
        finally:
            if journey.state is not CallState.DONE:
                journey.advance(Transition.CANCEL)
            self._record(journey, AuditEvent.FINISHED, error_type=ended, waited=journey.waited, ran=journey.ran)

    async def _result(self, journey: CallContext, arguments: JsonValue) -> ToolResult:
        """What comes of the call, whatever happens on its way, as the caller gets it."""
        try:
            result = await self._travel(journey, arguments)
        except ToolFailure as failure:
            result = ToolResult.of_failure(failure)
        except Exception:  # the promise of `execute`: nothing a tool does can end the agent's loop
            log.exception("%s failed in a way it should not", journey.name)
            said = f"{journey.name} failed inside; the log has the details. Try another way."
            result = ToolResult.of_failure(Internal(said))
        finally:
            journey.place.done()
        cancelled = result.error is not None and result.error.type == OperationCancelled.type
        journey.advance(Transition.CANCEL if cancelled else Transition.FINISH)
        tool = self.registry.get(journey.tool)
        if not result.truncated and (tool is None or not tool.cuts_itself):  # else it knows which of its text counts
            result = await excerpted(result, self.limits, self._outputs, journey.call_id)
        return result.model_copy(
            update={
                "return_display": shown(result.return_display, self.limits),
                "notes": notes_kept((*journey.notes, *result.notes)),
                "duration_ms": round(journey.ran * 1000),
                "waited_ms": round(journey.waited * 1000),
            }
        )

    async def review(self, name: str, arguments: JsonValue, *, origin: Origin = Origin.USER) -> CallReview:
        """The first half alone: nothing runs, nobody is asked, and every fault is a value."""
        signal = AbortController().signal
        try:
            invocation, notes = self._prepare(name, arguments)
            call, explanation = await self._judge(invocation, origin, signal)
        except ToolFailure as failure:
            return CallReview(Decision.DENY, Risk.HIGH, failure.message, errors=(failure.message,))
        errors: tuple[str, ...] = ()
        preview: Preview | None = None
        try:
            await invocation.check(signal)
            preview = await invocation.preview()
        except ToolFailure as failure:
            errors = (failure.message,)
        return CallReview(
            decision=explanation.decision,
            risk=explanation.risk,
            reason=explanation.reason,
            errors=errors,
            trace=explanation.trace,
            arguments=invocation.params.on_the_wire(),
            notes=tuple(notes),
            preview=preview,
            offer=await self._offer(invocation, call, explanation, signal),
        )

    async def _offer(
        self, invocation: AnyInvocation, call: JudgedCall, explanation: Explanation, signal: AbortSignal
    ) -> RememberOffer | None:
        kept = kept_by_tool(self.policy, invocation, call)
        if kept is not None:
            return RememberOffer(session_only=kept)
        if self.approvals is None:
            return None
        return await signal.in_thread(self.approvals.offer, self.policy, call, explanation)

    async def change_policy(self, change: Callable[[PolicyEngine], PolicyEngine], workspace: Workspace) -> None:
        """Go on under what `change` makes of the policy, in this fence; never while an approval is being remembered."""
        async with self._remembering:
            self.policy, self.workspace = change(self.policy), workspace
            self._context = replace(self._context, workspace=workspace)

    async def explain(self, name: str, arguments: JsonValue, *, origin: Origin = Origin.USER) -> Explanation:
        """The judgement alone; touches nothing on disk but `stat`. Raises ToolFailure where there is none to judge."""
        invocation, _ = self._prepare(name, arguments)
        _, explanation = await self._judge(invocation, origin, AbortController().signal)
        if explanation.decision is not Decision.DENY:
            invocation.refuse()
        return explanation

    def offered_schemas(self) -> list[JsonObject]:
        """The schemas of all tools that the policy lets exist, sorted by name."""
        return [function_schema(tool) for tool in self.registry.list() if self.policy.is_available(tool)]

    # -- the stations ------------------------------------------------------------------------------------------------

    async def _travel(self, journey: CallContext, arguments: JsonValue) -> ToolResult:
        journey.signal.throw_if_aborted()
        invocation, journey.notes = self._prepare(journey.name, arguments, journey.call_id)
        journey.advance(Transition.VALIDATE)
        call, explanation = await self._judge_call(journey, invocation)
        finished = await self._preconditions(journey, invocation, call)
        if finished is not None:
            return finished
        if explanation.decision is Decision.ALLOW and journey.place.follows_others:
            journey.place.asked()
            call, explanation = await self._judge_in_turn(journey, invocation)
        if explanation.decision is Decision.ASK:
            invocation = await self._confirm(journey, invocation, call, explanation)
        journey.place.asked()
        await journey.signal.guard(journey.place.my_turn())
        journey.advance(Transition.RUN)
        if self.approvals is not None and journey.explanation is not None:
            self.approvals.used(journey.explanation)
        return await run_invocation(journey, invocation, self.limits.call_seconds, self.bus, self._clock)

    def _prepare(self, name: str, arguments: JsonValue, call_id: str = "") -> tuple[AnyInvocation, list[str]]:
        resolved = self.registry.resolve(name, arguments if isinstance(arguments, dict) else None)
        given: JsonValue = arguments if resolved.arguments is None else resolved.arguments
        notes: list[str] = []
        if self._forgiving:
            mended = mend(resolved.tool, given)
            given, notes = mended.arguments, mended.notes
        context = replace(self._context, call_id=call_id)
        return resolved.tool.create_invocation(given, context), notes

    async def _judge(
        self, invocation: AnyInvocation, origin: Origin, signal: AbortSignal
    ) -> tuple[JudgedCall, Explanation]:
        """The one judgement; raises InvalidPath for a path outside, whatever the policy says."""
        call = await call_to_judge(invocation, self.workspace, origin, signal)
        # A command line is parsed, and looked at by bash itself, before it may be allowed: not on the event loop.
        if call.tool.effect is Effect.RUNS:
            return call, await signal.in_thread(self.policy.explain, call, self.mode)
        return call, self.policy.explain(call, self.mode)

    async def _judge_in_turn(self, journey: CallContext, invocation: AnyInvocation) -> tuple[JudgedCall, Explanation]:
        """What ran before may have changed what this call does: judge it as things stand when its turn has come."""
        await journey.signal.guard(journey.place.my_turn())
        return await self._judge_call(journey, invocation)

    async def _judge_call(self, journey: CallContext, invocation: AnyInvocation) -> tuple[JudgedCall, Explanation]:
        """Judge and record. Raises PolicyDenied."""
        call, explanation = await self._judge(invocation, journey.origin, journey.signal)
        journey.advance(Transition.JUDGE)
        journey.explanation = explanation
        journey.tool = invocation.tool.name
        if self._on_record is not None:
            journey.digest = arguments_digest(invocation)
            self._record(journey, AuditEvent.DECIDED)
        if explanation.decision is Decision.DENY:
            raise PolicyDenied(
                f"Denied by policy: {explanation.reason}. Do not try to reach the same by other means.",
                {"decision": "deny", "reason": explanation.reason},
            )
        return call, explanation

    async def _preconditions(
        self, journey: CallContext, invocation: AnyInvocation, call: JudgedCall
    ) -> ToolResult | None:
        """What must fail fails here, before anyone is asked; but not before calls that go first have had their say."""
        try:
            return await invocation.check(journey.signal)
        except ToolFailure:
            journey.place.asked()
            await journey.signal.guard(journey.place.my_turn())
        try:
            return await invocation.check(journey.signal)
        except TELLS_CONTENT:
            if not call.floors:
                raise
            return None  # the same failure comes again when it runs, once the person let it look into the file

    async def _confirm(
        self, journey: CallContext, invocation: AnyInvocation, call: JudgedCall, explanation: Explanation
    ) -> AnyInvocation:
        """Ask until the answer fits what will happen; returns what was approved. Raises on any other outcome."""
        replaces: str | None = None
        while True:
            digest = await approval_digest(invocation, self.workspace.root)
            question = self.approvals.asked(call) if self.approvals and replaces is None else None
            journey.advance(Transition.ASK)
            response = await self._asking.ask(journey, invocation, explanation, replaces)
            if question is not None:
                question.denied = not response.approved
            if not response.approved:
                raise self._asking.denial(response)
            if response.modified_args is not None:
                journey.advance(Transition.EDIT)
                invocation, notes = self._prepare(invocation.tool.name, response.modified_args, journey.call_id)
                journey.notes.append("the person changed the arguments before approving")
                journey.notes.extend(notes)
                journey.advance(Transition.VALIDATE)
                call, explanation = await self._judge_call(journey, invocation)
                await self._preconditions(journey, invocation, call)
                if explanation.decision is Decision.ALLOW:
                    call, explanation = await self._judge_in_turn(journey, invocation)
                if explanation.decision is Decision.ALLOW:
                    return invocation
            else:
                journey.advance(Transition.APPROVE)
                if await self._is_still(journey, invocation, digest):
                    if response.remember is None or replaces is not None:
                        invocation.approved(None)
                        return invocation  # what was changed on the way is not what a rule should come from
                    kept = await self._remember(journey, response, invocation, call, explanation)
                    if await self._is_still(journey, invocation, digest):
                        invocation.approved(kept)
                        return invocation
                journey.advance(Transition.STALE)
                await self._preconditions(journey, invocation, call)
            replaces = response.id

    async def _is_still(self, journey: CallContext, invocation: AnyInvocation, digest: str) -> bool:
        """Whether what was approved is what would happen now, right before it does."""
        await journey.signal.guard(journey.place.my_turn())
        return await approval_digest(invocation, self.workspace.root) == digest

    async def _remember(
        self,
        journey: CallContext,
        response: ConfirmationResponse,
        invocation: AnyInvocation,
        call: JudgedCall,
        explanation: Explanation,
    ) -> RememberScope | None:
        """How far the approval reaches now; None where it could not be kept."""
        kept = kept_by_tool(self.policy, invocation, call)
        if kept is not None and response.remember is RememberScope.SESSION:
            journey.notes.append(f"allowed for this session: {kept}")
            return RememberScope.SESSION
        if response.remember is None or self.approvals is None:
            return None
        try:
            async with self._remembering:
                self.policy, said = await asyncio.to_thread(
                    self.approvals.remember,
                    self.policy,
                    call,
                    explanation,
                    response.remember,
                    response.remember_pattern,
                )
        except ValueError as refusal:
            journey.notes.append(f"the approval was not remembered: {refusal}")
            return None
        journey.notes.append(said)
        return response.remember

    def _settled(self, journey: CallContext, waited: float) -> None:
        self._record(journey, AuditEvent.SETTLED, waited=waited)

    def _record(
        self,
        journey: CallContext,
        event: AuditEvent,
        *,
        error_type: str | None = None,
        waited: float = 0,
        ran: float = 0,
    ) -> None:
        if self._on_record is not None:
            self._on_record(journey.record(event, error_type, waited, ran))
