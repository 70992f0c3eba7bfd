"""The list of jobs and the question what becomes of them, without a backend behind (001 R5.5)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ollm_tui.core.shell.status import CommandPhase, CommandStatus
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.command_intents import (
    AttachTerminal,
    EndJob,
    InterruptCommand,
    InterruptJob,
    TypeKeys,
    WatchJobs,
)
from ollm_tui.tui.screens.jobs_screen import JobsScreen
from ollm_tui.tui.screens.question_screens import QuitScreen, YesNoScreen
from ollm_tui.tui.values import UnfinishedWork
from ollm_tui.tui.widgets.text_box import TextBox
from tests.tui.pilot import Stage, job, stage

SERVER = job("j1", "npm run dev", 4711, age=192, cpu=12.4, processes=3, addresses=("localhost:5173", "[::1]:9229"))
READER = job("j2", "read x", 4720, age=5, waiting_for_input=True)
OVER = job("j3", "make", 4730, age=61, processes=0, phase=CommandPhase.EXITED, exit_code=2)
LEFT = job("5a5a", "redis-server", 99, age=90_000, name="j1", detached=True)
SIZES = [(120, 40), (80, 24)]


def watched(here: Stage) -> list[bool]:
    return [intent.on for intent in here.backend.of(WatchJobs)]


async def open_jobs(here: Stage, *jobs: CommandStatus, unknown: str = "") -> None:
    await here.press("f3")
    assert isinstance(here.app.screen, JobsScreen)
    await here.post(updates.JobsUpdate(jobs, unknown))


@pytest.mark.parametrize("size", SIZES)
async def test_the_list_says_all_there_is_to_know_of_each_job(size: tuple[int, int]) -> None:
    async with stage(size) as here:
        await open_jobs(here, LEFT, SERVER, READER, OVER)
        assert "3 running" in here.text
        text = here.text
        for words in (
            "npm run dev",
            "RUN  3m12s  12 %",
            "pid 4711, 3 processes, listens on localhost:5173 [::1]:9229",
        ):
            assert words in text
        assert "INPUT     5s" in text and "exit 2  1m01s" in text and "LEFT RUNNING  1d01h" in text


@pytest.mark.parametrize("size", SIZES)
async def test_every_action_can_be_done_by_keys(size: tuple[int, int]) -> None:
    async with stage(size, notifications=True) as here:
        await here.post(updates.CommandsUpdate((CommandStatus("j2", "read x", waiting_for_input=True),)))
        await open_jobs(here, SERVER, READER, OVER)
        await here.press("c")
        assert here.app.clipboard == "localhost:5173"
        await here.press("c")
        assert here.app.clipboard == "[::1]:9229"
        await here.press("i")
        assert [intent.job_id for intent in here.backend.of(InterruptJob)] == ["j1"]
        await here.press("x", "enter")
        assert isinstance(here.app.screen, YesNoScreen)
        assert "End j1?" in here.text and "npm run dev" in here.text
        assert here.backend.of(EndJob) == []
        await here.press("y")
        assert here.backend.of(EndJob) == [], "it came too soon to have been read"
        await here.arm()
        await here.press("y")
        assert [intent.job_id for intent in here.backend.of(EndJob)] == ["j1"]
        await here.press("down", "enter")
        assert here.app.screen is here.app.dashboard
        assert "[read x INPUT]" in here.text
        assert here.app.dashboard.term.has_focus_within


async def test_every_action_can_be_done_by_the_mouse() -> None:
    async with stage() as here:
        await here.post(updates.CommandsUpdate((CommandStatus("j2", "read x", waiting_for_input=True),)))
        await open_jobs(here, SERVER, READER)
        await here.pilot.click("#job-rows", offset=(5, 2))
        await here.settle()
        assert isinstance(here.app.screen, JobsScreen), "one click only marks"
        await click_words(here, "interrupt")
        assert [intent.job_id for intent in here.backend.of(InterruptJob)] == ["j2"]
        await here.pilot.click("#job-rows", offset=(5, 0))
        await click_words(here, "copy address")
        assert here.app.clipboard == "localhost:5173"
        await click_words(here, "end")
        assert isinstance(here.app.screen, YesNoScreen)
        await here.press("escape")
        await here.pilot.click("#job-rows", offset=(5, 3), times=2)
        await here.settle()
        assert here.app.screen is here.app.dashboard and "agent: read x" in here.text


async def click_words(here: Stage, words: str) -> None:
    keys = here.app.screen.query_one("#job-keys", TextBox)
    await here.pilot.click(keys, offset=(keys.plain_text.index(words), 0))
    await here.settle()


async def test_the_jobs_are_read_only_while_their_list_is_in_sight() -> None:
    async with stage() as here:
        assert watched(here) == []
        await open_jobs(here, SERVER)
        assert watched(here) == [True]
        await here.press("x")
        assert watched(here) == [True, False], "the question covers it"
        await here.press("escape")
        assert watched(here)[-1] is True
        await here.press("escape")
        assert watched(here)[-1] is False
        await here.post(updates.JobsUpdate((SERVER,)))


async def test_the_palette_and_a_word_in_the_prompt_open_the_list() -> None:
    async with stage() as here:
        await here.press(*"/jobs", "enter")
        assert isinstance(here.app.screen, JobsScreen)
        assert here.app.dashboard.prompt.text == ""
        await here.press("escape")
        assert any(command.title == "Jobs" for command in here.app.get_system_commands(here.app.screen))


async def test_what_is_over_takes_no_key_and_what_the_system_does_not_tell_is_said() -> None:
    async with stage(notifications=True) as here:
        await open_jobs(here, OVER, unknown="listening ports are not known: the program lsof is missing")
        await here.press("i", "x", "c")
        assert isinstance(here.app.screen, JobsScreen)
        assert [intent for intent in here.backend.intents if not isinstance(intent, WatchJobs)] == []
        assert "lsof is missing" in here.text and "j3 is over." in here.text and "j3 listens nowhere." in here.text
        await here.post(updates.JobsUpdate(()))
        assert "No jobs." in here.text


async def test_a_job_of_an_earlier_dashboard_takes_no_keys_and_can_be_ended() -> None:
    async with stage(notifications=True) as here:
        await open_jobs(here, LEFT)
        await here.press("i")
        assert "x ends it" in here.text
        assert here.backend.of(InterruptJob) == []
        await here.press("x")
        await here.arm()
        await here.press("y")
        assert [intent.job_id for intent in here.backend.of(EndJob)] == ["5a5a"]


async def test_the_tab_of_a_left_job_waits_to_be_opened_and_shows_its_log() -> None:
    async with stage() as here:
        tab = CommandStatus("5a5a", "redis-server", name="j1", detached=True)
        await here.post(updates.CommandsUpdate((tab,)))
        assert "[shell]" in here.text and "j1 redis-server LEFT" in here.text
        assert here.backend.of(AttachTerminal) == []
        await open_jobs(here, LEFT)
        await here.press("enter")
        assert "[j1 redis-server LEFT]" in here.text
        [intent] = here.backend.of(AttachTerminal)
        assert intent.command_id == "5a5a"
        intent.feed(b"Ready to accept connections\r\n")
        await here.pilot.pause(0.1)
        assert "Ready to accept connections" in here.text
        await here.press("i", "t", "x")
        assert here.backend.of(TypeKeys) == here.backend.of(InterruptCommand) == []
        await here.post(updates.CommandsUpdate((replace(tab, phase=CommandPhase.EXITED),)))
        assert "[j1 redis-server over]" in here.text


async def test_a_command_line_that_draws_is_shown_and_does_not() -> None:
    async with stage() as here:
        await open_jobs(here, job("j1", "echo [red]\x1b[2J\u202e", 1))
        assert "echo [red]" in here.text and "\x1b" not in here.text and "\u202e" not in here.text


# -- at the end ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "settled"), [("y", ["ended"]), ("l", ["left"]), ("escape", []), ("n", []), ("enter", [])]
)
async def test_quitting_asks_what_to_do_with_the_jobs(key: str, settled: list[str]) -> None:
    async with stage((80, 24)) as here:
        here.backend.live = UnfinishedWork(("A turn is running.",), (SERVER, READER))
        await here.press("ctrl+q")
        assert isinstance(here.app.screen, QuitScreen)
        for words in (
            "A turn is running.",
            "npm run dev",
            "read x",
            "INPUT",
            "quit and end all",
            "quit, leave running",
        ):
            assert words in here.text
        await here.arm()
        await here.press(key)
        assert here.backend.settled == settled
        assert here.app._exit is bool(settled)
        assert here.app.holder.closing_lines == (("words for the terminal",) if settled else ())


@pytest.mark.parametrize("word", ["yes, go ahead", "leave it"])
async def test_the_first_letter_of_a_message_does_not_quit(word: str) -> None:
    async with stage((80, 24)) as here:
        here.backend.live = UnfinishedWork(("A turn is running.",), (SERVER,))
        await here.press("ctrl+q")
        await here.arm()
        await here.burst(*word)
        await here.settle()
        assert isinstance(here.app.screen, QuitScreen) and here.backend.settled == []
        await here.arm()
        await here.press(word[0])
        assert here.backend.settled == [{"y": "ended", "l": "left"}[word[0]]]


async def test_who_cannot_be_left_is_said_and_keeps_the_dashboard_open() -> None:
    async with stage(notifications=True) as here:
        here.backend.live = UnfinishedWork((), (SERVER,))
        here.backend.cannot_leave = ("j1 can not be left running: the disk is full.",)
        await here.press("ctrl+q")
        await here.arm()
        await here.press("l")
        assert "the disk is full" in here.text
        assert here.app.screen is here.app.dashboard and not here.app._exit


async def test_what_ends_with_the_dashboard_in_any_case_is_not_offered_to_be_left() -> None:
    async with stage() as here:
        here.backend.live = UnfinishedWork((), (job("j1", "make", 1, can_detach=False),))
        await here.press("ctrl+q")
        assert "sandboxed" in here.text and "leave running" not in here.text
        await here.arm()
        await here.press("l")
        assert isinstance(here.app.screen, QuitScreen)
        assert here.backend.settled == []
