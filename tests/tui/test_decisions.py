"""What a key may decide, and when a confirmation may open by itself: the rules without a screen."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ollm_tui.core.bus.states import ConfirmationState, RememberScope, Risk
from ollm_tui.core.policy.approvals import RememberOffer
from ollm_tui.testing import FakeClock
from ollm_tui.tui.decisions import (
    IDLE_SECONDS,
    QUIET_SECONDS,
    AutoOpenTimer,
    ConfirmationCase,
    DecisionGuard,
    KeyPresses,
    Readiness,
    ScreenSituation,
    deny_all,
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
    timer = AutoOpenTimer()
    for change in ({"modal_open": True}, {"terminal_focused": True}, {"mouse_down": True}, {"app_focused": False}):
        assert timer.wait_before_opening(replace(CALM, **change)) is None


@given(st.floats(0, 1e6))
def test_nothing_opens_over_a_draft_however_long_it_rests(now: float) -> None:
    assert AutoOpenTimer().wait_before_opening(replace(CALM, draft_empty=False, now=now)) is None


@given(st.floats(0, 200))
def test_it_opens_only_once_nobody_pressed_a_key_for_a_second(last_key: float) -> None:
    wait = AutoOpenTimer().wait_before_opening(replace(CALM, last_key=last_key))
    assert wait == max(0.0, last_key + IDLE_SECONDS - CALM.now)


def test_never_means_never() -> None:
    assert AutoOpenTimer(enabled=False).wait_before_opening(CALM) is None


def test_each_question_opens_by_itself_once() -> None:
    timer = AutoOpenTimer()
    assert timer.unseen(("a", "b")) == "a"
    timer.seen.add("a")
    assert timer.unseen(("a", "b")) == "b"


# -- what a decision needs ---------------------------------------------------------------------------------------------


def guarded(*, end_seen: bool = True) -> tuple[DecisionGuard, FakeClock]:
    """A guard of something that has just been painted."""
    clock = FakeClock()
    guard = DecisionGuard(KeyPresses(clock.monotonic))
    guard.show(guard.renew())
    if end_seen:
        guard.see_end()
    return guard, clock


def press(guard: DecisionGuard, decision: str = "yes", *, twice: bool = False) -> Readiness:
    guard.presses.add()
    return guard.press(decision, whole=True, twice=twice)


@given(st.floats(0, 10), st.booleans(), st.booleans())
def test_a_key_counts_only_over_what_was_painted_and_read_for_long_enough(
    wait: float, end_seen: bool, painted: bool
) -> None:
    guard, clock = guarded(end_seen=end_seen)
    if not painted:
        guard.hide()
    clock.advance(wait)
    ready = clock.monotonic() - 1_000.0 >= QUIET_SECONDS and painted
    found = press(guard)
    assert (found is Readiness.READY) is (ready and end_seen)
    assert (found is Readiness.UNREAD) is (painted and not end_seen)


def test_every_key_starts_the_time_again_so_a_held_key_decides_nothing() -> None:
    guard, clock = guarded()
    for _ in range(200):
        clock.advance(0.03)
        assert press(guard) is Readiness.EARLY
    clock.advance(QUIET_SECONDS)
    assert press(guard) is Readiness.READY


def test_a_key_that_waited_in_a_queue_counts_from_when_it_was_typed() -> None:
    guard, clock = guarded()
    clock.advance(5)
    guard.presses.add(age=4.7)
    assert guard.press("yes") is Readiness.EARLY, "typed 0.3 s after the question was painted"


def test_two_presses_of_the_same_decision_with_silence_before_each_and_no_key_between() -> None:
    guard, clock = guarded()
    clock.advance(1)
    assert press(guard, twice=True) is Readiness.AGAIN
    assert guard.again("yes")
    clock.advance(0.2)
    assert press(guard, twice=True) is Readiness.EARLY, "too soon after the first"
    clock.advance(1)
    assert press(guard, twice=True) is Readiness.AGAIN, "a press came between"
    clock.advance(1)
    assert press(guard, "other", twice=True) is Readiness.AGAIN
    clock.advance(1)
    assert press(guard, twice=True) is Readiness.AGAIN
    clock.advance(1)
    assert press(guard, twice=True) is Readiness.READY


def test_to_deny_all_means_the_same_ones_at_both_presses() -> None:
    guard, clock = guarded()
    clock.advance(1)
    guard.presses.add()
    assert guard.press(deny_all(("a", "b")), twice=True) is Readiness.AGAIN
    clock.advance(1)
    guard.presses.add()
    assert guard.press(deny_all(("a", "b", "c")), twice=True) is Readiness.AGAIN


def test_the_painting_of_an_earlier_change_starts_no_time() -> None:
    guard, clock = guarded()
    first = guard.hide()
    second = guard.hide()
    guard.show(first)
    clock.advance(1)
    assert press(guard) is Readiness.EARLY
    guard.show(second)
    clock.advance(1)
    assert press(guard) is Readiness.READY


def test_a_letter_that_is_asked_for_twice_may_begin_a_message() -> None:
    guard, clock = guarded()
    clock.advance(1)
    guard.presses.add(character="D")
    assert guard.press("deny all", twice=True) is Readiness.AGAIN
    guard.presses.add(character="o")
    assert guard.presses.run == "Do"


class Decisions(RuleBasedStateMachine):
    """Random keys, times, arrivals and cancellations, beside a record that is kept in the plainest way."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.guard = DecisionGuard(KeyPresses(self.clock.monotonic))
        self.shown = 0
        """The question that is to be shown; each is another."""
        self.changes: list[tuple[float, int]] = []
        """When what is shown began to change, and to which question."""
        self.painted: list[tuple[float, int]] = []
        self.ends: list[tuple[float, int]] = []
        self.keys: list[tuple[float, str]] = []
        self.pending: list[int] = []
        self.held: list[tuple[tuple[int, int], int, int]] = []
        """Decisions that wait, with the number of keys and of changes by then."""

    def replaced(self) -> None:
        self.shown += 1
        self.pending.append(self.guard.renew())
        self.changes.append((self.clock.monotonic(), self.shown))

    @rule()
    def another_question_arrives(self) -> None:
        self.replaced()

    @rule()
    def the_question_is_cancelled_and_asked_again(self) -> None:
        self.replaced()
        self.replaced()

    @rule()
    def the_window_comes_back(self) -> None:
        self.pending.append(self.guard.hide())
        self.changes.append((self.clock.monotonic(), self.shown))

    @rule()
    def the_screen_is_painted(self) -> None:
        for change in self.pending:
            self.guard.show(change)
        if self.pending:
            self.painted.append((self.clock.monotonic(), self.shown))
        self.pending.clear()

    @rule(index=st.integers(0, 5))
    def an_old_painting_is_reported_late(self, index: int) -> None:
        if self.guard.change > index:
            self.guard.show(max(0, self.guard.change - 1 - index))

    @rule()
    def the_end_comes_into_sight(self) -> None:
        self.guard.see_end()
        self.ends.append((self.clock.monotonic(), self.shown))

    @rule(seconds=st.sampled_from([0.0, 0.03, 0.2, 0.49, 0.5, 0.51, 0.7, 3.0]))
    def time_passes(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @rule(key=st.sampled_from("ycanDxr"), risk=st.sampled_from(Risk), age=st.sampled_from([0.0, 0.0, 0.3, 2.0]))
    def a_key_is_pressed(self, key: str, risk: Risk, age: float) -> None:
        guard, typed = self.guard, max([self.clock.monotonic() - age, *(time for time, _ in self.keys)])
        guard.presses.add(age)
        approves, twice = key in "yca", (key in "yc" and risk is Risk.HIGH) or key == "D"
        found = guard.press(f"{key} {self.shown}", whole=approves, twice=twice) if key != "x" else None
        if found is Readiness.READY:
            self.decided(key, typed, approves=approves, twice=twice)
            self.held.append((guard.hold(), len(self.keys) + 1, len(self.changes)))
        self.keys.append((typed, key))

    @rule()
    def waiting_decisions_come_due(self) -> None:
        """None takes effect once another key was pressed or the screen shows something else."""
        for held, keys, changes in self.held:
            assert self.guard.stands(held) is (keys == len(self.keys) and changes == len(self.changes))
        self.held.clear()

    def decided(self, key: str, typed: float, *, approves: bool, twice: bool) -> None:
        """No decision without 0.5 s of silence over a question that was shown, to its end where it approves."""
        quiet = typed - QUIET_SECONDS
        assert not [time for time, _ in self.keys if time > quiet], "a key was pressed within that time"
        last_change = max((at for at, _ in self.changes), default=0.0)
        shown = [at for at, number in self.painted if number == self.shown and at >= last_change]
        assert shown and min(shown) <= quiet, "what is decided was not on the screen all the time"
        if approves:
            assert [at for at, number in self.ends if number == self.shown and at <= quiet], "its end was not seen"
        if twice:
            assert self.keys[-1][1] == key, "another key came between the two"
            assert self.keys[-1][0] >= last_change, "the first press was over something else"

    @invariant()
    def what_is_drawn_is_what_a_key_would_do(self) -> None:
        guard = self.guard
        drawn = guard.readiness(whole=True)
        probe = replace(guard, presses=replace(guard.presses))
        probe.presses.add()
        assert probe.press("y", whole=True) is drawn


TestDecisions = Decisions.TestCase
TestDecisions.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)


# -- the question itself -----------------------------------------------------------------------------------------------


@given(st.sampled_from(ConfirmationState), st.booleans())
def test_a_question_is_decided_once_and_only_while_it_waits(state: ConfirmationState, sent: bool) -> None:
    case = ConfirmationCase(replace(question(), state=state), sent=sent)
    assert case.open is (state is ConfirmationState.PENDING and not sent)


def test_changed_arguments_take_the_new_risk_and_are_never_remembered() -> None:
    case = ConfirmationCase(question(risk=Risk.LOW))
    review = reviewed(Risk.HIGH, offer=RememberOffer(patterns=("x *",)))
    case.review = review
    assert case.offer(RememberScope.SESSION) is not None
    case.change_arguments({"command": "rm"}, review)
    assert case.risk is Risk.HIGH
    assert case.offer(RememberScope.SESSION) is None
