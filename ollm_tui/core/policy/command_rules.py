"""Judging shell lines: every simple command by itself, the strictest answer wins (contract section 2, "Commands")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.base.workspace import Workspace
from ollm_tui.core.confirmation import Risk
from ollm_tui.core.policy.command_paths import CommandPaths
from ollm_tui.core.policy.rules import CompiledRule, Decision, ExecMode, RuleSet, strictest
from ollm_tui.core.policy.shell_approvals import ApprovalPattern
from ollm_tui.core.policy.shell_readonly import ReadOnlyVerdict, read_only_parts
from ollm_tui.core.policy.shell_risk import command_risk
from ollm_tui.core.policy.shell_syntax import ShellLine, analyse, bash_accepts
from ollm_tui.core.policy.shell_words import SimpleCommand

SHELL = "shell"


@dataclass(frozen=True)
class CommandPolicy:
    """Layer 2 of all sources together."""

    mode: ExecMode = ExecMode.ALLOWLIST
    on_miss: Decision = Decision.ASK
    approvals: tuple[ApprovalPattern, ...] = ()
    read_only_commands: bool = False
    workspace: Workspace | None = None
    """Where the paths of read-only commands are judged; without one, none that names a path is allowed."""


@dataclass(frozen=True)
class PartVerdict:
    """What was decided about one simple command, or about the line as a whole (`text` is then the line)."""

    text: str
    decision: Decision
    reason: str
    rule: CompiledRule | None = None


@dataclass(frozen=True)
class CommandVerdict:
    """All that was said about a line; the strictest part decides."""

    parts: tuple[PartVerdict, ...]
    risk: Risk


def judge_command(
    params: JsonObject, rule_sets: Sequence[RuleSet], tightening: Sequence[RuleSet], policy: CommandPolicy
) -> CommandVerdict:
    """Judge the line in `params["command"]`; `params` are what rules see."""
    command = params.get("command")
    source = command if isinstance(command, str) else ""
    line = analyse(source)
    judge = _LineJudge(params, rule_sets, tightening, policy, line)
    return CommandVerdict(tuple(judge.verdicts()), judge.risk())


class _LineJudge:
    """One line under one policy."""

    def __init__(
        self,
        params: JsonObject,
        rule_sets: Sequence[RuleSet],
        tightening: Sequence[RuleSet],
        policy: CommandPolicy,
        line: ShellLine,
    ) -> None:
        self._params = params
        self._rule_sets = rule_sets
        self._tightening = tightening
        self._policy = policy
        self._line = line
        cwd = params.get("cwd")
        self._paths = CommandPaths(policy.workspace, cwd if isinstance(cwd, str) else "") if policy.workspace else None

    def verdicts(self) -> list[PartVerdict]:
        if self._policy.mode is ExecMode.DENY:
            return [PartVerdict(self._line.source, Decision.DENY, "the exec mode is deny: nothing runs")]
        if self._line.incomplete and self._has_deny_rules():
            reason = "this line holds more commands than can be told apart, and some commands are denied"
            return [PartVerdict(self._line.source, Decision.DENY, reason)]
        looks = read_only_parts(self._line) if self._policy.read_only_commands else ()
        found = self._restrictions()
        for index, part in enumerate(self._line.parts):
            found.append(self._judge_part(part, looks[index] if looks else None))
        if self._line.opaque and self._policy.mode is not ExecMode.FULL:
            reason = f"this line can not be judged safe: {self._line.reason}"
            found.append(PartVerdict(self._line.source, self._policy.on_miss, reason))
        if not found:
            found.append(PartVerdict(self._line.source, self._policy.on_miss, "no approval covers it"))
        allowed = strictest(*(verdict.decision for verdict in found)) is Decision.ALLOW
        if allowed and self._policy.mode is not ExecMode.FULL and not bash_accepts(self._line.source):
            found.append(PartVerdict(self._line.source, self._policy.on_miss, "bash does not accept this line"))
        return found

    def risk(self) -> Risk:
        for rules in self._rule_sets:
            rule = rules.deciding(SHELL, self._params)
            if rule is not None and rule.rule.risk is not None:
                return rule.rule.risk
        return Risk(command_risk(self._line, self._paths.is_outside if self._paths else None).value)

    def _restrictions(self) -> list[PartVerdict]:
        """Deny and ask rules, tried on the whole line and on everything it may run, in every spelling.

        Rules without a condition on the command have their say about the parts, where approvals do not weaken it. An
        allow that comes first speaks for a single command, never for a line of several.
        """
        found: list[PartVerdict] = []
        single = len(self._line.parts) == 1 and not self._line.opaque
        texts = dict.fromkeys([self._line.source])
        for command in self._line.all_commands:
            texts.update(dict.fromkeys(command.spellings))
        for text in texts:
            params = self._with_command(text)
            for rules in (*self._rule_sets, *self._tightening):
                rule = self._restriction(rules, params, behind_allows=not single and text == self._line.source)
                if rule is not None and rule.action is not Decision.ALLOW:
                    found.append(PartVerdict(text, rule.action, _said(rule), rule))
                if rule is not None and rules not in self._tightening:
                    break  # the first set with a match decides
        return found

    def _has_deny_rules(self) -> bool:
        sets = (*self._rule_sets, *self._tightening)
        return any(rule.action is Decision.DENY for rules in sets for rule in rules.for_tool(SHELL))

    @staticmethod
    def _restriction(rules: RuleSet, params: JsonObject, *, behind_allows: bool) -> CompiledRule | None:
        for rule in rules.for_tool(SHELL):
            if behind_allows and rule.action is Decision.ALLOW:
                continue
            speaks_of_commands = any(condition.param == "command" for condition in rule.rule.conditions)
            if speaks_of_commands and rule.matches(params):
                return rule
        return None

    def _judge_part(self, part: SimpleCommand, look: ReadOnlyVerdict | None) -> PartVerdict:
        rule = self._deciding(self._with_command(part.text))
        if rule is not None and rule.action is not Decision.ALLOW:
            return PartVerdict(part.text, rule.action, _said(rule), rule)
        if self._policy.mode is ExecMode.FULL:
            return PartVerdict(part.text, Decision.ALLOW, "the exec mode is full", rule)
        if not part.plain:
            return PartVerdict(part.text, self._policy.on_miss, f"{part.text}: {'; '.join(part.reasons)}")
        if rule is not None:
            return PartVerdict(part.text, Decision.ALLOW, _said(rule), rule)
        for pattern in self._policy.approvals:
            if pattern.covers(part):
                return PartVerdict(part.text, Decision.ALLOW, f"the approval {pattern.text!r} covers it")
        return self._as_looking_around(part, look)

    def _as_looking_around(self, part: SimpleCommand, look: ReadOnlyVerdict | None) -> PartVerdict:
        miss = self._policy.on_miss
        if look is None:
            return PartVerdict(part.text, miss, f"no approval covers {part.text!r}")
        if not look.covered:
            return PartVerdict(part.text, miss, f"no approval covers {part.text!r} ({look.reason})")
        obstacle = self._obstacle(look)
        if obstacle is not None:
            return PartVerdict(part.text, miss, f"no approval covers {part.text!r}: {obstacle}")
        return PartVerdict(part.text, Decision.ALLOW, "it only looks around")

    def _obstacle(self, look: ReadOnlyVerdict) -> str | None:
        """Why a command of the read-only list asks all the same: what it would look at."""
        if self._paths is None:
            return "there is no workspace" if look.paths or look.repositories else None
        for path in look.paths:
            problem = self._paths.problem(path, descends=look.descends)
            if problem is not None:
                return f"{path}: {problem}"
        for directory in look.repositories:
            problem = self._paths.repository_problem(directory)
            if problem is not None:
                return f"{directory}: {problem}"
        return None

    def _with_command(self, text: str) -> JsonObject:
        return {**self._params, "command": text}

    def _deciding(self, params: dict[str, JsonValue]) -> CompiledRule | None:
        for rules in self._rule_sets:
            rule = rules.deciding(SHELL, params)
            if rule is not None:
                return rule
        return None


def _said(rule: CompiledRule) -> str:
    words = f"{rule.place}: {rule.action} for this command"
    return f"{words} ({rule.rule.message})" if rule.rule.message else words
