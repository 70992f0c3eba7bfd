"""Several shells of the person's own: each its own terminal, folder and end."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus, ProcessName
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.panes.terminal_views import ShellHint
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.command_intents import CloseShell, OpenShell, TypeKeys
from ollm_tui.tui.screens.question_screens import YesNoScreen
from tests.tui.pilot import SHELL, Stage, agents_command, stage, terminal_of, wait_until

PREFIX = "ctrl+right_square_bracket"


def shell(number: int) -> CommandStatus:
    return CommandStatus(f"s{number}", "/bin/bash", kind=CommandKind.PERSON)


def ended(command: CommandStatus) -> CommandStatus:
    return replace(command, phase=CommandPhase.EXITED, exit_code=0)


def typed_into(here: Stage, command_id: str) -> bytes:
    return b"".join(one.data for one in here.backend.of(TypeKeys) if one.command_id == command_id)


@pytest.fixture(autouse=True)
def slow_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ollm_tui.tui.panes.terminal_prefix.PREFIX_SECONDS", 60.0)  # a slow machine is not the matter


async def test_what_is_typed_while_a_further_shell_starts_is_for_it_and_not_for_the_first() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL)
        assert "[shell]" not in here.text, "one alone has no line of tabs"
        await here.burst(PREFIX, "c", *"rm x", "enter")
        assert "Shell is starting" in here.text and "[shell 2]" in here.text
        assert not here.backend.of(TypeKeys)
        await here.post(updates.CommandsUpdate((SHELL, shell(2))))
        await here.burst("y")
        assert (typed_into(here, "s1"), typed_into(here, "s2")) == (b"", b"rm x\ry")
        assert len(here.backend.of(OpenShell)) == 1
        here.app.dashboard.term.query_one(ShellHint).post_message(ShellHint.Typed("z"))  # was on its way meanwhile
        await wait_until(here.pilot, lambda: typed_into(here, "s2") == b"rm x\ryz")
        assert typed_into(here, "s1") == b""


async def test_shells_are_gone_through_by_keys_and_by_number_and_stay_before_the_agents_commands() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL, shell(2), agents_command(), shell(3))
        rows = [row for row in here.text.splitlines() if "shell 3" in row]
        assert rows[0].split()[:5] == ["shell", "shell", "2", "shell", "3"]
        await here.burst(PREFIX, "1", "a", PREFIX, "2", "b", PREFIX, "n", "c", PREFIX, "4", "d", PREFIX, "s", "e")
        assert [typed_into(here, one) for one in ("s1", "s2", "s3", "c1")] == [b"ae", b"b", b"c", b"d"]
        assert "agent:" not in here.text
        await here.burst(PREFIX, "3", PREFIX, PREFIX, PREFIX, "escape")
        await here.post(updates.CommandsUpdate((SHELL, shell(2), ended(agents_command()), shell(3))))
        await here.burst("ctrl+t", "f")
        assert typed_into(here, "s3").endswith(b"f"), "the way back leads to the one that was in front"


async def test_a_further_shell_that_ends_goes_and_what_is_typed_next_is_for_no_other() -> None:
    async with stage() as here:
        await terminal_of(here, SHELL, shell(2))
        await here.burst(PREFIX, "2", "a")
        await here.post(updates.CommandsUpdate((SHELL, ended(shell(2)))))
        assert "shell 2" not in here.text
        await here.burst(*"next")
        assert typed_into(here, "s1") == b""
        assert here.app.dashboard.prompt.text == "next"
        await here.post(updates.CommandsUpdate((ended(SHELL), ended(shell(2)))))
        await here.press("ctrl+t", "enter")
        await here.post(updates.CommandsUpdate((ended(SHELL), ended(shell(2)), shell(4))))
        await here.press("ctrl+t")
        await here.burst("g")
        assert typed_into(here, "s4") == b"g", "the first, started again, is the first again"
        assert "shell 2" not in here.text


async def test_eight_are_the_most_and_one_that_cannot_start_is_told_of() -> None:
    async with stage(notifications=True) as here:
        await terminal_of(here, *map(shell, range(1, 9)))
        await here.burst(PREFIX, "c")
        assert "8 shells are the most; ^] x closes the one in front." in here.text
        assert not here.backend.of(OpenShell)
        await here.post(updates.CommandsUpdate((SHELL,)))
        await here.burst(PREFIX, "c", "a")
        await here.post(updates.ShellErrorUpdate("No more terminals."))
        assert "No more terminals." in here.text
        await here.press("b", "enter")
        assert len(here.backend.of(OpenShell)) == 2
        assert typed_into(here, "s1") == b""
        await here.burst(PREFIX, "x", "c")
        assert "[shell 2]" not in here.text
        assert typed_into(here, "s1") == b"c"


@pytest.mark.parametrize("key", ["y", "n"])
async def test_closing_a_shell_in_which_something_runs_is_asked(key: str) -> None:
    async with stage() as here:
        await terminal_of(here, SHELL, shell(2))
        await here.burst(PREFIX, "2", PREFIX, "x")
        assert [one.command_id for one in here.backend.of(CloseShell)] == ["s2"]
        await here.post(updates.ShellBusyUpdate("s2", tuple(_names(7))))
        assert isinstance(here.app.screen, YesNoScreen)
        await wait_until(here.pilot, lambda: "Close this shell?" in here.text)
        assert "2 ([red])" in here.text and "5 (p5)" in here.text and "6 (p6)" not in here.text
        await here.arm()
        await here.press(key)
        await wait_until(here.pilot, lambda: not isinstance(here.app.screen, YesNoScreen))
        await here.settle()
        assert [one.although_busy for one in here.backend.of(CloseShell)] == ([False, True] if key == "y" else [False])


def _names(count: int) -> list[ProcessName]:
    return [ProcessName(at, f"p{at}" if at != 2 else "[red]") for at in range(1, count + 1)]


async def test_an_agents_command_is_not_closed_so() -> None:
    async with stage(notifications=True) as here:
        await terminal_of(here, SHELL, agents_command())
        await here.burst(PREFIX, "2", PREFIX, "x", PREFIX, "9")
        assert not here.backend.of(CloseShell)
        assert "This is a command of the agent's" in here.text
        assert "There is no terminal 9." in here.text


async def shell_says(here: DashboardHarness, line: str, said: str) -> None:
    await here.press(*line, "enter")
    await here.wait_for(said)


async def open_shell(here: DashboardHarness) -> None:
    """A new shell, once keys go to it: until it has started they go to the one before."""
    before = here.app.dashboard.term.view
    await here.press(PREFIX, "c")

    def is_in_front() -> bool:
        view = here.app.dashboard.term.view
        return view is not None and view is not before and view.has_focus

    await here.wait_until(is_in_front)


async def test_real_shells_have_their_own_folders_and_are_closed_and_reaped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SHELL", "/bin/sh")
    monkeypatch.setenv("PS1", "$ ")
    (tmp_path / "deep").mkdir()
    async with open_dashboard(tmp_path) as here:
        await here.press("ctrl+t")
        await here.wait_until(lambda: here.app.dashboard.term.captures_keys)
        await shell_says(here, f"cd deep; A=1; echo $$ > {tmp_path}/first; echo o''ne", "\n one")
        await open_shell(here)
        await shell_says(
            here, f'echo $$ > {tmp_path}/second; echo "at $(basename $PWD) [$A]"', f"at {tmp_path.name} []"
        )
        first, second = (int((tmp_path / name).read_text()) for name in ("first", "second"))
        assert first != second
        await here.press(*"sleep 1000", "enter")
        await here.wait_until(lambda: _children(second) != "")
        await here.press(PREFIX, "x")
        await here.wait_for("Close this shell?")
        assert "(sleep)" in here.text
        await here.decide("y")
        await here.wait_until(lambda: not os.path.exists(f"/proc/{second}"))
        await here.wait_until(lambda: here.app.dashboard.prompt.has_focus)
        assert "shell 2" not in here.text
        await here.press("ctrl+t")
        await here.wait_until(lambda: here.app.dashboard.term.captures_keys)
        await shell_says(here, "echo in $(basename $PWD) [$A]", "in deep [1]")
        await open_shell(here)
        await shell_says(here, f"echo $$ > {tmp_path}/third; echo th''ree", "\n three")
        await here.press(PREFIX, "ampersand")
        third = int((tmp_path / "third").read_text())
        await here.wait_until(lambda: not os.path.exists(f"/proc/{third}"))
        assert not isinstance(here.app.screen, YesNoScreen), "nothing runs in it"
        await here.wait_until(lambda: here.app.dashboard.prompt.has_focus)
        await here.press("ctrl+t")
        await here.wait_until(lambda: here.app.dashboard.term.captures_keys)
        await open_shell(here)
        await shell_says(here, f"echo $$ > {tmp_path}/last; echo fo''ur", "\n four")
    for name in ("first", "last"):
        assert not os.path.exists(f"/proc/{(tmp_path / name).read_text().strip()}"), "they end with the dashboard"


def _children(pid: int) -> str:
    return Path(f"/proc/{pid}/task/{pid}/children").read_text().strip()
