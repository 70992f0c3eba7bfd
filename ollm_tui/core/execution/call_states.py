"""The states of a call and the transitions between them; every other one raises."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from ollm_tui.core.bus.states import CallState


class Transition(StrEnum):
    """What moves a call from one state to the next."""

    VALIDATE = "validate"
    JUDGE = "judge"
    """Also once more, when calls before it may have changed what it does."""
    ASK = "ask"
    APPROVE = "approve"
    EDIT = "edit"
    """Approved with changed arguments: back to the top."""
    STALE = "stale"
    """What was approved is not what would happen now: asked again."""
    RUN = "run"
    FINISH = "finish"
    """It has a result, an error and a denial included."""
    CANCEL = "cancel"


TRANSITIONS: Mapping[CallState, Mapping[Transition, CallState]] = {
    CallState.PROPOSED: {
        Transition.VALIDATE: CallState.VALIDATED,
    },
    CallState.VALIDATED: {
        Transition.JUDGE: CallState.JUDGED,
    },
    CallState.JUDGED: {
        Transition.JUDGE: CallState.JUDGED,
        Transition.ASK: CallState.WAITING,
        Transition.RUN: CallState.RUNNING,
    },
    CallState.WAITING: {
        Transition.APPROVE: CallState.REVIEWING,
        Transition.EDIT: CallState.PROPOSED,
    },
    CallState.REVIEWING: {
        Transition.STALE: CallState.JUDGED,
        Transition.RUN: CallState.RUNNING,
    },
    CallState.RUNNING: {},
    CallState.DONE: {},
}
"""Beside these, FINISH and CANCEL lead from everywhere but DONE to DONE."""


class IllegalTransitionError(RuntimeError):
    """A transition that the call's state does not have; carries both."""

    def __init__(self, state: CallState, transition: Transition) -> None:
        self.state = state
        self.transition = transition
        super().__init__(f"a call that is {state} cannot {transition}")


def next_state(state: CallState, transition: Transition) -> CallState:
    """Return the state that `transition` leads to. Raises IllegalTransitionError."""
    if transition in (Transition.FINISH, Transition.CANCEL) and state is not CallState.DONE:
        return CallState.DONE
    try:
        return TRANSITIONS[state][transition]
    except KeyError:
        raise IllegalTransitionError(state, transition) from None
