"""The only way a tool runs: validate, judge, confirm, run, excerpt, record (architecture, "The way of a tool call")."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import RandomIds, SystemClock
from ollm_tui.core.base.errors import (
    ConfirmationDenied,
    EditNoChange,
    EditTargetAmbiguous,
    EditTargetNotFound,
    Internal,
    OperationCancelled,
    PolicyDenied,
    ToolFailure,
)
from ollm_tui.core.base.results import JsonObject, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import ConfirmationResponse, Preview
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import CallState, Origin, RememberScope, Risk
from ollm_tui.core.execution.call_states import Transition
from ollm_tui.core.execution.calls import (
    CallContext,
    CallOrder,
    CallReview,
    canonical,
    digest_of,
    raw_digest,
)
from ollm_tui.core.execution.executor_options import ExecutorOptions
from ollm_tui.core.execution.permission import (
    PermissionGate,
    approval_digest,
    call_to_judge,
    session_offer,
)
from ollm_tui.core.execution.running import finished, run_invocation
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.approvals import RememberOffer
from ollm_tui.core.policy.audit import AuditEvent
from ollm_tui.core.policy.command_warnings import ShellCommandReader
from ollm_tui.core.policy.engine import Explanation, JudgedCall, PolicyEngine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.argument_repair import mend
from ollm_tui.core.tools.base import AnyInvocation, Effect
from ollm_tui.core.tools.context import Limits, ToolContext
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.core.tools.schema import function_schema

log = logging.getLogger(__name__)

TELLS_CONTENT = (EditTargetNotFound, EditTargetAmbiguous, EditNoChange)
"""Failures whose message quotes the file: about a protected file they wait for the person's answer."""


@dataclass(frozen=True)
class _Judged:
    """A call that was validated and judged, as things stood then."""

    invocation: AnyInvocation
    call: JudgedCall
    explanation: Explanation


