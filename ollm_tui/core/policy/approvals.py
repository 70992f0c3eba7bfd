"""Approve and remember: the narrowest rule that would have allowed a call, kept where the person says (contract 2)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

import tomlkit
from pydantic import ValidationError
from tomlkit.exceptions import TOMLKitError
from tomlkit.items import AoT, Array, Table

from ollm_tui.core.base.own_files import replace_text
from ollm_tui.core.confirmation import RememberScope
from ollm_tui.core.policy.documents import read_checked
from ollm_tui.core.policy.engine import Call, Explanation, PolicyEngine, PolicySources
from ollm_tui.core.policy.modes import Mode
from ollm_tui.core.policy.rules import Decision, Operator, PolicyCondition, PolicyRule, RulePlace, RuleSet
from ollm_tui.core.policy.shell_approvals import ApprovalPattern, suggest_pattern
from ollm_tui.core.policy.shell_syntax import analyse
from ollm_tui.core.tools.base import Effect

FILE_PARAMETERS = {"edit_file": ("path",), "write_file": ("path",), "move_file": ("from", "to")}
"""Tools whose calls can be remembered, and the parameters that name what they touch."""


@dataclass(frozen=True)
class RememberOffer:
    """What would be kept: command patterns, or a rule about files. `text` is the exact wording, one line each."""

    patterns: tuple[str, ...] = ()
    rule: PolicyRule | None = None

    @property
    def text(self) -> str:
        if self.rule is None:
            return "\n".join(self.patterns)
        named = ", ".join(f'{condition.param} = "{condition.value}"' for condition in self.rule.conditions)
        return f"{self.rule.tool} where {named}"

    @property
    def editable(self) -> bool:
        """Whether a person may word it differently: a single command pattern."""
        return len(self.patterns) == 1


@dataclass
class ApprovalBook:
    """Where remembered approvals go. `files` holds the policy file of each lasting scope and the table path in it."""

    files: dict[RememberScope, tuple[Path, tuple[str, ...]]] = field(
        default_factory=dict[RememberScope, tuple[Path, tuple[str, ...]]]
    )
    on_saved: Callable[[RememberScope, str], None] | None = None
    session_rules: list[tuple[PolicyRule, RulePlace]] = field(default_factory=list[tuple[PolicyRule, RulePlace]])

    def offer(self, call: Call, explanation: Explanation) -> RememberOffer | None:
        """What remembering this call would save; None for deletions, floors, and whatever is not fully understood."""
        if explanation.decision is not Decision.ASK or call.floors or call.tool.dangerous or call.tool.plugin:
            return None
        if not call.inside_workspace:
            return None
        if call.tool.name == "shell":
            return _command_offer(str(call.arguments.get("command", "")), explanation)
        if call.effect is not Effect.WRITES or call.tool.name not in FILE_PARAMETERS:
            return None
        conditions = [
            PolicyCondition(param=name, operator=Operator.EQUALS, value=str(call.arguments[name]))
            for name in FILE_PARAMETERS[call.tool.name]
        ]
        return RememberOffer(rule=PolicyRule(tool=call.tool.name, action=Decision.ALLOW, conditions=conditions))

    def remember(
        self,
        engine: PolicyEngine,
        call: Call,
        explanation: Explanation,
        scope: RememberScope,
        wording: str | None,
    ) -> tuple[PolicyEngine, str]:
        """The engine that knows the approval, and what was saved where, in words.

        The very call is judged again: a rule that would not have allowed it is refused. Raises ValueError with the
        reason; nothing is saved then.
        """
        offer = self.offer(call, explanation)
        if offer is None:
            raise ValueError("calls like this one are asked every time")
        if wording is not None and wording.strip() != offer.text:
            if not offer.editable:
                raise ValueError("this rule cannot be reworded")
            offer = RememberOffer(patterns=(wording.strip(),))
        wiser = PolicyEngine(self._with(engine.sources, offer, scope))
        if wiser.explain(call, Mode.ASK).decision is not Decision.ALLOW:
            raise ValueError(f"{offer.text!r} would not have allowed this call")
        if scope is not RememberScope.SESSION:
            self._save(scope, offer)
        if self.on_saved is not None:
            self.on_saved(scope, offer.text)
        return wiser, f"remembered for this {scope.value}: {offer.text}"

    def _with(self, sources: PolicySources, offer: RememberOffer, scope: RememberScope) -> PolicySources:
        if offer.rule is None:
            patterns = tuple(ApprovalPattern.parse(pattern) for pattern in offer.patterns)
            commands = replace(sources.commands, approvals=(*sources.commands.approvals, *patterns))
            return replace(sources, commands=commands)
        place = RulePlace(scope.value, len(self.session_rules) + 1)
        first = RuleSet([(offer.rule, place)])
        return replace(sources, rule_sets=(first, *sources.rule_sets))

    def _save(self, scope: RememberScope, offer: RememberOffer) -> None:
        """Add to the scope's file, keeping its comments and order. Raises ValueError where that cannot be done."""
        try:
            path, table_path = self.files[scope]
        except KeyError:
            raise ValueError(f"there is no policy file for the scope {scope.value}") from None
        try:
            text = read_checked(path) if path.exists() else ""
            document = tomlkit.parse(text)
            table: tomlkit.TOMLDocument | Table = document
            for name in table_path:
                if name not in table:
                    table[name] = tomlkit.table()
                table = _table(table, name)
            if offer.rule is None:
                _add_approvals(table, offer.patterns)
            else:
                _add_rule(table, offer.rule)
            replace_text(path, tomlkit.dumps(document))
        except (OSError, TOMLKitError, ValidationError) as error:
            raise ValueError(f"{path} could not be changed: {error}") from None


