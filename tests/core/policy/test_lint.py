"""The linter: what is found in a policy, where, and what is left alone."""

from __future__ import annotations

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.core.policy.lint import LintFinding, LintFindingKind, lint
from ollm_tui.core.policy.policy_file import PRESETS, LoadedPolicy, PolicyFileError, load_policy, load_preset
from ollm_tui.core.policy.rule_set import RuleSet, condition_values
from ollm_tui.core.tools.builtin import BUILTIN_TOOLS


def loaded(text: str) -> LoadedPolicy:
    return load_policy(tomllib.loads(text), text, "policy.toml", "policy file")


def findings(text: str) -> list[LintFinding]:
    return lint([loaded(text)], BUILTIN_TOOLS)


def rule(tool: str, action: str, *conditions: tuple[str, str, str]) -> str:
    rows = ", ".join(f"{{ param = '{p}', operator = '{o}', value = '{v}' }}" for p, o, v in conditions)
    return f"[[rules]]\ntool = '{tool}'\naction = '{action}'\nconditions = [{rows}]\n"


@pytest.mark.parametrize("name", PRESETS)
def test_the_shipped_presets_are_clean(name: str) -> None:
    assert lint([load_preset(name)], BUILTIN_TOOLS) == []


@pytest.mark.parametrize(("text", "kind", "said"), [
    (rule("edit_flie", "deny"), LintFindingKind.UNKNOWN_TOOL, "did you mean edit_file?"),
    (rule("Edit-File", "deny"), LintFindingKind.UNKNOWN_TOOL, "did you mean edit_file?"),
    (rule("zzz", "deny"), LintFindingKind.UNKNOWN_TOOL, "there is no tool zzz"),
    ("[tools]\ndeny = ['shel']\n", LintFindingKind.UNKNOWN_TOOL, "did you mean shell?"),
    ("[tools]\ngroups = { deny = ['runtme'] }\n", LintFindingKind.UNKNOWN_GROUP, "did you mean runtime?"),
    ("[tools]\nallow = ['ls']\ndeny = ['ls']\n", LintFindingKind.CONTRADICTORY, "deny wins"),
    (rule("ls", "deny", ("pth", "equals", "x")), LintFindingKind.UNKNOWN_PARAMETER, "did you mean path?"),
    (rule("ls", "deny", ("$exist", "equals", "x")), LintFindingKind.UNKNOWN_PARAMETER, "did you mean $exists?"),
    (rule("ls", "deny", ("$mode", "equals", "paln")), LintFindingKind.NEVER_MATCHES, "plan"),
    (rule("memory", "deny", ("action", "equals", "lose")), LintFindingKind.NEVER_MATCHES, "one of delete, get"),
    (rule("ls", "deny", ("recursive", "equals", "yes")), LintFindingKind.NEVER_MATCHES, "false, true"),
    (rule("ls", "deny", ("path", "matches", "a$b")), LintFindingKind.NEVER_MATCHES, "a$b"),
    (rule("ls", "deny", ("path", "matches", "src^x")), LintFindingKind.NEVER_MATCHES, "src^x"),
    (rule("ls", "deny", ("path", "equals", "a"), ("path", "startsWith", "b")), LintFindingKind.NEVER_MATCHES, "no path meets"),
    (rule("read_file", "allow", ("path", "matches", "src/")), LintFindingKind.UNANCHORED, "Start it with ^"),
    (rule("read_file", "allow", ("path", "contains", "src")), LintFindingKind.UNANCHORED, "contains"),
    (rule("edit_file", "allow", ("path", "startsWith", "src")), LintFindingKind.UNANCHORED, "src-other"),
    (rule("shell", "allow", ("command", "startsWith", "git")), LintFindingKind.UNANCHORED, "End it with a blank"),
    (rule("shell", "allow", ("command", "matches", "make$")), LintFindingKind.UNANCHORED, "Start it with ^"),
    (rule("ls", "deny", ("path", "startsWith", "")), LintFindingKind.UNANCHORED, "always matches"),
    ("[exec]\napprovals = [{ pattern = 'ls && rm x' }]\n", LintFindingKind.NEVER_MATCHES, "operators"),
    ("[exec]\napprovals = [{ pattern = 'sudo ls' }]\n", LintFindingKind.NEVER_MATCHES, "never covered"),
    ("[exec]\napprovals = [{ pattern = '*' }]\n", LintFindingKind.UNANCHORED, "every plain command"),
    ("[exec]\napprovals = [{ pattern = 'g* status' }]\n", LintFindingKind.UNANCHORED, "wildcard"),
    ("[exec]\napprovals = [{ pattern = 'git *' }, { pattern = 'git log *' }]\n", LintFindingKind.SHADOWED, "git *"),
    ("[exec]\nmode = 'full'\napprovals = [{ pattern = 'ls' }]\n", LintFindingKind.NO_EFFECT, "decide nothing"),
])  # fmt: skip
def test_each_mistake_is_found_and_named(text: str, kind: LintFindingKind, said: str) -> None:
    (found,) = findings(text)
    assert found.kind is kind and said in found.message
    assert (found.file, found.source) == ("policy.toml", "policy file")


