"""Lint policy files: unknown names, rules that never decide, contradictions, rules too wide."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence
from enum import StrEnum

from ollm_tui.core.base.results import Wire
from ollm_tui.core.policy.approval_patterns import ApprovalPattern
from ollm_tui.core.policy.engine import PolicySources
from ollm_tui.core.policy.policy_file import LoadedPolicy
from ollm_tui.core.policy.rule_set import js_string, linear_pattern, searchable
from ollm_tui.core.policy.rules import (
    ANY_TOOL,
    Decision,
    ExecMode,
    Operator,
    PolicyCondition,
    PolicyRule,
    RuleSource,
    ToolFilter,
    tool_names,
)
from ollm_tui.core.policy.shell.wrappers import changes_state, is_wrapper
from ollm_tui.core.sandbox.engines import WORK_ENGINES
from ollm_tui.core.tools.base import AnyTool, ToolGroup
from ollm_tui.core.tools.registry import LATER_TOOLS
from ollm_tui.core.tools.schema import function_schema

VIRTUAL_PARAMETERS = frozenset({"$allowed_domain", "$exists", "$inside_workspace", "$mode", "$origin"})
"""Names that conditions may ask about beside a tool's own parameters (contract section 2)."""

_VIRTUAL_VALUES = {
    "$allowed_domain": {"true", "false"},
    "$exists": {"true", "false"},
    "$inside_workspace": {"true", "false"},
    "$mode": {"ask", "auto-edit", "plan", "yolo"},
    "$origin": {"model", "user", "plugin", "salvaged"},
}


class LintFindingKind(StrEnum):
    """Kinds of findings."""

    UNKNOWN_TOOL = "unknown-tool"
    UNKNOWN_GROUP = "unknown-group"
    UNKNOWN_PARAMETER = "unknown-parameter"
    SHADOWED = "shadowed"
    CONTRADICTORY = "contradictory"
    NEVER_MATCHES = "never-matches"
    UNANCHORED = "unanchored"
    NO_EFFECT = "no-effect"


class LintFinding(Wire):
    """One finding: where it is, what is wrong, and what to do."""

    kind: LintFindingKind
    source: str
    message: str
    file: str | None = None
    line: int | None = None
    rule: int | None = None


def lint(documents: Sequence[LoadedPolicy], tools: Sequence[AnyTool]) -> list[LintFinding]:
    """Check documents one by one; findings come in the order of the files."""
    known = {tool.name: tool for tool in tools}
    return [finding for loaded in documents for finding in _Linter(loaded, known).findings()]


