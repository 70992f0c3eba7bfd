"""One row of tabs, for the panes of the narrow layout and for the commands of the terminal pane."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.status import CommandKind, CommandPhase, CommandStatus
from ollm_tui.tui.durations import short_age
from ollm_tui.tui.styled_text import StyledLine, TextRole, line
from ollm_tui.tui.widgets.text_box import ClickTarget, OneRow

SHELL = "shell"
"""Tab id of the person's shell, whether or not it has started."""

NEW_SHELL = "new shell"
"""Tab id of a further shell that starts; once it has, its command's id is the tab's."""

ENDED_TABS = 9
"""Most tabs of ended commands; the oldest are removed first."""

LABEL_CELLS = 18


@dataclass(frozen=True)
class Tab:
    """A tab with a safe label."""

    id: str
    label: str
    role: TextRole = TextRole.PLAIN


class TabStrip(OneRow):
    """Shows tabs around the chosen one; a click chooses."""

    @dataclass
    class Chosen(Message):
        """A tab was clicked."""

        strip: TabStrip
        tab_id: str

        @property
        def control(self) -> TabStrip:
            """The strip, for selectors of `@on`."""
            return self.strip

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._tabs: tuple[Tab, ...] = ()
        self._chosen = ""

    def show_tabs(self, tabs: Sequence[Tab], chosen: str) -> None:
        """Replace the tabs."""
        if (tuple(tabs), chosen) != (self._tabs, self._chosen):
            self._tabs, self._chosen = tuple(tabs), chosen
            self.refresh()

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked tab."""
        tab_id = self.target_at(event.x)
        if tab_id is not None:
            self.post_message(self.Chosen(self, tab_id))

    def row(self, width: int) -> StyledLine:
        """Return the tabs around the chosen one."""
        labels = [_tab_text(tab, chosen=tab.id == self._chosen) for tab in self._tabs]
        chosen = next((index for index, tab in enumerate(self._tabs) if tab.id == self._chosen), 0)
        first = 0
        # The chosen tab and its successor stay in sight.
        while first < chosen and sum(label.cells for label in labels[first : chosen + 2]) + 4 > width:
            first += 1
        parts: list[str | tuple[str, TextRole]] = [("< ", TextRole.MUTED) if first else " "]
        self.targets = []
        cell = 2 if first else 1
        for index in range(first, len(labels)):
            self.targets.append(ClickTarget(0, cell, cell + labels[index].cells, self._tabs[index].id))
            parts += [(span.text, span.role) for span in labels[index].spans]
            cell += labels[index].cells
        return line(*parts).cut(width)


def _tab_text(tab: Tab, *, chosen: bool) -> StyledLine:
    if chosen:
        return line((f"[{tab.label}]", TextRole.CHOSEN if tab.role is TextRole.PLAIN else tab.role), " ")
    return line((f" {tab.label} ", TextRole.MUTED if tab.role is TextRole.PLAIN else tab.role), " ")


def shown_tabs(
    commands: dict[str, CommandStatus],
    shell_id: str,
    chosen: str,
    now: float,
    rung: Collection[str] = (),
    *,
    starting: bool = False,
) -> list[Tab]:
    """Return the tabs of the person's shells, then those of the agent's commands.

    Of ended commands only the last few are shown. `rung` holds the tabs in the background whose program rang the bell.
    """
    shell = commands.get(shell_id)
    ended = "" if shell is None or shell.attached else f" {state_words(shell)[0]} Enter restarts"
    others = [command for command in commands.values() if command.kind is CommandKind.AGENT]
    hidden = {command.id for command in [one for one in others if not one.running and one.id != chosen][:-ENDED_TABS]}
    tabs = [
        Tab(command.id, _tab_label(command, now) + _bell(command.id, rung), state_words(command)[1])
        for command in others
        if command.id not in hidden
    ]
    further = [one.id for one in commands.values() if one.id != shell_id and is_further_shell(one)]
    shells = [SHELL, *further, *([NEW_SHELL] if starting else [])]
    labels = [f"shell {at}" if at > 1 else "shell" for at in range(1, len(shells) + 1)]
    labels[0] += ended
    named = [Tab(one, f"{label}{_bell(one, rung)}") for one, label in zip(shells, labels, strict=True)]
    return [*named, *tabs]


def is_further_shell(command: CommandStatus) -> bool:
    """Return whether it is a shell of the person's that runs; the first one is too."""
    return command.kind is CommandKind.PERSON and command.attached


def command_label(command: CommandStatus) -> str:
    """Return the command line, with the id it had where an earlier dashboard started it."""
    return f"{command.name} {command.command}" if command.detached else command.command


def short_label(command: CommandStatus) -> str:
    """Return the safe beginning of a command line."""
    name = visible(command_label(command))
    return name if len(name) <= LABEL_CELLS else f"{name[: LABEL_CELLS - 2]}.."


def state_words(command: CommandStatus) -> tuple[str, TextRole]:
    """Return a command's state in a word or two."""
    code = command.exit_code
    if command.running:
        if command.detached:
            return "LEFT", TextRole.ACCENT
        word = "INPUT" if command.waiting_for_input else "RUN"
        role = TextRole.WARNING if command.waiting_for_input else TextRole.ACCENT
        return "YOURS" if command.user_input.took_over else word, role
    if command.phase is CommandPhase.KILLED:
        return "KILLED" if code is None else f"KILLED {code}", TextRole.ERROR
    if code:
        return f"exit {code}", TextRole.ERROR
    return "over" if code is None else "ok", TextRole.MUTED


def _tab_label(command: CommandStatus, now: float) -> str:
    name = short_label(command)
    age = "" if command.started is None else short_age(command.seconds(now))
    return " ".join(part for part in (name, state_words(command)[0], age) if part)


def _bell(tab_id: str, rung: Collection[str]) -> str:
    return " BELL" if tab_id in rung else ""
