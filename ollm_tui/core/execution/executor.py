"""The only way a tool runs: validate, judge, confirm, run, excerpt, record (architecture, "The way of a tool call")."""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import Self

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.clock import RandomIds, SystemClock
from ollm_tui.core.base.errors import Internal, OperationCancelled, SandboxUnavailable, ToolFailure
from ollm_tui.core.base.results import ExecutionPlace, ToolResult, UpdateOutput
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import CallState, Origin
from ollm_tui.core.execution.call_hooks import HookedCall
from ollm_tui.core.execution.calls import CallContext, CallOrder, CallRemarks, Judged, Transition
from ollm_tui.core.execution.journaling import CallJournal
from ollm_tui.core.execution.judging import CallJudge
from ollm_tui.core.execution.options import ExecutorOptions
from ollm_tui.core.execution.permission import PermissionGate
from ollm_tui.core.execution.running import ResultLimits, run_invocation
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.git.configuration import ConfiguredSecrets
from ollm_tui.core.policy.audit import AuditEvent
from ollm_tui.core.policy.command_warnings import ShellCommandReader
from ollm_tui.core.policy.engine import Layer, PolicyEngine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.base import AnyInvocation, Effect
from ollm_tui.core.tools.context import TaskService, ToolContext
from ollm_tui.core.tools.registry import ToolRegistry

log = logging.getLogger(__name__)


