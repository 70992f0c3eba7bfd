"""Judge calls: validate them, collect what stands against them, ask the policy, record what it decided."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import (
    EditNoChange,
    EditTargetAmbiguous,
    EditTargetNotFound,
    PolicyDenied,
    ToolFailure,
)
from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.core.bus.confirmation import Preview
from ollm_tui.core.bus.states import Origin, Risk
from ollm_tui.core.execution.call_hooks import CallHooks, HookedCall
from ollm_tui.core.execution.calls import (
    CallContext,
    CallReview,
    CallToJudge,
    Judged,
    Transition,
    canonical,
    digest_of,
)
from ollm_tui.core.execution.options import ExecutorOptions
from ollm_tui.core.execution.remembering import CallApprovals
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.audit import AuditEvent
from ollm_tui.core.policy.engine import Explanation, Floor, JudgedCall, Layer, PolicyEngine, TraceLine
from ollm_tui.core.policy.plan import NOT_IN_THE_PLAN, ApprovedPlan
from ollm_tui.core.policy.project_programs import project_code, project_programs
from ollm_tui.core.policy.rules import Decision, ExecMode, Mode
from ollm_tui.core.sandbox.code_turns import CODE_TURNS
from ollm_tui.core.sandbox.engines import Sandbox
from ollm_tui.core.tools.argument_repair import repair
from ollm_tui.core.tools.base import AnyInvocation, Effect, Question
from ollm_tui.core.tools.context import PlanGrant, ToolContext
from ollm_tui.core.tools.propose_plan import PROPOSE_PLAN
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.core.tools.run_code import RUN_CODE
from ollm_tui.core.tools.schema import function_schema
from ollm_tui.core.tools.task import TASK

ASKS_LATER = "it asks once where a call has written unasked, within a day, what it runs; so far none has"
MOST_NAMED = 3
"""Files written unasked that a question names."""

QUOTING = (EditTargetNotFound, EditTargetAmbiguous, EditNoChange)
"""Errors whose message quotes the file: about a protected file they wait for the person's answer."""


