"""The four modes: pure transformations of one evaluation (contract section 2, "Modes")."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ollm_tui.core.bus.states import Risk
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.base import Effect


class Mode(StrEnum):
    """How much runs unasked; denies and floors hold in every one."""

    ASK = "ask"
    AUTO_EDIT = "auto-edit"
    PLAN = "plan"
    YOLO = "yolo"


@dataclass(frozen=True)
class Transformed:
    """The decision after the mode; `reason` is empty where the mode changed nothing."""

    decision: Decision
    reason: str = ""


def apply_mode(mode: Mode, decision: Decision, effect: Effect, risk: Risk, *, inside_workspace: bool) -> Transformed:
    """What becomes of a decision. `risk` tells the read-only commands (low) from the others."""
    match mode:
        case Mode.PLAN if decision is not Decision.DENY and _goes_beyond_planning(effect, risk):
            return Transformed(Decision.DENY, "plan mode denies what writes, runs or sends")
        case Mode.AUTO_EDIT if decision is Decision.ASK and effect is Effect.WRITES and inside_workspace:
            return Transformed(Decision.ALLOW, "auto-edit mode allows edits inside the workspace")
        case Mode.YOLO if decision is Decision.ASK:
            return Transformed(Decision.ALLOW, "yolo mode allows what would ask")
        case _:
            return Transformed(decision)


def _goes_beyond_planning(effect: Effect, risk: Risk) -> bool:
    match effect:
        case Effect.READS | Effect.PLANS:
            return False
        case Effect.RUNS:
            return risk is not Risk.LOW
        case Effect.WRITES | Effect.SENDS | Effect.REMEMBERS:
            return True