class ToolExecutor(CallJudge):
    """Runs calls for the agent, the command line and plug-ins alike. `execute` always returns.

    `attended` says whether a person answers confirmations. `aclose` ends what the executor made for its tools.
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
        context = options.context or ToolContext(bus=bus)
        reader = context.command_reader or ShellCommandReader()
        context = replace(context, bus=bus, workspace=workspace, attended=attended, command_reader=reader)
        context = replace(context, adopt_plan=self.adopt_plan)
        super().__init__(registry, policy, workspace, context, options)
        self.bus = bus
        self.attended = attended
        self._clock = options.clock or SystemClock()
        self._ids = options.ids or RandomIds()
        self._gate = PermissionGate(self, bus, self._clock, options)
        self._results = ResultLimits(
            context.limits,
            options.outputs,
            ConfiguredSecrets(lambda: (*context.fence.roots, *context.fence.readable_roots)),
        )
        self._recorded = options.recorded
        self._journal = None if options.journal is None else CallJournal(options.journal)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """End the commands and forget the memory and todos of an executor that was given none."""
        await self.settle_journal()
        await self._context.defaults.aclose()

    async def settle_journal(self) -> None:
        """Record for undo what jobs have changed so far."""
        if self._journal is not None:
            await self._journal.settle()

    def offer_tasks(self, tasks: TaskService) -> None:
        """Let calls have sub-agents work."""
        self._context = replace(self._context, tasks=tasks)

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
        remarks: CallRemarks = CallRemarks(),  # noqa: B008  # frozen
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
            remarks: What the agent knows of the call.
        """
        context = CallContext(
            call_id=call_id or self._ids.new_id("call"),
            name=name,
            origin=origin,
            signal=signal or AbortSignal(),
            update_output=update_output,
            order=order or CallOrder(),
            arguments=arguments,
            tool=name,
            remarks=remarks,
        )
        ended: str | None = OperationCancelled.type  # what the audit says where asyncio itself ends the call
        try:
            result = await self._result(context)
            ended = result.error.type if result.error else None
            return result
        finally:
            if context.state is not CallState.DONE:
                context.advance(Transition.CANCEL)
            self.record(context, AuditEvent.FINISHED, error_type=ended)

    async def _result(self, context: CallContext) -> ToolResult:
        """Return what comes of the call, whatever happens on its way, as the caller gets it."""
        try:
            result, ending = await self._outcome(context)
            if self.hooks is not None and context.ran_with is not None:
                call = HookedCall(context.call_id, context.tool, context.ran_with, context.origin.value)
                with suppress(OperationCancelled):
                    context.notes += await self.hooks.after(call, result, context.signal)
        finally:
            context.order.done()
        context.advance(ending)
        return await self._results.finish(result, context, self.registry.get(context.tool))

    async def _outcome(self, context: CallContext) -> tuple[ToolResult, Transition]:
        """Return what the call itself ends with, and how."""
        ending = Transition.FINISH
        try:
            result = await self._run(context)
        except ToolFailure as failure:
            result = ToolResult.of_failure(failure)
            if isinstance(failure, SandboxUnavailable):
                context.place = None  # nothing ran anywhere
            ending = Transition.CANCEL if isinstance(failure, OperationCancelled) else ending
        except Exception as error:  # the promise of `execute`: nothing a tool does can end the agent's loop
            log.exception("%s failed in a way it should not", context.name)
            what = f"{type(error).__name__}: {error}"
            message = f"{context.name} failed because of a defect in it ({what}). Try another way."
            result = ToolResult.of_failure(Internal(message))
        return result, ending

    async def _run(self, context: CallContext) -> ToolResult:
        context.signal.throw_if_aborted()
        judged = await self.validate_and_judge(context, context.name, context.arguments)
        unchanged = await self.preconditions(context, judged)
        if unchanged is not None:
            return unchanged
        if judged.explanation.decision is Decision.ALLOW and context.order.follows_others:
            context.order.asked()
            judged = await self.judge_in_turn(context, judged.invocation)
        if judged.explanation.decision is Decision.ASK:
            judged = await self._gate.confirm(context, judged, attended=self.attended)
        context.order.asked()
        await context.my_turn()
        result = await self._run_allowed(context, judged)
        if judged.invocation.further and self.attended:
            return await self._offer_further(context, judged.invocation, result)
        return await self._offer_outside(context, judged, result) if judged.invocation.refused else result

    async def _run_allowed(self, context: CallContext, judged: Judged) -> ToolResult:
        """Run what is allowed by now, once the audit has it."""
        if self._recorded is not None:
            await context.signal.guard(self._recorded())
        context.advance(Transition.RUN)
        context.place = judged.place_where_it_runs()
        if self.hooks is not None:
            context.ran_with = judged.invocation.params.on_the_wire()
        if self.approvals.store is not None:
            self.approvals.store.record_use(judged.explanation)
        if judged.call.line is not None or judged.call.effect is Effect.WRITES:
            await context.signal.in_thread(self._note_writing, judged)
        limit = self._context.limits.call_seconds

        async def run() -> ToolResult:
            return await run_invocation(context, judged.invocation, limit, self.bus, self._clock)

        return await (run() if self._journal is None else self._journal.around(context, judged.invocation, run))

    def _note_writing(self, judged: Judged) -> None:
        """Keep what is written unasked, before it is; forget what a person approves. Raises StorageFailed."""
        unasked, explanation = self._context.unasked_writes, judged.explanation
        if explanation.decision is Decision.ASK:
            if judged.call.line is not None:
                cwd = judged.call.arguments.get("cwd")
                self.forget_unasked(judged.call.line, cwd if isinstance(cwd, str) else "")
        elif judged.call.effect is Effect.WRITES and all(line.layer is not Layer.MODE for line in explanation.trace):
            touched = judged.invocation.touched_paths()
            places = (self.workspace.resolve(each.path, each.access, follow=each.follow) for each in touched)
            unasked.note(place.real for place in places)

    async def _offer_outside(self, context: CallContext, judged: Judged, result: ToolResult) -> ToolResult:
        """Ask whether a call that the cage refused something may run again outside; return what the model gets."""
        invocation, refused, place = judged.invocation, judged.invocation.refused, context.place
        if not self.attended or context.signal.aborted:
            return result
        invocation.chosen_place, invocation.refused_by = ExecutionPlace.THIS_MACHINE, place
        reason = f"the cage refused it something ({refused}); with a yes it runs once more, outside the cage"
        try:
            judged = await self._confirm_again(context, invocation, reason)
            context.notes.append(f"the cage ({place}) refused it {refused}: the person let it run again outside")
            return await self._run_allowed(context, judged)
        except ToolFailure as failure:
            if context.state is CallState.RUNNING:
                raise
            context.notes.append(f"it was not run again outside the cage: {failure.message}")
            return result

    async def _offer_further(self, context: CallContext, invocation: AnyInvocation, result: ToolResult) -> ToolResult:
        """Ask a second time for what the first yes did not cover; returns what the model gets."""
        reason = f"a second question: the first yes did not cover {invocation.further}"
        try:
            judged = await self._confirm_again(context, invocation, reason)
        except ToolFailure as failure:
            context.notes.append(f"{invocation.further} did not run: {failure.message}")
            return result
        return await self._run_allowed(context, judged)

    async def _confirm_again(self, context: CallContext, invocation: AnyInvocation, reason: str) -> Judged:
        """Return what a person approves of a call that has run already; raises ToolFailure."""
        judged = await self.judge_in_turn(context, invocation)
        asking = judged.explanation._replace(decision=Decision.ASK, reason=reason, looks=False)
        return await self._gate.confirm(context, judged._replace(explanation=asking), attended=True)
