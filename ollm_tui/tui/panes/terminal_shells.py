"""The person's own shells in the terminal pane: the first has a tab always, further ones while they run."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual import on

from ollm_tui.core.shell.status import CommandStatus
from ollm_tui.tui.panes.terminal_views import SHELL_GUTTER, ShellHint, TerminalViews
from ollm_tui.tui.protocol.command_intents import CloseShell, OpenShell, TypeKeys
from ollm_tui.tui.widgets.tab_strip import NEW_SHELL, SHELL, is_further_shell, shown_tabs

MOST_SHELLS = 8


class TerminalShells(TerminalViews):
    """Opens, closes and types into shells; one is started at a time."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self._shell_asked = False

    def go_to_shell(self) -> None:
        """Bring the person's shell to the front, started again if it has ended."""
        self.choose(SHELL)
        if self._shell_id:
            self.action_restart()

    def type_into_shell(self, text: str) -> None:
        """Type a line into the person's shell, started if need be."""
        self.choose(SHELL)
        data = f"{text}\n"
        if self._shell_id and is_attached(self._commands.get(self._shell_id)):
            self.post_message(TypeKeys(self._shell_id, data.encode()))
        else:
            self._start_shell(data)

    def action_restart(self) -> None:
        """Start the shell again once it has ended, or could not be started."""
        if self._chosen == SHELL and not is_attached(self._commands.get(self._shell_id)):
            self._start_shell("")
        elif self._chosen == NEW_SHELL and self._hint.has_failed:
            self._ask_for_shell("")

    def new_shell(self) -> None:
        """Open a further shell; what is typed while it starts is for it."""
        shells = [one for one in self._commands.values() if one.id == self._shell_id or is_further_shell(one)]
        if self._starting:
            self.choose(NEW_SHELL)
        elif not is_attached(self._commands.get(self._shell_id)):
            self.choose(SHELL)
            self._start_shell("")
        elif len(shells) >= MOST_SHELLS:
            self.notify(f"{MOST_SHELLS} shells are the most; ^] x closes the one in front.", markup=False)
        else:
            self._starting = True
            self.choose(NEW_SHELL)
            self._ask_for_shell("")

    def close_shell(self) -> None:
        """Close the shell in front; whoever runs it asks first where something runs in it."""
        shell = self._shell_id if self._chosen == SHELL else self._chosen
        command = self._commands.get(shell)
        if self.agents_command is not None:
            self.notify("This is a command of the agent's; /jobs and ctrl+c end those.", markup=False)
        elif is_attached(command):
            self.post_message(CloseShell(shell))
        elif self._chosen == NEW_SHELL:
            self._starting = False
            self.choose(SHELL)

    def choose_number(self, number: int) -> None:
        """Bring a tab to the front by its place, the first being 1."""
        tabs = shown_tabs(self._commands, self._shell_id, self._chosen, self._now(), starting=self._starting)
        if number <= len(tabs):
            self.choose(tabs[number - 1].id)
        else:
            self.notify(f"There is no terminal {number}.", markup=False)

    def shell_failed(self, why: str) -> None:
        """Show why a shell could not be started."""
        self._typed_ahead = ""
        self._hint.failed(why)

    @on(ShellHint.Typed)
    def _typed_for_shell(self, event: ShellHint.Typed) -> None:
        """Send typed text, or keep it until the shell has started."""
        event.stop()
        if SHELL in self._views and not self._starting:
            self.post_message(TypeKeys(self._shell_id, event.text.encode()))
        else:
            self._typed_ahead += event.text

    def _start_shell(self, typed: str) -> None:
        self._shell_asked = True
        self._ask_for_shell(typed)

    def _ask_for_shell(self, typed: str) -> None:
        self._hint.starting()
        self.call_after_refresh(self._open_shell, typed)

    def _open_shell(self, typed: str) -> None:
        # After the pane has its rows: what a shell of two rows writes is gone before it gets more.
        size = self._views.get(self._chosen, self._hint).outer_size
        self.post_message(OpenShell(max(20, size.width - SHELL_GUTTER), max(2, size.height), typed))


def is_attached(command: CommandStatus | None) -> bool:
    """Return whether keys reach a command."""
    return command is not None and command.attached
