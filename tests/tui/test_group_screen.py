"""The list of similar questions: nothing is decided that was not shown, and each question by its own id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from pydantic import JsonValue
from textual.widgets import Input

from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.bus.states import ConfirmationState, Risk
from ollm_tui.testing import Reply
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.protocol.intents import DecideGroup, HoldGroup
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
from ollm_tui.tui.screens.group_rule import RuleForm
from ollm_tui.tui.screens.group_screen import GroupScreen
from tests.tui.pilot import Stage, command_question, stage


def make(number: int, *, risk: Risk = Risk.MEDIUM) -> Confirmation:
    command = f"make target-{number}"
    return command_question(number, command, risk=risk, reason=f"no approval covers {command!r} (not listed)")


async def opened(here: Stage, *items: Confirmation) -> GroupScreen:
    """The list of these questions, all of which are similar."""
    here.app.dashboard.reviewing.auto_open.enabled = False
    await here.show_queue(*items)
    here.app.dashboard.reviewing.open_group(tuple(item.id for item in items))
    await here.settle()
    screen = here.app.screen
    assert isinstance(screen, GroupScreen)
    return screen


async def read_to_the_end(here: Stage, screen: GroupScreen) -> None:
    for _ in range(20):
        if not screen.box.unread:
            break
        await here.press("pagedown")
    assert not screen.box.unread
    await here.arm()


async def test_similar_questions_are_one_row_whose_list_enter_opens() -> None:
    async with stage() as here:
        here.app.dashboard.reviewing.auto_open.enabled = False
        await here.show_queue(*map(make, range(1, 39)))
        assert "38 x MED  shell" in here.text and "make target-*" in here.text and "Queue (38)" in here.text
        here.app.dashboard.queue.focus_target.focus()
        await here.arm()
        await here.press("n")
        assert here.backend.of(DecideGroup) == [] and here.decisions == [], "one key denies no row of 38"
        await here.press("enter")
        assert isinstance(here.app.screen, GroupScreen) and "make target-1" in here.text
        assert [(len(one.item_ids), one.on) for one in here.backend.of(HoldGroup)] == [(38, True)]


@pytest.mark.parametrize("key", ["y", "n", "r"])
@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_nothing_is_decided_before_all_were_in_sight(key: str, size: tuple[int, int]) -> None:
    async with stage(size) as here:
        screen = await opened(here, *map(make, range(1, 61)))
        await here.arm()
        await here.press(key)
        await here.arm()
        await here.press(key)
        assert here.backend.of(DecideGroup) == [] and "not shown in full yet" in here.text
        await here.press("end")
        await here.arm()
        await here.press(key)
        assert screen.box.unread and here.backend.of(DecideGroup) == [], "the middle was jumped over"


@pytest.mark.parametrize(("key", "approved"), [("y", True), ("n", False)])
async def test_all_are_decided_by_the_same_key_twice_which_says_how_many(key: str, approved: bool) -> None:
    async with stage((80, 24)) as here:
        screen = await opened(here, *map(make, range(1, 39)))
        await read_to_the_end(here, screen)
        await here.press(key)
        assert here.backend.of(DecideGroup) == [] and "38 questions" in here.text
        await here.press(key)
        assert here.backend.of(DecideGroup) == [], "too soon after the first"
        await here.arm()
        await here.press(key)
        await here.arm()
        await here.press(key)
        [decision] = here.backend.of(DecideGroup)
        assert decision.item_ids == tuple(f"confirm-{number}" for number in range(1, 39))
        assert decision.approved is approved


async def test_a_held_key_decides_nothing() -> None:
    async with stage() as here:
        await opened(here, *map(make, range(1, 6)))
        for key in "ynr":
            for _ in range(30):
                here.clock.seconds += 0.03
                await here.pilot.press(key)
        await here.settle()
        assert here.backend.of(DecideGroup) == []


async def test_space_chooses_a_few_and_a_chosen_one_that_ends_never_means_all() -> None:
    async with stage() as here:
        items = [*map(make, range(1, 6))]
        screen = await opened(here, *items)
        await here.press("down", "space")
        await here.arm()
        assert screen.selection.targets == ("confirm-2",)
        await here.show_queue(*(item for item in items if item.ordinal != 2))
        await here.arm()
        await here.press("y")
        await here.arm()
        await here.press("y")
        assert here.backend.of(DecideGroup) == [] and "What you chose has ended" in here.text
        await here.press("down", "space", "down", "space")
        await here.arm()
        await here.press("y")
        await here.arm()
        await here.press("y")
        assert [one.item_ids for one in here.backend.of(DecideGroup)] == [("confirm-3", "confirm-4")]


async def test_what_comes_or_goes_meanwhile_is_not_decided_by_a_key_pressed_before_it_was_shown() -> None:
    async with stage() as here:
        items = [*map(make, range(1, 4))]
        screen = await opened(here, *items)
        await here.arm()
        await here.press("y")
        await here.show_queue(*items[1:], make(4), make(5))
        assert "2 more since" in here.text and "gone" in here.text
        await here.arm()
        await here.press("y")
        assert here.backend.of(DecideGroup) == [], "the first press was about three, this one is about two"
        await here.press("m")
        assert screen.selection.targets == ("confirm-2", "confirm-3", "confirm-4", "confirm-5")
        await here.press("y")
        assert here.backend.of(DecideGroup) == []
        await here.arm()
        await here.press("y")
        await here.arm()
        await here.press("y")
        assert [len(one.item_ids) for one in here.backend.of(DecideGroup)] == [4]


async def test_a_reason_goes_to_those_that_still_wait_and_says_so_when_none_does() -> None:
    async with stage() as here:
        items = [*map(make, range(1, 4))]
        await opened(here, *items)
        await here.arm()
        await here.press("r", *"too many")
        await here.show_queue(*items[1:], make(9))
        assert "denies 2 questions" in here.text
        await here.show_queue(make(9))
        assert "what you type decides nothing" in here.text
        await here.press("enter")
        assert here.backend.of(DecideGroup) == []
        await here.press("escape", "escape")
        assert not isinstance(here.app.screen, GroupScreen)


async def test_high_risk_takes_two_presses_even_for_one() -> None:
    async with stage() as here:
        await opened(here, *(make(number, risk=Risk.HIGH) for number in (1, 2)))
        await here.press("space")
        await here.arm()
        await here.press("y")
        assert here.backend.of(DecideGroup) == []
        await here.arm()
        await here.press("y")
        assert [one.item_ids for one in here.backend.of(DecideGroup)] == [("confirm-1",)]


async def test_the_list_closes_once_all_are_settled_and_enter_opens_one_alone() -> None:
    async with stage() as here:
        items = [*map(make, range(1, 3))]
        await opened(here, *items)
        await here.arm()
        await here.press("n")
        await here.arm()
        await here.press("n")
        await here.show_queue(*(replace(item, state=ConfirmationState.DENIED) for item in items))
        assert not isinstance(here.app.screen, GroupScreen)
        await opened(here, *map(make, range(3, 5)))
        await here.press("enter")
        assert isinstance(here.app.screen, ConfirmationScreen) and here.app.screen.case.item.id == "confirm-3"


# -- with the real executor, bus and shell -----------------------------------------------------------------------------

CALLS: list[JsonValue] = [
    {"name": "shell", "arguments": {"command": f"touch target-{number}"}} for number in range(1, 39)
]


@pytest.fixture
def workspace(tmp_path: Path, own_folders: Path) -> Path:
    config = own_folders / ".config" / "ollm-tui" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[ui]\nauto_open = "never"\n')
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


async def open_list(here: DashboardHarness, *, asked: bool = False, count: int = 38) -> GroupScreen:
    """The list of the questions, read to its end."""
    if not asked:
        await here.send("go")
    await here.wait_for(f"{count} x")
    await here.press("f6", "f6")
    await here.wait_until(lambda: here.app.dashboard.queue.has_focus_within)
    await here.press("enter")
    await here.wait_until(lambda: isinstance(here.app.screen, GroupScreen))
    screen = here.app.screen
    assert isinstance(screen, GroupScreen)
    while screen.box.unread:
        await here.press("pagedown")
        await here.pilot.pause()
    return screen


def made(workspace: Path) -> list[str]:
    return sorted((path.name for path in workspace.iterdir()), key=lambda name: int(name.split("-")[1]))


async def test_38_commands_are_approved_together_and_each_runs_once(workspace: Path) -> None:
    async with open_dashboard(workspace, [{"toolCalls": CALLS}, {"text": "All done."}]) as here:
        await open_list(here)
        await here.decide("y")
        await here.decide("y")
        await here.wait_for("All done.")
        assert made(workspace) == [f"target-{number}" for number in range(1, 39)]


async def test_the_reason_for_denying_38_reaches_the_model(workspace: Path) -> None:
    script: list[Reply] = [
        {"toolCalls": CALLS},
        {"expect": {"lastToolResultContains": "one at a time"}, "text": "Understood."},
    ]
    async with open_dashboard(workspace, script) as here:
        await open_list(here)
        await here.decide("r")
        await here.press(*"one at a time", "enter")
        assert isinstance(here.app.screen, GroupScreen), "an Enter that belongs to the sentence denies nothing"
        await here.decide("enter")
        await here.wait_for("Understood.")
        assert list(workspace.iterdir()) == []


async def test_a_chosen_few_are_approved_and_the_rest_waits(workspace: Path) -> None:
    async with open_dashboard(workspace, [{"toolCalls": CALLS}, {"text": "All done."}]) as here:
        screen = await open_list(here)
        await here.press("space", "down", "down", "space")
        await here.decide("y")
        await here.decide("y")
        await here.wait_until(lambda: len(screen.selection.open_ids) == 36)
        assert screen.selection.targets == screen.selection.open_ids
        await here.decide("n")
        await here.decide("n")
        await here.wait_for("All done.")
        assert made(workspace) == ["target-1", "target-3"]


async def test_questions_withdrawn_with_their_turn_run_nothing(workspace: Path) -> None:
    async with open_dashboard(workspace, [{"toolCalls": CALLS}, {"text": "All done."}]) as here:
        screen = await open_list(here)
        await here.decide("y")
        here.app.dashboard.action_interrupt()
        here.app.dashboard.action_interrupt()
        await here.wait_for("Nothing here waits any more")
        assert screen.selection.targets == ()
        await here.press("y", "escape")
        await here.wait_for_idle()
        assert list(workspace.iterdir()) == []


async def open_rule(here: DashboardHarness) -> None:
    """The form for a rule about the 38 questions, with its effect."""
    screen = await open_list(here)
    await here.decide("A")
    await here.wait_until(lambda: screen.query_one(RuleForm).can_be_saved)
    await here.wait_for("Allows 38 of these 38")


async def test_a_rule_shows_its_effect_then_allows_the_questions_and_what_comes_later(workspace: Path) -> None:
    earlier: list[JsonValue] = [{"name": "shell", "arguments": {"command": "touch other"}}]
    later: list[JsonValue] = [{"name": "shell", "arguments": {"command": "touch target-99"}}]
    script: list[Reply] = [
        {"toolCalls": earlier},
        {"toolCalls": CALLS[:4]},
        {"toolCalls": later},
        {"text": "All done."},
        {"text": "And more."},
    ]
    async with open_dashboard(workspace, script) as here:
        await here.send("before")
        await here.wait_for("Queue (1)")
        await here.press("f8")
        await here.decide("n")
        screen = await open_list(here, asked=True, count=4)
        await here.decide("A")
        await here.wait_for("Allows 4 of these 4")
        await here.wait_for("Of the last 1 other calls it would have let 0 run")
        screen.query_one("#group-rule", Input).value = "touch *"
        await here.wait_for("let 1 run that asked: touch other")
        screen.query_one("#group-rule", Input).value = "make *"
        await here.wait_for("would not have allowed this call")
        screen.query_one("#group-rule", Input).value = "touch target-*"
        await here.wait_for("let 0 run")
        await here.press("tab")
        await here.wait_for("this workspace")
        await here.decide("ctrl+s")
        await here.wait_for("All done.")
        assert made(workspace) == [*(f"target-{number}" for number in range(1, 5)), "target-99"]
        assert "It allowed 4 of 4 questions" in here.text or not here.app.dashboard.reviewing.queue.pending


async def test_a_refused_rule_is_not_saved(workspace: Path) -> None:
    async with open_dashboard(workspace, [{"toolCalls": CALLS}, {"text": "All done."}]) as here:
        await open_rule(here)
        screen = here.app.screen
        assert isinstance(screen, GroupScreen)
        screen.query_one("#group-rule", Input).value = "make *"
        await here.wait_for("would not have allowed this call")
        await here.decide("ctrl+s")
        assert screen.query_one(RuleForm).display and len(screen.selection.open_ids) == 38
        await here.press("escape")
        await here.decide("n")
        await here.decide("n")
        await here.wait_for("All done.")
        assert list(workspace.iterdir()) == []
