"""The rules of one source, compiled and indexed by tool."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property

from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.conditions import ConditionValues, PatternUnion, Test, any_of, compile_condition
from ollm_tui.core.policy.rules import ANY_TOOL, Decision, Operator, PolicyRule, RuleSource, tool_names

_POSSIBLE_KEPT = 64
"""Sets of given parameters for which the rules that could match are remembered: a tool has few."""


@dataclass(frozen=True, eq=False)
class CompiledRule:
    """A rule with its conditions as functions, and where it is written."""

    rule: PolicyRule
    source: RuleSource
    tests: tuple[Test, ...]
    needs: frozenset[str] = frozenset()
    """The parameters of its conditions: where one is not given, the rule cannot match."""

    @property
    def action(self) -> Decision:
        """What the rule decides."""
        return self.rule.action

    @cached_property
    def for_command(self) -> str:
        """The trace's wording where the rule decided about a command."""
        return self.wording("this command")

    def wording(self, what: str) -> str:
        """Return what the rule says about `what`, for the trace."""
        words = f"{self.source}: {self.action} for {what}"
        return f"{words} ({self.rule.message})" if self.rule.message else words

    def matches(self, values: ConditionValues) -> bool:
        """Return whether all conditions hold."""
        for test in self.tests:  # noqa: SIM110  # a generator takes twice as long, and this runs for every rule
            if not test(values):
                return False
        return True


class RuleSet:
    """The rules of one source, indexed by tool and compiled once."""

    def __init__(self, rules: list[tuple[PolicyRule, RuleSource]]) -> None:
        self.source = rules[0][1].source if rules else ""
        """The source of its rules; empty if there are none."""
        by_tool: dict[str, list[tuple[PolicyRule, RuleSource]]] = {}
        for rule, source in rules:
            # Under the alias itself too: `evaluate` may be asked about a name that no tool of ours has.
            for name in dict.fromkeys((rule.tool, *tool_names(rule.tool))):
                by_tool.setdefault(name, []).append((rule, source))
        unions: dict[str, dict[str, PatternUnion]] = {name: {} for name in by_tool}
        self._by_tool = {name: _compiled(each, unions[name]) for name, each in by_tool.items()}
        self._quick_tests = {name: _quick_test(rules, unions[name]) for name, rules in self._by_tool.items()}
        self._with_risk = {
            name: tuple(each for each in own if each.rule.risk is not None) for name, own in self._by_tool.items()
        }
        self._with_condition: dict[tuple[str, str], tuple[CompiledRule, ...]] = {}
        self._possible: dict[tuple[str, tuple[str, ...]], tuple[CompiledRule, ...]] = {}

    def deciding(self, tool: str, values: ConditionValues) -> CompiledRule | None:
        """Return the tool's first rule that matches, else the first `*` rule that does."""
        for name in (tool, ANY_TOOL):
            quick = self._quick_tests.get(name)
            if quick is None:
                continue
            if not quick.may_hold(values):
                if quick.unconditional is not None:
                    return quick.unconditional
                continue
            for rule in self._by_tool[name]:
                for test in rule.tests:  # `matches`, written out: this is where the time of a decision goes
                    if not test(values):
                        break
                else:
                    return rule
        return None

    def possible(self, tool: str, given: tuple[str, ...]) -> tuple[CompiledRule, ...]:
        """Return the rules of `for_tool` that can match where just these parameters are given."""
        key = (tool, given)
        found = self._possible.get(key)
        if found is None:
            if len(self._possible) >= _POSSIBLE_KEPT:
                self._possible.clear()
            found = self._possible[key] = tuple(rule for rule in self.for_tool(tool) if rule.needs.issubset(given))
        return found

    def risk_of(self, tool: str, values: ConditionValues | None = None) -> Risk | None:
        """Return the first risk that a rule of the tool's own names; with `values`, of a rule that matches."""
        for rule in self._with_risk.get(tool, ()):
            if values is None or rule.matches(values):
                return rule.rule.risk
        return None

    def for_tool(self, tool: str) -> list[CompiledRule]:
        """Return all rules that could decide about the tool, its own first."""
        return [*self._by_tool.get(tool, ()), *self._by_tool.get(ANY_TOOL, ())]

    def with_condition_on(self, tool: str, param: str) -> tuple[CompiledRule, ...]:
        """Return the rules of `for_tool` that have a condition on the parameter."""
        key = (tool, param)
        if key not in self._with_condition:
            self._with_condition[key] = tuple(
                rule for rule in self.for_tool(tool) if any(each.param == param for each in rule.rule.conditions)
            )
        return self._with_condition[key]


@dataclass(frozen=True)
class _QuickTest:
    """Whether any rule of a tool could match at all, by all their first conditions together.

    Most rules of a large policy are about other values: one test per parameter and operator rules them all out. It
    only saves work: where one could match, each is tried by itself, in order.
    """

    tests: tuple[tuple[str, Callable[[str], bool]], ...]
    unconditional: CompiledRule | None
    """The first rule without conditions: what decides where none of the others can match."""

    def may_hold(self, values: ConditionValues) -> bool:
        for param, test in self.tests:
            value = values.get(param)
            if value is not None and (type(value) is not str or test(value)):
                return True
        return False


def _quick_test(rules: tuple[CompiledRule, ...], unions: Mapping[str, PatternUnion]) -> _QuickTest:
    values: dict[tuple[str, Operator], list[str]] = {}
    for rule in rules:
        for condition in rule.rule.conditions[:1]:
            values.setdefault((condition.param, condition.operator), []).extend(condition.values)
    tests = [(param, any_of(operator, found, unions.get(param))) for (param, operator), found in values.items()]
    return _QuickTest(tuple(tests), next((rule for rule in rules if not rule.tests), None))


def _compiled(rules: list[tuple[PolicyRule, RuleSource]], unions: dict[str, PatternUnion]) -> tuple[CompiledRule, ...]:
    """Compile the rules and fill `unions`; raises ValueError for an invalid regular expression."""
    for rule, _ in rules:
        for condition in rule.conditions:
            if condition.operator is Operator.MATCHES:
                unions.setdefault(condition.param, PatternUnion()).patterns.extend(condition.values)
    return tuple(
        CompiledRule(
            rule,
            source,
            tuple(compile_condition(c, rule.action, unions.get(c.param)) for c in rule.conditions),
            frozenset(c.param for c in rule.conditions),
        )
        for rule, source in rules
    )
