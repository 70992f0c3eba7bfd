"""The policy engine: judges every call and says why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from pydantic import JsonValue

from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Origin, Risk
from ollm_tui.core.policy.approval_patterns import ApprovalKey
from ollm_tui.core.policy.command_rules import SHELL, CommandPolicy, CommandVerdict, judge_command
from ollm_tui.core.policy.rule_set import CompiledRule, ConditionValues, RuleSet, condition_values
from ollm_tui.core.policy.rules import (
    ANY_TOOL,
    Decision,
    ExecMode,
    Mode,
    PolicyConfig,
    RuleSource,
    ToolPolicy,
    apply_mode,
    mcp_server_of,
    tool_names,
)
from ollm_tui.core.tools.base import AnyTool, Effect


class Layer(StrEnum):
    """What contributed to a decision."""

    TOOLS = "tools"
    EXEC = "exec"
    RULES = "rules"
    DEFAULT = "default"
    FLOOR = "floor"
    MODE = "mode"


class TraceLine(NamedTuple):
    """What one layer decided, and by which rule."""

    layer: Layer
    decision: Decision
    reason: str
    rule: int | None = None
    file: str | None = None
    line: int | None = None
    part: str | None = None
    """The simple command of a shell line that this is about."""


class Explanation(NamedTuple):
    """A decision, the sentence that explains it, and the trace of all layers."""

    decision: Decision
    risk: Risk
    reason: str
    trace: tuple[TraceLine, ...]
    approvals: tuple[ApprovalKey, ...] = ()
    """The lasting approvals that cover parts of a command line; for counting, no part of what is printed."""
    looks: bool = False
    """A command line is allowed by the read-only list alone: it runs in the cage of what only looks."""

    def as_json(self) -> JsonObject:
        """Return what is printed; keys without a value are left out."""
        trace: list[JsonValue] = [
            {name: value for name, value in line._asdict().items() if value is not None} for line in self.trace
        ]
        return {"decision": self.decision, "risk": self.risk, "reason": self.reason, "trace": trace}


@dataclass(frozen=True)
class Floor:
    """A decision that rules and modes cannot loosen, and why."""

    decision: Decision
    reason: str


@dataclass(frozen=True)
class JudgedCall:
    """A validated call; `arguments` under wire names, defaults filled in."""

    tool: AnyTool
    arguments: JsonObject
    effect: Effect
    origin: Origin = Origin.USER
    virtual: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    command: str | None = None
    """The command line that a tool other than shell runs."""
    inside_workspace: bool = True
    floors: tuple[Floor, ...] = ()
    remark: str = ""
    """Why a fact is not what the disk says; follows the reason of a question."""

    @property
    def line(self) -> str | None:
        """The command line that is judged; None for a call that is none."""
        if self.tool.name != SHELL:
            return self.command
        command = self.arguments.get("command")
        return command if isinstance(command, str) else ""


@dataclass(frozen=True)
class PolicySources:
    """Everything that decides, in the order of asking.

    Session, workspace, user (or the one policy file), preset.
    """

    rule_sets: tuple[RuleSet, ...]
    default_action: Decision
    tools: tuple[ToolPolicy, ...] = ()
    """Layer 1 of every source; each can only take away."""
    commands: CommandPolicy = field(default_factory=CommandPolicy)
    tightening: tuple[RuleSet, ...] = ()
    """A repository's rules: only their asks and denies count, beside everything else."""


_NOTHING_RUNS = TraceLine(layer=Layer.EXEC, decision=Decision.DENY, reason="the exec mode is deny: nothing runs")
_DEFAULTS = {
    action: TraceLine(
        layer=Layer.DEFAULT, decision=action, reason=f"no rule matches, the default action is {action.value}"
    )
    for action in Decision
}


