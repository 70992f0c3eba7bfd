"""An approved plan, below execution: what its steps name may run."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from dataclasses import dataclass, replace

from pydantic import JsonValue

from ollm_tui.core.policy.approval_patterns import ApprovalPattern
from ollm_tui.core.policy.engine import JudgedCall, PolicyEngine, PolicySources
from ollm_tui.core.policy.rule_set import RuleSet
from ollm_tui.core.policy.rules import Decision, ExecMode, PolicyRule, RuleSource
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.context import PATH_PARAMETERS, PlanGrant

NOT_IN_THE_PLAN = "not in the plan"


@dataclass(frozen=True)
class ApprovedPlan:
    """What the person approved. It loosens asks only: denies and floors stay."""

    grants: tuple[PlanGrant, ...]

    def concerns(self, call: JudgedCall) -> bool:
        """Return whether a call needs to be in the plan: it does more than read or plan."""
        return call.effect not in (Effect.READS, Effect.PLANS)

    def covers(self, call: JudgedCall, sources: PolicySources) -> bool:
        """Return whether a step names this call. Commands are parsed, so not on the event loop."""
        if call.line is not None:
            commands = replace(sources.commands, approvals=self._patterns(call), mode=ExecMode.ALLOWLIST)
            alone = PolicyEngine(PolicySources((), Decision.ASK, commands=commands))
            return alone.explain(replace(call, floors=())).decision is Decision.ALLOW
        if call.tool.plugin or not call.inside_workspace:
            return False
        paths = list(_paths_of(call.arguments))
        named = [grant for grant in self.grants if grant.tool == call.tool.name]
        if not paths:
            return any(not grant.path for grant in named)
        return all(any(_within(path, grant.path) for grant in named) for path in paths)

    def widened(self, call: JudgedCall, sources: PolicySources) -> PolicyEngine:
        """Return the policy that also allows this call, which the plan covers."""
        if call.line is not None:
            approvals = (*sources.commands.approvals, *self._patterns(call))
            return PolicyEngine(replace(sources, commands=replace(sources.commands, approvals=approvals)))
        rule = PolicyRule(tool=call.tool.name, action=Decision.ALLOW)
        own = RuleSet([(rule, RuleSource("approved plan", 1))])
        return PolicyEngine(replace(sources, rule_sets=(own, *sources.rule_sets)))

    def _patterns(self, call: JudgedCall) -> tuple[ApprovalPattern, ...]:
        """Return the command patterns, and the call's own line where its tool is named (`run_tests`)."""
        patterns = [grant.command for grant in self.grants if grant.command]
        named = any(grant.tool == call.tool.name and not grant.command for grant in self.grants)
        if call.command and named:
            patterns.append(call.command)
        return tuple(map(ApprovalPattern.parse, patterns))


def _paths_of(arguments: dict[str, JsonValue]) -> Iterable[str]:
    for name in PATH_PARAMETERS:
        value = arguments.get(name)
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, str):
                yield each


def _within(path: str, granted: str) -> bool:
    """Return whether a path is the granted one, or lies in the granted folder; `..` never does."""
    if not granted or ".." in path.split("/"):
        return False
    plain = posixpath.normpath(path)
    return plain.startswith(granted) if granted.endswith("/") else plain == granted