class _Linter:
    """One document."""

    def __init__(self, loaded: LoadedPolicy, known: dict[str, AnyTool]) -> None:
        self._loaded = loaded
        self._known = known

    def findings(self) -> Iterator[LintFinding]:
        document = self._loaded.document
        for filtered, where in ((document.tools, "[tools]"), (document.tools.groups, "[tools] groups")):
            yield from self._filter(filtered, where, groups=filtered is document.tools.groups)
        yield from self._approvals()
        yield from self._sandbox()
        rules = self._loaded.rules_with_sources
        for index, (rule, where) in enumerate(rules):
            yield from self._names(rule, where)
            for condition in rule.conditions:
                yield from self._condition(condition, rule, where)
            yield from self._conflicts_inside(rule, where)
            yield from self._shadowed(rule, where, rules[:index])

    def _sandbox(self) -> Iterator[LintFinding]:
        """Yield keys that the mode's engine, else the first choice, cannot honour; network = false holds in all."""
        table = self._loaded.document.sandbox
        engine = next((each for each in WORK_ENGINES if each.name == table.mode), WORK_ENGINES[0])
        for key in sorted(table.model_fields_set & engine.dishonours):
            if key != "network" or table.network:
                others = " or ".join(each.name for each in WORK_ENGINES if key not in each.dishonours)
                message = f"[sandbox] {key}: {engine.name} cannot honour it. Take it out, or set mode to {others}."
                yield self._found(LintFindingKind.NO_EFFECT, message)

    # -- names -------------------------------------------------------------------------------------------------------

    def _filter(self, filtered: ToolFilter, where: str, *, groups: bool) -> Iterator[LintFinding]:
        for list_name, names in (("allow", filtered.allow), ("deny", filtered.deny)):
            for name in names:
                if groups and name not in {group.value for group in ToolGroup}:
                    hint = _closest(name, [group.value for group in ToolGroup])
                    yield self._found(
                        LintFindingKind.UNKNOWN_GROUP, f"{where} {list_name}: there is no group {name}{hint}"
                    )
                elif not groups and not self._resolves(name):
                    yield self._found(LintFindingKind.UNKNOWN_TOOL, f"{where} {list_name}: {self._unknown(name)}")
        for name in sorted(set(filtered.allow) & set(filtered.deny)):
            message = f"{where}: {name} is allowed and denied; deny wins. Take one of them out."
            yield self._found(LintFindingKind.CONTRADICTORY, message)

    def _names(self, rule: PolicyRule, where: RuleSource) -> Iterator[LintFinding]:
        if rule.tool != ANY_TOOL and not self._resolves(rule.tool):
            yield self._found(LintFindingKind.UNKNOWN_TOOL, self._unknown(rule.tool), where)

    def _resolves(self, name: str) -> bool:
        if name.startswith("mcp__"):  # what servers offer is known only while they run
            return True
        return any(each in self._known or each in LATER_TOOLS for each in tool_names(name))

    def _unknown(self, name: str) -> str:
        return f"there is no tool {name}{_closest(name, [*self._known, *LATER_TOOLS])}"

    # -- conditions --------------------------------------------------------------------------------------------------

    def _condition(self, condition: PolicyCondition, rule: PolicyRule, where: RuleSource) -> Iterator[LintFinding]:
        yield from self._parameter(condition, rule, where)
        param = condition.param
        allowed = _VIRTUAL_VALUES.get(param)
        if allowed is not None and condition.operator is Operator.EQUALS and not allowed & set(condition.values):
            values = ", ".join(sorted(allowed))
            yield self._found(
                LintFindingKind.NEVER_MATCHES, f"{param} is one of {values}, so this can never match", where
            )
        if condition.operator is Operator.EQUALS and allowed is None:
            yield from self._impossible_value(condition, rule, where)
        if condition.operator is Operator.MATCHES:
            for value in condition.values:
                if _never_matches(value):
                    yield self._found(LintFindingKind.NEVER_MATCHES, f"the pattern {value!r} can never match", where)
                elif rule.action is Decision.ALLOW and not _anchored(value, param):
                    message = (
                        f"the pattern {value!r} is searched anywhere in {param}: it allows what merely contains it. "
                        "Start it with ^."
                    )
                    yield self._found(LintFindingKind.UNANCHORED, message, where)
        if condition.operator is Operator.STARTS_WITH and rule.action is Decision.ALLOW:
            for value in condition.values:
                yield from self._open_prefix(value, condition, rule, where)
        if condition.operator is Operator.CONTAINS and rule.action is Decision.ALLOW:
            message = (
                f"it allows whatever contains {condition.values[0]!r} anywhere in {param}. Use startsWith or matches."
            )
            yield self._found(LintFindingKind.UNANCHORED, message, where)
        if "" in condition.values and condition.operator is not Operator.EQUALS:
            yield self._found(
                LintFindingKind.UNANCHORED, f"an empty text is in every {param}: it always matches", where
            )

    def _open_prefix(
        self, value: str, condition: PolicyCondition, rule: PolicyRule, where: RuleSource
    ) -> Iterator[LintFinding]:
        """`git` also begins `github-upload`; `src` also begins `src-secret/key`."""
        if not value or not (value[-1].isalnum() or value[-1] in "_-"):
            return
        if condition.param == "command" and "shell" in tool_names(rule.tool):
            message = f"startsWith {value!r} also allows other programs whose name begins so. End it with a blank."
            yield self._found(LintFindingKind.UNANCHORED, message, where)
        elif condition.param in ("path", "directory", "from", "to"):
            message = f"startsWith {value!r} also allows {value}-other. End it with / for a folder, or use equals."
            yield self._found(LintFindingKind.UNANCHORED, message, where)

    def _parameter(self, condition: PolicyCondition, rule: PolicyRule, where: RuleSource) -> Iterator[LintFinding]:
        param = condition.param
        tools = [self._known[name] for name in tool_names(rule.tool) if name in self._known]
        if param.startswith("$"):
            if param not in VIRTUAL_PARAMETERS:
                message = f"there is no {param}{_closest(param, sorted(VIRTUAL_PARAMETERS))}; the rule never matches"
                yield self._found(LintFindingKind.UNKNOWN_PARAMETER, message, where)
        elif tools:
            names = sorted({name for tool in tools for name in _parameters(tool)})
            if param not in names:
                message = f"{rule.tool} has no parameter {param}{_closest(param, names)}; the rule never matches"
                yield self._found(LintFindingKind.UNKNOWN_PARAMETER, message, where)

    def _impossible_value(
        self, condition: PolicyCondition, rule: PolicyRule, where: RuleSource
    ) -> Iterator[LintFinding]:
        """Find parameters compared with values they never take."""
        tools = [self._known[name] for name in tool_names(rule.tool) if name in self._known]
        choices = [_parameters(tool).get(condition.param) for tool in tools]
        if not choices or any(each is None for each in choices):
            return
        possible = {value for each in choices if each for value in each}
        if not possible & set(condition.values):
            values = ", ".join(sorted(possible))
            message = f"{condition.param} of {rule.tool} is one of {values}, so this can never match"
            yield self._found(LintFindingKind.NEVER_MATCHES, message, where)

    def _conflicts_inside(self, rule: PolicyRule, where: RuleSource) -> Iterator[LintFinding]:
        """Find two conditions of one rule that no value meets."""
        for index, one in enumerate(rule.conditions):
            for other in rule.conditions[:index]:
                if one.param == other.param and Operator.EQUALS in (one.operator, other.operator):
                    exact, loose = (one, other) if one.operator is Operator.EQUALS else (other, one)
                    if not any(_meets(value, loose) for value in exact.values):
                        message = f"no {one.param} meets both of its conditions, so this can never match"
                        yield self._found(LintFindingKind.NEVER_MATCHES, message, where)

    # -- rules against each other ------------------------------------------------------------------------------------

    def _shadowed(
        self, rule: PolicyRule, where: RuleSource, earlier: Sequence[tuple[PolicyRule, RuleSource]]
    ) -> Iterator[LintFinding]:
        """Find an earlier rule for the same tools that always matches first."""
        for before, there in earlier:
            if not set(tool_names(rule.tool)) <= set(tool_names(before.tool)) or not _covers(before, rule):
                continue
            same = before.conditions == rule.conditions
            kind = (
                LintFindingKind.CONTRADICTORY if same and before.action is not rule.action else LintFindingKind.SHADOWED
            )
            first = f"rule {there.number}" + (f" (line {there.line})" if there.line else "")
            if kind is LintFindingKind.CONTRADICTORY:
                message = (
                    f"{first} says {before.action} for the same calls, and comes first; this {rule.action} is dead"
                )
            else:
                message = f"{first} matches whenever this does, and comes first; this {rule.action} never decides"
            yield self._found(kind, f"{message}. Move it up or take it out.", where)
            return

    # -- approvals ---------------------------------------------------------------------------------------------------

    def _approvals(self) -> Iterator[LintFinding]:
        section = self._loaded.document.exec
        seen: list[tuple[str, ApprovalPattern]] = []
        for approval in section.approvals:
            try:
                pattern = ApprovalPattern.parse(approval.pattern)
            except ValueError as error:
                yield self._found(LintFindingKind.NEVER_MATCHES, f"approval {approval.pattern!r}: {error}")
                continue
            yield from self._approval(approval.pattern, pattern, seen)
            seen.append((approval.pattern, pattern))
        if section.mode in (ExecMode.FULL, ExecMode.DENY) and section.approvals:
            message = f"with exec mode {section.mode} the approvals decide nothing. Use allowlist, or take them out."
            yield self._found(LintFindingKind.NO_EFFECT, message)

    def _approval(
        self, text: str, pattern: ApprovalPattern, earlier: Sequence[tuple[str, ApprovalPattern]]
    ) -> Iterator[LintFinding]:
        argv = tuple(word.text for word in pattern.words)
        if re.search(r"&&|\|\||[;|<>`]|\$\(", text):
            message = f"approval {text!r}: patterns are for one command without operators; this can never match"
            yield self._found(LintFindingKind.NEVER_MATCHES, message)
        elif argv and (is_wrapper(argv) or changes_state(argv)):
            message = f"approval {text!r}: {argv[0]} runs other commands or changes what they mean; it is never covered"
            yield self._found(LintFindingKind.NEVER_MATCHES, message)
        elif not argv:
            yield self._found(
                LintFindingKind.UNANCHORED, f"approval {text!r} covers every plain command. Name programs."
            )
        elif argv[0] != pattern.words[0].spelled:
            message = f"approval {text!r}: a wildcard in the program's name covers programs nobody thought of"
            yield self._found(LintFindingKind.UNANCHORED, message)
        for other, wider in earlier:
            if _pattern_covers(wider, pattern):
                yield self._found(LintFindingKind.SHADOWED, f"approval {text!r} is covered by {other!r} already")
                return

    def _found(self, kind: LintFindingKind, message: str, where: RuleSource | None = None) -> LintFinding:
        return LintFinding(
            kind=kind,
            source=self._loaded.source,
            message=message,
            file=where.file if where else self._loaded.file,
            line=where.line if where else None,
            rule=where.number if where else None,
        )