class PolicyEngine:
    """Judges calls; immutable, a changed policy means a new engine."""

    def __init__(self, policy: PolicyConfig | PolicySources) -> None:
        if isinstance(policy, PolicyConfig):
            rules = [(rule, RuleSource("policy", number)) for number, rule in enumerate(policy.rules, 1)]
            policy = PolicySources((RuleSet(rules),), policy.default_action)
        self.sources = policy
        self._existing: dict[str, TraceLine | None] = {}
        self._rule_lines: dict[tuple[CompiledRule, str], TraceLine] = {}

    # -- 000's functions ---------------------------------------------------------------------------------------------

    def evaluate(self, tool_name: str, params: Mapping[str, JsonValue]) -> Decision:
        """Return the decision of the rules, else the default action."""
        rule = self._deciding(tool_name, condition_values(params))
        return rule.action if rule else self.sources.default_action

    def get_risk_level(
        self, tool_name: str, tool: AnyTool | None = None, params: Mapping[str, JsonValue] | None = None
    ) -> Risk:
        """Return a rule's risk, else the tool's own, else one inferred from the name.

        Without `params` a rule counts whatever its conditions; with them, only if it matches.
        """
        return self._risk(tool_name, tool, params, None if params is None else condition_values(params))

    # -- the one judgement -------------------------------------------------------------------------------------------

    def is_available(self, tool: AnyTool) -> bool:
        """Return whether layer 1 lets the tool exist."""
        return self._tool_layer(tool) is None

    def explain(self, call: JudgedCall, mode: Mode = Mode.ASK) -> Explanation:
        """Judge a call: the strictest decision of all layers, then the mode, then the floors."""
        trace: list[TraceLine] = []
        approvals: tuple[ApprovalKey, ...] = ()
        looks = False
        removed = self._tool_layer(call.tool)
        if removed is not None:
            trace.append(removed)
        if call.line is not None:
            verdict = self._judge_command(self._seen_by_rules(call, mode), trace)
            risk, own_risk, approvals = verdict.risk, verdict.own_risk, verdict.lasting_approvals
            looks = verdict.looks
            self._tighten_command(call, mode, trace)
        else:
            # What the modes go by is what the call is, whatever risk a rule gives it on the screen.
            risk = self._judge_by_rules(call, self._seen_by_rules(call, mode), trace)
            own_risk = call.tool.call_risk(call.arguments)
        before_mode = max(trace, key=_rank_of)
        own_edit = call.inside_workspace and not (call.tool.dangerous or call.tool.plugin)
        after = apply_mode(mode, before_mode.decision, call.effect, own_risk, inside_workspace=own_edit)
        settled = before_mode
        if after.reason:
            settled = TraceLine(layer=Layer.MODE, decision=after.decision, reason=after.reason)
            trace.append(settled)
        for floor in call.floors:
            line = TraceLine(layer=Layer.FLOOR, decision=floor.decision, reason=floor.reason)
            trace.append(line)
            if line.decision.rank > settled.decision.rank:
                settled = line
        asks = settled.decision is Decision.ASK
        return Explanation(
            decision=settled.decision,
            risk=risk,
            reason=f"{settled.reason}; {call.remark}" if asks and call.remark else settled.reason,
            trace=tuple(trace),
            approvals=approvals,
            looks=looks and settled.decision is Decision.ALLOW,
        )

    def _seen_by_rules(self, call: JudgedCall, mode: Mode) -> JsonObject:
        return {
            **call.arguments,
            **({} if call.command is None else {"command": call.command}),
            **call.virtual,
            "$inside_workspace": call.inside_workspace,
            "$mode": mode.value,
            "$origin": call.origin.value,
        }

    def _tighten_command(self, call: JudgedCall, mode: Mode, trace: list[TraceLine]) -> None:
        """Apply what rules say of a tool that runs a command: they can only add to what is said of the command."""
        if call.tool.name == SHELL:
            return
        values = condition_values(self._seen_by_rules(call, mode))
        tighter = (rules.deciding(call.tool.name, values) for rules in self.sources.tightening)
        for rule in (self._deciding(call.tool.name, values), *tighter):
            if rule is not None and rule.action is not Decision.ALLOW:
                trace.append(self._word_of(rule, call.tool.name))

    def _risk(
        self,
        tool_name: str,
        tool: AnyTool | None,
        params: Mapping[str, JsonValue] | None,
        values: ConditionValues | None,
    ) -> Risk:
        for rules in self.sources.rule_sets:
            risk = rules.risk_of(tool_name, values)
            if risk is not None:
                return risk
        return tool.call_risk(params) if tool else _inferred_risk(tool_name)

    def _tool_layer(self, tool: AnyTool) -> TraceLine | None:
        """Return the deny of layer 1, cached per tool; None where the tool exists."""
        key = f"{tool.name}\0{tool.group.value}"
        if key not in self._existing:
            reason = next((found for layer in self.sources.tools if (found := _why_removed(tool, layer))), None)
            self._existing[key] = (
                TraceLine(layer=Layer.TOOLS, decision=Decision.DENY, reason=reason) if reason is not None else None
            )
        return self._existing[key]

    def _judge_by_rules(self, call: JudgedCall, params: JsonObject, trace: list[TraceLine]) -> Risk:
        name = call.tool.name
        if self.sources.commands.mode is ExecMode.DENY and (call.effect is Effect.RUNS or name in tool_names("exec")):
            trace.append(_NOTHING_RUNS)
        values = condition_values(params)
        rule = self._deciding(name, values)
        needs_naming = call.tool.dangerous or call.tool.plugin
        if rule is None:
            trace.append(_by_default(self.sources.default_action, name, needs_naming=needs_naming))
        elif rule.action is Decision.ALLOW and rule.rule.tool == ANY_TOOL and needs_naming:
            reason = f"{rule.source} is for every tool; {name} runs unasked only by a rule that names it"
            trace.append(_traced(rule, reason, decision=Decision.ASK))
        else:
            trace.append(self._word_of(rule, name))
        for rules in self.sources.tightening:
            tighter = rules.deciding(name, values)
            if tighter is not None and tighter.action is not Decision.ALLOW:
                trace.append(self._word_of(tighter, name))
        return rule.rule.risk if rule and rule.rule.risk else self._risk(name, call.tool, call.arguments, values)

    def _word_of(self, rule: CompiledRule, tool: str) -> TraceLine:
        """Return a rule's trace line, made once."""
        line = self._rule_lines.get((rule, tool))
        if line is None:
            line = self._rule_lines[rule, tool] = _traced(rule, rule.wording(tool))
        return line

    def _judge_command(self, params: JsonObject, trace: list[TraceLine]) -> CommandVerdict:
        verdict = judge_command(params, self.sources.rule_sets, self.sources.tightening, self.sources.commands)
        for part in verdict.parts:
            source = part.rule.source if part.rule else None
            trace.append(
                TraceLine(
                    layer=Layer.RULES if source else Layer.EXEC,
                    decision=part.decision,
                    reason=part.reason,
                    part=part.text,
                    rule=source.number if source else None,
                    file=source.file if source else None,
                    line=source.line if source else None,
                )
            )
        return verdict

    def _deciding(self, tool: str, values: ConditionValues) -> CompiledRule | None:
        for rules in self.sources.rule_sets:
            rule = rules.deciding(tool, values)
            if rule is not None:
                return rule
        return None


