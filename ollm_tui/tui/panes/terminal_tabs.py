"""Labels and order of the terminal pane's tabs, and the words for a command's state."""

from __future__ import annotations

from collections.abc import Collection

from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus
from ollm_tui.tui.durations import short_age
from ollm_tui.tui.styled_text import TextRole
from ollm_tui.tui.widgets.tab_strip import Tab

SHELL = "shell"
"""Tab id of the person's shell, whether or not it has started."""

ENDED_TABS = 9
"""Most tabs of ended commands; the oldest are removed first."""

LABEL_CELLS = 18


def shown_tabs(
    commands: dict[str, CommandStatus], shell_id: str, chosen: str, now: float, rung: Collection[str] = ()
) -> list[Tab]:
    """Return the shell's tab, then those of the agent's commands.

    Of ended commands only the last few are shown. `rung` holds the tabs in the background whose program rang the bell.
    """
    shell = commands.get(shell_id)
    ended = "" if shell is None or shell.attached else f" {state_words(shell)[0]} Enter restarts"
    others = [command for command in commands.values() if command.kind is CommandKind.AGENT]
    hidden = {command.id for command in [one for one in others if not one.running and one.id != chosen][:-ENDED_TABS]}
    tabs = [
        Tab(command.id, _label(command, now) + _bell(command.id, rung), state_words(command)[1])
        for command in others
        if command.id not in hidden
    ]
    return [Tab(SHELL, f"shell{ended}{_bell(SHELL, rung)}"), *tabs]


def command_label(command: CommandStatus) -> str:
    """Return the command line, with the id it had where an earlier dashboard started it."""
    return f"{command.name} {command.command}" if command.detached else command.command


def state_words(command: CommandStatus) -> tuple[str, TextRole]:
    """Return a command's state in a word or two."""
    code = command.exit_code
    if command.running:
        if command.detached:
            return "LEFT", TextRole.ACCENT
        word = "INPUT?" if command.waiting_for_input else "RUN"
        role = TextRole.WARNING if command.waiting_for_input else TextRole.ACCENT
        return "YOURS" if command.user_input.took_over else word, role
    if command.phase is CommandPhase.KILLED:
        return "KILLED" if code is None else f"KILLED {code}", TextRole.ERROR
    if code:
        return f"exit {code}", TextRole.ERROR
    return "over" if code is None else "ok", TextRole.MUTED


def _label(command: CommandStatus, now: float) -> str:
    name = visible(command_label(command))
    name = name if len(name) <= LABEL_CELLS else f"{name[: LABEL_CELLS - 2]}.."
    age = "" if command.started is None else short_age(command.seconds(now))
    return " ".join(part for part in (name, state_words(command)[0], age) if part)


def _bell(tab_id: str, rung: Collection[str]) -> str:
    return " BELL" if tab_id in rung else ""
