"""Judge command lines: every simple command by itself, the strictest decision wins."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.approval_patterns import ApprovalKey, ApprovalPattern
from ollm_tui.core.policy.rule_set import CompiledRule, ConditionValues, RuleSet, condition_values, first_match
from ollm_tui.core.policy.rules import Decision, ExecMode
from ollm_tui.core.policy.shell.command_paths import CommandPaths
from ollm_tui.core.policy.shell.git_contents import GitContents
from ollm_tui.core.policy.shell.program_table import program_key, tables
from ollm_tui.core.policy.shell.read_only import LineNature, ReadOnlyVerdict, command_risk, line_nature
from ollm_tui.core.policy.shell.shell_line import (
    MAX_REMEMBERED,
    ShellLine,
    analyse,
    bash_accepts,
    clear_analyses,
    reads_bytes_alike,
)
from ollm_tui.core.policy.shell.words import SimpleCommand
from ollm_tui.core.sandbox.engines import look_works as cage_works

SHELL = "shell"

_SIMPLE_PROGRAMS = """
    : [ [[ basename cat cksum cmp comm cut dirname echo expr false fold head id join ls md5sum nl od paste printf pwd
    readlink realpath seq sha1sum sha224sum sha256sum sha384sum sha512sum stat sum tac tail test tr true type uname wc
    whoami
"""
UNCAGED = frozenset(_SIMPLE_PROGRAMS.split())
"""Programs that start no others and follow no configuration: they may run where no cage works."""


@dataclass(frozen=True)
class CommandPolicy:
    """Layer 2 of all sources together."""

    mode: ExecMode = ExecMode.ALLOWLIST
    on_miss: Decision = Decision.ASK
    approvals: tuple[ApprovalPattern, ...] = ()
    read_only_commands: bool = False
    workspace: Workspace | None = None
    """Where the paths of read-only commands are judged; without one, none that names a path is allowed."""


class PartVerdict(NamedTuple):
    """What was decided about one simple command, or about the whole line."""

    text: str
    decision: Decision
    reason: str
    rule: CompiledRule | None = None
    approval: ApprovalPattern | None = None
    listed: bool = False
    """It is on the read-only list: allowed, or asked about only for what git is configured to start.

    Where a mode allows it then, it runs in the cage all the same.
    """


@dataclass(frozen=True)
class CommandVerdict:
    """Everything decided about a line; the strictest part decides."""

    parts: tuple[PartVerdict, ...]
    risk: Risk
    own_risk: Risk
    """What the line itself can do, whatever risk a rule gives it: low for the read-only list alone."""

    @property
    def looks(self) -> bool:
        """Whether all of the line is on the read-only list, so that it runs in the cage where it is allowed."""
        return bool(self.parts) and all(verdict.listed for verdict in self.parts)

    @property
    def lasting_approvals(self) -> tuple[ApprovalKey, ...]:
        """The approvals of policy files that cover parts of the line."""
        found = [verdict.approval for verdict in self.parts if verdict.approval is not None]
        return tuple([ApprovalKey(each.file, each.text) for each in found if each.file])


def judge_command(
    params: JsonObject, rule_sets: Sequence[RuleSet], tightening: Sequence[RuleSet], policy: CommandPolicy
) -> CommandVerdict:
    """Judge the line in `params["command"]`; `params` are what rules see."""
    command = params.get("command")
    source = command if isinstance(command, str) else ""
    line, nature = _remembered(source) if len(source) <= MAX_REMEMBERED else _read(source)
    judge = _LineJudge(params, rule_sets, tightening, policy, line, nature)
    own_risk = judge.own_risk()
    risk = judge.risk_by_rule() or own_risk
    if len(line.parts) != 1 or line.opaque:  # a rule's word is about one command: it never plays down several
        risk = max(risk, own_risk, key=lambda each: each.rank)
    return CommandVerdict(tuple(judge.verdicts()), risk, own_risk)


def _read(source: str) -> tuple[ShellLine, LineNature]:
    line = analyse(source)
    return line, line_nature(line)


_remembered = lru_cache(maxsize=64)(_read)
"""A call is judged again before it runs; long lines are left out for the memory they would use."""


def clear_line_cache() -> None:
    """Forget analysed lines; for measuring."""
    _remembered.cache_clear()
    clear_analyses()


class _LineJudge:
    """One line under one policy."""

    def __init__(
        self,
        params: JsonObject,
        rule_sets: Sequence[RuleSet],
        tightening: Sequence[RuleSet],
        policy: CommandPolicy,
        line: ShellLine,
        nature: LineNature,
    ) -> None:
        self._values = condition_values(params)
        self._rule_sets = rule_sets
        self._tightening = tightening
        self._policy = policy
        self._line = line
        self._nature = nature
        given = (*self._values, "command")  # the parts of the line are asked about one by one, all with the same names
        self._rules = [rules.possible(SHELL, given) for rules in rule_sets]
        self._tighter_rules = [rules.possible(SHELL, given) for rules in tightening]
        cwd = params.get("cwd")
        self._paths = CommandPaths(policy.workspace, cwd if isinstance(cwd, str) else "") if policy.workspace else None
        self._contents = GitContents(self._paths) if self._paths else None

    def verdicts(self) -> list[PartVerdict]:
        """Return the decisions about the parts and about the whole line."""
        if self._policy.mode is ExecMode.DENY:
            return [PartVerdict(self._line.source, Decision.DENY, "the exec mode is deny: nothing runs")]
        found = self._restrictions()
        found += self._parts()
        if not self._line.parts:
            found.extend(self._without_parts())
        if self._line.opaque and self._policy.mode is not ExecMode.FULL:
            reason = f"this line cannot be checked: {self._line.reason}"
            found.append(PartVerdict(self._line.source, self._policy.on_miss, reason))
        if (
            self._policy.mode is not ExecMode.FULL
            and not self._line.source.isascii()
            and not reads_bytes_alike(os.environ)
        ):
            reason = "this terminal's locale is not UTF-8: bash may read its letters as others"
            found.append(PartVerdict(self._line.source, self._policy.on_miss, reason))
        if not found and self._policy.mode is ExecMode.FULL:  # `((x++))`
            found.append(PartVerdict(self._line.source, Decision.ALLOW, "the exec mode is full"))
        elif not found:
            found.append(PartVerdict(self._line.source, self._policy.on_miss, "no approval covers it"))
        allowed = all(verdict.decision is Decision.ALLOW for verdict in found)
        if allowed and self._policy.mode is not ExecMode.FULL and not _bash_takes(self._line.source):
            found.append(PartVerdict(self._line.source, self._policy.on_miss, "bash does not accept this line"))
        return found

    def risk_by_rule(self) -> Risk | None:
        """Return the risk that a rule gives to the line, if one does."""
        matching = (first_match(rules, self._values) for rules in self._rules)
        return next((rule.rule.risk for rule in matching if rule is not None and rule.rule.risk is not None), None)

    def own_risk(self) -> Risk:
        """Return what the line can do by itself: low where all of it is read-only."""
        return command_risk(self._line, self._paths.is_outside if self._paths else None, self._nature)

    def _restrictions(self) -> list[PartVerdict]:
        """Try deny and ask rules on the whole line and every command in it, in every spelling.

        Rules without a condition on the command are tried on the parts. An allow that comes first holds for a single
        command, never for a line of several.
        """
        found: list[PartVerdict] = []
        restricting = [rules for rules in (*self._rule_sets, *self._tightening) if _about_commands(rules)]
        if not restricting:
            return found
        single = len(self._line.parts) == 1 and not self._line.opaque
        texts = dict.fromkeys([self._line.source])
        for command in (*self._line.all_commands, *self._line.commands_in_options.found):
            texts.update(dict.fromkeys(command.spellings))
        for text in texts:
            values = self._with_command(text)
            decided = False  # the first set with a match decides; a repository's rules speak beside them
            for rules in restricting:
                tightening = rules in self._tightening
                if decided and not tightening:
                    continue
                rule = self._restriction(rules, values, behind_allows=not single and text == self._line.source)
                if rule is not None and rule.action is not Decision.ALLOW:
                    found.append(PartVerdict(text, rule.action, rule.for_command, rule))
                decided = decided or (rule is not None and not tightening)
        return [*found, *self._unread(restricting)]

    def _unread(self, restricting: Sequence[RuleSet]) -> list[PartVerdict]:
        """Apply the strictest rule where a line has more in it than can be followed."""
        behind = self._line.commands_in_options
        unnamed = self._line.unnamed
        if not (self._line.incomplete or behind.incomplete or unnamed):
            return []
        restrictions = [
            rule for rules in restricting for rule in _about_commands(rules) if rule.action is not Decision.ALLOW
        ]
        if not restrictions:
            return []
        rule = max(restrictions, key=lambda each: each.action.rank)
        unread = f"{unnamed} does not say which program runs" if unnamed else "more lies in this line than is looked at"
        reason = f"{unread}, and {rule.for_command}"
        return [PartVerdict(self._line.source, rule.action, reason, rule)]

    @staticmethod
    def _restriction(rules: RuleSet, values: ConditionValues, *, behind_allows: bool) -> CompiledRule | None:
        for rule in _about_commands(rules):
            if behind_allows and rule.action is Decision.ALLOW:
                continue
            if rule.matches(values):
                return rule
        return None

    def _without_parts(self) -> list[PartVerdict]:
        """Judge a line without commands as a whole, so that no general rule misses it."""
        rule = self._deciding(self._values)
        tighter = self._tighter(self._values)
        return [
            PartVerdict(self._line.source, each.action, each.for_command, each)
            for each in (rule, tighter)
            if each is not None and each.action is not Decision.ALLOW
        ]

    def _parts(self) -> list[PartVerdict]:
        """Judge each command; one of the list asks for what only the cage keeps from it, where the line is in none."""
        parts = list(map(self._judge_part, self._line.parts, self._nature.verdicts))
        if self._contents is None or all(part.listed for part in parts):
            return parts
        for number, listed in enumerate(self._nature.verdicts):
            by_list = parts[number].listed and parts[number].decision is Decision.ALLOW
            if by_list and listed.prints and self._contents.reaches_past(listed.prints, listed.repositories):
                reason = (
                    f"{parts[number].text!r} may print credentials that were removed; by itself it runs in the cage"
                )
                parts[number] = parts[number]._replace(decision=self._policy.on_miss, reason=reason)
        return parts

    def _judge_part(self, part: SimpleCommand, listed: ReadOnlyVerdict) -> PartVerdict:
        values = self._with_command(part.text)
        rule, tighter = self._deciding(values), self._tighter(values)
        strict = rule if tighter is None or (rule and rule.action.rank >= tighter.action.rank) else tighter
        if strict is not None and strict.action is not Decision.ALLOW:
            return PartVerdict(part.text, strict.action, strict.for_command, strict)
        if self._policy.mode is ExecMode.FULL:
            return PartVerdict(part.text, Decision.ALLOW, "the exec mode is full", rule)
        if not part.plain:
            return PartVerdict(part.text, self._policy.on_miss, f"{part.text}: {'; '.join(part.reasons)}")
        if rule is not None:
            return PartVerdict(part.text, Decision.ALLOW, rule.for_command, rule)
        for pattern in self._policy.approvals:
            if pattern.covers(part):
                reason = f"the approval {pattern.text!r} covers it"
                foreign = self._foreign_repository(part, listed.directories)
                if foreign is not None:
                    reason = f"{reason} in the workspace's repository; {foreign}"
                    return PartVerdict(part.text, self._policy.on_miss, reason, listed=listed.covered and cage_works())
                return PartVerdict(part.text, Decision.ALLOW, reason, approval=pattern)
        return self._by_read_only_list(part, listed)

    def _foreign_repository(self, part: SimpleCommand, directories: tuple[str, ...]) -> str | None:
        """Return why an approved git command would follow a configuration that nobody approved."""
        if self._paths is None or program_key(part.name) != "git":
            return None
        if not directories:
            return "where the cd before it leads is not known"
        return next(filter(None, map(self._paths.foreign_repository, directories)), None)

    def _by_read_only_list(self, part: SimpleCommand, listed: ReadOnlyVerdict) -> PartVerdict:
        miss = self._policy.on_miss
        if not self._policy.read_only_commands:
            return PartVerdict(part.text, miss, f"no approval covers {part.text!r}")
        if not listed.covered:
            return PartVerdict(part.text, miss, f"no approval covers {part.text!r} ({listed.reason})")
        obstacle = self._obstacle(part.name, listed)
        if obstacle is not None:
            return PartVerdict(part.text, miss, f"no approval covers {part.text!r}: {obstacle}")
        if part.name not in UNCAGED and not cage_works():
            reason = f"no approval covers {part.text!r}: this system has no cage for commands that only read"
            return PartVerdict(part.text, miss, reason)
        program = self._configured_program(listed)
        if program is not None:
            return PartVerdict(part.text, miss, f"no approval covers {part.text!r}: {program}", listed=True)
        return PartVerdict(part.text, Decision.ALLOW, "it only reads", listed=True)

    def _obstacle(self, name: str, verdict: ReadOnlyVerdict) -> str | None:
        """Return why a command of the read-only list asks nevertheless, if it does."""
        if self._paths is None:
            return "there is no workspace" if verdict.paths or verdict.repositories else None
        own = (
            None if name in tables().word_lists["builtins"] else self._paths.replaced_program(name, verdict.directories)
        )
        if own is not None:
            return own
        tracked = verdict.repositories and all(map(self._paths.is_in_repository, verdict.repositories))
        for path in verdict.paths:
            reason = self._paths.reason_to_ask(path, descends=None if tracked else verdict.descends)
            if reason is not None:
                return f"{path}: {reason}"
        return None if self._contents is None else self._printed(verdict, self._contents)

    def _printed(self, verdict: ReadOnlyVerdict, contents: GitContents) -> str | None:
        """Return why what git prints asks."""
        reason = None if verdict.prints is None else contents.reason_to_ask(verdict.prints, verdict.repositories)
        if reason is not None:
            return reason
        if verdict.prints_settings and _PIPE.search(self._line.source) and contents.configured_secrets():
            return "git's configuration holds a password, and what it prints goes on to another program"
        return None

    def _configured_program(self, verdict: ReadOnlyVerdict) -> str | None:
        """Return why git could start a program where it runs."""
        if self._paths is None:
            return None
        for directory in verdict.repositories:
            reason = self._paths.reason_to_ask_for_git(directory)
            if reason is not None:
                return f"{directory}: {reason}"
        return None

    def _with_command(self, text: str) -> ConditionValues:
        return {**self._values, "command": text}

    def _deciding(self, values: ConditionValues) -> CompiledRule | None:
        for rules in self._rules:
            rule = first_match(rules, values)
            if rule is not None:
                return rule
        return None

    def _tighter(self, values: ConditionValues) -> CompiledRule | None:
        """Return the strictest matching rule of the repository."""
        if not self._tightening:
            return None
        rules = [rule for each in self._tighter_rules if (rule := first_match(each, values)) is not None]
        return max(rules, key=lambda rule: rule.action.rank, default=None)


def _about_commands(rules: RuleSet) -> tuple[CompiledRule, ...]:
    """Return the rules with a condition on the command's text."""
    return rules.with_condition_on(SHELL, "command")


_PIPE = re.compile(r"(?<!\|)\|(?!\|)")
"""What the model reads is masked, which a program behind git could undo: `git remote -v | rev`."""

_MAX_ACCEPTED = 512
_accepted: dict[str, None] = {}
"""Lines that bash took: asked once, since a call is judged again before it runs and bash's answer stays the same."""


def _bash_takes(line: str) -> bool:
    if line in _accepted:
        return True
    if not bash_accepts(line):
        return False  # not remembered: bash may have been too slow
    if len(_accepted) >= _MAX_ACCEPTED:
        _accepted.clear()
    _accepted[line] = None
    return True
