"""The ways between the terminal and the rest of the screen: going there, reading, searching, sending, coming back."""

from __future__ import annotations

from collections.abc import Callable

from textual import on

from ollm_tui.tui.layout import Pane
from ollm_tui.tui.panes.terminal import TerminalPane
from ollm_tui.tui.screens.frame import PaneFrame
from ollm_tui.tui.terminal import LEAVE_KEY

LEAVE_SECONDS = 1.0
"""Within this time after leaving the terminal the same key again is sent to its program."""


class TerminalWays(PaneFrame):
    """What keys and the terminal pane ask for at the pane's border."""

    def __init__(self, now: Callable[[], float], *, blink: bool) -> None:
        super().__init__(now, blink=blink)
        self._left_at = float("-inf")

    def action_terminal_tab(self) -> None:
        self.term.action_turn(1)

    def action_leave_terminal(self) -> None:
        if self.just_left_terminal and not self.term.has_focus_within:
            self.term.send_leave_key()
        else:
            self.go_to_prompt()

    def action_read_terminal(self) -> None:
        self.go_to(Pane.TERM)
        self.call_after_refresh(self.term.read)

    def action_send_selection(self) -> None:
        self.term.action_send()

    @on(TerminalPane.SelectionSent)
    def _selection_sent(self, event: TerminalPane.SelectionSent) -> None:
        self.prompt.refer_to(event.excerpt)
        self.go_to_prompt()

    @on(TerminalPane.SelectionChanged)
    def _selection_changed(self) -> None:
        self.refresh_bindings()

    async def action_search(self) -> None:
        if self.term.has_focus_within and self.term.view is not None:
            await self.term.ask_what_to_find()
            return
        self.bring(Pane.CHAT)
        self.call_after_refresh(self.chat.action_search)

    @property
    def just_left_terminal(self) -> bool:
        return self._now() - self._left_at <= LEAVE_SECONDS

    def key_typed(self, key: str) -> None:
        """Wherever it goes: behind any other key, the one that leaves is not the second in a row."""
        if key != LEAVE_KEY:
            self._left_at = float("-inf")
            if self.term.view is not None:
                self.term.view.forget_leaving()

    @on(TerminalPane.Left)
    def _left_terminal(self) -> None:
        self._left_at = self._now()
        self.go_to_prompt()
