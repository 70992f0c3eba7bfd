"""The policy engine: 000's function, and the layers on top (contract section 2)."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from ollm_tui.core import PolicyCondition, PolicyConfig, PolicyEngine, PolicyRule, Risk
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.policy.engine import Floor, JudgedCall, PolicySources
from ollm_tui.core.policy.rule_set import RuleSet, compile_condition, condition_values, js_string
from ollm_tui.core.policy.rules import Decision, Mode, Operator, RuleSource, ToolPolicy, strictest
from ollm_tui.core.tools.base import AnyTool, Effect
from ollm_tui.core.tools.builtin import BUILTIN_TOOLS
from ollm_tui.options import Options
from ollm_tui.runtime import configure

TOOLS: dict[str, AnyTool] = {tool.name: tool for tool in BUILTIN_TOOLS}

NAMES = st.text(min_size=1, max_size=8)
DECISIONS = st.sampled_from(list(Decision))
SCALARS: st.SearchStrategy[JsonValue] = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(max_size=8)
)
CONDITIONS = st.builds(
    PolicyCondition,
    param=NAMES,
    operator=st.sampled_from([Operator.EQUALS, Operator.CONTAINS, Operator.STARTS_WITH]),
    value=st.one_of(st.text(max_size=4), st.lists(st.text(max_size=4), min_size=1, max_size=3)),
)
RULES = st.builds(
    PolicyRule,
    tool=st.one_of(NAMES, st.just("*")),
    action=DECISIONS,
    risk=st.one_of(st.none(), st.sampled_from(list(Risk))),
    conditions=st.lists(CONDITIONS, max_size=2),
)
CONFIGS = st.builds(PolicyConfig, default_action=DECISIONS, rules=st.lists(RULES, max_size=8))
PARAMS = st.dictionaries(NAMES, SCALARS, max_size=4)


def said_by_000(config: PolicyConfig, tool: str, params: dict[str, JsonValue]) -> Decision:
    """000's text, written down once more without an index: the tool's own rules, then `*`, then the default."""

    def holds(condition: PolicyCondition) -> bool:
        if condition.param not in params:
            return False
        text = js_string(params[condition.param])
        values = [condition.value] if isinstance(condition.value, str) else condition.value
        match condition.operator:
            case Operator.EQUALS:
                return text in values
            case Operator.CONTAINS:
                return any(value in text for value in values)
            case Operator.STARTS_WITH:
                return any(text.startswith(value) for value in values)
            case Operator.MATCHES:
                raise AssertionError("not drawn")

    for name in (tool, "*"):
        for rule in config.rules:
            if rule.tool == name and all(holds(condition) for condition in rule.conditions):
                return rule.action
    return config.default_action


@given(CONFIGS, NAMES, PARAMS)
@settings(max_examples=100)
def test_evaluate_is_the_seeds_function(config: PolicyConfig, tool: str, params: dict[str, JsonValue]) -> None:
    """Properties 33, 34 and 35."""
    assert PolicyEngine(config).evaluate(tool, params) is said_by_000(config, tool, params)


@given(CONFIGS, st.data())
@settings(max_examples=100)
def test_rules_that_are_there_decide(config: PolicyConfig, data: st.DataObject) -> None:
    """Property 33, with a tool and parameters drawn so that some rule is near."""
    names = [rule.tool for rule in config.rules] + ["other"]
    tool = data.draw(st.sampled_from(names))
    conditions = [condition for rule in config.rules for condition in rule.conditions]
    params: dict[str, JsonValue] = {}
    for condition in conditions:
        values = [condition.value] if isinstance(condition.value, str) else condition.value
        params[condition.param] = data.draw(st.sampled_from(values)) + data.draw(st.text(max_size=2))
    assert PolicyEngine(config).evaluate(tool, params) is said_by_000(config, tool, params)


@given(NAMES, DECISIONS, DECISIONS)
def test_a_tools_own_rule_beats_a_rule_for_all(tool: str, own: Decision, everybody: Decision) -> None:
    """Property 34, in either order."""
    rules = [PolicyRule(tool="*", action=everybody), PolicyRule(tool=tool, action=own)]
    for ordered in (rules, rules[::-1]):
        expected = own if tool != "*" else ordered[0].action
        assert PolicyEngine(PolicyConfig(rules=ordered)).evaluate(tool, {}) is expected


@given(CONFIGS, NAMES)
def test_every_tool_has_a_risk(config: PolicyConfig, tool: str) -> None:
    """Property 36."""
    risk = PolicyEngine(config).get_risk_level(tool)
    named = [rule.risk for rule in config.rules if rule.tool == tool and rule.risk]
    assert risk is (named[0] if named else risk) and risk in Risk


@given(CONFIGS, NAMES, PARAMS)
@settings(max_examples=100)
def test_only_rules_that_hold_say_the_risk_of_a_call(
    config: PolicyConfig, tool: str, params: dict[str, JsonValue]
) -> None:
    """Property 36 where the parameters are known: a rule about other calls plays no risk down, and none up."""
    seen = condition_values(params)
    holding = [
        rule.risk
        for rule in config.rules
        if rule.tool == tool and rule.risk and all(compile_condition(c, rule.action)(seen) for c in rule.conditions)
    ]
    engine = PolicyEngine(config)
    inferred = PolicyEngine(PolicyConfig()).get_risk_level(tool)
    assert engine.get_risk_level(tool, params=params) is (holding[0] if holding else inferred)


@pytest.mark.parametrize(("path", "risk"), [("docs/a.md", Risk.LOW), ("src/a.py", Risk.MEDIUM)])
def test_a_rule_about_other_files_says_nothing_about_this_ones_risk(path: str, risk: Risk) -> None:
    condition = PolicyCondition(param="path", operator=Operator.STARTS_WITH, value="docs/")
    rules = [
        PolicyRule(tool="write_file", action=Decision.ALLOW, risk=Risk.LOW, conditions=[condition]),
        PolicyRule(tool="write_file", action=Decision.ASK),
    ]
    engine = PolicyEngine(PolicyConfig(rules=rules))
    assert engine.explain(JudgedCall(TOOLS["write_file"], {"path": path}, Effect.WRITES)).risk is risk


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (True, "true"),
        (False, "false"),
        (None, "null"),
        (1, "1"),
        (1.0, "1"),
        (-0.5, "-0.5"),
        (1e21, "1e+21"),
        (1e-7, "1e-7"),
        ("x", "x"),
    ],
)
def test_values_are_compared_as_javascript_prints_them(value: JsonValue, text: str) -> None:
    assert js_string(value) == text
    condition = PolicyCondition(param="p", operator=Operator.EQUALS, value=text)
    engine = PolicyEngine(PolicyConfig(rules=[PolicyRule(tool="t", action=Decision.DENY, conditions=[condition])]))
    assert engine.evaluate("t", {"p": value}) is Decision.DENY


@pytest.mark.parametrize(("action", "listed", "matches"), [
    (Decision.ALLOW, ["a.py", "b.py"], True),
    (Decision.ALLOW, ["a.py", "b.txt"], False),
    (Decision.ALLOW, [], False),
    (Decision.DENY, ["a.py", "b.txt"], True),
    (Decision.ASK, ["a.txt", "b.txt"], False),
    (Decision.DENY, {"a": "b.py"}, False),
])  # fmt: skip
def test_on_a_list_an_allow_needs_all_and_a_restriction_one(action: Decision, listed: JsonValue, matches: bool) -> None:
    condition = PolicyCondition(param="paths", operator=Operator.MATCHES, value=r"\.py$")
    config = PolicyConfig(
        default_action=Decision.ASK, rules=[PolicyRule(tool="t", action=action, conditions=[condition])]
    )
    engine = PolicyEngine(config)
    rule_spoke = engine._deciding("t", condition_values({"paths": listed})) is not None
    assert rule_spoke is matches


def test_a_regular_expression_that_does_not_compile_is_refused() -> None:
    condition = PolicyCondition(param="p", operator=Operator.MATCHES, value="(?=x)")
    with pytest.raises(ValueError, match="RE2"):
        PolicyEngine(PolicyConfig(rules=[PolicyRule(tool="t", action=Decision.ALLOW, conditions=[condition])]))


def test_a_pattern_that_would_backtrack_for_ever_does_not() -> None:
    condition = PolicyCondition(param="p", operator=Operator.MATCHES, value="(a+)+$")
    engine = PolicyEngine(PolicyConfig(rules=[PolicyRule(tool="t", action=Decision.DENY, conditions=[condition])]))
    assert engine.evaluate("t", {"p": "a" * 50_000 + "!"}) is Decision.ASK


# -- the layers -----------------------------------------------------------------------------------------------------


def call(name: str, **more: object) -> JudgedCall:
    tool = TOOLS[name]
    return JudgedCall(tool=tool, arguments={}, effect=tool.effect, **more)  # type: ignore[arg-type]  # passed through


def engine_of(*rules: PolicyRule, default: Decision = Decision.ASK, tools: ToolPolicy | None = None) -> PolicyEngine:
    placed = [(rule, RuleSource("user", number)) for number, rule in enumerate(rules, 1)]
    return PolicyEngine(PolicySources((RuleSet(placed),), default, (tools,) if tools else ()))


@given(
    rule=st.one_of(st.none(), DECISIONS),
    default=DECISIONS,
    floor=st.one_of(st.none(), DECISIONS),
    denied=st.booleans(),
    mode=st.sampled_from(list(Mode)),
    name=st.sampled_from(sorted(set(TOOLS) - {"shell"})),
)
@settings(max_examples=100)
def test_adding_a_layer_never_loosens(
    rule: Decision | None, default: Decision, floor: Decision | None, denied: bool, mode: Mode, name: str
) -> None:
    rules = [PolicyRule(tool=name, action=rule)] if rule else []
    bare = engine_of(*rules, default=default).explain(call(name), mode)
    floors = (Floor(floor, "because"),) if floor else ()
    tools = ToolPolicy(deny=[name]) if denied else ToolPolicy()
    layered = engine_of(*rules, default=default, tools=tools).explain(call(name, floors=floors), mode)
    assert layered.decision.rank >= bare.decision.rank
    if denied:
        assert layered.decision is Decision.DENY
    if floor:
        assert layered.decision.rank >= floor.rank
    assert layered.reason


@given(st.lists(DECISIONS, max_size=5))
def test_the_strictest_wins(decisions: list[Decision]) -> None:
    order = [Decision.ALLOW, Decision.ASK, Decision.DENY]
    assert strictest(*decisions) is order[max((order.index(each) for each in decisions), default=0)]


def test_a_closed_world_holds_only_what_is_named() -> None:
    engine = engine_of(default=Decision.ALLOW, tools=ToolPolicy(allow=["file_read"]))
    assert engine.explain(call("read_file")).decision is Decision.ALLOW
    assert engine.explain(call("ls")).decision is Decision.DENY
    assert not engine.is_available(TOOLS["ls"])


def test_denying_exec_denies_everything_that_runs() -> None:
    engine = engine_of(default=Decision.ALLOW, tools=ToolPolicy(deny=["exec"]))
    for name in ("shell", "shell_output", "shell_kill"):
        assert not engine.is_available(TOOLS[name])


def test_a_dangerous_tool_needs_a_rule_that_names_it() -> None:
    everything = PolicyRule(tool="*", action=Decision.ALLOW)
    named = PolicyRule(tool="delete_file", action=Decision.ALLOW)
    assert engine_of(everything).explain(call("delete_file")).decision is Decision.ASK
    assert engine_of(everything).explain(call("edit_file")).decision is Decision.ALLOW
    assert engine_of(everything, named).explain(call("delete_file")).decision is Decision.ALLOW


def test_rules_can_ask_where_a_call_comes_from() -> None:
    condition = PolicyCondition(param="$origin", operator=Operator.EQUALS, value="salvaged")
    engine = engine_of(PolicyRule(tool="ls", action=Decision.DENY, conditions=[condition]), default=Decision.ALLOW)
    assert engine.explain(call("ls", origin=Origin.SALVAGED)).decision is Decision.DENY
    assert engine.explain(call("ls", origin=Origin.MODEL)).decision is Decision.ALLOW


@pytest.mark.parametrize(("mode", "name", "before", "after"), [
    (Mode.ASK, "edit_file", Decision.ASK, Decision.ASK),
    (Mode.AUTO_EDIT, "edit_file", Decision.ASK, Decision.ALLOW),
    (Mode.AUTO_EDIT, "edit_file", Decision.DENY, Decision.DENY),
    (Mode.AUTO_EDIT, "shell_kill", Decision.ASK, Decision.ASK),
    (Mode.PLAN, "edit_file", Decision.ALLOW, Decision.DENY),
    (Mode.PLAN, "read_file", Decision.ALLOW, Decision.ALLOW),
    (Mode.PLAN, "write_todos", Decision.ALLOW, Decision.ALLOW),
    (Mode.YOLO, "edit_file", Decision.ASK, Decision.ALLOW),
    (Mode.YOLO, "edit_file", Decision.DENY, Decision.DENY),
])  # fmt: skip
def test_modes_transform_the_same_evaluation(mode: Mode, name: str, before: Decision, after: Decision) -> None:
    assert engine_of(PolicyRule(tool=name, action=before)).explain(call(name), mode).decision is after


def test_auto_edit_stops_at_the_workspace() -> None:
    engine = engine_of(PolicyRule(tool="edit_file", action=Decision.ASK))
    assert engine.explain(call("edit_file", inside_workspace=False), Mode.AUTO_EDIT).decision is Decision.ASK


def test_remembering_is_writing_in_plan_mode() -> None:
    tool = TOOLS["memory"]
    engine = engine_of(default=Decision.ALLOW)
    setting = JudgedCall(tool=tool, arguments={"action": "set"}, effect=Effect.REMEMBERS)
    assert engine.explain(setting, Mode.PLAN).decision is Decision.DENY


# -- files ----------------------------------------------------------------------------------------------------------


def policy(tmp_path: Path, text: str, **more: object) -> Options:
    (tmp_path / "ws").mkdir(exist_ok=True)
    path = tmp_path / "policy.toml"
    path.write_text(text)
    return Options(workspace=tmp_path / "ws", policy_file=path, **more)  # type: ignore[arg-type]  # passed through


def test_a_rule_is_named_by_file_and_line(tmp_path: Path) -> None:
    options = policy(
        tmp_path, '# mine\n[[rules]]\ntool = "ls"\naction = "deny"\n\n[[rules]]\ntool = "grep"\naction = "ask"\n'
    )
    explanation = PolicyEngine(configure(options).sources).explain(call("grep"))
    assert (explanation.trace[0].rule, explanation.trace[0].line) == (2, 6)
    assert "policy.toml:6" in explanation.reason


@pytest.mark.parametrize(("text", "said"), [
    ('[[rules]]\ntool = "ls"\naction = "alow"\n', "rule 1"),
    ('[[rules]]\ntool = "ls"\naction = "allow"\nconditon = []\n', "conditon"),
    ('default_action = "maybe"\n', "default"),
    ('[exec]\nmode = "sometimes"\n', "exec"),
    ("[[rules]\n", ":1"),
    ('[[rules]]\ntool = "ls"\naction = "deny"\nconditions = [{ param = "p", operator = "like", value = "x" }]\n', "rule 1"),
    ('[[rules]]\ntool = "ls"\naction = "deny"\nconditions = [{ param = "p", operator = "matches", value = "(" }]\n', "does not compile"),
    ('[sandbox]\nmode = "podman"\n', "not available in this version"),
    ('[exec]\napprovals = [{ pattern = "" }]\n', "exec.approvals"),
])  # fmt: skip
def test_a_faulty_policy_allows_nothing_and_says_where(tmp_path: Path, text: str, said: str) -> None:
    configuration = configure(policy(tmp_path, text))
    assert configuration.policy_error is not None
    assert said in str(configuration.policy_error) and "policy.toml" in str(configuration.policy_error)
    engine = PolicyEngine(configuration.sources)
    for name in TOOLS:
        assert engine.explain(call(name), Mode.YOLO).decision is Decision.DENY


def test_the_last_use_of_an_approval_may_be_a_toml_date(tmp_path: Path) -> None:
    rows = "[exec]\napprovals = [" + ", ".join(
        f'{{ pattern = "ls -{number}", last_used = {when} }}'
        for number, when in enumerate(("2026-01-02", "2026-01-02T03:04:05Z", '"2026-01-02"'))
    )
    configuration = configure(policy(tmp_path, rows + "]\n"))
    assert configuration.policy_error is None and len(configuration.sources.commands.approvals) >= 3


def test_a_policy_that_anybody_may_write_is_refused(tmp_path: Path) -> None:
    options = policy(tmp_path, 'preset = "none"\n')
    assert options.policy_file is not None
    options.policy_file.chmod(0o666)
    configuration = configure(options)
    assert configuration.policy_error is not None and "chmod" in str(configuration.policy_error)


def test_a_persons_rule_for_all_beats_a_presets_rule_for_the_tool(tmp_path: Path) -> None:
    options = policy(tmp_path, '[[rules]]\ntool = "*"\naction = "ask"\n')
    assert PolicyEngine(configure(options).sources).explain(call("read_file")).decision is Decision.ASK


def test_a_repository_counts_only_once_trusted_and_only_tightens(tmp_path: Path) -> None:
    from ollm_tui.core.policy.repository_trust import TrustState, TrustStore

    own = tmp_path / ".ollm" / "config.toml"
    own.parent.mkdir()
    own.write_text(
        '[[policy.rules]]\ntool = "edit_file"\naction = "allow"\n[[policy.rules]]\ntool = "ls"\naction = "deny"\n'
    )
    options = Options(workspace=tmp_path)

    def decisions() -> list[Decision]:
        engine = PolicyEngine(configure(options).sources)
        return [engine.explain(call(name)).decision for name in ("edit_file", "ls")]

    assert decisions() == [Decision.ASK, Decision.ALLOW]
    assert TrustStore.of_user().trust(tmp_path.resolve()) is TrustState.TRUSTED
    assert decisions() == [Decision.ASK, Decision.DENY]
    own.write_text(own.read_text() + "# changed\n")
    assert configure(options).trust is TrustState.CHANGED
    assert decisions() == [Decision.ASK, Decision.ALLOW]