class ToolExecutor:
    """Runs calls for the agent, the command line and plug-ins alike. `execute` always returns.

    `attended` says whether a person answers confirmations. `policy` and `mode` may be replaced while running; a call
    is judged by those that hold when it is judged. `aclose` ends what the executor made for its tools.
    """

    def __init__(
        self,
        registry: ToolRegistry,
        policy: PolicyEngine,
        bus: MessageBus,
        workspace: Workspace,
        attended: bool = False,
        options: ExecutorOptions | None = None,
    ) -> None:
        options = options or ExecutorOptions()
        self.registry = registry
        self.policy = policy
        self.bus = bus
        self.workspace = workspace
        self.attended = attended
        self.mode = options.mode
        self.approvals = options.approvals
        self._options = options
        context = options.context or ToolContext(bus=bus)
        reader = context.command_reader or ShellCommandReader()
        self._context = replace(context, bus=bus, workspace=workspace, attended=attended, command_reader=reader)
        self._clock = options.clock or SystemClock()
        self._ids = options.ids or RandomIds()
        self._gate = PermissionGate(
            bus,
            self._clock,
            attended,
            options.auto_answer,
            options.nobody_hint,
            options.confirm_timeout,
            options.on_record,
        )
        self._remembering = asyncio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the commands and forget the memory and todos of an executor that was given none."""
        await self._context.defaults.aclose()

    @property
    def limits(self) -> Limits:
        """The bounds on what tools read and return."""
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
        order: CallOrder | None = None,
    ) -> ToolResult:
        """Take a call through the whole pipeline. Never raises but for asyncio's own cancellation.

        Args:
            name: The tool's name or an alias.
            arguments: What the model sent, a JSON object if it is right.
            signal: Cancels the call.
            update_output: Takes the output while the tool runs.
            call_id: The id in events and audit; a new one where it is empty.
            origin: Who proposed the call.
            order: The position among others that are asked about and run in order.
        """
        recorded = self._options.on_record is not None
        context = CallContext(
            call_id=call_id or self._ids.new_id("call"),
            name=name,
            origin=origin,
            signal=signal or AbortSignal(),
            update_output=update_output,
            order=order or CallOrder(),
            tool=name,
            digest=raw_digest(arguments) if recorded else "",
        )
        ended: str | None = OperationCancelled.type  # what the audit says where asyncio itself ends the call
        try:
            result = await self._result(context, arguments)
            ended = result.error.type if result.error else None
            return result
        finally:
            if context.state is not CallState.DONE:
                context.advance(Transition.CANCEL)
            self._record(context, AuditEvent.FINISHED, ended)

    async def _result(self, context: CallContext, arguments: JsonValue) -> ToolResult:
        """Return what comes of the call, whatever happens on its way, as the caller gets it."""
        ending = Transition.FINISH
        try:
            result = await self._run(context, arguments)
        except ToolFailure as failure:
            result = ToolResult.of_failure(failure)
            ending = Transition.CANCEL if isinstance(failure, OperationCancelled) else ending
        except Exception as error:  # the promise of `execute`: nothing a tool does can end the agent's loop
            log.exception("%s failed in a way it should not", context.name)
            what = f"{type(error).__name__}: {error}"
            said = f"{context.name} failed because of a defect in it ({what}). Try another way."
            result = ToolResult.of_failure(Internal(said))
        finally:
            context.order.done()
        context.advance(ending)
        tool = self.registry.get(context.tool)
        return await finished(result, context, tool, self.limits, self._options.outputs)

    async def review(self, name: str, arguments: JsonValue, *, origin: Origin = Origin.USER) -> CallReview:
        """Judge a call without running it or asking anybody; every error is a value."""
        signal = AbortSignal()
        try:
            invocation, notes = self._prepare(name, arguments)
            judged = await self._judge(invocation, origin, signal)
        except ToolFailure as failure:
            return CallReview(Decision.DENY, Risk.HIGH, failure.message, errors=(failure.message,))
        errors: tuple[str, ...] = ()
        preview: Preview | None = None
        try:
            await self._check(invocation, signal)
            preview = await (await invocation.question()).preview()
        except ToolFailure as failure:
            errors = (failure.message,)
        return CallReview(
            decision=judged.explanation.decision,
            risk=judged.explanation.risk,
            reason=judged.explanation.reason,
            errors=errors,
            trace=judged.explanation.trace,
            arguments=invocation.params.on_the_wire(),
            notes=tuple(notes),
            preview=preview,
            offer=await self._offer(judged, signal),
        )

    async def _offer(self, judged: _Judged, signal: AbortSignal) -> RememberOffer | None:
        offer = session_offer(self.policy, judged.invocation, judged.call)
        if offer is not None:
            return RememberOffer(session_only=offer.text)
        if self.approvals is None:
            return None
        return await signal.in_thread(self.approvals.offer, self.policy, judged.call, judged.explanation)

    async def change_policy(self, change: Callable[[PolicyEngine], PolicyEngine], workspace: Workspace) -> None:
        """Go on under what `change` makes of the policy, in this workspace; never while an approval is saved."""
        async with self._remembering:
            self.policy, self.workspace = change(self.policy), workspace
            self._context = replace(self._context, workspace=workspace)

    async def explain(self, name: str, arguments: JsonValue, *, origin: Origin = Origin.USER) -> Explanation:
        """Return the judgement alone; `stat` at most touches the disk. Raises ToolFailure where there is none."""
        invocation, _ = self._prepare(name, arguments)
        explanation = (await self._judge(invocation, origin, AbortSignal())).explanation
        refusal = invocation.facts().refusal
        if refusal is not None and explanation.decision is not Decision.DENY:
            raise refusal
        return explanation

    def offered_schemas(self) -> list[JsonObject]:
        """Return the schemas of all tools that the policy lets exist, sorted by name."""
        return [function_schema(tool) for tool in self.registry.list() if self.policy.is_available(tool)]

    # -- the pipeline ------------------------------------------------------------------------------------------------

    async def _run(self, context: CallContext, arguments: JsonValue) -> ToolResult:
        context.signal.throw_if_aborted()
        judged = await self._validate_and_judge(context, context.name, arguments)
        unchanged = await self._preconditions(context, judged)
        if unchanged is not None:
            return unchanged
        if judged.explanation.decision is Decision.ALLOW and context.order.follows_others:
            context.order.asked()
            judged = await self._judge_in_turn(context, judged.invocation)
        if judged.explanation.decision is Decision.ASK:
            judged = await self._confirm(context, judged)
        context.order.asked()
        await context.my_turn()
        context.advance(Transition.RUN)
        if self.approvals is not None:
            self.approvals.used(judged.explanation)
        return await run_invocation(context, judged.invocation, self.limits.call_seconds, self.bus, self._clock)

    def _prepare(self, name: str, arguments: JsonValue, call_id: str = "") -> tuple[AnyInvocation, list[str]]:
        resolved = self.registry.resolve(name, arguments if isinstance(arguments, dict) else None)
        given: JsonValue = arguments if resolved.arguments is None else resolved.arguments
        notes: list[str] = []
        if self._options.forgiving:
            mended = mend(resolved.tool, given)
            given, notes = mended.arguments, mended.notes
        context = replace(self._context, call_id=call_id)
        return resolved.tool.create_invocation(given, context), notes

    async def _validate_and_judge(self, context: CallContext, name: str, arguments: JsonValue) -> _Judged:
        invocation, notes = self._prepare(name, arguments, context.call_id)
        context.notes += notes
        context.advance(Transition.VALIDATE)
        return await self._judge_and_record(context, invocation)

    async def _judge_in_turn(self, context: CallContext, invocation: AnyInvocation) -> _Judged:
        """Judge as things stand when its turn has come: what ran before may have changed what this call does."""
        await context.my_turn()
        return await self._judge_and_record(context, invocation)

    async def _judge_and_record(self, context: CallContext, invocation: AnyInvocation) -> _Judged:
        """Raise PolicyDenied where the policy says so."""
        judged = await self._judge(invocation, context.origin, context.signal)
        context.advance(Transition.JUDGE)
        context.tool, context.explanation = invocation.tool.name, judged.explanation
        if self._options.on_record is not None:
            context.digest = digest_of(canonical(judged.call.arguments))
            self._record(context, AuditEvent.DECIDED)
        if judged.explanation.decision is Decision.DENY:
            reason = judged.explanation.reason
            raise PolicyDenied(
                f"Denied by policy: {reason}. Do not try to reach the same by other means.",
                {"decision": "deny", "reason": reason},
            )
        return judged

    async def _judge(self, invocation: AnyInvocation, origin: Origin, signal: AbortSignal) -> _Judged:
        """Raise InvalidPath for a path outside, whatever the policy says."""
        call = await call_to_judge(invocation, self.workspace, origin, signal)
        if call.tool.effect is Effect.RUNS:
            # A command line is parsed, and looked at by bash itself, before it may be allowed: not on the event loop.
            return _Judged(invocation, call, await signal.in_thread(self.policy.explain, call, self.mode))
        return _Judged(invocation, call, self.policy.explain(call, self.mode))

    async def _preconditions(self, context: CallContext, judged: _Judged) -> ToolResult | None:
        """Fail what must fail before anyone is asked; but not before calls that go first have had their say."""
        try:
            return await self._check(judged.invocation, context.signal)
        except ToolFailure:
            if not context.order.follows_others and not judged.call.floors:
                raise
            context.order.asked()
            await context.my_turn()
        try:
            return await self._check(judged.invocation, context.signal)
        except TELLS_CONTENT:
            if not judged.call.floors:
                raise
            return None  # the same failure comes again when it runs, once the person let it look into the file

    @staticmethod
    async def _check(invocation: AnyInvocation, signal: AbortSignal) -> ToolResult | None:
        refusal = invocation.facts().refusal
        if refusal is not None:
            raise refusal
        return await invocation.check(signal)

    async def _confirm(self, context: CallContext, judged: _Judged) -> _Judged:
        """Ask until the answer fits what will happen; returns what was approved. Raises on any other outcome."""
        replaces: str | None = None
        while True:
            context.advance(Transition.ASK)
            response, digest = await self._ask(context, judged, replaces)
            if response.modified_args is not None:
                context.advance(Transition.EDIT)
                context.notes.append("the person changed the arguments before approving")
                judged = await self._validate_and_judge(context, judged.invocation.tool.name, response.modified_args)
                await self._preconditions(context, judged)
                if judged.explanation.decision is Decision.ALLOW:
                    judged = await self._judge_in_turn(context, judged.invocation)
                if judged.explanation.decision is Decision.ALLOW:
                    return judged
            else:
                context.advance(Transition.APPROVE)
                # A rule should not come from what was changed on the way.
                scope = response.remember if replaces is None else None
                if await self._still_fits(context, judged, digest, response, scope):
                    judged.invocation.approved = True
                    return judged
                context.advance(Transition.STALE)
                await self._preconditions(context, judged)
            replaces = response.id

    async def _ask(
        self, context: CallContext, judged: _Judged, replaces: str | None
    ) -> tuple[ConfirmationResponse, str]:
        """Return the approval and the digest of what it is bound to."""
        question = await judged.invocation.question()
        digest = approval_digest(judged.invocation, self.workspace, question)
        past = self.approvals.asked(judged.call) if self.approvals and replaces is None else None
        try:
            return await self._gate.ask(context, judged.invocation, question, judged.explanation, replaces), digest
        except (ConfirmationDenied, PolicyDenied):
            if past is not None:
                past.denied = True
            raise

    async def _still_fits(
        self,
        context: CallContext,
        judged: _Judged,
        digest: str,
        response: ConfirmationResponse,
        scope: RememberScope | None,
    ) -> bool:
        """Return whether what was approved would happen now, right before it does, and remember the approval."""
        await context.my_turn()
        if await self._digest(judged) != digest:
            return False
        if scope is None:
            return True
        await self._remember(context, judged, scope, response.remember_pattern)
        return await self._digest(judged) == digest

    async def _digest(self, judged: _Judged) -> str:
        return approval_digest(judged.invocation, self.workspace, await judged.invocation.question())

    async def _remember(self, context: CallContext, judged: _Judged, scope: RememberScope, pattern: str | None) -> None:
        offer = session_offer(self.policy, judged.invocation, judged.call)
        if offer is not None and scope is RememberScope.SESSION:
            offer.accept()
            context.notes.append(f"allowed for this session: {offer.text}")
            return
        if self.approvals is None:
            return
        try:
            async with self._remembering:
                self.policy, said = await asyncio.to_thread(
                    self.approvals.remember, self.policy, judged.call, judged.explanation, scope, pattern
                )
        except ValueError as refusal:
            said = f"the approval was not remembered: {refusal}"
        context.notes.append(said)

    def _record(self, context: CallContext, event: AuditEvent, error_type: str | None = None) -> None:
        if self._options.on_record is not None:
            self._options.on_record(context.record(event, error_type=error_type))
