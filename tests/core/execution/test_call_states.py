"""The state machine of a call by itself."""

import pytest

from ollm_tui.core.bus.states import CallOutcome, CallState
from ollm_tui.core.execution.calls import TRANSITIONS, IllegalTransitionError, Transition, next_state

ENDS = (Transition.FINISH, Transition.CANCEL)

LEGAL = {
    (CallState.PROPOSED, Transition.VALIDATE): CallState.VALIDATED,
    (CallState.VALIDATED, Transition.JUDGE): CallState.JUDGED,
    (CallState.JUDGED, Transition.JUDGE): CallState.JUDGED,
    (CallState.JUDGED, Transition.ASK): CallState.WAITING,
    (CallState.JUDGED, Transition.RUN): CallState.RUNNING,
    (CallState.WAITING, Transition.APPROVE): CallState.REVIEWING,
    (CallState.WAITING, Transition.EDIT): CallState.PROPOSED,
    (CallState.REVIEWING, Transition.STALE): CallState.JUDGED,
    (CallState.REVIEWING, Transition.RUN): CallState.RUNNING,
    (CallState.RUNNING, Transition.JUDGE): CallState.JUDGED,
    **{(state, end): CallState.DONE for state in CallState if state is not CallState.DONE for end in ENDS},
}


def walk(*transitions: Transition) -> CallState:
    state = CallState.PROPOSED
    for transition in transitions:
        state = next_state(state, transition)
    return state


@pytest.mark.parametrize("state", CallState)
@pytest.mark.parametrize("transition", Transition)
def test_every_transition_leads_where_the_table_says_or_raises(state: CallState, transition: Transition) -> None:
    expected = LEGAL.get((state, transition))
    if expected is not None:
        assert next_state(state, transition) is expected
        return
    with pytest.raises(IllegalTransitionError) as raised:
        next_state(state, transition)
    assert (raised.value.state, raised.value.transition) == (state, transition)


def test_nothing_runs_that_was_not_judged_or_approved() -> None:
    before_running = [state for state, leads in TRANSITIONS.items() if Transition.RUN in leads]
    assert before_running == [CallState.JUDGED, CallState.REVIEWING]


def test_changed_arguments_are_validated_and_judged_again() -> None:
    asked = (Transition.VALIDATE, Transition.JUDGE, Transition.ASK)
    assert walk(*asked, Transition.EDIT) is CallState.PROPOSED
    with pytest.raises(IllegalTransitionError):
        walk(*asked, Transition.EDIT, Transition.RUN)
    assert walk(*asked, Transition.EDIT, *asked, Transition.APPROVE, Transition.RUN) is CallState.RUNNING


def test_a_stale_approval_is_asked_about_again() -> None:
    asked = (Transition.VALIDATE, Transition.JUDGE, Transition.ASK)
    assert walk(*asked, Transition.APPROVE, Transition.STALE, Transition.ASK) is CallState.WAITING


def test_the_end_is_final() -> None:
    for transition in Transition:
        with pytest.raises(IllegalTransitionError):
            next_state(CallState.DONE, transition)


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (None, CallOutcome.OK),
        ("FileNotFoundError", CallOutcome.FAILED),
        ("PolicyDeniedError", CallOutcome.DENIED),
        ("ConfirmationDenied", CallOutcome.DENIED),
        ("ConfirmationTimeout", CallOutcome.EXPIRED),
        ("ConfirmationCancelled", CallOutcome.CANCELLED),
        ("OperationCancelled", CallOutcome.CANCELLED),
    ],
)
def test_the_outcome_of_a_call_goes_by_its_error(error: str | None, outcome: CallOutcome) -> None:
    assert CallOutcome.of_error(error) is outcome