def lint_sources(sources: PolicySources) -> list[LintFinding]:
    """Return findings that concern all sources together."""
    commands = sources.commands
    if commands.mode is ExecMode.FULL and commands.on_miss is Decision.DENY:
        message = 'exec mode "full" misses nothing, so on_miss decides nothing'
        return [LintFinding(kind=LintFindingKind.NO_EFFECT, source="all", message=message)]
    return []


def _closest(name: str, names: Sequence[str]) -> str:
    found = difflib.get_close_matches(name.casefold().replace("-", "_"), names, 1, 0.6)
    return f" (did you mean {found[0]}?)" if found else ""


def _parameters(tool: AnyTool) -> dict[str, set[str] | None]:
    """Return a tool's wire names, each with the values it takes if they are listed."""
    schema = function_schema(tool)
    parameters = schema.get("parameters")
    properties = parameters.get("properties") if isinstance(parameters, dict) else None
    found: dict[str, set[str] | None] = {}
    for name, shape in (properties if isinstance(properties, dict) else {}).items():
        choices = shape.get("enum") if isinstance(shape, dict) else None
        if isinstance(shape, dict) and shape.get("type") == "boolean":
            found[name] = {"true", "false"}
        else:
            found[name] = {js_string(value) for value in choices} if isinstance(choices, list) else None
    return found


