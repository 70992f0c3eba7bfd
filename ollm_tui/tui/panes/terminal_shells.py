"""The person's own shells in the terminal pane: opened, closed, typed into."""

from __future__ import annotations

import time
from collections.abc import Callable

from textual import on

from ollm_tui.tui.panes.terminal_tabs import NEW_SHELL, SHELL, is_attached
from ollm_tui.tui.panes.terminal_views import SHELL_GUTTER, ShellHint, TerminalViews
from ollm_tui.tui.protocol.command_intents import CloseShell, OpenShell, TypeKeys

MOST_SHELLS = 8


class TerminalShells(TerminalViews):
    """Opens, closes and types into shells; one is started at a time."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self._shell_asked = False
        self._typed_ahead = ""
        """What was typed for a shell that starts."""

    def go_to_shell(self) -> None:
        """Bring the person's shell to the front, started again if it has ended."""
        self.choose(SHELL)
        if self.tabs.shell_id:
            self.action_restart()

    def type_into_shell(self, text: str) -> None:
        """Type a line into the person's shell, started if need be."""
        self.choose(SHELL)
        data = f"{text}\n"
        if self.tabs.shell_attached:
            self.post_message(TypeKeys(self.tabs.shell_id, data.encode()))
        else:
            self._start_shell(data)

    def action_restart(self) -> None:
        """Start the shell again once it has ended, or could not be started."""
        if self.tabs.chosen == SHELL and not self.tabs.shell_attached:
            self._start_shell("")
        elif self.tabs.chosen == NEW_SHELL and self._hint.has_failed:
            self._ask_for_shell("")

    def new_shell(self) -> None:
        """Open a further shell; what is typed while it starts is for it."""
        if self.tabs.starting:
            self.choose(NEW_SHELL)
        elif not self.tabs.shell_attached:
            self.choose(SHELL)
            self._start_shell("")
        elif 1 + len(self.tabs.further_shells) >= MOST_SHELLS:
            self.notify(f"{MOST_SHELLS} shells are the most; ^] x closes the one in front.", markup=False)
        else:
            self.tabs.starting = True
            self.choose(NEW_SHELL)
            self._ask_for_shell("")

    def close_shell(self) -> None:
        """Close the shell in front; whoever runs it asks first where something runs in it."""
        shell = self.tabs.command_id(self.tabs.chosen)
        if self.tabs.agents_command is not None:
            self.notify("This is a command of the agent's; /jobs and ctrl+c end those.", markup=False)
        elif is_attached(self.tabs.commands.get(shell)):
            self.post_message(CloseShell(shell))
        elif self.tabs.chosen == NEW_SHELL:
            self.tabs.starting = False
            self.choose(SHELL)

    def choose_number(self, number: int) -> None:
        """Bring a tab to the front by its place, the first being 1."""
        tabs = self.tabs.shown(self._now())
        if number <= len(tabs):
            self.choose(tabs[number - 1].id)
        else:
            self.notify(f"There is no terminal {number}.", markup=False)

    def _bind_shell(self, command_id: str) -> None:
        """Show a shell that has started, the first one perhaps again."""
        if self.tabs.shell_attached and self.tabs.shell_id != command_id:
            self._bind_further_shell(command_id)
            return
        if SHELL in self._views:
            self._drop(SHELL)
        self.tabs.shell_id = command_id
        self._make_view(SHELL)
        view = self._views[SHELL]
        view.display = self.tabs.chosen == SHELL
        self._hint.display = self.tabs.chosen not in self._views
        self._send_typed_ahead(command_id)
        if self.tabs.chosen == SHELL and self.screen.focused is self._hint:
            self.screen.set_focus(view)

    def _bind_further_shell(self, command_id: str) -> None:
        in_front = self.tabs.chosen == NEW_SHELL
        self.tabs.starting = False
        self._make_view(command_id)
        self._views[command_id].display = False
        self._send_typed_ahead(command_id)
        if in_front:
            self.choose(command_id)

    def _send_typed_ahead(self, command_id: str) -> None:
        if self._typed_ahead:
            self.post_message(TypeKeys(command_id, self._typed_ahead.encode()))
            self._typed_ahead = ""

    def shell_failed(self, why: str) -> None:
        """Show why a shell could not be started."""
        self._typed_ahead = ""
        self._hint.failed(why)

    @on(ShellHint.Typed)
    def _typed_for_shell(self, event: ShellHint.Typed) -> None:
        """Send typed text, or keep it until the shell has started."""
        event.stop()
        if self.tabs.chosen in self._views and not self.tabs.starting and self.tabs.agents_command is None:
            # It started between the key and this: the one in front is what the person typed for.
            self.post_message(TypeKeys(self.tabs.command_id(self.tabs.chosen), event.text.encode()))
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
        size = self._views.get(self.tabs.chosen, self._hint).outer_size
        self.post_message(OpenShell(max(20, size.width - SHELL_GUTTER), max(2, size.height), typed))