class CallJudge:
    """Validates calls and judges them by the policy and mode of that moment; both may be replaced while running."""

    def __init__(
        self,
        registry: ToolRegistry,
        policy: PolicyEngine,
        workspace: Workspace,
        context: ToolContext,
        options: ExecutorOptions,
    ) -> None:
        self.registry = registry
        self.policy = policy
        self.workspace = workspace
        self.mode = options.mode
        self.plan: ApprovedPlan | None = None
        """The plan that the person approved in this session."""
        self.approvals = CallApprovals(self, options.approvals)
        self._context = context
        self._forgiving = options.forgiving
        self._on_record = options.on_record
        self.hooks: CallHooks | None = None

    def offered_schemas(self) -> list[JsonObject]:
        """Return the schemas of all tools that the policy lets exist, sorted by name; a plan's in mode plan alone."""
        tools = [tool for tool in self.registry.list() if self.policy.is_available(tool)]
        offered = {PROPOSE_PLAN: self.mode is Mode.PLAN, TASK: self._context.tasks is not None}
        return [function_schema(tool) for tool in tools if tool.offered and offered.get(tool, True)]

    async def change_policy(
        self, change: Callable[[PolicyEngine], PolicyEngine], workspace: Workspace, sandbox: Sandbox | None = None
    ) -> None:
        """Go on under what `change` makes of the policy; never while an approval is saved.

        Args:
            change: Makes the new policy of the one of that moment.
            workspace: Where calls work from now on.
            sandbox: The cages of calls that begin from now on; None where they stay.
        """
        async with self.approvals.saving:
            self.policy, self.workspace = change(self.policy), workspace
            self._context = replace(self._context, workspace=workspace, sandbox=sandbox or self._context.sandbox)

    async def explain(self, name: str, arguments: JsonValue, *, origin: Origin = Origin.USER) -> Explanation:
        """Return the judgement alone; `stat` at most touches the disk. Raises ToolFailure where there is none."""
        return (await self.judge_call(name, arguments, origin=origin)).explanation

    async def judge_call(self, name: str, arguments: JsonValue, *, origin: Origin = Origin.USER) -> Judged:
        """Return the judgement with the call it is about. Raises ToolFailure where it could not run."""
        invocation, _ = self._prepare(name, arguments)
        judged = await self._judge(invocation, origin, AbortSignal())
        refusal = invocation.facts().refusal
        if refusal is not None and judged.explanation.decision is not Decision.DENY:
            raise refusal
        return judged

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
        digest = ""
        try:
            await _check(invocation, signal)
            question = await invocation.question()
            digest = self.review_digest(judged, question)
            preview = await question.preview()
        except ToolFailure as failure:
            errors = (failure.message,)
        return CallReview(
            decision=judged.explanation.decision,
            risk=judged.explanation.risk,
            reason=judged.explanation.reason,
            errors=errors,
            trace=judged.explanation.trace,
            arguments=judged.call.arguments,
            notes=tuple(notes),
            preview=preview,
            offer=await self.approvals.offer(judged, signal),
            digest=digest,
        )

    async def judge_proposed(self, call: CallToJudge) -> Judged:
        """Judge a call that is only proposed, or was made before. Raises ToolFailure."""
        invocation, _ = self._prepare(call.name, call.arguments)
        return await self._judge(invocation, call.origin, AbortSignal())

    # -- on the way of a call ----------------------------------------------------------------------------------------

    async def validate_and_judge(self, context: CallContext, name: str, arguments: JsonValue) -> Judged:
        """Raise InvalidArguments, InvalidPath, PolicyDenied and what the tool itself raises."""
        invocation, notes = self._prepare(name, arguments, context.call_id)
        context.notes += notes
        context.advance(Transition.VALIDATE)
        if self.hooks is not None:
            invocation = await self._hooked(context, invocation, self.hooks)
        return await self._judge_and_record(context, invocation)

    async def _hooked(self, context: CallContext, invocation: AnyInvocation, hooks: CallHooks) -> AnyInvocation:
        """Return the call as hooks want it, to be judged with what they have said."""
        tool, arguments = invocation.tool.name, invocation.params.on_the_wire()
        word = await hooks.before(HookedCall(context.call_id, tool, arguments, context.origin.value), context.signal)
        context.hooked = word
        context.notes += word.notes
        if word.arguments is None or word.arguments == arguments:
            return invocation
        changed, notes = self._prepare(tool, word.arguments, context.call_id)
        context.notes += notes
        return changed

    async def judge_in_turn(self, context: CallContext, invocation: AnyInvocation) -> Judged:
        """Judge as things stand when its turn has come: what ran before may have changed what this call does."""
        await context.my_turn()
        return await self._judge_and_record(context, invocation)

    async def preconditions(self, context: CallContext, judged: Judged) -> ToolResult | None:
        """Fail what must fail before anyone is asked; but not before calls that go first have had their say."""
        try:
            return await _check(judged.invocation, context.signal)
        except ToolFailure:
            if not context.order.follows_others and not judged.call.floors:
                raise
            context.order.asked()
            await context.my_turn()
        try:
            return await _check(judged.invocation, context.signal)
        except QUOTING:
            if not judged.call.floors:
                raise
            return None  # the same error comes again when it runs, once the person let it look into the file

    def fingerprint(self, judged: Judged, question: Question) -> str:
        """Return what an approval is bound to: tool, arguments, working directory, states of the files shown."""
        invocation = judged.invocation  # what will run, not what was judged
        arguments = canonical(invocation.params.on_the_wire())
        return digest_of(invocation.tool.name, arguments, str(self.workspace.root), question.state)

    def review_digest(self, judged: Judged, question: Question) -> str:
        """Return what an approval of a reviewed call is bound to: its fingerprint and the risk that was shown."""
        return digest_of(self.fingerprint(judged, question), judged.explanation.risk.value)

    def record(
        self,
        context: CallContext,
        event: AuditEvent,
        *,
        error_type: str | None = None,
        waited: float | None = None,
    ) -> None:
        """Pass on what is known of the call by now; `waited` in seconds where it is not all of its waiting."""
        if self._on_record is not None:
            self._on_record(context.record(event, error_type=error_type, waited=waited))

    # -- inside ------------------------------------------------------------------------------------------------------

    def _prepare(self, name: str, arguments: JsonValue, call_id: str = "") -> tuple[AnyInvocation, list[str]]:
        resolved = self.registry.resolve(name, arguments if isinstance(arguments, dict) else None)
        given: JsonValue = arguments if resolved.arguments is None else resolved.arguments
        notes: list[str] = []
        if self._forgiving:
            repaired = repair(resolved.tool, given)
            given, notes = repaired.arguments, repaired.notes
        return resolved.tool.create_invocation(given, _for_call(self._context, call_id)), notes

    async def _judge(
        self, invocation: AnyInvocation, origin: Origin, signal: AbortSignal, asked: CallContext | None = None
    ) -> Judged:
        call = await self._call_to_judge(invocation, origin, signal)
        if asked is not None:
            word, own = asked.hooked, (Floor(Decision.ASK, asked.remarks.question),) if asked.remarks.question else ()
            remark = "; ".join(filter(None, (call.remark, word.remark)))
            call = replace(call, floors=(*call.floors, *own, *word.floors), remark=remark)
        if self.plan is not None and self.plan.concerns(call):
            return Judged(invocation, *await signal.in_thread(self._judge_by_plan, self.plan, call))
        if call.tool.effect is Effect.RUNS:
            # A command line is parsed, and looked at by bash itself, before it may be allowed: not on the event loop.
            return Judged(invocation, *await signal.in_thread(self._judge_command, call))
        return Judged(invocation, call, self.policy.explain(call, self.mode))

    def _judge_by_plan(self, plan: ApprovedPlan, call: JudgedCall) -> tuple[JudgedCall, Explanation]:
        """Judge a call that changes something: in the plan it may run where it would ask, outside it asks."""
        sources = self.policy.sources
        if not plan.covers(call, sources):
            call = replace(call, floors=(*call.floors, Floor(Decision.ASK, NOT_IN_THE_PLAN)))
            return call, self.policy.explain(call, self.mode)
        explanation = self.policy.explain(call, self.mode)
        if explanation.decision is Decision.ASK:
            explanation = plan.widened(call, sources).explain(call, self.mode)
        return self._ask_about_unasked(call, explanation)

    def _judge_command(self, call: JudgedCall) -> tuple[JudgedCall, Explanation]:
        return self._ask_about_unasked(call, self.policy.explain(call, self.mode))

    def _ask_about_unasked(self, call: JudgedCall, explanation: Explanation) -> tuple[JudgedCall, Explanation]:
        """Ask where an approved command line runs what a call wrote unasked: the approval was about what was there."""
        if call.line is None or explanation.decision is not Decision.ALLOW or explanation.looks or self.anything_runs:
            return call, explanation
        cwd = call.arguments.get("cwd")
        changed = self.written_unasked(call.line, cwd if isinstance(cwd, str) else "")
        if changed is None:
            return call, explanation
        if not changed:
            foretold = TraceLine(Layer.FLOOR, Decision.ALLOW, ASKS_LATER)
            return call, explanation._replace(trace=(*explanation.trace, foretold))
        call = replace(call, floors=(*call.floors, Floor(Decision.ASK, self.unasked_words(changed))))
        return call, self.policy.explain(call, self.mode)

    @property
    def anything_runs(self) -> bool:
        """Whether mode or policy let every command run, whatever it is."""
        return self.mode is Mode.YOLO or self.policy.sources.commands.mode is ExecMode.FULL

    def written_unasked(self, line: str, cwd: str = "") -> list[Path] | None:
        """Return what was written unasked of what a command line runs; None where it runs nothing. Blocks."""
        programs, places = project_programs(line, self.workspace, cwd), project_code(line, self.workspace, cwd)
        if not programs and not places:
            return None
        unasked = self._context.unasked_writes
        program = unasked.among(programs)
        return list(dict.fromkeys([program, *unasked.code_in(places)] if program else unasked.code_in(places)))

    def unasked_words(self, changed: Sequence[Path]) -> str:
        """Return why what was written unasked asks."""
        if not {*self.workspace.roots}.isdisjoint(changed):
            return "which files calls wrote unasked cannot be read, and it may run one of them"
        shown = ", ".join(self.workspace.shown(path) for path in changed[:MOST_NAMED])
        more = f" and {len(changed) - MOST_NAMED} more" if len(changed) > MOST_NAMED else ""
        verb, what = ("was", "a call") if len(changed) == 1 else ("were", "calls")
        return f"it may run {shown}{more}, which {verb} written by {what} that nobody was asked about"

    def forget_unasked(self, line: str, cwd: str = "") -> None:
        """Forget what a person let a command line run. Raises StorageFailed."""
        programs, places = project_programs(line, self.workspace, cwd), project_code(line, self.workspace, cwd)
        self._context.unasked_writes.forget(programs, places)

    def adopt_plan(self, grants: tuple[PlanGrant, ...]) -> None:
        """Let an approved plan bind from now on, and leave plan mode."""
        self.plan = ApprovedPlan(grants)
        if self.mode is Mode.PLAN:
            self.mode = Mode.ASK

    async def _call_to_judge(self, invocation: AnyInvocation, origin: Origin, signal: AbortSignal) -> JudgedCall:
        """Return the call with its floors; raises InvalidPath for a path outside, whatever the policy says."""
        floors: list[Floor] = []
        judged: dict[tuple[str, bool], Path] = {}
        inside = True
        for touched in invocation.touched_paths():
            location = self.workspace.resolve(touched.path, touched.access, follow=touched.follow)
            judged[touched.path, touched.follow] = location.real
            inside = inside and location.real.is_relative_to(self.workspace.root)
            sensitivity = self.workspace.sensitivity(location, touched.access)
            if sensitivity is not None:
                reason = f"{location.shown} {sensitivity.reason}"
                floors.append(Floor(Decision(sensitivity.decision), reason))
        invocation.context.bind(self.workspace.bound_to(judged))
        tool, facts = invocation.tool, invocation.facts()
        vacated = facts.new_path is not None and await signal.in_thread(
            self._context.vacated_paths.covers, facts.new_path
        )
        if facts.question is not None:
            floors.append(Floor(Decision.ASK, facts.question))
        if await invocation.should_confirm_execute(signal):
            floors.append(Floor(Decision.ASK, f"{tool.name} always asks for a call like this"))
        if origin is Origin.SALVAGED and facts.effect not in (Effect.READS, Effect.PLANS):
            floors.append(Floor(Decision.ASK, "the call was read out of the model's plain text"))
        return JudgedCall(
            tool=tool,
            arguments=invocation.params.on_the_wire(),
            effect=facts.effect,
            origin=Origin.PLUGIN if tool.plugin else origin,
            command=facts.command,
            virtual={**facts.virtual, "$exists": True} if vacated else facts.virtual,
            inside_workspace=inside,
            floors=tuple(floors),
            remark="what was there was moved away or deleted by a call within a day" if vacated else "",
        )

    async def _judge_and_record(self, context: CallContext, invocation: AnyInvocation) -> Judged:
        if invocation.tool.effect is Effect.RUNS and invocation.tool is not RUN_CODE:
            await CODE_TURNS.code_is_over(context.signal)  # which may change what the paths of a line lead to
        judged = await self._judge(invocation, context.origin, context.signal, context)
        context.advance(Transition.JUDGE)
        allowed = judged.explanation.decision is Decision.ALLOW
        context.only_reads = allowed and judged.call.effect is Effect.READS
        if context.only_reads:
            context.order.reads()
        context.tool, context.explanation = invocation.tool.name, judged.explanation
        if self._on_record is not None:
            context.digest = digest_of(canonical(judged.call.arguments))
            self.record(context, AuditEvent.DECIDED)
        if judged.explanation.decision is Decision.DENY:
            reason = judged.explanation.reason
            by_hook = any(floor.decision is Decision.DENY and floor.reason == reason for floor in context.hooked.floors)
            said = reason[:1].upper() + reason[1:] if by_hook else f"Denied by policy: {reason}"
            raise PolicyDenied(
                f"{said.rstrip('.')}. Do not try to reach the same by other means.",
                {"decision": "deny", "reason": reason},
            )
        return judged


async def _check(invocation: AnyInvocation, signal: AbortSignal) -> ToolResult | None:
    refusal = invocation.facts().refusal
    if refusal is not None:
        raise refusal
    return await invocation.check(signal)


def _for_call(context: ToolContext, call_id: str) -> ToolContext:
    """Return the context with this id: `dataclasses.replace` takes ten times as long."""
    mine = object.__new__(ToolContext)
    mine.__dict__.update(context.__dict__, call_id=call_id)
    return mine
