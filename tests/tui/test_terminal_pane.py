"""The terminal pane in the dashboard: tabs with age, titles, bells, and the person's hand in an agent's command."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from ollm_tui.core.bus.states import CallState
from ollm_tui.core.shell.status import CommandPhase, UserInput
from ollm_tui.tui.layout import Pane
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.command_intents import InterruptCommand, OpenShell, SendReply, TakeOverCommand, TypeKeys
from ollm_tui.tui.values import Activity, CallEntry, EntriesChanged
from tests.tui.pilot import SHELL, Stage, agents_command, question, stage, terminal_of, wait_until

# The person's own shell


async def test_what_is_typed_while_the_shell_starts_goes_into_it() -> None:
    async with stage() as here:
        await here.burst("f6", "f6", "ctrl+t", *"lx", "backspace", *"s it", "enter")
        assert "Shell is starting" in here.text
        assert not here.backend.of(TypeKeys)
        await here.post(updates.CommandsUpdate((SHELL,)))
        await here.press("x")
        assert b"".join(one.data for one in here.backend.of(TypeKeys)) == b"lx\x7fs it\rx"


async def test_a_shell_that_cannot_start_says_so_in_its_place_and_enter_tries_again() -> None:
    async with stage() as here:
        await here.press("ctrl+t", "l")
        await here.post(updates.ShellErrorUpdate("There is no [b]/bin/fish[/b]."))
        assert "There is no [b]/bin/fish[/b]." in here.text
        assert len(here.backend.of(OpenShell)) == 1
        await here.press("enter")
        assert len(here.backend.of(OpenShell)) == 2
        await here.post(updates.CommandsUpdate((SHELL,)))
        assert not here.backend.of(TypeKeys), "what was typed for the one that never came is not for this one"


# Which terminal


def typed_into(here: Stage, command_id: str) -> bytes:
    return b"".join(one.data for one in here.backend.of(TypeKeys) if one.command_id == command_id)


async def test_what_is_typed_goes_to_the_command_that_waits_and_not_to_the_shell() -> None:
    first, second = agents_command("read a"), agents_command("read -s p", id="c2", waiting_for_input=True)
    async with stage() as here:
        await terminal_of(here, SHELL, replace(first, waiting_for_input=True))
        await here.burst(*"one", "enter")
        over = replace(first, phase=CommandPhase.EXITED, exit_code=0)
        await here.post(updates.CommandsUpdate((SHELL, over, second)))
        await here.burst(PREFIX, "ctrl+t", *"secret", "enter")
        assert (typed_into(here, "c1"), typed_into(here, "c2"), typed_into(here, "s1")) == (b"one\r", b"secret\r", b"")


async def test_a_command_that_waits_for_the_person_is_said_in_the_status_line_and_in_the_line_of_its_call() -> None:
    command = agents_command("sudo make install", call_id="t1")
    asking = replace(command, waiting_for_input=True)
    call = CallEntry("t1", "shell", "sudo make install", state=CallState.RUNNING)
    async with stage() as here:
        await here.post(updates.ConversationUpdate(EntriesChanged((call,))), updates.CommandsUpdate((SHELL, command)))
        await here.post(updates.ActivityUpdate(Activity.RUNNING, "shell"))
        assert here.text.split()[0] == "RUNNING"
        await here.post(updates.CommandsUpdate((SHELL, asking)))
        assert here.text.lstrip().startswith("INPUT ^T answers sudo make install |")
        assert re.search(r"> shell +sudo make install +INPUT \^T", here.text)
        await here.show_queue(question())
        assert re.match(r" WAITING 1 \| INPUT \^T", here.text)
        await here.show_queue()
        await here.post(updates.CommandsUpdate((replace(asking, user_input=UserInput(took_over=True)),)))
        assert here.text.split()[0] == "RUNNING"


async def test_the_way_to_the_terminal_leads_past_jobs_to_a_running_command_else_to_the_shell() -> None:
    job, command = agents_command("make serve", id="j1", background=True), agents_command("vim x")
    async with stage() as here:
        await terminal_of(here, SHELL, job)
        await here.burst("a", PREFIX, "escape")
        await here.post(updates.CommandsUpdate((SHELL, job, command)))
        await here.burst("ctrl+t", "b", PREFIX, "escape")
        await here.post(updates.CommandsUpdate((SHELL, replace(job, waiting_for_input=True), command)))
        await here.burst("ctrl+t", "c")
        assert typed_into(here, "c1") == b"b"
        assert typed_into(here, "j1").endswith(b"c")


async def test_a_terminal_that_goes_away_leaves_the_focus_to_the_prompt_and_not_to_the_shell() -> None:
    async with stage() as here:
        view = await terminal_of(here, SHELL, agents_command(waiting_for_input=True))
        await here.post(updates.CommandsUpdate((SHELL,)))
        await here.burst(*"hunter2")
        assert not view.is_attached
        assert typed_into(here, "s1") == b""
        assert here.app.dashboard.prompt.text == "hunter2"


# The prefix

PREFIX = "ctrl+right_square_bracket"
PREFIX_KEYS = "z Zoom  n p 1-9 Tab  + - Rows  [ Read  s Shell  c New  x Close  ] F8 Send"


async def test_the_keys_of_the_prefix_fit_into_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ollm_tui.tui.panes.terminal_prefix.PREFIX_SECONDS", 60.0)
    async with stage(size=(80, 24)) as here:
        await terminal_of(here, SHELL)
        await here.burst(PREFIX)
        assert f"^] {PREFIX_KEYS}" in here.text


async def test_the_prefix_shows_its_keys_and_each_acts_and_leads_back_to_the_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ollm_tui.tui.panes.terminal_prefix.PREFIX_SECONDS", 60.0)  # a slow machine is not the matter
    async with stage() as here:
        view = await terminal_of(here, SHELL, agents_command())
        term, rows = here.app.dashboard.term, view.engine.screen.lines
        await here.burst(PREFIX)
        assert f"^] {PREFIX_KEYS}" in here.text
        await here.burst("z", "a")
        assert here.app.dashboard.arrangement.zoomed is Pane.TERM
        await here.burst(PREFIX, "n", "b", PREFIX, "p", "c")
        assert here.app.dashboard.arrangement.zoomed is Pane.TERM
        await here.burst(PREFIX, "z", PREFIX, "+", "+", PREFIX, PREFIX, "]", PREFIX, "f8", "d")
        assert term.view is not None and term.view.engine.screen.lines == rows + 4
        await here.burst(PREFIX, "s", "e")
        assert (typed_into(here, "c1"), typed_into(here, "s1")) == (b"ac\x1d\x1d\x1b[19~d", b"be")
        assert PREFIX_KEYS not in here.text
        await here.burst(PREFIX, "[", "x")
        assert "READING" in here.text


async def test_a_key_that_the_prefix_does_not_know_goes_to_nobody_and_the_terminal_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("ollm_tui.tui.panes.terminal_prefix.PREFIX_SECONDS", 60.0)
    async with stage(notifications=True) as here:
        await terminal_of(here, SHELL)
        await here.burst(PREFIX, "q")
        assert "^] knows no q: the key went to nobody." in here.text
        await here.burst(PREFIX, "enter")
        assert (here.app.dashboard.prompt.text, here.backend.of(TypeKeys)) == ("", [])
        assert here.app.dashboard.prompt.has_focus


async def test_without_a_key_behind_the_prefix_the_terminal_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ollm_tui.tui.panes.terminal_prefix.PREFIX_SECONDS", 0.05)
    async with stage() as here:
        await terminal_of(here, SHELL)
        await here.burst(PREFIX)
        await wait_until(here.pilot, lambda: here.app.dashboard.prompt.has_focus)
        await here.burst("z")
        assert here.app.dashboard.prompt.text == "z"


# Tabs


async def test_a_tab_says_how_long_its_command_runs_and_then_how_long_it_ran() -> None:
    async with stage() as here:
        await here.post(updates.CommandsUpdate((agents_command(),)))
        assert "pytest -q RUN 0s" in here.text
        here.clock.seconds += 75
        here.app.dashboard.updates.tick()
        await here.settle()
        assert "pytest -q RUN 1m" in here.text
        await here.post(
            updates.CommandsUpdate((agents_command(phase=CommandPhase.EXITED, exit_code=1, ended=1_009.5),))
        )
        assert "pytest -q exit 1 9s" in here.text


async def test_seconds_are_counted_only_while_a_command_of_the_agent_runs() -> None:
    async with stage() as here:
        ticker = here.app.dashboard.updates._ticker
        assert ticker is not None
        assert not ticker._active.is_set()  # textual has no reader for a paused timer
        await here.post(updates.CommandsUpdate((SHELL, agents_command())))
        assert ticker._active.is_set()
        await here.post(
            updates.CommandsUpdate((SHELL, agents_command(phase=CommandPhase.EXITED, exit_code=0, ended=1_001.0)))
        )
        assert not ticker._active.is_set()


async def test_the_title_is_what_the_program_says_or_else_the_folder_and_the_last_exit_code() -> None:
    async with stage() as here:
        view = await terminal_of(here, SHELL, output=b"\x1b]7;file://host/srv/app\x07")
        assert "Terminal  shell  /srv/app" in here.text
        view.engine.feed(b"\x1b]133;A\x07$ x\r\n\x1b]133;C\x07\x1b]133;D;2\x07\x1b]133;A\x07$ ")
        await wait_until(here.pilot, lambda: "/srv/app  exit 2" in here.text)
        view.engine.feed(b"\x1b]2;[@click=app.quit]vim [/]\x07")
        await wait_until(here.pilot, lambda: "shell  [@click=app.quit]vim [/]" in here.text)


async def test_a_bell_out_of_sight_is_on_its_tab_and_a_flood_of_bells_is_heard_once_a_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with stage() as here:
        rung: list[bool] = []
        monkeypatch.setattr(here.app, "bell", lambda: rung.append(True))
        view = await terminal_of(here, SHELL)
        for _ in range(20):
            view.engine.feed(b"\x07")
            await here.pilot.pause()
        assert rung == [True]
        here.clock.seconds += 1.1
        view.engine.feed(b"\x07")
        await wait_until(here.pilot, lambda: len(rung) == 2)
        await here.post(updates.CommandsUpdate((SHELL, agents_command())))
        here.app.dashboard.term.choose("c1")
        await here.settle()
        view.engine.feed(b"\x07")
        await wait_until(here.pilot, lambda: "shell BELL" in here.text)
        here.app.dashboard.term.choose("shell")
        await here.settle()
        assert "BELL" not in here.text


# The person's hand


async def test_what_is_typed_and_what_the_terminal_answers_go_separate_ways() -> None:
    async with stage() as here:
        view = await terminal_of(here, agents_command("ssh host", waiting_for_input=True), output=b"\x1b[c")
        await here.press(*"pw", "enter")
        typed = here.backend.of(TypeKeys)
        assert b"".join(one.data for one in typed) == b"pw\r"
        assert {one.command_id for one in typed} == {"c1"}
        [answered] = here.backend.of(SendReply)
        assert answered.data == b"\x1b[?62;4;22c"
        assert all("pw" not in repr(one) and "b'p'" not in repr(one) for one in typed)
        assert view.captures_keys


async def test_an_agents_command_is_interrupted_and_taken_over_by_keys_and_from_the_palette() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL, agents_command())
        here.app.dashboard.term.choose("c1")
        names = [command.title for command in here.app.get_system_commands(here.app.screen)]
        assert {"Take over command", "Interrupt command"} <= set(names)
        await here.press("ctrl+right_square_bracket", "f5", "i", "t")
        assert [one.command_id for one in here.backend.of(InterruptCommand)] == ["c1"]
        assert [one.command_id for one in here.backend.of(TakeOverCommand)] == ["c1"]
        assert here.app.dashboard.term.captures_keys, "taken over to be typed into"
        await here.post(updates.CommandsUpdate((SHELL, agents_command(user_input=UserInput(took_over=True)))))
        assert "pytest -q YOURS" in here.text
        names = [command.title for command in here.app.get_system_commands(here.app.screen)]
        assert "Take over command" not in names


async def test_the_persons_own_shell_is_not_theirs_to_take_over() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL, agents_command())
        here.app.dashboard.term.choose("shell")
        await here.press("ctrl+right_square_bracket", "f5", "t", "i")
        assert not here.backend.of(TakeOverCommand)
        assert not here.backend.of(InterruptCommand)
