"""A running app that is all terminal, with real commands behind it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from textual.app import App, ComposeResult

from ollm_tui.core.shell.command import RunningCommand
from ollm_tui.core.shell.hub import CommandHub, CommandRequest
from ollm_tui.tui.terminal.terminal_view import TerminalView
from tests.tui.terminal.screens import shown


class LiveTerminal(App[None]):
    """Shows one command after the other on the same view; what is typed goes to the newest."""

    def __init__(self, hub: CommandHub) -> None:
        super().__init__()
        self.view = TerminalView()
        self._hub = hub
        self._command: RunningCommand | None = None

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    async def start(self, line: str) -> RunningCommand:
        """Run a line with bash; the view shows everything it writes."""
        self._command = await self._hub.start(CommandRequest(line, Path("/"), attended=True), self.view.engine.feed)
        return self._command

    def on_terminal_view_input(self, event: TerminalView.Input) -> None:
        if self._command is not None:
            self._command.write(event.data)

    async def until_shown(self, text: str) -> None:
        """Wait until a line of the screen is this text; whoever needs a limit sets one around it."""
        while text not in shown(self.view):
            await asyncio.sleep(0.01)
