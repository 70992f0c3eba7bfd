"""The rules that keep a person from approving what they did not mean to (contract section 6)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from textual.events import AppBlur, AppFocus, MouseScrollDown
from textual.widgets import Input, TextArea

from ollm_tui.core.bus.confirmation import CommandPreview, DiffPreview
from ollm_tui.core.bus.states import ConfirmationState, RememberScope, Risk
from ollm_tui.core.execution.remembering import RuleEffect
from ollm_tui.core.files.diff import diff_texts
from ollm_tui.core.policy.approvals import RememberOffer
from ollm_tui.core.policy.rules import Decision
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import (
    DenyConfirmations,
    HoldConfirmation,
    PreviewRule,
    ReleaseConfirmation,
    ReviewArguments,
)
from ollm_tui.tui.screens.confirmation_box import EffectView
from ollm_tui.tui.screens.group_screen import GroupScreen
from ollm_tui.tui.styled_text import StyledLine, line
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.line_view import FIRST_LINES
from tests.tui.pilot import command_question, question, reviewed, stage, wait_until

OFFER = RememberOffer(patterns=("git push *",))


async def test_it_opens_by_itself_over_an_empty_prompt_and_y_approves_once_armed() -> None:
    async with stage() as here:
        await here.show_queue(question())
        assert here.modal is not None
        await here.press("y")
        assert here.decisions == [], "the key came before the question could be read"
        await here.arm()
        await here.press("y")
        assert [(one.item_id, one.approved) for one in here.decisions] == [("confirm-1", True)]


async def test_a_long_effect_is_read_only_when_the_end_of_all_its_lines_was_in_sight() -> None:
    text = "".join(f"line {number}\n" for number in range(5 * FIRST_LINES))
    long = question(preview=DiffPreview(diff=diff_texts("a.txt", "", text), created=True), risk=Risk.HIGH)
    async with stage() as here:
        await here.show_queue(long)
        assert here.modal is not None
        detail = here.modal.query_one(EffectView)
        await here.press("end")
        await wait_until(here.pilot, lambda: detail.virtual_size.height > 5 * FIRST_LINES - 10)
        await here.press("home", "end")
        await wait_until(here.pilot, lambda: detail.seen_end)
        assert f"line {5 * FIRST_LINES - 1}" in here.text


async def test_typing_y_in_the_prompt_while_a_request_arrives_never_resolves_it() -> None:
    async with stage() as here:
        await here.press("y", "e", "s")
        await here.show_queue(question())
        assert here.modal is None, "the person is typing"
        await here.press("space", "y", "y", "y")
        assert here.app.dashboard.prompt.text == "yes yyy"
        assert here.decisions == []


async def test_it_never_opens_over_a_draft_and_a_second_after_the_last_key_once_that_is_empty() -> None:
    async with stage() as here:
        await here.press("h", "i")
        await here.show_queue(question())
        here.clock.seconds += 60
        here.app.dashboard.reviewing.consider()
        await here.settle()
        assert here.modal is None, "however long the draft rests"
        await here.press("backspace", "backspace")
        assert here.modal is None, "a key was just pressed"
        here.clock.seconds += 1.1
        await wait_until(here.pilot, lambda: here.modal is not None)


async def test_it_never_opens_over_what_is_typed_into_another_field() -> None:
    async with stage() as here:
        await here.press("f6", "f6", "f6", "a", "x")
        await here.show_queue(question())
        here.clock.seconds += 60
        here.app.dashboard.reviewing.consider()
        await here.settle()
        assert here.modal is None


async def test_the_rest_of_a_sentence_decides_nothing() -> None:
    async with stage() as here:
        await here.press(*"tell me wh")
        await here.show_queue(question())
        here.clock.seconds += 2.2
        here.app.dashboard.reviewing.consider()
        await here.press(*"y it does so D n")
        assert here.app.dashboard.prompt.text == "tell me why it does so D n"
        assert here.decisions == []


async def test_a_message_typed_over_a_question_goes_to_the_prompt_whole() -> None:
    async with stage() as here:
        await here.show_queue(question())
        assert here.modal is not None
        await here.press(*"are there y n D A")
        assert here.modal is None and here.decisions == []
        assert here.app.dashboard.prompt.text == "are there y n D A"
        await here.press("f8")
        assert here.modal is not None, "the question is still there"


@pytest.mark.parametrize("key", [*"ycaAnreD"])
async def test_a_held_key_decides_nothing(key: str) -> None:
    async with stage() as here:
        await here.show_queue(*(command_question(number, "make", risk=Risk.LOW) for number in range(1, 6)))
        await here.post(updates.ReviewUpdate("confirm-1", reviewed(offer=OFFER)))
        for _ in range(40):
            here.clock.seconds += 0.03
            await here.pilot.press(key)
        await here.settle()
        assert here.decisions == [] and here.backend.of(DenyConfirmations) == []
        assert here.modal is not None and not isinstance(here.app.focused, Input | TextArea)


async def test_c_approves_for_the_cage_where_there_is_one_and_is_a_letter_where_nothing_would_run_in_it() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "make", risk=Risk.LOW), command_question(2, "rm -rf b"), question(3))
        await here.arm()
        await here.press("c")
        assert [(one.item_id, one.approved, one.caged) for one in here.decisions] == [("confirm-1", True, True)]
        await here.press("right_square_bracket")
        await here.arm()
        await here.press("c")
        assert len(here.decisions) == 1 and "Press c again" in here.text
        await here.arm()
        await here.press("c")
        assert [one.item_id for one in here.decisions] == ["confirm-1", "confirm-2"]
        await here.press("right_square_bracket")
        await here.arm()
        await here.press("c")
        assert here.app.dashboard.prompt.text == "c" and len(here.decisions) == 2


async def test_without_an_engine_c_is_grey_says_why_and_decides_nothing() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "make", risk=Risk.LOW, cage_problem="bubblewrap is not installed"))
        await here.arm()
        assert "[c] (not in the cage: bubblewrap is not installed)" in here.text
        await here.press("c")
        assert here.decisions == [] and here.modal is not None


@pytest.mark.parametrize("key", ["enter", "space", "ctrl+j", "ctrl+m"])
async def test_enter_and_its_relatives_never_approve(key: str) -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.press(key, key)
        assert here.decisions == []
        assert here.modal is not None


async def test_high_risk_takes_two_presses_and_another_key_between_does_not_count() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "rm -rf build"))
        await here.arm()
        await here.press("y")
        assert here.decisions == []
        assert "Press y again" in here.text
        await here.press("y")
        assert here.decisions == [], "too soon after the first"
        await here.arm()
        await here.press("up")
        await here.arm()
        await here.press("y")
        assert here.decisions == [], "another key came between"
        await here.arm()
        await here.press("y")
        assert [one.approved for one in here.decisions] == [True]


async def test_the_first_press_for_a_high_question_is_forgotten_when_another_is_shown() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "rm -rf a"), command_question(2, "rm -rf b"))
        await here.arm()
        await here.press("y", "right_square_bracket")
        await here.arm()
        await here.press("y")
        assert here.decisions == []


async def test_approve_keys_are_dead_again_after_the_shown_question_changes() -> None:
    async with stage() as here:
        first, second = question(1), question(2)
        await here.show_queue(first, second)
        await here.arm()
        await here.press("y")
        await here.show_queue(replace(first, state=ConfirmationState.APPROVED), second)
        assert here.modal is not None
        assert here.modal.case.item.id == "confirm-2"
        await here.press("y", "y")
        assert len(here.decisions) == 1
        await here.arm()
        await here.press("y")
        assert [one.item_id for one in here.decisions] == ["confirm-1", "confirm-2"]


async def test_time_in_which_nothing_could_be_painted_does_not_arm_the_keys() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        assert here.modal is not None
        here.modal.box.rearm()
        here.clock.seconds += 60
        here.modal.box.action_approve()
        await here.settle()
        assert here.decisions == []
        await here.press("y")
        assert here.decisions == []
        await here.arm()
        await here.press("y")
        assert [one.approved for one in here.decisions] == [True]


async def test_denying_waits_for_silence_as_well() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.press("n", "D", "r", "e")
        assert here.decisions == []
        await here.arm()
        await here.press("n")
        assert [one.approved for one in here.decisions] == [False]


async def test_a_reason_for_denying_goes_word_for_word() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.press("r", *"use tabs y", "enter")
        assert here.decisions == [], "the Enter of somebody who writes a message"
        await here.arm()
        await here.press("enter")
        assert [(one.approved, one.reason) for one in here.decisions] == [(False, "use tabs y")]


async def test_keys_of_one_burst_take_effect_in_their_order() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.burst("r", *"not yet: y A n [D] e r", "enter")
        assert here.decisions == []
        await here.arm()
        await here.press("enter")
        await wait_until(here.pilot, lambda: bool(here.decisions))
        assert [(one.approved, one.reason) for one in here.decisions] == [(False, "not yet: y A n [D] e r")]


async def test_what_is_typed_right_behind_e_goes_into_the_form() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.burst("e", *"yAn[D]er")
        assert here.decisions == []
        assert "yAn[D]er" in here.text


async def test_a_long_effect_must_be_scrolled_to_its_end_before_y_counts() -> None:
    old = "".join(f"line {number}\n" for number in range(200))
    long = DiffPreview(diff=diff_texts("a.txt", old, ""), created=False)
    async with stage() as here:
        await here.show_queue(question(preview=long))
        await here.arm()
        await here.press("y")
        assert here.decisions == []
        assert "scroll to the end" in here.text
        await here.press("end")
        await here.press("y")
        assert here.decisions == [], "its end has only just come into sight"
        await here.arm()
        await here.press("y")
        assert [one.approved for one in here.decisions] == [True]


async def test_looking_at_the_arguments_does_not_count_as_having_read_the_effect() -> None:
    old = "".join(f"line {number}\n" for number in range(200))
    long = DiffPreview(diff=diff_texts("a.txt", old, ""), created=False)
    async with stage() as here:
        await here.show_queue(question(preview=long))
        await here.arm()
        await here.press("tab", "end")
        await here.arm()
        await here.press("y", "tab")
        await here.arm()
        await here.press("y")
        assert here.decisions == []


async def test_the_whole_command_is_there_wrapped_and_not_cut() -> None:
    command = "echo " + "x" * 300 + " && rm -rf /tail-of-it"
    async with stage((80, 24)) as here:
        await here.show_queue(command_question(1, command))
        drawn = "".join(row.strip("┃│ ") for row in here.text.splitlines())
        assert "x" * 200 in drawn.replace(" ", "")
        await here.press("end")
        assert "/tail-of-it" in here.text


async def test_two_pending_and_the_other_one_expires_while_this_one_is_shown() -> None:
    async with stage() as here:
        first, second = question(1), question(2)
        await here.show_queue(first, second)
        await here.press("right_square_bracket")
        await here.show_queue(replace(first, state=ConfirmationState.EXPIRED), second)
        assert here.modal is not None
        assert here.modal.case.item.id == "confirm-2"
        await here.arm()
        await here.press("y")
        assert [one.item_id for one in here.decisions] == ["confirm-2"]


async def test_an_expired_question_stays_to_be_read_and_a_late_y_lands_on_nothing() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.show_queue(question(state=ConfirmationState.EXPIRED))
        assert here.modal is not None
        assert "EXPIRED" in here.text
        for key in "yanerD":
            await here.arm()
            await here.press(key)
        assert here.decisions == [] and here.backend.of(DenyConfirmations) == []
        await here.press("escape")
        assert here.modal is None


async def test_a_question_that_is_forgotten_while_shown_becomes_read_only() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.show_queue()
        assert here.modal is not None
        await here.press("y")
        assert here.decisions == []


async def test_pressing_y_twice_decides_once_and_in_a_burst_nothing() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.press("y", "y", "n")
        assert here.decisions == [], "three keys at once are no answer"
        await here.arm()
        await here.press("y")
        await here.press("y")
        assert [one.approved for one in here.decisions] == [True]


async def test_later_keeps_the_question_and_it_does_not_open_again_by_itself() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.press("escape")
        assert here.modal is None
        assert here.decisions == []
        await here.show_queue(question())
        assert here.modal is None
        await here.press("f8")
        assert here.modal is not None


async def test_deny_all_says_how_many_and_denies_them_at_the_second_press() -> None:
    async with stage() as here:
        first, second = question(1), question(2)
        await here.show_queue(first, second)
        await here.arm()
        await here.press("D")
        assert here.backend.of(DenyConfirmations) == []
        assert "Press D again: deny 2" in here.text
        await here.arm()
        await here.press("D")
        assert [one.item_ids for one in here.backend.of(DenyConfirmations)] == [("confirm-1", "confirm-2")]
        await here.show_queue(
            replace(first, state=ConfirmationState.DENIED), replace(second, state=ConfirmationState.DENIED)
        )
        assert here.modal is None


async def test_deny_all_means_only_those_that_it_named() -> None:
    async with stage() as here:
        await here.show_queue(question(1), question(2))
        await here.arm()
        await here.press("D")
        await here.show_queue(question(1), question(2), question(3))
        await here.arm()
        await here.press("D")
        assert here.backend.of(DenyConfirmations) == []
        assert "Press D again: deny 3" in here.text


async def test_looking_stops_the_clock_and_looking_away_lets_it_go_on() -> None:
    async with stage() as here:
        await here.show_queue(question(1), question(2))
        assert [one.item_id for one in here.backend.of(HoldConfirmation)] == ["confirm-1"]
        await here.press("right_square_bracket")
        assert [one.item_id for one in here.backend.of(ReleaseConfirmation)] == ["confirm-1"]
        await here.press("escape")
        assert [one.item_id for one in here.backend.of(ReleaseConfirmation)] == ["confirm-1", "confirm-2"]


# -- remembering -------------------------------------------------------------------------------------------------------


async def test_nothing_is_remembered_where_the_core_offers_nothing() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        for key in ("a", "a", "A", "A", "ctrl+s"):
            await here.press(key)
            await here.arm()
        assert here.decisions == []


async def test_a_shows_the_rule_first_and_counts_only_the_second_time_once_armed() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "git push", risk=Risk.MEDIUM))
        await here.post(updates.ReviewUpdate("confirm-1", reviewed(offer=OFFER)))
        await here.arm()
        await here.press("a")
        assert "git push *" in here.text
        await here.press("a")
        assert here.decisions == [], "the rule was not there long enough to be read"
        await here.arm()
        await here.press("a")
        assert [(one.approved, one.remember) for one in here.decisions] == [(True, RememberScope.SESSION)]


async def test_a_saved_rule_can_be_worded_and_is_saved_as_worded() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "git push", risk=Risk.MEDIUM))
        await here.post(updates.ReviewUpdate("confirm-1", reviewed(offer=OFFER)))
        await here.arm()
        await here.press("A", "e", "backspace", "backspace", "enter")
        assert here.decisions == [], "Enter does not approve"
        await here.arm()
        await here.press("ctrl+s")
        await here.post(updates.RuleEffectUpdate(("confirm-1",), RuleEffect("git push", "", (True,))))
        assert [(one.approved, one.remember, one.rule) for one in here.decisions] == [
            (True, RememberScope.WORKSPACE, "git push")
        ]


async def test_the_key_of_a_saved_rule_pressed_again_saves_the_rule_that_is_shown() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "git push", risk=Risk.MEDIUM))
        await here.post(updates.ReviewUpdate("confirm-1", reviewed(offer=OFFER)))
        await here.arm()
        await here.press("A", "A")
        assert here.decisions == [], "the rule was not there long enough to be read"
        await here.arm()
        await here.press("a")
        assert here.decisions == [], "that is the other key"
        await here.arm()
        await here.press("A")
        assert [(one.remember, one.rule) for one in here.decisions] == [(RememberScope.WORKSPACE, None)]


async def test_a_saved_rule_can_reach_every_workspace_once_that_was_read() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "git push", risk=Risk.MEDIUM))
        await here.post(updates.ReviewUpdate("confirm-1", reviewed(offer=OFFER)))
        await here.arm()
        await here.press("A")
        assert "in this workspace" in here.text
        await here.arm()
        await here.press("tab")
        assert "in every workspace" in here.text
        await here.press("ctrl+s")
        assert here.decisions == [], "the wider reach was not there long enough to be read"
        await here.arm()
        await here.press("ctrl+s")
        assert [(one.remember, one.rule) for one in here.decisions] == [(RememberScope.USER, None)]


async def test_high_risk_is_never_saved() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "git push --force"))
        await here.post(updates.ReviewUpdate("confirm-1", reviewed(Risk.HIGH, offer=OFFER)))
        await here.arm()
        await here.press("A")
        await here.arm()
        await here.press("ctrl+s")
        assert here.decisions == []


# -- editing -----------------------------------------------------------------------------------------------------------


async def test_changed_arguments_are_checked_and_need_a_fresh_y() -> None:
    async with stage() as here:
        await here.show_queue(question(arguments={"path": "a.txt"}))
        await here.arm()
        await here.press("e")
        area = here.app.screen.query_one("#confirm-area")
        area.text = '{"path": "b.txt"}'
        await here.press("ctrl+s")
        wanted = here.backend.of(ReviewArguments)
        assert [one.arguments for one in wanted] == [{"path": "b.txt"}]
        review = reviewed()
        await here.post(updates.ReviewUpdate("confirm-1", review, {"path": "b.txt"}))
        assert "EDITED" in here.text
        await here.press("y")
        assert here.decisions == [], "dead until armed again"
        await here.arm()
        await here.press("y")
        assert [(one.approved, one.modified) for one in here.decisions] == [(True, {"path": "b.txt"})]


async def test_changed_arguments_that_are_high_risk_take_two_presses() -> None:
    async with stage() as here:
        await here.show_queue(question(arguments={"path": "a.txt"}))
        await here.arm()
        await here.press("e", "ctrl+s")
        await here.post(updates.ReviewUpdate("confirm-1", reviewed(Risk.HIGH), {"path": "a.txt"}))
        await here.arm()
        await here.press("y")
        assert here.decisions == []
        await here.arm()
        await here.press("y")
        assert len(here.decisions) == 1


async def test_arguments_confirmed_as_they_were_can_be_approved_too() -> None:
    async with stage() as here:
        await here.show_queue(item := question())
        await here.arm()
        await here.press("e", "ctrl+s")
        review = reviewed(preview=item.details.preview)
        await here.post(updates.ReviewUpdate("confirm-1", review, item.details.args))
        await here.arm()
        await here.press("y")
        assert [one.approved for one in here.decisions] == [True]


async def test_errors_of_changed_arguments_are_shown_and_approve_nothing() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.press("e")
        here.app.screen.query_one("#confirm-area").text = '{"path": 3'
        await here.press("ctrl+s")
        assert "line 1, column" in here.text
        assert here.backend.of(ReviewArguments) == []
        here.app.screen.query_one("#confirm-area").text = '{"path": 3}'
        await here.press("ctrl+s")
        await here.post(
            updates.ReviewUpdate(
                "confirm-1", reviewed(errors=("path: wants text",), decision=Decision.DENY), {"path": 3}
            )
        )
        assert "path: wants text" in here.text
        await here.press("escape")
        assert "EDITED" not in here.text
        assert here.decisions == []


async def test_letters_typed_into_the_form_decide_nothing() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.press("e", *"ynaADr[]")
        assert isinstance(here.app.focused, TextArea)
        assert here.decisions == []
        assert here.modal is not None


@pytest.mark.parametrize("key", ["r", "e"])
@pytest.mark.parametrize("state", [ConfirmationState.CANCELLED, ConfirmationState.EXPIRED, ConfirmationState.APPROVED])
async def test_a_form_whose_question_went_away_stays_says_so_and_decides_nothing(
    key: str, state: ConfirmationState
) -> None:
    async with stage() as here:
        await here.show_queue(question(1), question(2))
        await here.arm()
        await here.press(key, "x")
        await here.show_queue(replace(question(1), state=state), question(2))
        assert state.value.upper() in here.text and "decides nothing" in here.text
        await here.arm()
        await here.press(*"yDn", "enter", "ctrl+s")
        assert isinstance(here.app.focused, Input | TextArea), "what was typed stays in the form"
        assert here.decisions == [] and here.backend.of(DenyConfirmations) == []
        assert here.backend.of(ReviewArguments) == []
        await here.press("escape", "escape")
        assert here.modal is None


async def test_a_question_that_comes_while_the_last_confirmation_closes_opens_its_own() -> None:
    async with stage() as here:
        first, second = question(1), question(2)
        for number in range(5):
            one = first if number % 2 else second
            here.app.post_update(
                updates.QueueUpdate(ConfirmationQueueSnapshot((replace(one, state=ConfirmationState.APPROVED),)))
            )
            here.app.post_update(updates.QueueUpdate(ConfirmationQueueSnapshot((question(number + 10),))))
        await here.settle()
        assert here.app.is_running
        assert here.modal is not None


async def test_every_warning_is_in_sight_or_has_to_be_scrolled_past() -> None:
    warnings = tuple(f"warning number {number}" for number in range(30))
    preview = CommandPreview(command="make", cwd=".", parts=("make",), warnings=warnings)
    async with stage((80, 24)) as here:
        await here.show_queue(question(preview=preview))
        await here.arm()
        assert "and 27 more warnings below" in here.text
        await here.press("y")
        assert here.decisions == []
        await here.press("end")
        await here.arm()
        await here.press("y")
        assert len(here.decisions) == 1


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_a_command_of_any_length_leaves_room_for_its_end_and_the_keys(size: tuple[int, int]) -> None:
    command = "\n".join(f"echo {number} {'x' * 60}" for number in range(80)) + "; rm -rf build"
    async with stage(size) as here:
        await here.show_queue(command_question(1, command, description=f"Run {command}", risk=Risk.LOW))
        await here.arm()
        assert "[y] (scroll to the end)" in here.text and "Deny all" in here.text
        for key in ("j", "down", "space", "pagedown", "pageup", "k", "up", "home"):
            await here.press(key)
            assert here.modal is not None, "no key that scrolls begins a message"
            assert "[y] (scroll to the end)" in here.text
        await here.press("end")
        await here.arm()
        assert "-rf build" in here.text and "[y] Approve once" in here.text


async def test_the_wheel_scrolls_to_the_end_too() -> None:
    async with stage((80, 24)) as here:
        await here.show_queue(command_question(1, "\n".join(f"echo {number}" for number in range(40))))
        detail = here.app.screen.query_one("#confirm-detail")
        corner = detail.content_region.offset
        for _ in range(40):
            here.app.post_message(MouseScrollDown(None, corner.x, corner.y, 0, 1, 0, False, False, False))
        await here.settle()
        assert "echo 39" in here.text


async def test_blanks_do_not_hide_what_a_command_ends_in() -> None:
    async with stage((80, 24)) as here:
        command = f"ls{' ' * 4000}; rm -rf build"
        await here.show_queue(command_question(1, command, description=f"Run {command}"))
        assert "Run ls⟨4000 blanks⟩; rm -rf build" in here.text


async def test_it_shows_what_the_model_said_before_the_call_and_where_it_would_run() -> None:
    async with stage() as here:
        item = command_question(1, "make")
        await here.post(updates.QueueUpdate(ConfirmationQueueSnapshot((item,), {item.id: "I build it [b]now[/b]."})))
        assert 'Model  "I build it [b]now[/b]."' in here.text
        assert "Where  /home/u/src/app, on this machine" in here.text


async def test_its_footer_has_the_keys_that_work_and_no_others() -> None:
    async with stage() as here:
        await here.show_queue(question())
        footer = here.text.splitlines()[-1]
        assert "Space Scroll on" in footer and "Esc Later" in footer
        assert "Interrupt" not in footer and "^S" not in footer
        await here.arm()
        await here.press("e")
        assert "^S Go on  Esc Back" in here.text.splitlines()[-1]


async def test_on_a_small_screen_reason_and_place_have_to_be_read_too() -> None:
    async with stage((50, 12)) as here:
        await here.show_queue(question(reason="because of rule 3"))
        assert here.modal is not None
        assert "because of rule 3" in here.modal.box.detail.plain_text


async def test_the_click_that_brings_the_window_back_approves_nothing() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        here.app.post_message(AppBlur())
        here.app.post_message(AppFocus())
        await here.settle()
        await here.click("#confirm-keys", 1, 0)
        assert here.decisions == []
        await here.arm()
        await here.click("#confirm-keys", 1, 0)
        assert [one.approved for one in here.decisions] == [True]


async def test_a_rule_that_would_not_allow_this_call_is_refused_in_its_form() -> None:
    async with stage() as here:
        await here.show_queue(command_question(1, "git push origin", risk=Risk.MEDIUM))
        await here.post(updates.ReviewUpdate("confirm-1", reviewed(offer=OFFER)))
        await here.arm()
        await here.press("A")
        await here.press("e")
        assert here.modal is not None
        here.modal.box.input.value = "git pull *"
        await here.arm()
        await here.press("ctrl+s")
        assert here.decisions == [], "first it is looked at"
        [asked] = here.backend.of(PreviewRule)
        refused = RuleEffect(asked.wording, "'git pull *' would not have allowed this call")
        await here.post(updates.RuleEffectUpdate(asked.item_ids, refused))
        assert here.decisions == [] and "would not have allowed this call" in here.text

        here.modal.box.input.value = "git push *"
        await here.arm()
        assert "would not have allowed" not in here.text
        await here.press("ctrl+s")
        await here.post(updates.RuleEffectUpdate(asked.item_ids, RuleEffect("git push *", "", (True,))))
        assert [(one.approved, one.rule) for one in here.decisions] == [(True, "git push *")]


async def test_a_question_names_its_list_and_g_opens_it() -> None:
    async with stage() as here:
        await here.show_queue(*(command_question(number, f"make part-{number}", risk=Risk.LOW) for number in range(3)))
        assert here.modal is not None and "one of 3 alike: g lists them" in here.text
        await here.press("g")
        assert isinstance(here.app.screen, GroupScreen) and here.decisions == []
    async with stage() as here:
        await here.show_queue(question())
        await here.press(*"go on")
        assert here.modal is None and here.app.dashboard.prompt.text == "go on"


async def test_a_question_of_another_session_takes_a_yes_or_a_no_alone() -> None:
    asked = replace(command_question(1, "git push", risk=Risk.MEDIUM), source="session s1 in /src/s1")
    async with stage() as here:
        await here.show_queue(asked)
        assert "Other  session s1 in /src/s1" in here.text
        await here.arm()
        await here.press("e", "a", "A")
        assert here.modal is not None and "Press" not in here.text and here.decisions == []
        await here.arm()
        await here.press("y")
        assert [(one.approved, one.modified, one.remember) for one in here.decisions] == [(True, None, None)]


async def test_the_end_of_a_part_of_the_lines_is_no_end() -> None:
    async with stage() as here:
        await here.show_queue(question())
        assert here.modal is not None
        view = here.modal.query_one(EffectView)
        taken: list[bool] = []

        def lines() -> Iterator[StyledLine]:
            for number in range(3 * FIRST_LINES):
                taken.append(view.seen_end)
                yield line(f"{number}")

        view.show_lines(lines())
        view.scroll_end(animate=False, immediate=True, force=True)
        await wait_until(here.pilot, lambda: len(taken) == 3 * FIRST_LINES)
        await wait_until(here.pilot, lambda: view.virtual_size.height == 3 * FIRST_LINES)
        assert not any(taken)
        assert not view.seen_end
