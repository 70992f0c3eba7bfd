"""Time of one decision under a large policy, of a question on the bus, and of a whole call through the executor.

Run with `python tests/bench/bench_policy.py`; prints medians and ratios, asserts nothing.
"""

from __future__ import annotations

import asyncio
import platform
import shlex
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping

import pydantic

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import ConfirmationDetails, ConfirmationResponse
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import ConfirmationRequested, Notice
from ollm_tui.core.bus.states import Origin, Risk
from ollm_tui.core.execution.calls import CallRecord
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.execution.options import ExecutorOptions
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.approval_patterns import ApprovalPattern
from ollm_tui.core.policy.command_rules import CommandPolicy, clear_line_cache
from ollm_tui.core.policy.engine import JudgedCall, PolicyEngine, PolicySources
from ollm_tui.core.policy.rule_set import RuleSet
from ollm_tui.core.policy.rules import Decision, Operator, PolicyCondition, PolicyRule, RuleSource, ToolPolicy
from ollm_tui.core.policy.shell.shell_line import bash_accepts
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.runtime.plugins import load_registry

ROUNDS = 3_000
RULES, TOOLS, FOR_ALL = 1_000, 20, 20
LINE = (
    "git status --short && git diff --stat HEAD~3 -- src/app tests | head -n 40 && grep -rn 'def analyse' src/ tests/"
    ' | sort -u | wc -l; ls -la src/components "some dir/with blanks" && make all -j 4'
)


class NoteParameters(Parameters):
    text: str
    path: str = "."


class NoteInvocation(ToolInvocation[NoteParameters]):
    def get_description(self) -> str:
        return "Note"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        return _NOTED


_NOTED = ToolResult.of_text("noted")


def note_tool(name: str) -> Tool[NoteParameters]:
    return Tool(
        name=name,
        display_name=name,
        description="Notes",
        group=ToolGroup.FS,
        effect=Effect.READS,
        parameters=NoteParameters,
        invocation=NoteInvocation,
        risk=Risk.LOW,
    )


def large_policy() -> PolicySources:
    """1,000 rules over 20 tools, 20 of them for `*`; none of a tool's own conditions holds, so all of them are tried."""
    operators = list(Operator)
    rules: list[PolicyRule] = []
    for number in range(RULES - FOR_ALL):
        condition = PolicyCondition(param="text", operator=operators[number % 4], value=f"never this {number}")
        rules.append(PolicyRule(tool=f"tool{number % TOOLS}", action=Decision.ALLOW, conditions=[condition]))
    for number in range(FOR_ALL):
        condition = PolicyCondition(param="path", operator=Operator.STARTS_WITH, value=f"nowhere{number}/")
        conditions = [condition] if number < FOR_ALL - 1 else []
        rules.append(PolicyRule(tool="*", action=Decision.ALLOW, conditions=conditions))
    placed = [(rule, RuleSource("user", number, "/home/p/config.toml", number)) for number, rule in enumerate(rules, 1)]
    approvals = tuple(ApprovalPattern.parse(text) for text in ("git status *", "npm run *", "pytest *"))
    return PolicySources(
        (RuleSet(placed),),
        Decision.ASK,
        (ToolPolicy(deny=["browser"], allow=[]), ToolPolicy()),
        CommandPolicy(approvals=approvals, read_only_commands=True, workspace=Workspace(tempfile.gettempdir())),
    )


def microseconds(
    arms: list[Callable[[], object]], rounds: int, before: Mapping[int, Callable[[], None]] | None = None
) -> list[float]:
    """Interleaved runs of all arms, the median of each; `before` are steps not timed, by the arm's number."""
    times: list[list[float]] = [[] for _ in arms]
    steps = [(before or {}).get(number) for number in range(len(arms))]
    for _ in range(rounds):
        for arm, record, step in zip(arms, times, steps, strict=True):
            if step is not None:
                step()
            started = time.perf_counter()
            arm()
            record.append(time.perf_counter() - started)
    return [statistics.median(record) * 1e6 for record in times]


async def microseconds_awaited(arms: list[Callable[[], Awaitable[object]]], rounds: int) -> list[float]:
    times: list[list[float]] = [[] for _ in arms]
    for _ in range(rounds):
        for arm, record in zip(arms, times, strict=True):
            started = time.perf_counter()
            await arm()
            record.append(time.perf_counter() - started)
    return [statistics.median(record) * 1e6 for record in times]


