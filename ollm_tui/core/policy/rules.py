"""Policy rules: what they say, and how they match (001 R7, 000 Properties 33-36, contract section 2)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

import re2
from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator
from pydantic.alias_generators import to_camel

from ollm_tui.core.confirmation import Risk
from ollm_tui.core.tools.aliases import POLICY_NAMES

ANY_TOOL = "*"
MAX_SUBJECT = 65_536
"""Characters of a value that `matches` looks at; beyond that an allow does not match and a deny or ask does."""


class Decision(StrEnum):
    """What the policy says to a call; the later the stricter."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    @property
    def rank(self) -> int:
        return _RANK[self]


_RANK = {decision: index for index, decision in enumerate(Decision)}

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

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


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
class RulePlace:
    """Where a rule stands: its number in the file (from 1), and the file and line where they are known."""

    source: str
    """`session`, `workspace`, `user`, `policy file` or `preset NAME`."""
    number: int
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = f" ({self.file}:{self.line})" if self.file and self.line else ""
        return f"{self.source} rule {self.number}{where}"


@dataclass(frozen=True)
class CompiledRule:
    """A rule with its conditions as functions and its place."""

    rule: PolicyRule
    place: RulePlace
    tests: tuple[Callable[[Mapping[str, JsonValue]], bool], ...]

    @property
    def action(self) -> Decision:
        return self.rule.action

    def matches(self, params: Mapping[str, JsonValue]) -> bool:
        return all(test(params) for test in self.tests)


class RuleSet:
    """The rules of one source, indexed by tool and compiled once."""

    def __init__(self, rules: list[tuple[PolicyRule, RulePlace]]) -> None:
        self._by_tool: dict[str, list[CompiledRule]] = {}
        for rule, place in rules:
            compiled = CompiledRule(rule, place, tuple(compile_condition(c, rule.action) for c in rule.conditions))
            for name in tool_names(rule.tool):
                self._by_tool.setdefault(name, []).append(compiled)

    def deciding(self, tool: str, params: Mapping[str, JsonValue]) -> CompiledRule | None:
        """The first rule of the tool's own that matches, else the first `*` rule (000 Property 34)."""
        for name in (tool, ANY_TOOL):
            for rule in self._by_tool.get(name, ()):
                if rule.matches(params):
                    return rule
        return None

    def of_tool(self, tool: str) -> list[CompiledRule]:
        """The tool's own rules, in file order."""
        return self._by_tool.get(tool, [])

    def for_tool(self, tool: str) -> list[CompiledRule]:
        """All rules that could decide about the tool, its own first."""
        return [*self._by_tool.get(tool, ()), *self._by_tool.get(ANY_TOOL, ())]


def tool_names(name: str) -> tuple[str, ...]:
    """What a name in a policy stands for: a tool, or all the tools of an alias."""
    return POLICY_NAMES.get(name, (name,))


def compile_condition(condition: PolicyCondition, action: Decision) -> Callable[[Mapping[str, JsonValue]], bool]:
    """A condition as a function of the parameters (000 Property 35).

    On a list, an allow needs every element and an ask or deny needs one; an object never matches; a parameter that
    is not there makes the condition false for every action. Raises ValueError where the regular expression is faulty.
    """
    holds = _comparison(condition, too_long=action is not Decision.ALLOW)
    combine = all if action is Decision.ALLOW else any
    param = condition.param

    def test(params: Mapping[str, JsonValue]) -> bool:
        if param not in params:
            return False
        value = params[param]
        if isinstance(value, list):
            return bool(value) and combine(
                not isinstance(item, dict | list) and holds(js_string(item)) for item in value
            )
        return not isinstance(value, dict) and holds(js_string(value))

    return test


def _comparison(condition: PolicyCondition, *, too_long: bool) -> Callable[[str], bool]:
    values = condition.values
    match condition.operator:
        case Operator.EQUALS:
            wanted = frozenset(values)
            return lambda text: text in wanted
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
                return any(pattern.search(text) is not None for pattern in patterns)

            return matches


@dataclass(frozen=True)
class LinearPattern:
    """A regular expression on an engine that never backtracks."""

    search: Callable[[str], object | None]


def linear_pattern(pattern: str) -> LinearPattern:
    """Compile with RE2, quietly: it would write its complaints over the screen. Raises ValueError."""
    options = re2.Options()
    options.log_errors = False
    try:
        compiled = re2.compile(pattern, options=options)
    except re2.error as error:
        raised: object = error.args[0] if error.args else ""
        reason = raised.decode(errors="replace") if isinstance(raised, bytes) else str(raised)
        raise ValueError(
            f"the regular expression {pattern!r} does not compile: {reason} (RE2: no look-around, no back-references)"
        ) from None
    return LinearPattern(compiled.search)


def js_string(value: JsonValue) -> str:
    """A scalar as JavaScript's `String()` prints it, so that rules written for the seeds' system mean the same."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return "null"
        case float() if value.is_integer() and abs(value) < 1e21:
            return str(int(value))
        case float():
            return _js_float(value)
        case _:
            return str(value)


def _js_float(value: float) -> str:
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    return re.sub(r"e([+-])0+(\d)", r"e\1\2", repr(value))


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
