"""One judgement for everybody: what `policy check` says is what the executor does, line for line."""

from __future__ import annotations

import asyncio
import json
import shlex
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ollm_tui.cli import main
from ollm_tui.core import (
    ConfirmationResponse,
    MessageBus,
    PolicyConfig,
    PolicyEngine,
    PolicyRule,
    ToolExecutor,
    ToolRegistry,
    Workspace,
)
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.notices import ConfirmationRequested, ConfirmationSettled, Notice
from ollm_tui.core.bus.states import Origin, Risk
from ollm_tui.core.policy.approval_patterns import ApprovalPattern
from ollm_tui.core.policy.command_rules import CommandPolicy
from ollm_tui.core.policy.engine import JudgedCall, PolicySources
from ollm_tui.core.policy.rule_set import RuleSet
from ollm_tui.core.policy.rules import Decision, ExecMode, Mode, Operator, PolicyCondition, RuleSource, strictest
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.builtin import BUILTIN_TOOLS
from ollm_tui.core.tools.edit_file import EDIT_FILE
from ollm_tui.core.tools.shell import SHELL
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, configure, open_core
from tests import DATA_DIR

CORPUS = DATA_DIR / "shell_lines"
TOOLS = {tool.name: tool for tool in BUILTIN_TOOLS}
POLICY = """
[exec]
mode = "allowlist"
approvals = [{ pattern = "make *" }, { pattern = "git commit *" }]

[[rules]]
tool = "shell"
action = "deny"
message = "never"
conditions = [{ param = "command", operator = "startsWith", value = ["rm ", "curl "] }]

[[rules]]
tool = "shell"
action = "ask"
conditions = [{ param = "command", operator = "matches", value = "(^|[; ])git push" }]
"""


def corpus() -> list[str]:
    """Every line of the collections, whatever it is there for."""
    found: list[str] = []

    def take(value: object) -> None:
        match value:
            case str():
                found.append(value)
            case list():
                for each in value:
                    take(each)
            case dict():
                for key, each in value.items():
                    if key not in ("paths", "reason", "repositories"):
                        take(each)
            case _:
                pass

    for file in sorted(CORPUS.glob("*.toml")):
        if file.name != "pieces.toml":
            take(tomllib.loads(file.read_text("utf-8")))
    return [line for line in dict.fromkeys(found) if line.strip() and "\0" not in line]