def _anchored(pattern: str, param: str) -> bool:
    """Return whether an expression is anchored; for commands only the beginning counts."""
    begins = pattern.removeprefix("(?i)").startswith(("^", r"\A"))
    return begins or (param != "command" and pattern.endswith(("$", r"\z")) and not pattern.endswith(r"\$"))


def _never_matches(pattern: str) -> bool:
    """Return whether a character would have to precede `^` or follow `$`."""
    unescaped = re.sub(r"\\.|\[\^?\]?[^\]]*\]", "x", pattern)
    if "|" in unescaped or re.search(r"\(\?[a-zA-Z]*m", unescaped):
        return False
    return re.search(r"\$[\w /.-](?![?*{])|[\w /.-]\^", unescaped) is not None


def _covers(before: PolicyRule, rule: PolicyRule) -> bool:
    """Return whether the earlier rule matches whenever the later one does.

    On lists an allow needs every element and the others need one, so the two kinds are not compared.
    """
    alike = (before.action is Decision.ALLOW) == (rule.action is Decision.ALLOW)
    if before.conditions and not alike and any(each.param == "paths" for each in before.conditions):
        return False
    return all(any(_implies(own, condition) for own in rule.conditions) for condition in before.conditions)


def _implies(own: PolicyCondition, wider: PolicyCondition) -> bool:
    """Return whether whatever meets `own` meets `wider` too."""
    if own.param != wider.param:
        return False
    if own.operator is wider.operator and set(own.values) <= set(wider.values):
        return True
    match own.operator:
        case Operator.EQUALS:
            return all(_meets(value, wider) for value in own.values)
        case Operator.STARTS_WITH:
            in_start = wider.operator in (Operator.STARTS_WITH, Operator.CONTAINS)
            return in_start and all(_meets(value, wider) for value in own.values)
        case Operator.CONTAINS:
            return wider.operator is Operator.CONTAINS and all(_meets(value, wider) for value in own.values)
        case Operator.MATCHES:
            return False


def _meets(value: str, condition: PolicyCondition) -> bool:
    match condition.operator:
        case Operator.EQUALS:
            return value in condition.values
        case Operator.CONTAINS:
            return any(each in value for each in condition.values)
        case Operator.STARTS_WITH:
            return any(value.startswith(each) for each in condition.values)
        case Operator.MATCHES:
            return any(linear_pattern(each).search(searchable(value)) is not None for each in condition.values)


def _pattern_covers(wider: ApprovalPattern, narrower: ApprovalPattern) -> bool:
    """Return whether the wider pattern covers every command of the narrower one."""
    if narrower.open_end and not wider.open_end:
        return False
    if len(wider.words) > len(narrower.words) or (len(wider.words) < len(narrower.words) and not wider.open_end):
        return False
    if any(word.text.startswith("-") for word in narrower.words[len(wider.words) :]):
        return False  # spelled there, so that it covers what the wider one leaves
    return all(mine.text == theirs.text for mine, theirs in zip(wider.words, narrower.words, strict=False))
