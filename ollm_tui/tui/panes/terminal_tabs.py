"""Tabs of the terminal pane and their labels; without widgets."""

from __future__ import annotations

from dataclasses import dataclass, field

from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.status import CommandKind, CommandStatus
from ollm_tui.tui.durations import short_age
from ollm_tui.tui.widgets.tab_strip import Tab, short_label, state_words

SHELL = "shell"
"""Tab id of the person's shell, whether or not it has started."""

NEW_SHELL = "new shell"
"""Tab id of a further shell that starts; later its command's id."""

ENDED_TABS = 9
"""Most tabs of ended commands; the oldest are removed first."""

MAX_TITLE = 60


@dataclass
class TerminalTabs:
    """Tabs of the person's shells, the first always there, and of commands."""

    commands: dict[str, CommandStatus] = field(default_factory=dict[str, CommandStatus])
    shell_id: str = ""
    """The command of the first shell; empty before it has started."""
    chosen: str = SHELL
    """The tab in front."""
    starting: bool = False
    """Whether a further shell was asked for."""
    rung: set[str] = field(default_factory=set[str])
    """Tabs in the background whose program rang the bell."""
    titles: dict[str, str] = field(default_factory=dict[str, str])
    """What programs set, by tab."""

    def command_id(self, tab_id: str) -> str:
        """Return the command of a tab."""
        return self.shell_id if tab_id == SHELL else tab_id

    def tab_of(self, command_id: str) -> str:
        """Return the tab of a command."""
        return SHELL if command_id == self.shell_id else command_id

    @property
    def agents_command(self) -> CommandStatus | None:
        """The agent's command in front."""
        command = self.commands.get(self.chosen)
        return command if command is not None and command.kind is CommandKind.AGENT else None

    @property
    def shell_attached(self) -> bool:
        """Whether the first shell runs."""
        return is_attached(self.commands.get(self.shell_id))

    @property
    def further_shells(self) -> list[str]:
        """The further shells that run."""
        return [
            one.id
            for one in self.commands.values()
            if one.id != self.shell_id and one.kind is CommandKind.PERSON and one.attached
        ]

    @property
    def running(self) -> list[CommandStatus]:
        """The commands of the agent that run."""
        return [one for one in self.commands.values() if one.kind is CommandKind.AGENT and one.attached]

    @property
    def live(self) -> str:
        """The tab to go to: a waiting or running command, else a shell."""
        waiting = [one.id for one in self.running if one.waiting_for_input]
        in_front = [one.id for one in self.running if one.id == self.chosen or not one.background]
        own = SHELL if self.agents_command is not None else self.chosen
        candidates = waiting or in_front or [own]
        return self.chosen if self.chosen in candidates else candidates[-1]

    def is_over(self, tab_id: str) -> bool:
        """Return whether a tab goes, since its command or shell is gone."""
        command = self.commands.get(tab_id)
        return command is None or (command.kind is CommandKind.PERSON and not command.attached)

    def forget(self, tab_id: str) -> None:
        """Forget what the program of a tab set."""
        self.titles.pop(tab_id, None)

    def shown(self, now: float) -> list[Tab]:
        """Return the tabs in order; of ended commands the last few."""
        shell = self.commands.get(self.shell_id)
        ended = "" if shell is None or shell.attached else f" {state_words(shell)[0]} Enter restarts"
        others = [command for command in self.commands.values() if command.kind is CommandKind.AGENT]
        over = [one for one in others if not one.running and one.id != self.chosen]
        hidden = {command.id for command in over[:-ENDED_TABS]}
        tabs = [
            Tab(command.id, f"{_tab_label(command, now)}{self._bell(command.id)}", state_words(command)[1])
            for command in others
            if command.id not in hidden
        ]
        shells = [SHELL, *self.further_shells, *([NEW_SHELL] if self.starting else [])]
        labels = [f"shell {at}" if at > 1 else "shell" for at in range(1, len(shells) + 1)]
        labels[0] += ended
        named = [Tab(one, f"{label}{self._bell(one)}") for one, label in zip(shells, labels, strict=True)]
        return [*named, *tabs]

    def beside(self, step: int, now: float) -> str:
        """Return the tab so many steps away, going round."""
        ids = [tab.id for tab in self.shown(now)]
        place = ids.index(self.chosen) if self.chosen in ids else 0
        return ids[(place + step) % len(ids)]

    def title(self, label: str, directory: str, exit_code: int | None) -> str:
        """Return the pane's title.

        It has the tab in front, what its program set or else its directory, and a shell's last exit code.
        """
        agents = self.agents_command is not None
        parts = ["Terminal", f"agent: {label}" if agents else label]
        parts.append(visible(self.titles.get(self.chosen) or directory)[:MAX_TITLE])
        if not agents and exit_code:
            parts.append(f"exit {exit_code}")
        return "  ".join(part for part in parts if part)

    def _bell(self, tab_id: str) -> str:
        return " BELL" if tab_id in self.rung else ""


def is_attached(command: CommandStatus | None) -> bool:
    """Return whether keys reach a command."""
    return command is not None and command.attached


def _tab_label(command: CommandStatus, now: float) -> str:
    age = "" if command.started is None else short_age(command.seconds(now))
    return " ".join(part for part in (short_label(command), state_words(command)[0], age) if part)