def decisions() -> None:
    engine = PolicyEngine(large_policy())
    early = JudgedCall(note_tool("tool3"), {"text": "never this 3", "path": "a"}, Effect.READS, Origin.MODEL)
    late = JudgedCall(note_tool("tool3"), {"text": "something else", "path": "a"}, Effect.READS, Origin.MODEL)
    shell = next(tool for tool in load_registry()[0].list() if tool.name == "shell")
    line = JudgedCall(shell, {"command": LINE, "background": False}, Effect.RUNS, Origin.MODEL)
    first, last = microseconds([lambda: engine.explain(early), lambda: engine.explain(late)], ROUNDS)
    print(f"decision, the tool's first rule matches      {first:8.1f} us")
    print(f"decision, 49 own and 19 `*` rules do not      {last:8.1f} us   (wanted: at most 25)")
    engine.explain(line)  # bash -n has its answer kept from here on
    listed = PolicyEngine(
        PolicySources((), Decision.ASK, (), CommandPolicy(read_only_commands=True, workspace=Workspace(".")))
    )
    listed.explain(line)
    fresh, again, split = microseconds(
        [
            lambda: engine.explain(line),
            lambda: engine.explain(line),
            lambda: shlex.split(LINE),
        ],
        600,
        before={0: clear_line_cache},
    )
    # By themselves: walking a disk and starting a process chill every cache for what comes next.
    (listing,) = microseconds([lambda: listed.explain(line)], 100)
    (checked,) = microseconds([lambda: bash_accepts(LINE)], 100)
    print(f"shell line of {len(LINE)} characters, 8 commands, new  {fresh:8.1f} us   (wanted: at most 300)")
    print(f"the same line judged again                    {again:8.1f} us")
    print(f"by the read-only list, all below tests/ seen  {listing:8.1f} us")
    print(f"shlex.split of it, for the machine's pace     {split:8.1f} us   ratio {fresh / split:.1f}")
    print(f"bash -n of it, once before an allow           {checked:8.1f} us")


async def questions() -> None:
    bus = MessageBus()
    loop = asyncio.get_running_loop()
    details = ConfirmationDetails(tool_name="note", description="Note", risk=Risk.LOW)

    def answer(notice: Notice) -> None:
        if isinstance(notice, ConfirmationRequested):
            loop.call_soon(
                bus.respond_to_confirmation, ConfirmationResponse(id=notice.confirmation.request.id, approved=True)
            )

    bus.subscribe(answer)

    async def bare() -> None:
        future: asyncio.Future[bool] = loop.create_future()
        loop.call_soon(future.set_result, True)
        await future

    asked, waited = await microseconds_awaited([lambda: bus.request_confirmation(details), bare], ROUNDS)
    print(f"question and answer on the bus                {asked:8.1f} us")
    print(
        f"bare asyncio.Future, set by call_soon         {waited:8.1f} us   ratio {asked / waited:.1f} (wanted: at most 25)"
    )


async def calls() -> None:
    registry = ToolRegistry()
    for number in range(TOOLS):
        registry.register(note_tool(f"tool{number}"))
    records: list[CallRecord] = []
    workspace = Workspace(tempfile.gettempdir())
    executor = ToolExecutor(
        registry,
        PolicyEngine(large_policy()),
        MessageBus(),
        workspace,
        options=ExecutorOptions(on_record=records.append),
    )
    arguments: dict[str, pydantic.JsonValue] = {"text": "something else", "path": "a"}
    whole, bare = await microseconds_awaited(
        [
            lambda: executor.execute("tool3", arguments),
            lambda: asyncio.wait({asyncio.ensure_future(asyncio.sleep(0))}, timeout=300),
        ],
        ROUNDS // 2,
    )
    print(f"a call through the executor                   {whole:8.1f} us   (wanted: at most 150)")
    print(f"of these, a task awaited with a time limit    {bare:8.1f} us")


def main() -> None:
    print(f"Python {platform.python_version()}, pydantic {pydantic.VERSION}; {RULES} rules, {TOOLS} tools, medians")
    decisions()
    asyncio.run(questions())
    asyncio.run(calls())


if __name__ == "__main__":
    main()
