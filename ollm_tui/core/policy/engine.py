"""The policy engine: one judgement for everybody, with a trace that says why (001 R7, 000 Properties 33-36)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from pydantic import JsonValue

from ollm_tui.core.base.results import JsonObject, Wire
from ollm_tui.core.confirmation import Origin, Risk
from ollm_tui.core.policy.command_rules import CommandPolicy, judge_command
from ollm_tui.core.policy.modes import Mode, apply_mode
from ollm_tui.core.policy.rules import (
    ANY_TOOL,
    CompiledRule,
    Decision,
    ExecMode,
    PolicyConfig,
    RulePlace,
    RuleSet,
    ToolPolicy,
    tool_names,
)
from ollm_tui.core.tools.base import AnyTool, Effect


class Layer(StrEnum):
    """What had a say."""

    TOOLS = "tools"
    EXEC = "exec"
    RULES = "rules"
    DEFAULT = "default"
    FLOOR = "floor"
    MODE = "mode"


class TraceLine(Wire):
    """What one layer said, and by which rule."""

    layer: Layer
    decision: Decision
    reason: str
    rule: int | None = None
    file: str | None = None
    line: int | None = None
    part: str | None = None
    """The simple command of a shell line that this is about."""


class Explanation(Wire):
    """A decision with its reason (one sentence naming what decided) and everything that had a say."""

    decision: Decision
    risk: Risk
    reason: str
    trace: tuple[TraceLine, ...]


@dataclass(frozen=True)
class Floor:
    """A decision that rules and modes can not loosen, and why."""

    decision: Decision
    reason: str


@dataclass(frozen=True)
class Call:
    """A validated call as the policy sees it; `arguments` under wire names, defaults filled in."""

    tool: AnyTool
    arguments: JsonObject
    effect: Effect
    origin: Origin = Origin.USER
    virtual: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    inside_workspace: bool = True
    floors: tuple[Floor, ...] = ()


@dataclass(frozen=True)
class PolicySources:
    """Everything that decides, in the order of asking (session, workspace, user or the one policy file, preset)."""

    rule_sets: tuple[RuleSet, ...]
    default_action: Decision
    tools: tuple[ToolPolicy, ...] = ()
    """Layer 1 of every source; each can only take away."""
    commands: CommandPolicy = field(default_factory=CommandPolicy)
    tightening: tuple[RuleSet, ...] = ()
    """A repository's rules: only their asks and denies count, beside everything else."""