async def test_policy_check_and_the_executor_say_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Several hundred command lines, and calls of every other tool, through both doors."""
    (tmp_path / "p.toml").write_text(POLICY)
    (tmp_path / "src").mkdir()
    (tmp_path / ".env").write_text("A=1\n")
    rows: list[JsonObject] = [{"name": "shell", "arguments": {"command": line}} for line in corpus()]
    assert len(rows) > 500
    files: list[JsonObject] = [{"path": "a"}, {"path": ".env"}, {"path": "../x"}, {"path": ".git/config"}, {"pth": 1}]
    rows += [{"name": name, "arguments": arguments} for name in sorted(TOOLS) if name != "shell" for arguments in files]
    rows += [{"name": "exec", "arguments": {"command": "rm x"}}, {"name": "nope", "arguments": {}}]
    batch = tmp_path / "rows.jsonl"
    batch.write_text("".join(json.dumps({"id": number, **row}) + "\n" for number, row in enumerate(rows)))
    arguments = ["policy", "check", "--batch", str(batch), "--policy", str(tmp_path / "p.toml"), "-C", str(tmp_path)]
    assert await asyncio.to_thread(main, arguments) == 0
    said = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [each["id"] for each in said] == list(range(len(rows)))
    options = Options(workspace=tmp_path, policy_file=tmp_path / "p.toml")
    seen: set[str] = set()
    async with open_core(configure(options), Attendance.NOBODY) as core:
        for number, (row, answer) in enumerate(zip(rows, said, strict=True)):
            name, arguments = str(row["name"]), row["arguments"]
            try:
                explained = (await core.executor.explain(name, arguments)).as_json()
            except ToolFailure as failure:
                explained = {"decision": "deny", "risk": "high", "reason": failure.message, "trace": []}
            assert {"id": number, **explained} == answer, row
            seen.add(answer["decision"])
            if answer["decision"] != "allow" and answer["trace"] and number % 5 == 0:
                result = await core.executor.execute(name, arguments)
                assert result.error is not None, row
                told = result.error.details.get("decision", answer["decision"])  # some fail before anyone is asked
                assert told == answer["decision"], row
    assert seen == {"allow", "ask", "deny"}


# -- commands: parts, layers, repositories ----------------------------------------------------------------------------


def placed(*rules: PolicyRule, source: str = "user") -> RuleSet:
    return RuleSet([(rule, RuleSource(source, number)) for number, rule in enumerate(rules, 1)])


def about(action: Decision, operator: Operator, value: str, param: str = "command") -> PolicyRule:
    return PolicyRule(
        tool="shell", action=action, conditions=[PolicyCondition(param=param, operator=operator, value=value)]
    )


def judged(sources: PolicySources, line: str, mode: Mode = Mode.ASK) -> Decision:
    call = JudgedCall(TOOLS["shell"], {"command": line, "background": False}, Effect.RUNS)
    return PolicyEngine(sources).explain(call, mode).decision


WORD = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=5)
NAME = st.one_of(st.sampled_from(["ls", "make", "git", "rm", "npm", "tool"]), WORD)
COMMAND = st.lists(NAME, min_size=1, max_size=3).map(shlex.join)
JOIN = st.sampled_from([" && ", "; ", " | ", " || ", "\n"])
RESTRICTION = st.tuples(st.sampled_from([Decision.ASK, Decision.DENY]), NAME)


def sources_for(names: list[str], restrictions: list[tuple[Decision, str]], on_miss: Decision) -> PolicySources:
    approvals = tuple(
        ApprovalPattern.parse(shlex.quote(name) + " *") for name in names if name.strip() and "'" not in name
    )
    rules = [about(action, Operator.EQUALS, shlex.quote(name)) for action, name in restrictions]
    return PolicySources((placed(*rules),), Decision.ASK, (), CommandPolicy(on_miss=on_miss, approvals=approvals))


@given(
    st.lists(COMMAND, min_size=2, max_size=3),
    JOIN,
    st.lists(NAME, max_size=3),
    st.lists(RESTRICTION, max_size=2),
    st.sampled_from([Decision.ASK, Decision.DENY]),
)
@settings(max_examples=100, deadline=None)
def test_a_line_gets_the_strictest_answer_of_its_parts(
    commands: list[str], join: str, names: list[str], restrictions: list[tuple[Decision, str]], on_miss: Decision
) -> None:
    sources = sources_for(names, restrictions, on_miss)
    line = judged(sources, join.join(commands))
    assert line is strictest(*(judged(sources, command) for command in commands))


@given(
    COMMAND,
    COMMAND,
    JOIN,
    st.lists(NAME, max_size=3),
    st.lists(RESTRICTION, max_size=2),
    st.sampled_from(list(ExecMode)),
)
@example("ls", "-", " && ", ["ls", "-"], [], ExecMode.ALLOWLIST)  # `bash -c -` takes the line for an option
@settings(max_examples=100, deadline=None)
def test_adding_a_part_or_a_restriction_never_loosens(
    one: str, other: str, join: str, names: list[str], restrictions: list[tuple[Decision, str]], mode: ExecMode
) -> None:
    sources = sources_for(names, [], Decision.ASK)
    sources = replace(sources, commands=replace(sources.commands, mode=mode))
    restricted = replace(sources, rule_sets=sources_for([], restrictions, Decision.ASK).rule_sets)
    tightened = replace(sources, tightening=restricted.rule_sets)
    line = one + join + other
    assert judged(sources, line).rank >= max(judged(sources, one).rank, judged(sources, other).rank)
    assert judged(restricted, line).rank >= judged(sources, line).rank
    assert judged(tightened, line).rank >= judged(sources, line).rank


@pytest.mark.parametrize("mode", [ExecMode.FULL, ExecMode.ALLOWLIST])
@pytest.mark.parametrize(
    "line", ["ls", "ls; make", "# nothing", "> out", "((1))", "x=1", "ls (", "$(", "for i in a; do ls; done"]
)
@pytest.mark.parametrize("denying", ["user", "repository"])
def test_a_rule_that_denies_all_commands_denies_every_line(line: str, mode: ExecMode, denying: str) -> None:
    everything = CommandPolicy(mode=mode, approvals=(ApprovalPattern.parse("*"),), read_only_commands=True)
    rules = placed(PolicyRule(tool="shell", action=Decision.DENY), source=denying)
    sources = PolicySources((rules,) if denying == "user" else (), Decision.ALLOW, (), everything)
    if denying == "repository":
        sources = replace(sources, tightening=(rules,))
    assert judged(sources, line, Mode.YOLO) is Decision.DENY


def test_a_line_that_hides_more_than_is_followed_is_denied_where_commands_are_denied() -> None:
    line = "rm x"
    for _ in range(9):
        line = f"bash -c {shlex.quote(line)}"
    full = CommandPolicy(mode=ExecMode.FULL)
    denying = PolicySources((placed(about(Decision.DENY, Operator.STARTS_WITH, "rm ")),), Decision.ASK, (), full)
    assert judged(denying, line) is Decision.DENY
    assert judged(replace(denying, rule_sets=()), line) is Decision.ALLOW


def test_the_repositorys_word_counts_where_nothing_else_matches() -> None:
    tightening = (placed(PolicyRule(tool="ls", action=Decision.DENY), source="repository"),)
    call = JudgedCall(TOOLS["ls"], {"path": "."}, Effect.READS)
    engine = PolicyEngine(PolicySources((), Decision.ALLOW, tightening=tightening))
    assert engine.explain(call).decision is Decision.DENY
    loosening = (placed(PolicyRule(tool="ls", action=Decision.ALLOW), source="repository"),)
    assert PolicyEngine(PolicySources((), Decision.ASK, tightening=loosening)).explain(call).decision is Decision.ASK


def test_a_rules_word_about_risk_opens_nothing_in_plan_mode() -> None:
    rule = about(Decision.ALLOW, Operator.STARTS_WITH, "make ").model_copy(update={"risk": Risk.LOW})
    sources = PolicySources((placed(rule),), Decision.ASK, (), CommandPolicy())
    assert judged(sources, "make all") is Decision.ALLOW
    assert judged(sources, "make all", Mode.PLAN) is Decision.DENY


@pytest.mark.parametrize("name", ["shell", "shell_output", "shell_kill"])
def test_the_exec_mode_deny_denies_commands_and_their_jobs(name: str) -> None:
    rule = PolicyRule(tool=name, action=Decision.ALLOW)
    sources = PolicySources((placed(rule),), Decision.ALLOW, (), CommandPolicy(mode=ExecMode.DENY))
    tool = TOOLS[name]
    call = JudgedCall(tool, {"command": "ls", "id": "j1"}, tool.effect)
    assert PolicyEngine(sources).explain(call, Mode.YOLO).decision is Decision.DENY


@pytest.mark.parametrize(("line", "risk"), [
    ("make all", Risk.LOW), ("make all && rm -rf src", Risk.HIGH), ("make $(rm x)", Risk.HIGH), ("make; ls", Risk.MEDIUM),
])  # fmt: skip
def test_a_rules_word_about_risk_is_about_one_command(line: str, risk: Risk) -> None:
    rule = about(Decision.ALLOW, Operator.STARTS_WITH, "make").model_copy(update={"risk": Risk.LOW})
    sources = PolicySources((placed(rule),), Decision.ASK, (), CommandPolicy())
    call = JudgedCall(TOOLS["shell"], {"command": line}, Effect.RUNS)
    assert PolicyEngine(sources).explain(call).risk is risk


def test_what_is_dangerous_or_foreign_runs_unasked_only_by_name() -> None:
    deletion = JudgedCall(TOOLS["delete_file"], {"path": "a"}, Effect.WRITES)
    foreign = JudgedCall(replace(TOOLS["edit_file"], plugin=True), {"path": "a"}, Effect.WRITES)
    open_world = PolicyEngine(PolicySources((), Decision.ALLOW))
    for call in (deletion, foreign):
        assert open_world.explain(call).decision is Decision.ASK
        asking = PolicyEngine(PolicySources((), Decision.ASK))
        assert asking.explain(call, Mode.AUTO_EDIT).decision is Decision.ASK


# -- what an approval is bound to (the digest) ------------------------------------------------------------------------


@dataclass
class Scene:
    """An executor that asks, and what changes between the first answer and the effect."""

    executor: ToolExecutor
    asked: list[ConfirmationRequested]
    change: Callable[[], object] = lambda: None
    """Done once, when the first answer is given."""


def asking(workspace: Path, tool: str, answers: int) -> Scene:
    registry = ToolRegistry()
    registry.register(EDIT_FILE)
    registry.register(SHELL)
    bus = MessageBus()
    policy = PolicyEngine(PolicyConfig(rules=[PolicyRule(tool=tool, action=Decision.ASK)]))
    executor = ToolExecutor(registry, policy, bus, Workspace(workspace), attended=True)
    scene = Scene(executor, [])

    def answer(notice: Notice) -> None:
        if isinstance(notice, ConfirmationRequested):
            scene.asked.append(notice)
            approved = len(scene.asked) <= answers
            response = ConfirmationResponse(id=notice.confirmation.request.id, approved=approved)
            asyncio.get_running_loop().call_soon(bus.respond_to_confirmation, response)
        elif isinstance(notice, ConfirmationSettled) and len(scene.asked) == 1:
            scene.change()

    bus.subscribe(answer)
    return scene


EDIT: JsonObject = {"path": "a.txt", "edits": [{"target": "one", "replacement": "two"}]}


async def test_a_file_that_changed_behind_the_preview_is_asked_about_again(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    scene = asking(tmp_path, "edit_file", answers=1)
    scene.change = lambda: (tmp_path / "a.txt").write_text("one\nmore\n")
    result = await scene.executor.execute("edit_file", EDIT)
    assert (
        len(scene.asked) == 2 and scene.asked[1].confirmation.request.replaces == scene.asked[0].confirmation.request.id
    )
    assert result.error is not None and result.error.code == "USER_DENIED"
    assert (tmp_path / "a.txt").read_text() == "one\nmore\n"


async def test_another_directory_in_the_place_of_the_working_directory_is_asked_about_again(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "other").mkdir()
    scene = asking(tmp_path, "shell", answers=1)

    def swap() -> None:
        (tmp_path / "here").rename(tmp_path / "gone")
        (tmp_path / "other").rename(tmp_path / "here")

    scene.change = swap
    call: JsonObject = {"command": "touch made", "cwd": "here"}
    result = await scene.executor.execute("shell", call)
    assert len(scene.asked) == 2 and not result.ok
    assert not (tmp_path / "here" / "made").exists()


@pytest.mark.parametrize("what", ["tool", "arguments", "nothing"])
async def test_an_approval_holds_for_this_tool_and_these_arguments(
    tmp_path: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    scene = asking(tmp_path, "edit_file", answers=1)
    made: list[object] = []
    invocation_class = EDIT_FILE.invocation
    original = invocation_class.__init__

    def remember(self: object, *arguments: object) -> None:
        original(self, *arguments)  # type: ignore[arg-type]  # passed through
        made.append(self)

    monkeypatch.setattr(invocation_class, "__init__", remember)

    def swap() -> None:
        (invocation,) = made
        if what == "tool":
            monkeypatch.setattr(invocation, "tool", replace(EDIT_FILE, name="other_tool"))
        elif what == "arguments":
            other = EDIT_FILE.parameters.model_validate({**EDIT, "edits": [{"target": "one", "replacement": "three"}]})
            monkeypatch.setattr(invocation, "params", other)

    scene.change = swap
    result = await scene.executor.execute("edit_file", EDIT)
    if what == "nothing":
        assert result.ok and len(scene.asked) == 1 and (tmp_path / "a.txt").read_text() == "two\n"
    else:
        assert not result.ok and len(scene.asked) == 2 and (tmp_path / "a.txt").read_text() == "one\n"


# -- policies on disk ---------------------------------------------------------------------------------------------------


async def test_a_policy_file_changed_while_a_question_waits_does_not_change_it(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    policy = tmp_path / "p.toml"
    policy.write_text('[[rules]]\ntool = "edit_file"\naction = "ask"\n')
    options = Options(workspace=tmp_path, policy_file=policy)
    async with open_core(configure(options), Attendance.PERSON) as core:
        task = asyncio.ensure_future(core.executor.execute("edit_file", EDIT, origin=Origin.MODEL))
        while not core.bus.pending():
            await asyncio.sleep(0.001)
        policy.write_text('[[rules]]\ntool = "edit_file"\naction = "deny"\n')
        (request,) = core.bus.pending()
        core.bus.respond_to_confirmation(ConfirmationResponse(id=request.id, approved=True))
        result = await task
        assert result.ok, result
        assert (await core.executor.explain("edit_file", EDIT)).decision is Decision.ASK
    denied = PolicyEngine(configure(options).sources)
    assert denied.explain(JudgedCall(TOOLS["edit_file"], EDIT, Effect.WRITES)).decision is Decision.DENY


@pytest.mark.parametrize(
    "arguments",
    [
        {"url": "http://0x7f000001/"},
        {"url": "http://localhost:8000/"},
        {"url": "http://169.254.169.254/latest"},
        {"url": "http://[::1]/"},
        {"url": "file:///etc/passwd"},
        {"url": "https://user:secret@example.org/"},
        {"url": "https://exa mple.org/"},
        {"url": "https://example.org/", "headers": {"Host": "localhost"}},
        {"url": "https://example.org/", "body": "x"},
    ],
)
async def test_an_address_that_no_answer_opens_is_refused_at_both_doors(tmp_path: Path, arguments: JsonObject) -> None:
    async with open_core(configure(Options(workspace=tmp_path)), Attendance.YES) as core:
        for tool in ("web_fetch", "http_fetch"):
            if tool == "http_fetch" and "body" in arguments:
                arguments = {**arguments, "method": "GET"}
            with pytest.raises(ToolFailure) as refused:
                await core.executor.explain(tool, arguments)
            result = await core.executor.execute(tool, arguments)
            assert result.error is not None and result.error.message == refused.value.message
            assert result.error.type != "PolicyDeniedError"
        assert (await core.executor.explain("web_fetch", {"url": "https://example.org/"})).decision is Decision.ASK
    with_person = open_core(configure(Options(workspace=tmp_path)), Attendance.PERSON)
    async with with_person as core:  # who may open a server of this machine
        judged = await core.executor.explain("web_fetch", {"url": "http://localhost:8000/"})
        assert judged.decision is Decision.ASK


STRICTLY_ASKED: dict[str, JsonObject] = {
    "run_code": {"language": "bash", "code": "true"},
    "shell": {"command": "ls"},
    "write_file": {"path": "new.txt", "content": "x"},
    "edit_file": {"path": "a.txt", "edits": [{"target": "a", "replacement": "b"}]},
    "move_file": {"from": "a.txt", "to": "b.txt"},
    "delete_file": {"path": "a.txt"},
    "memory": {"action": "store", "key": "k", "value": "v"},
    "web_search": {"query": "x"},
    "web_fetch": {"url": "https://docs.python.org/"},
    "http_fetch": {"url": "https://docs.python.org/"},
    "browser": {"action": "open", "url": "https://docs.python.org/"},
    "shell_kill": {"id": "job-1"},
    "git_add": {"paths": ["a.txt"]},
    "git_commit": {"message": "m"},
    "git_branch": {"name": "b"},
    "git_checkout": {"revision": "main"},
    "git_push": {},
    "run_tests": {},
    "format_code": {"paths": ["a.txt"]},
    "install_package": {"manager": "pip", "packages": ["./x"]},
    "propose_plan": {"steps": [{"task": "t"}]},
}
STRICTLY_ALLOWED: dict[str, JsonObject] = {
    "task": {"description": "d", "prompt": "p"},
    "read_file": {"path": "a.txt"},
    "read_many_files": {"paths": ["a.txt"]},
    "glob": {"pattern": "*"},
    "grep": {"pattern": "a"},
    "ls": {},
    "search_code": {"query": "a"},
    "git_status": {},
    "git_diff": {},
    "git_log": {},
    "git_show": {},
    "git_blame": {"path": "a.txt"},
    "git_branch": {"action": "list"},
    "memory": {"action": "recall", "key": "k"},
    "memory_get": {"key": "k"},
    "memory_search": {"query": "x"},
    "write_todos": {"action": "list"},
    "shell_output": {"id": "job-1"},
}


async def test_strict_asks_for_all_that_writes_runs_or_sends(tmp_path: Path) -> None:
    """A tool that is new has to be put on one of the two lists."""
    assert {*STRICTLY_ASKED, *STRICTLY_ALLOWED} == set(TOOLS)
    (tmp_path / "a.txt").write_text("a")
    policy = tmp_path.with_suffix(".toml")
    policy.write_text('preset = "strict"\n')
    async with open_core(configure(Options(workspace=tmp_path, policy_file=policy)), Attendance.NOBODY) as core:
        for name, arguments in STRICTLY_ASKED.items():
            if core.registry.get(name) is None:
                assert name == "browser"  # needs Chromium and an account that may run it
                continue
            assert (await core.executor.explain(name, arguments)).decision is Decision.ASK, name
            assert not (await core.executor.execute(name, arguments)).ok, name
        for name, arguments in STRICTLY_ALLOWED.items():
            assert (await core.executor.explain(name, arguments)).decision is Decision.ALLOW, name
    assert [file.name for file in tmp_path.iterdir()] == ["a.txt"]
