"""Policy rules: what they say, and how they match (001 R7, 000 Properties 33-36, contract section 2)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator
from pydantic.alias_generators import to_camel

from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.conditions import PatternUnion, js_string, linear_pattern, searchable
from ollm_tui.core.tools.aliases import POLICY_NAMES

ANY_TOOL = "*"
MAX_SUBJECT = 65_536
"""Characters of a value that `matches` looks at; beyond that an allow does not match and a deny or ask does."""

_POSSIBLE_KEPT = 64
"""Sets of given parameters for which the rules that could match are remembered: a tool has few."""

Seen: TypeAlias = dict[str, str | tuple[str | None, ...]]
"""Parameters as conditions see them: text, or the texts of a list's elements (None for one that never matches)."""

Test: TypeAlias = Callable[[Seen], bool]


class Decision(StrEnum):
    """What the policy says to a call; the later the stricter."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    def __init__(self, _: str) -> None:
        self.rank = len(type(self).__members__)
        """Its place in that order: an attribute, since a decision compares many."""


PolicyDecision = Decision
"""000's name."""


def strictest(*decisions: Decision) -> Decision:
    """The most restrictive of them; allow when there are none."""
    return max(decisions, key=lambda decision: decision.rank, default=Decision.ALLOW)


class Operator(StrEnum):
    """How a condition compares."""

    EQUALS = "equals"
    CONTAINS = "contains"
    STARTS_WITH = "startsWith"
    MATCHES = "matches"
    """RE2, searched anywhere in the value."""


class PolicyTable(BaseModel):
    """Base of everything in a policy file: unknown keys are faults."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, defer_build=True
    )


class PolicyCondition(PolicyTable):
    """A test of one parameter; `value` may be a list, any of which will do."""

    param: str = Field(min_length=1)
    operator: Operator
    value: str | list[str]

    @property
    def values(self) -> list[str]:
        return [self.value] if isinstance(self.value, str) else self.value

    @field_validator("value")
    @classmethod
    def _no_empty_list(cls, value: str | list[str]) -> str | list[str]:
        if value == []:
            raise ValueError("an empty list can never match")
        return value


class PolicyRule(PolicyTable):
    """One rule: what to do with calls of `tool` (a name, an alias or `*`) that meet all conditions."""

    tool: str = Field(min_length=1)
    action: Decision
    risk: Risk | None = None
    message: str | None = None
    conditions: list[PolicyCondition] = Field(default_factory=list[PolicyCondition])


class PolicyConfig(PolicyTable):
    """000's policy: rules, and what holds where none matches."""

    default_action: Decision = Decision.ASK
    rules: list[PolicyRule] = Field(default_factory=list[PolicyRule])


@dataclass(frozen=True)
class RuleSource:
    """Where a rule stands: its number in the file (from 1), and the file and line where they are known."""

    source: str
    """`session`, `workspace`, `user`, `policy file` or `preset NAME`."""
    number: int
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = f" ({self.file}:{self.line})" if self.file and self.line and self.file != self.source else ""
        return f"{self.source} rule {self.number}{where}"


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """A rule with its conditions as functions and its place."""

    rule: PolicyRule
    place: RuleSource
    tests: tuple[Test, ...]
    needs: frozenset[str] = frozenset()
    """The parameters its conditions look at: where one is not given, the rule can not match."""

    @property
    def action(self) -> Decision:
        return self.rule.action

    @cached_property
    def for_command(self) -> str:
        """What the trace says of it where it decided about a command."""
        words = f"{self.place}: {self.action} for this command"
        return f"{words} ({self.rule.message})" if self.rule.message else words

    def matches(self, seen: Seen) -> bool:
        return all(test(seen) for test in self.tests)


