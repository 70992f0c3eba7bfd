"""Policy rules as they are written: decisions, modes, conditions and the tables of a policy file."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator
from pydantic.alias_generators import to_camel

from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.registry import POLICY_NAMES

ANY_TOOL = "*"


class Decision(StrEnum):
    """What the policy says about a call; the later the stricter."""

    ALLOW = "allow"
    ASK = "ask"
    DENY = "deny"

    def __init__(self, _: str) -> None:
        self.rank = len(type(self).__members__)
        """Its position in that order: an attribute, since a decision compares many."""


PolicyDecision = Decision
"""The name in the public interface (`ollm_tui.core`)."""


def strictest(*decisions: Decision) -> Decision:
    """Return the most restrictive decision; allow when there are none."""
    return max(decisions, key=lambda decision: decision.rank, default=Decision.ALLOW)


class Mode(StrEnum):
    """How much runs without asking; deny rules and floors hold in every mode."""

    ASK = "ask"
    AUTO_EDIT = "auto-edit"
    PLAN = "plan"
    YOLO = "yolo"


@dataclass(frozen=True)
class ModeOutcome:
    """The decision after the mode; `reason` is empty where the mode changed nothing."""

    decision: Decision
    reason: str = ""


def apply_mode(mode: Mode, decision: Decision, effect: Effect, risk: Risk, *, inside_workspace: bool) -> ModeOutcome:
    """Transform a decision by the mode; `risk` low marks read-only commands."""
    match mode:
        case Mode.PLAN if decision is not Decision.DENY and _goes_beyond_planning(effect, risk):
            return ModeOutcome(Decision.DENY, "plan mode denies what writes, runs or sends")
        case Mode.AUTO_EDIT if decision is Decision.ASK and effect is Effect.WRITES and inside_workspace:
            return ModeOutcome(Decision.ALLOW, "auto-edit mode allows edits inside the workspace")
        case Mode.YOLO if decision is Decision.ASK:
            return ModeOutcome(Decision.ALLOW, "yolo mode allows what would ask")
        case _:
            return ModeOutcome(decision)


def _goes_beyond_planning(effect: Effect, risk: Risk) -> bool:
    match effect:
        case Effect.READS | Effect.PLANS:
            return False
        case Effect.RUNS:
            return risk is not Risk.LOW
        case Effect.WRITES | Effect.SENDS | Effect.REMEMBERS:
            return True


class Operator(StrEnum):
    """How a condition compares."""

    EQUALS = "equals"
    CONTAINS = "contains"
    STARTS_WITH = "startsWith"
    MATCHES = "matches"
    """RE2, searched anywhere in the value."""


class PolicyTable(BaseModel):
    """Base of every table in a policy file; unknown keys are errors."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True, defer_build=True
    )


class PolicyCondition(PolicyTable):
    """A test of one parameter; `value` may be a list, any of which will do."""

    param: str = Field(min_length=1)
    operator: Operator
    value: str | list[str]

    @property
    def values(self) -> list[str]:
        """The value or values as a list."""
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
    """A policy of rules alone, and what holds where none matches."""

    default_action: Decision = Decision.ASK
    rules: list[PolicyRule] = Field(default_factory=list[PolicyRule])


@dataclass(frozen=True)
class RuleSource:
    """Where a rule is written: its number in the file (from 1), and the file and line if known."""

    source: str
    """`session`, `workspace`, `user`, `policy file` or `preset NAME`."""
    number: int
    file: str | None = None
    line: int | None = None

    def __str__(self) -> str:
        where = f", {self.file}:{self.line}" if self.file and self.line and self.file != self.source else ""
        return f"{self.source} rule {self.number}{where}"

    @property
    def shown(self) -> str:
        """What a person is told: a preset by its name, as nobody wrote its numbers; any other so that it is found."""
        return self.source if self.source.startswith("preset ") else str(self)


def tool_names(name: str) -> tuple[str, ...]:
    """Return the tools that a name in a policy stands for: one, or all of an alias."""
    return POLICY_NAMES.get(name, (name,))


def mcp_server_of(tool: str) -> str | None:
    """Return the name by which a policy means all tools of an MCP server: `mcp__SERVER`; None for other tools."""
    return "__".join(tool.split("__")[:2]) if tool.startswith("mcp__") and tool.count("__") > 1 else None


class ToolFilter(PolicyTable):
    """Names or groups of tools."""

    allow: list[str] = Field(default_factory=list[str])
    deny: list[str] = Field(default_factory=list[str])


class ToolPolicy(ToolFilter):
    """Layer 1: which tools exist. Deny beats allow; a non-empty allow excludes all others."""

    groups: ToolFilter = Field(default_factory=ToolFilter)


class Approval(PolicyTable):
    """A pattern of commands that may run without asking."""

    pattern: str = Field(min_length=1)
    added_by: Literal["user", "auto"] = "user"
    last_used: str | None = None

    @field_validator("last_used", mode="before")
    @classmethod
    def _date_as_text(cls, value: object) -> object:
        """Accept a date or time as TOML writes it."""
        return value.isoformat() if isinstance(value, date) else value


class ExecMode(StrEnum):
    """How layer 2 treats commands."""

    FULL = "full"
    ALLOWLIST = "allowlist"
    DENY = "deny"


class ExecPolicy(PolicyTable):
    """Layer 2: commands. None where a file does not say, so that the next source decides."""

    mode: ExecMode | None = None
    on_miss: Literal[Decision.ASK, Decision.DENY] | None = None
    approvals: list[Approval] = Field(default_factory=list[Approval])
    read_only_commands: bool | None = None
    """Whether the shipped list of read-only commands runs without asking."""
