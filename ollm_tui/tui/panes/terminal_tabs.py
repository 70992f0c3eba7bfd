"""Labels and order of the terminal pane's tabs."""

from __future__ import annotations

from collections.abc import Collection

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.durations import short_age
from ollm_tui.tui.styled_text import TextRole
from ollm_tui.tui.values import CommandMark, CommandTab
from ollm_tui.tui.widgets.tab_strip import Tab

SHELL = "shell"
"""Tab id of the person's shell, whether or not it has started."""

KEPT_TABS = 9
"""Most tabs of ended commands; the oldest are removed first."""

LABEL_CELLS = 18

_OVER = (CommandMark.EXITED, CommandMark.KILLED)


def shown_tabs(
    commands: dict[str, CommandTab], shell_id: str, chosen: str, now: float, rung: Collection[str] = ()
) -> list[Tab]:
    """Return the shell's tab, then those of the agent's commands.

    Of ended commands only the last few are shown. `rung` holds the tabs in the background whose program rang the bell.
    """
    shell = commands.get(shell_id)
    ended = "" if shell is None or shell.alive else f" {_end_words(shell)} Enter restarts"
    others = [tab for tab in commands.values() if not tab.person]
    over = [tab.id for tab in others if tab.state in _OVER and tab.id != chosen]
    hidden = set(over[:-KEPT_TABS])
    shown = [Tab(tab.id, _label(tab, now) + _bell(tab.id, rung), _role(tab)) for tab in others if tab.id not in hidden]
    return [Tab(SHELL, f"shell{ended}{_bell(SHELL, rung)}"), *shown]


def _label(tab: CommandTab, now: float) -> str:
    name = visible(tab.label)
    name = name if len(name) <= LABEL_CELLS else f"{name[: LABEL_CELLS - 2]}.."
    age = "" if tab.started is None else short_age((now if tab.ended is None else tab.ended) - tab.started)
    return " ".join(part for part in (name, _end_words(tab), age) if part)


def _bell(tab_id: str, rung: Collection[str]) -> str:
    return " BELL" if tab_id in rung else ""


def _end_words(tab: CommandTab) -> str:
    match tab.state:
        case CommandMark.RUNNING | CommandMark.WAITING if tab.taken_over:
            return "YOURS"
        case CommandMark.RUNNING:
            return "RUN"
        case CommandMark.WAITING:
            return "INPUT?"
        case CommandMark.LEFT:
            return "LEFT"
        case CommandMark.EXITED if tab.exit_code is None:
            return "over"
        case CommandMark.EXITED:
            return "ok" if tab.exit_code == 0 else f"exit {tab.exit_code}"
        case CommandMark.KILLED:
            return f"KILLED {tab.exit_code}" if tab.exit_code is not None else "KILLED"


def _role(tab: CommandTab) -> TextRole:
    match tab.state:
        case CommandMark.RUNNING | CommandMark.LEFT:
            return TextRole.ACCENT
        case CommandMark.WAITING:
            return TextRole.WARNING
        case CommandMark.EXITED:
            return TextRole.MUTED if not tab.exit_code else TextRole.ERROR
        case CommandMark.KILLED:
            return TextRole.ERROR