class RuleSet:
    """The rules of one source, indexed by tool and compiled once."""

    def __init__(self, rules: list[tuple[PolicyRule, RuleSource]]) -> None:
        self.source = rules[0][1].source if rules else ""
        """Where its rules come from; empty where there are none."""
        by_tool: dict[str, list[tuple[PolicyRule, RuleSource]]] = {}
        for rule, place in rules:
            # Under the alias itself too: 000's `evaluate` may be asked about a name that no tool of ours bears.
            for name in dict.fromkeys((rule.tool, *tool_names(rule.tool))):
                by_tool.setdefault(name, []).append((rule, place))
        unions: dict[str, dict[str, PatternUnion]] = {name: {} for name in by_tool}
        self._by_tool = {name: _compiled(placed, unions[name]) for name, placed in by_tool.items()}
        self._first_looks = {name: _first_look(rules, unions[name]) for name, rules in self._by_tool.items()}
        self._with_risk = {
            name: tuple(each for each in own if each.rule.risk is not None) for name, own in self._by_tool.items()
        }
        self._with_condition: dict[tuple[str, str], tuple[CompiledRule, ...]] = {}
        self._possible: dict[tuple[str, tuple[str, ...]], tuple[CompiledRule, ...]] = {}

    def deciding(self, tool: str, seen: Seen) -> CompiledRule | None:
        """The first rule of the tool's own that matches, else the first `*` rule (000 Property 34)."""
        for name in (tool, ANY_TOOL):
            look = self._first_looks.get(name)
            if look is None:
                continue
            if not look.may_hold(seen):
                if look.unconditional is not None:
                    return look.unconditional
                continue
            for rule in self._by_tool[name]:
                for test in rule.tests:  # `matches`, written out: this is where the time of a decision goes
                    if not test(seen):
                        break
                else:
                    return rule
        return None

    def possible(self, tool: str, given: tuple[str, ...]) -> tuple[CompiledRule, ...]:
        """Those of `for_tool` that could match at all where just these parameters are given, in their order."""
        key = (tool, given)
        found = self._possible.get(key)
        if found is None:
            if len(self._possible) >= _POSSIBLE_KEPT:
                self._possible.clear()
            found = self._possible[key] = tuple(rule for rule in self.for_tool(tool) if rule.needs.issubset(given))
        return found

    def risk_of(self, tool: str, seen: Seen | None = None) -> Risk | None:
        """The first risk that a rule of the tool's own names; with `seen`, a rule that holds for these parameters."""
        for rule in self._with_risk.get(tool, ()):
            if seen is None or rule.matches(seen):
                return rule.rule.risk
        return None

    def for_tool(self, tool: str) -> list[CompiledRule]:
        """All rules that could decide about the tool, its own first."""
        return [*self._by_tool.get(tool, ()), *self._by_tool.get(ANY_TOOL, ())]

    def with_condition_on(self, tool: str, param: str) -> tuple[CompiledRule, ...]:
        """Those of `for_tool` that have a condition on the parameter."""
        key = (tool, param)
        if key not in self._with_condition:
            self._with_condition[key] = tuple(
                rule for rule in self.for_tool(tool) if any(each.param == param for each in rule.rule.conditions)
            )
        return self._with_condition[key]


def tool_names(name: str) -> tuple[str, ...]:
    """What a name in a policy stands for: a tool, or all the tools of an alias."""
    return POLICY_NAMES.get(name, (name,))


def seen_by_conditions(params: Mapping[str, JsonValue]) -> Seen:
    """Parameters as conditions compare them: scalars as text, lists element by element; objects never match."""
    seen: Seen = {}
    for name, value in params.items():
        if type(value) is str:
            seen[name] = value
        elif isinstance(value, list):
            seen[name] = tuple([None if isinstance(item, dict | list) else js_string(item) for item in value])
        elif not isinstance(value, dict):
            seen[name] = js_string(value)
    return seen


def compile_condition(condition: PolicyCondition, action: Decision, union: PatternUnion | None = None) -> Test:
    """A condition as a function of the parameters (000 Property 35).

    On a list, an allow needs every element and an ask or deny needs one; an object never matches; a parameter that
    is not there makes the condition false for every action. Raises ValueError where the regular expression is faulty.
    """
    param = condition.param
    holds = _comparison(condition, union, too_long=action is not Decision.ALLOW)
    combine = all if action is Decision.ALLOW else any

    def on_others(value: str | tuple[str | None, ...] | None) -> bool:
        return bool(value) and combine(item is not None and holds(item) for item in value)

    def test(seen: Seen) -> bool:
        value = seen.get(param)
        return holds(value) if type(value) is str else on_others(value)

    # The two commonest comparisons without a further call: a thousand rules are tried for each decision.
    if condition.operator is Operator.STARTS_WITH:
        starts = tuple(condition.values)

        def starts_with(seen: Seen) -> bool:
            value = seen.get(param)
            return value.startswith(starts) if type(value) is str else on_others(value)

        return starts_with
    if condition.operator is Operator.EQUALS:
        wanted = frozenset(condition.values)

        def equals(seen: Seen) -> bool:
            value = seen.get(param)
            return value in wanted if type(value) is str else on_others(value)

        return equals
    return test