def _why_removed(tool: AnyTool, layer: ToolPolicy) -> str | None:
    """Return why layer 1 removes a tool: deny beats allow, a non-empty allow excludes the rest."""
    name, group = tool.name, tool.group.value
    names = {name, mcp_server_of(name) or name}
    if names & _named(layer.deny):
        return f"{name} is in the deny list of [tools]"
    if group in layer.groups.deny:
        return f"the group {group} is in the deny list of [tools]"
    closed = bool(layer.allow or layer.groups.allow)
    if closed and not names & _named(layer.allow) and group not in layer.groups.allow:
        return f"{name} is not in the allow list of [tools]"
    return None


def _named(entries: list[str]) -> set[str]:
    return {name for entry in entries for name in tool_names(entry)}


def _rank_of(line: TraceLine) -> int:
    return line.decision.rank


def _by_default(action: Decision, tool: str, *, needs_naming: bool) -> TraceLine:
    if action is Decision.ALLOW and needs_naming:
        reason = f"no rule matches; {tool} runs unasked only by a rule that names it, not by default"
        return TraceLine(layer=Layer.DEFAULT, decision=Decision.ASK, reason=reason)
    return _DEFAULTS[action]


def _traced(rule: CompiledRule, reason: str, decision: Decision | None = None) -> TraceLine:
    return TraceLine(
        layer=Layer.RULES,
        decision=decision or rule.action,
        reason=reason,
        rule=rule.source.number,
        file=rule.source.file,
        line=rule.source.line,
    )


def _inferred_risk(tool_name: str) -> Risk:
    if tool_name.startswith("read") or tool_name in ("ls", "glob", "grep"):
        return Risk.LOW
    if tool_name == "shell":
        return Risk.HIGH
    return Risk.MEDIUM
