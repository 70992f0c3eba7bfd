"""The tabs of the terminal pane by themselves: their order, their labels, and which one to go to."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus
from ollm_tui.tui.panes.terminal_tabs import ENDED_TABS, NEW_SHELL, SHELL, TerminalTabs
from tests.tui.pilot import SHELL as FIRST
from tests.tui.pilot import agents_command

SECOND = CommandStatus("s2", "/bin/bash", kind=CommandKind.PERSON)
NOW = 1_010.0


def tabs_of(*commands: CommandStatus, chosen: str = SHELL) -> TerminalTabs:
    return TerminalTabs({one.id: one for one in commands}, shell_id=FIRST.id, chosen=chosen)


def ended(number: int) -> CommandStatus:
    return agents_command(id=f"c{number}", phase=CommandPhase.EXITED, exit_code=0, ended=1_001.0)


def test_shells_come_first_and_the_one_that_starts_last_of_them() -> None:
    tabs = tabs_of(agents_command(), FIRST, SECOND)
    tabs.starting = True
    assert [tab.id for tab in tabs.shown(NOW)] == [SHELL, "s2", NEW_SHELL, "c1"]
    assert [tab.label for tab in tabs.shown(NOW)][:3] == ["shell", "shell 2", "shell 3"]


def test_of_ended_commands_the_last_few_have_a_tab_and_the_one_in_front() -> None:
    tabs = tabs_of(*map(ended, range(20)), chosen="c2")
    shown = [tab.id for tab in tabs.shown(NOW)]
    assert shown == [SHELL, "c2", *(f"c{number}" for number in range(20 - ENDED_TABS, 20))]


def test_a_bell_is_said_in_the_label() -> None:
    tabs = tabs_of(FIRST, SECOND)
    tabs.rung.add("s2")
    assert [tab.label for tab in tabs.shown(NOW)] == ["shell", "shell 2 BELL"]


def test_after_the_last_tab_comes_the_first() -> None:
    tabs = tabs_of(FIRST, SECOND, chosen="s2")
    assert tabs.beside(1, NOW) == SHELL and tabs.beside(-1, NOW) == SHELL
    tabs.chosen = "gone"
    assert tabs.beside(1, NOW) == "s2"


WAITING = agents_command("read", id="c2", waiting_for_input=True)
JOB = agents_command("serve", id="c3", background=True)


@pytest.mark.parametrize(
    ("commands", "chosen", "live"),
    [
        ((FIRST, agents_command(), WAITING), SHELL, "c2"),
        ((FIRST, agents_command()), SHELL, "c1"),
        ((FIRST, JOB), SHELL, SHELL),
        ((FIRST, JOB), "c3", "c3"),
        ((FIRST, ended(1)), "c1", SHELL),
        ((FIRST, SECOND), "s2", "s2"),
    ],
)
def test_what_waits_for_input_comes_before_what_runs_and_that_before_a_shell(
    commands: tuple[CommandStatus, ...], chosen: str, live: str
) -> None:
    assert tabs_of(*commands, chosen=chosen).live == live


def test_a_further_shell_is_over_once_it_has_ended_and_the_first_has_its_own_tab() -> None:
    tabs = tabs_of(FIRST, replace(SECOND, phase=CommandPhase.EXITED))
    assert tabs.is_over("s2") and tabs.is_over("unknown") and not tabs.is_over(FIRST.id)
    assert (tabs.command_id(SHELL), tabs.tab_of(FIRST.id), tabs.tab_of("c1")) == (FIRST.id, SHELL, "c1")


def test_the_title_names_the_program_or_the_folder_and_a_failure_of_the_shell() -> None:
    tabs = tabs_of(FIRST, agents_command())
    assert tabs.title("shell", "~/src", 2) == "Terminal  shell  ~/src  exit 2"
    tabs.titles[SHELL] = "vim\x1b"
    assert tabs.title("shell", "~/src", 0).startswith("Terminal  shell  vim") and "\x1b" not in tabs.title("", "", 0)
    tabs.chosen = "c1"
    assert tabs.title("pytest RUN", "", 1) == "Terminal  agent: pytest RUN"
