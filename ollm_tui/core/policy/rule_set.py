"""The rules of one source, compiled and indexed by tool; values compared as text, expressions that never backtrack."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from pydantic import JsonValue

from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.rules import (
    ANY_TOOL,
    Decision,
    Operator,
    PolicyCondition,
    PolicyRule,
    RuleSource,
    mcp_server_of,
    tool_names,
)

MAX_SUBJECT = 65_536
"""Characters of a value that `matches` searches; beyond that an allow does not match, a deny or ask does."""

_LARGEST_EXACT = 2**53
"""Up to here every integer is a JavaScript number."""

ConditionValues: TypeAlias = dict[str, str | tuple[str | None, ...]]
"""Parameters as conditions compare them: text, or the texts of a list (None for an element that never matches)."""

Test: TypeAlias = Callable[[ConditionValues], bool]


def condition_values(params: Mapping[str, JsonValue]) -> ConditionValues:
    """Return parameters as conditions compare them; objects are left out and never match."""
    values: ConditionValues = {}
    for name, value in params.items():
        if type(value) is str:
            values[name] = value
        elif isinstance(value, list):
            values[name] = tuple([None if isinstance(item, dict | list) else js_string(item) for item in value])
        elif not isinstance(value, dict):
            values[name] = js_string(value)
    return values


def compile_condition(condition: PolicyCondition, action: Decision, union: PatternUnion | None = None) -> Test:
    """Return a condition as a function of the parameters.

    On a list, an allow needs every element and an ask or deny needs one. A missing parameter or an object makes the
    condition false for every action. Raises ValueError for an invalid regular expression.
    """
    param = condition.param
    holds = _comparison(condition, union, too_long=action is not Decision.ALLOW)
    combine = all if action is Decision.ALLOW else any

    def on_others(value: str | tuple[str | None, ...] | None) -> bool:
        return bool(value) and combine(item is not None and holds(item) for item in value)

    def test(values: ConditionValues) -> bool:
        value = values.get(param)
        return holds(value) if type(value) is str else on_others(value)

    # The two commonest comparisons without a further call: a thousand rules are tried for each decision.
    if condition.operator is Operator.STARTS_WITH:
        starts = tuple(condition.values)

        def starts_with(values: ConditionValues) -> bool:
            value = values.get(param)
            return value.startswith(starts) if type(value) is str else on_others(value)

        return starts_with
    if condition.operator is Operator.EQUALS:
        wanted = frozenset(condition.values)

        def equals(values: ConditionValues) -> bool:
            value = values.get(param)
            return value in wanted if type(value) is str else on_others(value)

        return equals
    return test


def any_of(operator: Operator, values: list[str], union: PatternUnion | None) -> Callable[[str], bool]:
    """Return a quick test whether a comparison with any of the values may hold."""
    match operator:
        case Operator.EQUALS:
            return frozenset(values).__contains__
        case Operator.STARTS_WITH:
            starts = tuple(values)
            return lambda text: text.startswith(starts)
        case Operator.CONTAINS if len(values) == 1:
            return lambda text, value=values[0]: value in text
        case Operator.CONTAINS:
            return lambda text: any(value in text for value in values)
        case Operator.MATCHES:
            return lambda text: union is None or len(text) > MAX_SUBJECT or not union.misses(text)


def _comparison(condition: PolicyCondition, union: PatternUnion | None, *, too_long: bool) -> Callable[[str], bool]:
    if condition.operator is not Operator.MATCHES:
        return any_of(condition.operator, condition.values, None)
    patterns = [linear_pattern(value) for value in condition.values]

    def matches(text: str) -> bool:
        if len(text) > MAX_SUBJECT:
            return too_long
        if union is not None and union.misses(text):
            return False
        subject = searchable(text)
        return any(pattern.search(subject) is not None for pattern in patterns)

    return matches


@dataclass
class PatternUnion:
    """All expressions that neighbouring rules have for one parameter, searched together.

    It only saves work: what it does not rule out is still tried by each expression itself.
    """

    patterns: list[str] = field(default_factory=list[str])
    _whole: LinearPattern | None = None
    _last: tuple[str, bool] = ("", False)

    def misses(self, text: str) -> bool:
        """Return whether none of the expressions matches the text."""
        if len(self.patterns) < 2:
            return False
        known, missed = self._last
        if text == known and self._whole is not None:
            return missed
        if self._whole is None:
            self._whole = self._joined()
        missed = self._whole.search(searchable(text)) is None
        self._last = (text, missed)
        return missed

    def _joined(self) -> LinearPattern:
        """Return one expression for all, or one that matches everything where they cannot be joined."""
        try:  # a `\\Q` left open, two groups of one name, or too much at once cannot be joined
            if not any(r"\Q" in pattern for pattern in self.patterns):
                return linear_pattern("|".join(f"(?:{pattern})" for pattern in self.patterns))
        except ValueError:
            pass
        return LinearPattern(lambda subject: (subject,))


@dataclass(frozen=True)
class LinearPattern:
    """A regular expression on an engine that never backtracks; it searches what `searchable` returns."""

    search: Callable[[bytes], object | None]


def linear_pattern(pattern: str) -> LinearPattern:
    """Compile with RE2; raises ValueError for an invalid expression."""
    import re2  # it is large, and few policies have an expression

    options = re2.Options()
    options.log_errors = False  # it would write them over the screen
    try:
        compiled = re2.compile(pattern.encode(), options=options)
    except UnicodeEncodeError:
        raise ValueError(f"the regular expression {pattern!r} contains half of a surrogate pair") from None
    except re2.error as error:
        raised: object = error.args[0] if error.args else ""
        reason = raised.decode(errors="replace") if isinstance(raised, bytes) else str(raised)
        raise ValueError(
            f"the regular expression {pattern!r} does not compile: {reason} (RE2: no look-around, no back-references)"
        ) from None
    return LinearPattern(compiled.search)


def searchable(text: str) -> bytes:
    """Return text as bytes for `LinearPattern`; a lone surrogate (a file name not UTF-8) becomes `?`."""
    return text.encode("utf-8", "replace")


def js_string(value: JsonValue) -> str:
    """Return a scalar as JavaScript's `String()` prints it."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case int() if abs(value) <= _LARGEST_EXACT:
            return str(value)
        case int() | float():
            return _js_number(value)
        case _:
            return str(value)


