"""One row of tabs, for the narrow layout and the terminal pane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message

from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.status import CommandPhase, CommandStatus
from ollm_tui.tui.styled_text import StyledLine, TextRole, line
from ollm_tui.tui.widgets.text_box import ClickTarget, OneRow

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
