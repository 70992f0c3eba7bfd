"""How fast the model answers, from the events of a reply."""

from __future__ import annotations

import pytest

from ollm_tui.agent.events import AssistantMessageEvent, Event, ReasoningDeltaEvent, TextDeltaEvent, UsageEvent
from ollm_tui.testing import FakeClock
from ollm_tui.tui.controllers.status_controller import AnswerRate

USED = UsageEvent(completion_tokens=120)


def measured(*steps: tuple[float, Event], usage: UsageEvent = USED) -> float | None:
    """The rate after events that each come so many seconds after the one before."""
    clock = FakeClock()
    rate = AnswerRate(clock.monotonic)
    for seconds, event in steps:
        clock.seconds += seconds
        rate.follow(event)
    return rate.of(usage)


END = AssistantMessageEvent(text="ab")


@pytest.mark.parametrize("first", [TextDeltaEvent(text="a"), ReasoningDeltaEvent(text="a")])
def test_the_time_is_from_the_first_piece_to_the_end(first: Event) -> None:
    assert measured((5, first), (1, TextDeltaEvent(text="b")), (2, END)) == 40


def test_what_cannot_be_told_is_not() -> None:
    first = TextDeltaEvent(text="a")
    assert measured((5, first), (0.1, END)) is None  # a reply that came at once
    assert measured((5, END)) is None  # calls alone
    assert measured((5, first), (2, END), usage=UsageEvent()) is None  # a server that does not count


def test_a_sub_agents_reply_is_another_one() -> None:
    other = (0.0, TextDeltaEvent(text="x", task="c1")), (10.0, AssistantMessageEvent(text="x", task="c1"))
    assert measured(*other) is None
    assert measured((1, TextDeltaEvent(text="a")), *other, (2, END)) == 10


def test_each_reply_is_measured_by_itself() -> None:
    clock = FakeClock()
    rate = AnswerRate(clock.monotonic)
    for seconds, expected in ((2, 60), (4, 30)):
        clock.seconds += 100
        rate.follow(TextDeltaEvent(text="a"))
        clock.seconds += seconds
        rate.follow(END)
        assert rate.of(USED) == expected
        assert rate.of(USED) is None