@dataclass(frozen=True)
class _FirstLook:
    """Whether any rule of a tool could hold at all, asked of all their first conditions together.

    Most rules of a large policy are about other parameters' values: one look per parameter and operator rules them
    all out. It only ever saves work: where one could hold, each is tried by itself, in order.
    """

    tests: tuple[tuple[str, Callable[[str], bool]], ...]
    unconditional: CompiledRule | None
    """The first rule without conditions: what decides where none of the others can hold."""

    def may_hold(self, seen: Seen) -> bool:
        for param, test in self.tests:
            value = seen.get(param)
            if value is not None and (type(value) is not str or test(value)):
                return True
        return False


def _first_look(rules: tuple[CompiledRule, ...], unions: Mapping[str, PatternUnion]) -> _FirstLook:
    values: dict[tuple[str, Operator], list[str]] = {}
    for rule in rules:
        for condition in rule.rule.conditions[:1]:
            values.setdefault((condition.param, condition.operator), []).extend(condition.values)
    tests = [(param, _any_of(operator, found, unions.get(param))) for (param, operator), found in values.items()]
    return _FirstLook(tuple(tests), next((rule for rule in rules if not rule.tests), None))


def _any_of(operator: Operator, values: list[str], union: PatternUnion | None) -> Callable[[str], bool]:
    """Whether a comparison with one of the values may hold."""
    match operator:
        case Operator.EQUALS:
            return frozenset(values).__contains__
        case Operator.STARTS_WITH:
            starts = tuple(values)
            return lambda text: text.startswith(starts)
        case Operator.CONTAINS:
            return lambda text: any(value in text for value in values)
        case Operator.MATCHES:
            return lambda text: union is None or len(text) > MAX_SUBJECT or not union.misses(text)


def _compiled(placed: list[tuple[PolicyRule, RuleSource]], unions: dict[str, PatternUnion]) -> tuple[CompiledRule, ...]:
    """Rules tried one after the other; fills `unions`. Raises ValueError where a regular expression is faulty."""
    for rule, _ in placed:
        for condition in rule.conditions:
            if condition.operator is Operator.MATCHES:
                unions.setdefault(condition.param, PatternUnion()).patterns.extend(condition.values)
    return tuple(
        CompiledRule(
            rule,
            place,
            tuple(compile_condition(c, rule.action, unions.get(c.param)) for c in rule.conditions),
            frozenset(c.param for c in rule.conditions),
        )
        for rule, place in placed
    )


def _comparison(condition: PolicyCondition, union: PatternUnion | None, *, too_long: bool) -> Callable[[str], bool]:
    values = condition.values
    match condition.operator:
        case Operator.EQUALS:
            return frozenset(values).__contains__
        case Operator.CONTAINS if len(values) == 1:
            value = values[0]
            return lambda text: value in text
        case Operator.CONTAINS:
            return lambda text: any(value in text for value in values)
        case Operator.STARTS_WITH:
            starts = tuple(values)
            return lambda text: text.startswith(starts)
        case Operator.MATCHES:
            patterns = [linear_pattern(value) for value in values]

            def matches(text: str) -> bool:
                if len(text) > MAX_SUBJECT:
                    return too_long
                if union is not None and union.misses(text):
                    return False
                subject = searchable(text)
                return any(pattern.search(subject) is not None for pattern in patterns)

            return matches


class ToolFilter(PolicyTable):
    """Names or groups of tools."""

    allow: list[str] = Field(default_factory=list[str])
    deny: list[str] = Field(default_factory=list[str])


class ToolPolicy(ToolFilter):
    """Layer 1: which tools exist. Deny beats allow; a non-empty allow closes the world (004 layer 1)."""

    groups: ToolFilter = Field(default_factory=ToolFilter)


class Approval(PolicyTable):
    """A pattern of commands that may run unasked (004 layer 2)."""

    pattern: str = Field(min_length=1)
    added_by: Literal["user", "auto"] = "user"
    last_used: str | None = None


class ExecMode(StrEnum):
    """004's modes of layer 2."""

    FULL = "full"
    ALLOWLIST = "allowlist"
    DENY = "deny"


class ExecPolicy(PolicyTable):
    """Layer 2: commands. None where a file does not say, so that the next source decides."""

    mode: ExecMode | None = None
    on_miss: Literal[Decision.ASK, Decision.DENY] | None = None
    approvals: list[Approval] = Field(default_factory=list[Approval])
    read_only_commands: bool | None = None
    """Whether the shipped list of commands that only look around runs unasked."""