def _command_offer(command: str, explanation: Explanation) -> RememberOffer | None:
    line = analyse(command)
    if line.opaque:
        return None
    asked = {
        entry.part for entry in explanation.trace if entry.part and entry.decision is Decision.ASK and not entry.rule
    }
    patterns: list[str] = []
    for part in line.parts:
        if part.text not in asked:
            continue
        pattern = suggest_pattern(part)
        if pattern is None:
            return None
        patterns.append(pattern)
    return RememberOffer(patterns=tuple(dict.fromkeys(patterns))) if patterns else None


def _table(parent: tomlkit.TOMLDocument | Table, name: str) -> Table:
    item = parent[name]
    if not isinstance(item, Table):
        raise ValueError(f"[{name}] is written in a form that cannot be added to; add the rule by hand")
    return item


def _add_approvals(table: tomlkit.TOMLDocument | Table, patterns: tuple[str, ...]) -> None:
    if "exec" not in table:
        table["exec"] = tomlkit.table()
    section = _table(table, "exec")
    if "approvals" not in section:
        section["approvals"] = tomlkit.array().multiline(True)
    approvals = section["approvals"]
    if not isinstance(approvals, Array | AoT):
        raise ValueError("exec.approvals is no list; add the rule by hand")
    inline = isinstance(approvals, Array)
    for pattern in patterns:
        row = tomlkit.inline_table() if inline else tomlkit.table()
        row["pattern"] = pattern
        row["added_by"] = "user"
        approvals.insert(len(approvals), row)


def _add_rule(table: tomlkit.TOMLDocument | Table, rule: PolicyRule) -> None:
    """New rules go first: the first match in file order decides."""
    entry = tomlkit.table()
    entry["tool"] = rule.tool
    entry["action"] = rule.action.value
    conditions = tomlkit.array()
    for condition in rule.conditions:
        row = tomlkit.inline_table()
        row["param"] = condition.param
        row["operator"] = condition.operator.value
        row["value"] = condition.value
        conditions.insert(len(conditions), row)
    entry["conditions"] = conditions
    if "rules" not in table:
        table["rules"] = tomlkit.aot()
    rules = table["rules"]
    if not isinstance(rules, AoT):
        raise ValueError("rules is not written as [[rules]]; add the rule by hand")
    rules.insert(0, entry)