class PolicyEngine:
    """Judges calls. Immutable but for the session's own rules; a changed file means a new engine."""

    def __init__(self, policy: PolicyConfig | PolicySources) -> None:
        if isinstance(policy, PolicyConfig):
            rules = [(rule, RulePlace("policy", number)) for number, rule in enumerate(policy.rules, 1)]
            policy = PolicySources((RuleSet(rules),), policy.default_action)
        self.sources = policy

    # -- 000's functions ---------------------------------------------------------------------------------------------

    def evaluate(self, tool_name: str, params: Mapping[str, JsonValue]) -> Decision:
        """Rules, then the default action: 000's function exactly (Properties 33-35)."""
        rule = self._deciding(tool_name, params)
        return rule.action if rule else self.sources.default_action

    def get_risk_level(self, tool_name: str, tool: AnyTool | None = None) -> Risk:
        """A rule's risk, else the tool's own, else inferred from the name (000 Property 36)."""
        for rules in self.sources.rule_sets:
            for rule in rules.of_tool(tool_name):
                if rule.rule.risk is not None:
                    return rule.rule.risk
        return tool.risk if tool else _inferred_risk(tool_name)

    # -- the one judgement -------------------------------------------------------------------------------------------

    def exists_for_model(self, tool: AnyTool) -> bool:
        """Whether layer 1 lets the tool exist at all."""
        return self._tool_layer(tool) is None

    def explain(self, call: Call, mode: Mode = Mode.ASK) -> Explanation:
        """Judge a call: the strictest word of all layers, then the mode, then the floors (contract section 2)."""
        trace: list[TraceLine] = []
        gone = self._tool_layer(call.tool)
        if gone is not None:
            trace.append(gone)
        params = self._seen_by_rules(call, mode)
        if call.tool.name == "shell":
            risk = self._judge_command(params, trace)
        else:
            risk = self._judge_by_rules(call, params, trace)
        before_mode = max(trace, key=lambda line: line.decision.rank)
        after = apply_mode(mode, before_mode.decision, call.effect, risk, inside_workspace=call.inside_workspace)
        settled = before_mode
        if after.reason:
            settled = TraceLine(layer=Layer.MODE, decision=after.decision, reason=after.reason)
            trace.append(settled)
        for floor in call.floors:
            line = TraceLine(layer=Layer.FLOOR, decision=floor.decision, reason=floor.reason)
            trace.append(line)
            if line.decision.rank > settled.decision.rank:
                settled = line
        return Explanation(decision=settled.decision, risk=risk, reason=settled.reason, trace=tuple(trace))

    def _seen_by_rules(self, call: Call, mode: Mode) -> JsonObject:
        return {
            **call.arguments,
            **call.virtual,
            "$inside_workspace": call.inside_workspace,
            "$mode": mode.value,
            "$origin": call.origin.value,
        }

    def _tool_layer(self, tool: AnyTool) -> TraceLine | None:
        for layer in self.sources.tools:
            denied = {name for entry in layer.deny for name in tool_names(entry)}
            allowed = {name for entry in layer.allow for name in tool_names(entry)}
            reason = None
            if tool.name in denied:
                reason = f"{tool.name} is in the deny list of [tools]"
            elif tool.group.value in layer.groups.deny:
                reason = f"the group {tool.group} is in the deny list of [tools]"
            elif (allowed or layer.groups.allow) and not (
                tool.name in allowed or tool.group.value in layer.groups.allow
            ):
                reason = f"{tool.name} is not in the allow list of [tools]"
            if reason:
                return TraceLine(layer=Layer.TOOLS, decision=Decision.DENY, reason=reason)
        return None

    def _judge_by_rules(self, call: Call, params: JsonObject, trace: list[TraceLine]) -> Risk:
        name = call.tool.name
        if call.effect is Effect.RUNS and self.sources.commands.mode is ExecMode.DENY:
            trace.append(
                TraceLine(layer=Layer.EXEC, decision=Decision.DENY, reason="the exec mode is deny: nothing runs")
            )
        rule = self._deciding(name, params)
        risk = self.get_risk_level(name, call.tool)
        if rule is None:
            action = self.sources.default_action
            trace.append(
                TraceLine(
                    layer=Layer.DEFAULT, decision=action, reason=f"no rule matches, the default action is {action}"
                )
            )
            return risk
        if rule.action is Decision.ALLOW and rule.rule.tool == ANY_TOOL and (call.tool.dangerous or call.tool.plugin):
            reason = f"{rule.place} is for every tool; {name} runs unasked only by a rule that names it"
            trace.append(_traced(rule, reason, decision=Decision.ASK))
        else:
            trace.append(_traced(rule, _said(rule, name)))
        for rules in self.sources.tightening:
            tighter = rules.deciding(name, params)
            if tighter is not None and tighter.action is not Decision.ALLOW:
                trace.append(_traced(tighter, _said(tighter, name)))
        return rule.rule.risk if rule and rule.rule.risk else risk

    def _judge_command(self, params: JsonObject, trace: list[TraceLine]) -> Risk:
        verdict = judge_command(params, self.sources.rule_sets, self.sources.tightening, self.sources.commands)
        for part in verdict.parts:
            trace.append(
                TraceLine(
                    layer=Layer.RULES if part.rule else Layer.EXEC,
                    decision=part.decision,
                    reason=part.reason,
                    part=part.text,
                    rule=part.rule.place.number if part.rule else None,
                    file=part.rule.place.file if part.rule else None,
                    line=part.rule.place.line if part.rule else None,
                )
            )
        return verdict.risk

    def _deciding(self, tool: str, params: Mapping[str, JsonValue]) -> CompiledRule | None:
        for rules in self.sources.rule_sets:
            rule = rules.deciding(tool, params)
            if rule is not None:
                return rule
        return None


def _said(rule: CompiledRule, tool: str) -> str:
    words = f"{rule.place}: {rule.action} for {tool}"
    return f"{words} ({rule.rule.message})" if rule.rule.message else words


def _traced(rule: CompiledRule, reason: str, decision: Decision | None = None) -> TraceLine:
    return TraceLine(
        layer=Layer.RULES,
        decision=decision or rule.action,
        reason=reason,
        rule=rule.place.number,
        file=rule.place.file,
        line=rule.place.line,
    )


def _inferred_risk(tool_name: str) -> Risk:
    if tool_name.startswith("read") or tool_name in ("ls", "glob", "grep"):
        return Risk.LOW
    if tool_name == "shell":
        return Risk.HIGH
    return Risk.MEDIUM