def test_findings_about_rules_name_number_and_line() -> None:
    (found,) = findings("# mine\n" + rule("ls", "ask") + rule("nope", "ask"))
    assert (found.rule, found.line) == (2, 6)


@pytest.mark.parametrize(("text", "kind"), [
    (rule("ls", "deny") + rule("ls", "ask"), LintFindingKind.CONTRADICTORY),
    (rule("ls", "deny") + rule("ls", "deny"), LintFindingKind.SHADOWED),
    (rule("ls", "deny") + rule("ls", "ask", ("path", "equals", "a")), LintFindingKind.SHADOWED),
    (rule("exec", "deny") + rule("shell", "ask"), LintFindingKind.CONTRADICTORY),
    (rule("*", "deny") + rule("*", "deny", ("path", "equals", "a")), LintFindingKind.SHADOWED),
    (rule("ls", "ask", ("path", "startsWith", "a")) + rule("ls", "deny", ("path", "startsWith", "ab")), LintFindingKind.SHADOWED),
])  # fmt: skip
def test_a_rule_that_never_decides_is_found(text: str, kind: LintFindingKind) -> None:
    (found,) = findings(text)
    assert found.kind is kind and found.rule == 2 and "rule 1" in found.message


@pytest.mark.parametrize("text", [
    rule("ls", "ask", ("path", "equals", "a")) + rule("ls", "deny"),
    rule("*", "deny") + rule("ls", "ask"),
    rule("ls", "ask", ("path", "startsWith", "ab")) + rule("ls", "deny", ("path", "startsWith", "a")),
    rule("ls", "ask", ("path", "equals", "a")) + rule("ls", "deny", ("recursive", "equals", "true")),
    rule("read_file", "allow", ("path", "matches", "^src/")) + rule("read_file", "allow", ("path", "matches", r"\\.py$")),
    rule("shell", "allow", ("command", "startsWith", "git ")),
    rule("edit_file", "allow", ("path", "startsWith", "src/")),
    rule("ls", "deny", ("path", "matches", r"a\\$b|x")),
    rule("ls", "deny", ("path", "matches", "a?^b$c?")),
    rule("file_search", "deny", ("pattern", "contains", "x")),
    rule("web_fetch", "deny"),
    "[exec]\napprovals = [{ pattern = 'git *' }, { pattern = 'git diff --ext-diff *' }]\n",
])  # fmt: skip
def test_sound_rules_are_left_alone(text: str) -> None:
    assert findings(text) == []


CONDITION = st.builds(
    lambda operator, value: ("path", operator, value),
    st.sampled_from(["equals", "contains", "startsWith"]),
    st.text(st.characters(codec="utf-8", exclude_characters="'\\", exclude_categories=["C"]), min_size=1, max_size=3),
)
SMALL = st.text(st.sampled_from("ab/"), min_size=1, max_size=3)
NEAR = st.builds(
    lambda operator, value: ("path", operator, value), st.sampled_from(["equals", "contains", "startsWith"]), SMALL
)


@given(
    st.lists(
        st.tuples(st.sampled_from(["ls", "*"]), st.lists(st.one_of(NEAR, CONDITION), max_size=2)),
        min_size=2,
        max_size=5,
    ),
    st.lists(st.one_of(SMALL, st.text(max_size=4)), min_size=1, max_size=8),
)
def test_a_rule_called_dead_never_decides(
    rules: list[tuple[str, list[tuple[str, str, str]]]], paths: list[str]
) -> None:
    document = loaded("".join(rule(tool, "deny", *conditions) for tool, conditions in rules))
    dead = {
        found.rule
        for found in lint([document], BUILTIN_TOOLS)
        if found.kind in (LintFindingKind.SHADOWED, LintFindingKind.CONTRADICTORY, LintFindingKind.NEVER_MATCHES)
    }
    rule_set = RuleSet(document.rules_with_sources)
    texts = [value for each in document.document.rules for condition in each.conditions for value in condition.values]
    for path in [*paths, *texts, *(a + b for a in texts for b in texts)]:
        decided = rule_set.deciding("ls", condition_values({"path": path}))
        assert decided is None or decided.source.number not in dead


@pytest.mark.parametrize(("text", "line"), [("x = 1\n[policy]\nmode = 2\n", 3), ("[exec]\nmode = 'half'\n", 2)])
def test_a_fault_outside_the_rules_names_its_line(text: str, line: int) -> None:
    tables = tomllib.loads(text)
    with pytest.raises(PolicyFileError) as raised:
        load_policy(tables.get("policy", tables), text, "a.toml", "user")
    assert raised.value.line == line
