"""Keys typed faster than the screen can follow act one after the other, each where the one before it has led."""

from __future__ import annotations

import asyncio
import random

import pytest
from textual.events import Key, Paste

from ollm_tui.tui.protocol.command_intents import TypeKeys
from ollm_tui.tui.protocol.intents import AddTodo, SendMessage, ShowReport
from ollm_tui.tui.protocol.updates import QueueUpdate
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
from ollm_tui.tui.screens.help_screen import HelpScreen
from ollm_tui.tui.screens.memory_screen import MemoryScreen
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from tests.tui.pilot import SHELL, Stage, command_question, question, stage, terminal_of, wait_until

SIZES = pytest.mark.parametrize("size", [(120, 40), (80, 24)])
LEAVE = "ctrl+right_square_bracket"
LINES = b"".join(b"line %d\r\n" % n for n in range(30))


def typed(here: Stage) -> bytes:
    return b"".join(one.data for one in here.backend.of(TypeKeys))


@SIZES
async def test_what_follows_the_key_that_leaves_the_terminal_is_the_prompts(size: tuple[int, int]) -> None:
    async with stage(size) as here:
        await terminal_of(here, SHELL)
        await here.burst(*"ls", "enter", LEAVE, "escape", *"why?", "enter", *"and")
        assert typed(here) == b"ls\r"
        assert [one.text for one in here.backend.of(SendMessage)] == ["why?"]
        assert here.app.dashboard.prompt.text == "and"


@SIZES
async def test_what_follows_the_way_to_the_terminal_is_its_programs(size: tuple[int, int]) -> None:
    async with stage(size) as here:
        await terminal_of(here, SHELL)
        await here.burst(LEAVE, "escape", "x", LEAVE, "ctrl+t", *"make", "enter", LEAVE, "escape", "y")
        assert typed(here) == b"make\r"
        assert here.app.dashboard.prompt.text == "xy"


@SIZES
async def test_what_is_sought_goes_to_the_search_line_that_is_just_opening(size: tuple[int, int]) -> None:
    async with stage(size) as here:
        view = await terminal_of(here, SHELL, output=LINES)
        await here.burst(LEAVE, "f5", "slash", *"line 7")
        await wait_until(here.pilot, lambda: "1/1" in here.text)
        await here.burst("enter", "escape", "escape", *"ls", LEAVE, "ctrl+f", *"nope")
        assert (typed(here), view.reader) == (b"ls", None)
        assert here.app.dashboard.prompt.text == ""
        assert here.app.dashboard.chat.has_focus_within
        assert "nope" in here.text


async def test_a_message_that_begins_with_a_key_of_the_question_is_a_message() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.arm()
        await here.burst(*"no, use rg")
        assert here.app.dashboard.prompt.text == "no, use rg"
        assert here.decisions == []


async def test_a_key_before_a_question_is_read_approves_nothing_however_fast() -> None:
    async with stage() as here:
        await here.show_queue(question())
        await here.burst("f8", *"yyAA", "escape", *"yes")
        assert not here.decisions
        assert here.app.dashboard.prompt.text == "yes"


async def test_a_key_that_meets_a_question_as_it_opens_by_itself_finds_all_of_it() -> None:
    async with stage() as here:
        here.app.post_update(QueueUpdate(ConfirmationQueueSnapshot((question(),))))
        while here.modal is None:
            await asyncio.sleep(0)
        await here.settle()
        await here.arm()
        await here.burst("e", "y", "escape", "n")
        assert here.decisions == [], "the n came right behind other keys"
        await here.arm()
        await here.press("n")
        assert [one.approved for one in here.decisions] == [False]


KEYS = (
    *("y", "y", "a", "A", "n", "r", "e", "D", "x", "left_square_bracket", "right_square_bracket", "space", "slash"),
    *(
        "enter",
        "escape",
        "tab",
        "backspace",
        "up",
        "down",
        "pagedown",
        "ctrl+j",
        "ctrl+s",
        "ctrl+f",
        "ctrl+n",
        "ctrl+t",
    ),
    *("f1", "f3", "f4", "f5", "f6", "f7", "f8", "f9", "f10", LEAVE),
)


@pytest.mark.parametrize("seed", range(8))
async def test_no_storm_of_keys_approves_anything_or_ends_the_dashboard(seed: int) -> None:
    """Time stands still, so that no question has been in sight for long enough."""
    chance = random.Random(seed)
    async with stage(chance.choice([(120, 40), (80, 24)])) as here:
        if seed % 2:
            await terminal_of(here, SHELL)
        for _ in range(6):
            ask = chance.choice([question, lambda number: command_question(number, "rm -rf build")])
            here.app.post_update(
                QueueUpdate(ConfirmationQueueSnapshot(tuple(map(ask, range(1, chance.randint(1, 4))))))
            )
            await here.burst(*chance.choices(KEYS, k=12))
            assert not [one for one in here.decisions if one.approved]
            assert here.app.is_running


async def test_keys_go_to_the_screen_that_is_just_opening_and_then_to_what_lies_behind_it() -> None:
    async with stage() as here:
        await here.burst("f1", "q", "escape", "ctrl+n", "escape", *"ab")
        assert not isinstance(here.app.screen, HelpScreen | MemoryScreen | ConfirmationScreen)
        assert here.app.dashboard.prompt.text == "ab"


async def test_the_key_that_leaves_the_terminal_goes_to_the_program_only_twice_in_a_row(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ollm_tui.tui.panes.terminal_prefix.PREFIX_SECONDS", 60.0)  # a slow machine is not the matter
    async with stage() as here:
        await terminal_of(here, SHELL)
        await here.burst(LEAVE, "f5", "escape", LEAVE, "escape", *"on")
        assert (typed(here), here.app.dashboard.prompt.text) == (b"", "on")
        await here.burst("ctrl+t", LEAVE, LEAVE)
        assert typed(here) == b"\x1d"


async def test_a_paste_keeps_its_place_among_the_keys() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL)
        here.app.post_message(Key(LEAVE, None))
        here.app.post_message(Paste("pasted "))
        await here.burst(*"typed")
        assert here.app.dashboard.prompt.text == "pasted typed"


async def test_the_ring_of_panes_is_gone_round_a_step_a_key() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL)
        await here.burst(LEAVE, "escape", "a", "f6", "f6", "f6", "a", *"plan", "enter")
        assert here.app.dashboard.prompt.text == "a"
        assert [one.task for one in here.backend.of(AddTodo)] == ["plan"]


async def test_enter_typed_at_once_behind_a_command_runs_it() -> None:
    async with stage() as here:
        prompt = here.app.dashboard.prompt
        await here.press(*"/docto")
        assert prompt.menu_answers, "the menu is open for what is typed so far"
        prompt.post_message(Key("r", "r"))
        prompt.action_send()
        await here.settle()
        assert prompt.text == "" and len(here.backend.of(ShowReport)) == 1
