"""When the confirmation may open by itself, and what a yes needs: the rules without a screen."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.core.bus.states import ConfirmationState, RememberScope, Risk
from ollm_tui.core.policy.approvals import RememberOffer
from ollm_tui.tui.decisions import (
    ARM_SECONDS,
    IDLE_SECONDS,
    AutoOpenTimer,
    DecisionGuard,
    ScreenSituation,
    Standing,
)
from tests.tui.pilot import question, reviewed

CALM = ScreenSituation(
    modal_open=False,
    app_focused=True,
    terminal_focused=False,
    draft_empty=True,
    mouse_down=False,
    last_key=0.0,
    now=100.0,
)


def test_it_opens_over_an_empty_prompt() -> None:
    assert AutoOpenTimer().wait_before_opening(CALM) == 0.0


def test_nothing_opens_over_a_modal_the_terminal_a_pressed_button_or_a_window_that_is_not_looked_at() -> None:
    desk = AutoOpenTimer()
    for change in ({"modal_open": True}, {"terminal_focused": True}, {"mouse_down": True}, {"app_focused": False}):
        assert desk.wait_before_opening(replace(CALM, **change)) is None


@given(st.floats(0, 200))
def test_a_draft_holds_it_back_until_nobody_typed_for_a_second(last_key: float) -> None:
    wait = AutoOpenTimer().wait_before_opening(replace(CALM, draft_empty=False, last_key=last_key))
    assert wait is not None
    assert wait == max(0.0, last_key + IDLE_SECONDS - CALM.now)


def test_never_means_never_and_always_does_not_ask_for_calm() -> None:
    assert AutoOpenTimer("never").wait_before_opening(CALM) is None
    assert AutoOpenTimer("always").wait_before_opening(replace(CALM, draft_empty=False, last_key=100.0)) == 0.0
    assert AutoOpenTimer("always").wait_before_opening(replace(CALM, modal_open=True)) is None


def test_each_question_opens_by_itself_once() -> None:
    desk = AutoOpenTimer()
    assert desk.unseen(("a", "b")) == "a"
    desk.seen.add("a")
    assert desk.unseen(("a", "b")) == "b"


# -- what a yes needs --------------------------------------------------------------------------------------------------


def case(risk: Risk = Risk.MEDIUM, **more: object) -> DecisionGuard:
    return DecisionGuard(question(risk=risk), shown_at=0.0, **{"effect_seen": True, **more})


@given(st.floats(0, 10), st.booleans(), st.sampled_from(ConfirmationState), st.booleans())
def test_a_yes_counts_only_when_armed_read_open_and_not_sent(
    at: float, seen: bool, state: ConfirmationState, sent: bool
) -> None:
    one = case(effect_seen=seen, sent=sent)
    one.item = replace(one.item, state=state)
    wanted = at >= ARM_SECONDS and seen and state is ConfirmationState.PENDING and not sent
    assert one.say_yes(at) is wanted


@given(st.lists(st.sampled_from(["yes", "disarm"]), max_size=12))
def test_high_risk_is_approved_only_by_two_presses_with_nothing_between(steps: list[str]) -> None:
    one, now, in_a_row = case(Risk.HIGH), 1.0, 0
    for step in steps:
        now += 1.0
        if step == "disarm":
            one.disarm()
            one.shown_at = now - 1.0
            in_a_row = 0
            continue
        in_a_row += 1
        assert one.say_yes(now) is (in_a_row >= 2)
        if in_a_row >= 2:
            break


def test_changed_arguments_disarm_forget_the_reading_and_take_the_new_risk() -> None:
    one = case(Risk.LOW)
    review = reviewed(Risk.HIGH, offer=RememberOffer(patterns=("x *",)))
    one.change_arguments({"command": "rm"}, review)
    assert one.standing(1e9) is Standing.ARMING, "not painted yet"
    one.shown_at = 5.0
    assert one.standing(5.1) is Standing.ARMING
    assert one.standing(6.0) is Standing.UNREAD
    one.effect_seen = True
    assert one.say_yes(6.0) is False
    assert one.say_yes(6.1) is True
    assert one.offer(RememberScope.SESSION) is None, "changed arguments are never remembered"