def _js_number(value: float) -> str:
    """Format as ECMAScript's Number::toString: shortest digits, exponents from 1e21 and below 1e-6."""
    try:
        value = float(value)
    except OverflowError:
        value = float("inf") if value > 0 else float("-inf")
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    sign, shown = ("-", repr(-value)) if value < 0 else ("", repr(value))
    mantissa, _, exponent = shown.partition("e")
    whole, _, fraction = mantissa.partition(".")
    fraction = fraction if fraction != "0" else ""
    digits = (whole + fraction).lstrip("0")
    point = len(whole) + int(exponent or 0) - (len(whole + fraction) - len(digits))
    digits = digits.rstrip("0")
    if 0 < point <= 21:
        text = digits.ljust(point, "0")
        return sign + (text if len(digits) <= point else f"{digits[:point]}.{digits[point:]}")
    if -6 < point <= 0:
        return f"{sign}0.{'0' * -point}{digits}"
    power = f"e{point - 1:+d}"
    return sign + (digits + power if len(digits) == 1 else f"{digits[0]}.{digits[1:]}{power}")


_MAX_POSSIBLE = 64
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
        """Return what the rule says about `what`, in plain words; the rule's name comes last."""
        message, name = self.rule.message, f"({self.source.shown})"
        match self.action:
            case Decision.ASK:
                does = "asks unless a rule allows it" if self.source.source.startswith("preset ") else "a rule asks"
                return f"{message}: {does} {name}" if message else f"{what} {does.removeprefix('a rule ')} {name}"
            case Decision.ALLOW:
                return f"{what} is allowed{f': {message}' if message else ''} {name}"
            case Decision.DENY:
                return f"{what} is denied{f': {message}' if message else ''} {name}"

    def matches(self, values: ConditionValues) -> bool:
        """Return whether all conditions hold."""
        return all(test(values) for test in self.tests)


def first_match(rules: tuple[CompiledRule, ...], values: ConditionValues) -> CompiledRule | None:
    """Return the first rule whose conditions all hold."""
    for rule in rules:
        for test in rule.tests:  # `matches`, written out: this is where the time of a decision goes
            if not test(values):
                break
        else:
            return rule
    return None


def _names_of(tool: str) -> tuple[str, ...]:
    server = mcp_server_of(tool)
    return (tool, ANY_TOOL) if server is None else (tool, server, ANY_TOOL)


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
        """Return the tool's first rule that matches, else that of its MCP server, else the first `*` rule that does."""
        for name in _names_of(tool):
            quick = self._quick_tests.get(name)
            if quick is None:
                continue
            found = first_match(self._by_tool[name], values) if quick.may_hold(values) else quick.unconditional
            if found is not None:
                return found
        return None

    def possible(self, tool: str, given: tuple[str, ...]) -> tuple[CompiledRule, ...]:
        """Return the rules of `for_tool` that can match where just these parameters are given."""
        key = (tool, given)
        found = self._possible.get(key)
        if found is None:
            if len(self._possible) >= _MAX_POSSIBLE:
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
        return [rule for name in _names_of(tool) for rule in self._by_tool.get(name, ())]

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
