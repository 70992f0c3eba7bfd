"""The terminal pane: typing, searching, selecting and taking over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.binding import BindingType
from textual.message import Message
from textual.widget import Widget

from ollm_tui.core.base.app_dirs import short_path
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.panes.terminal_shells import TerminalShells
from ollm_tui.tui.panes.terminal_tabs import SHELL, is_attached
from ollm_tui.tui.protocol.command_intents import (
    InterruptCommand,
    ResizeTerminal,
    SendReply,
    TakeOverCommand,
    TypeKeys,
)
from ollm_tui.tui.terminal_references import TerminalExcerpt, excerpt_of
from ollm_tui.tui.widgets.tab_strip import command_label

if TYPE_CHECKING:
    from ollm_tui.core.shell.status import CommandStatus
    from ollm_tui.tui.panes.terminal_search_line import TerminalSearch
    from ollm_tui.tui.terminal.terminal_view import TerminalView


class PaneSearch:
    """Search line over the terminal that is searched; its words are kept."""

    def __init__(self, pane: Widget) -> None:
        self._pane = pane
        self._line: TerminalSearch | None = None
        self._sought = ""

    async def ask(self, view: TerminalView) -> None:
        """Open the line over a terminal, or go back to the one that is open."""
        if self._line is not None:
            self._line.ask()
            return
        from ollm_tui.tui.panes.terminal_search_line import TerminalSearch  # not before it is needed: it loads `Input`

        self._line = TerminalSearch(view, self._sought)
        await self._pane.mount(self._line)

    def follow(self, view: Widget, *, over_tabs: bool) -> None:
        """Place the line anew, or close it where the search of its terminal has ended."""
        line = self._line
        if line is None or line.view is not view:
            return
        if line.view.search.active:
            line.place(over_tabs=over_tabs)
        else:
            self._sought = line.sought
            self.leave(view)

    def leave(self, view: Widget) -> None:
        """Close the line of a terminal."""
        if self._line is not None and self._line.view is view:
            self._line.remove()
            self._line = None


@register_keys(KeyGroup.TERMINAL)
class TerminalPane(TerminalShells):
    """Terminals of the person's shell and of the agent's commands."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("left", "turn(-1)", "Previous tab", "terminal.previous", "Tab before"),
        ("right", "turn(1)", "Next tab", "terminal.next", "Next tab"),
        ("enter", "restart", "Restart", "terminal.restart", "Start the shell again"),
        ("i", "interrupt", "Interrupt", "terminal.interrupt", "Interrupt the command"),
        ("t", "take_over", "Take over", "terminal.take_over", "Go on with the agent's command yourself"),
        ("s", "send", "Send", "terminal.send", "Put what is selected into the prompt"),
        show=False,
    )

    class Left(Message):
        """The person leaves the terminal."""

    @dataclass
    class SelectionSent(Message):
        """Put the selected text into the prompt."""

        excerpt: TerminalExcerpt

    class SelectionChanged(Message):
        """Text was selected, or no longer is."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(now)
        self.search = PaneSearch(self)

    def prefer_live(self) -> None:
        """Bring the tab to the front that most likely wants the person."""
        if (tab_id := self.tabs.live) != self.tabs.chosen:
            self.choose(tab_id)
        if self.view is not None:
            self.view.end_reading()

    def read(self) -> None:
        """Start reading mode: keys move the cursor instead of reaching the program."""
        if self.view is not None:
            self.view.read()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now."""
        match action:
            case "send":
                return self.has_selection
            case "interrupt":
                return is_attached(self.tabs.agents_command)
            case "take_over":
                command = self.tabs.agents_command
                return command is not None and command.attached and not command.user_input.took_over
            case _:
                return super().check_action(action, parameters)

    @property
    def has_content(self) -> bool:
        """Whether a command ran here, or the shell was asked for."""
        return bool(self.tabs.commands or self._shell_asked)

    @property
    def has_selection(self) -> bool:
        """Whether text is selected in the terminal in front."""
        return self.view is not None and self.view.text_selection is not None

    def action_send(self) -> None:
        """Put the selected text and its origin into the prompt."""
        view = self.view
        if view is None or not (text := view.selected_text):
            self.notify("Nothing is selected in the terminal.", markup=False)
            return
        view.clear_selection()
        view.end_reading()
        self.post_message(
            self.SelectionSent(excerpt_of(text, source_of(self.tabs.agents_command, view.marks.directory)))
        )

    def action_interrupt(self) -> None:
        """Interrupt the agent's command in front."""
        if self.tabs.agents_command is not None:
            self.post_message(InterruptCommand(self.tabs.agents_command.id))

    def action_take_over(self) -> None:
        """Take over the agent's command in front."""
        command = self.tabs.agents_command
        if command is not None and command.attached:
            self.post_message(TakeOverCommand(command.id))
            self.notify("Yours now: no time limit ends it, and the agent waits for you.", markup=False)
            if self.view is not None:
                self.view.end_reading()

    @on(events.DescendantBlur)
    def _gone(self) -> None:
        self.call_after_refresh(self._say_keys)

    @on(events.DescendantFocus)
    def _entered(self) -> None:
        self._say_keys()
        if self.tabs.chosen == SHELL and SHELL not in self._views and not self._shell_asked:
            self._start_shell("")

    def on_terminal_view_input(self, event: TerminalView.Input) -> None:
        """Send typed keys to the command."""
        event.stop()
        command_id = self._command_of(event.view)
        if command_id:
            self.post_message(TypeKeys(command_id, event.data))

    def on_terminal_view_device_reply(self, event: TerminalView.DeviceReply) -> None:
        """Send the terminal's reply to the command."""
        event.stop()
        command_id = self._command_of(event.view)
        if command_id:
            self.post_message(SendReply(command_id, event.data))

    def on_terminal_view_resized(self, event: TerminalView.Resized) -> None:
        """Resize the command's PTY."""
        event.stop()
        command_id = self._command_of(event.view)
        if command_id:
            self.post_message(ResizeTerminal(command_id, event.columns, event.lines))

    async def on_terminal_view_find_asked(self, event: TerminalView.FindAsked) -> None:
        """Open the search line."""
        event.stop()
        if self.view is not None:
            await self.search.ask(self.view)

    def on_terminal_view_reading_changed(self, event: TerminalView.ReadingChanged) -> None:
        """Update or close the search line, and show the keys."""
        event.stop()
        self.search.follow(event.view, over_tabs=self._strip.display)
        self._say_keys()
        self.post_message(self.SelectionChanged())

    def _drop(self, tab_id: str) -> None:
        self.search.leave(self._views[tab_id])
        leaves = tab_id != SHELL and self._views[tab_id].has_focus
        if leaves:  # what is typed next was not meant for the shell
            self.screen.set_focus(None)
        super()._drop(tab_id)
        if leaves:
            self.post_message(self.Left())

    def on_terminal_view_scrolled(self, event: TerminalView.Scrolled) -> None:
        """Show how far the view is scrolled back."""
        event.stop()
        self._say_keys()

    def _command_of(self, view: Widget) -> str:
        return self.tabs.command_id(self._tab_of(view))

    @on(events.Mount)
    def _say_keys(self) -> None:
        """Show in the border the keys that work now."""
        view = self.view
        if view is not None and view.reader is not None:
            words = reading_words(view)
        elif view is not None and view.frame.back > 0:
            words = f"scrollback -{view.frame.back}, End follows"
        elif self.captures_keys:
            words = "^] leave, then F12 sends the selection" if self.has_selection else "^] leave"
        else:
            words = "F12 sends the selection" if self.has_selection else "^T type  F5 read"
        self.border_subtitle = f" {words} "


def reading_words(view: TerminalView) -> str:
    """Return what the reading pointer is on, and the keys there."""
    told = view.told_of_command
    pointed = view.links.link
    link = f"  Enter opens {pointed.words}  p prompt" if pointed is not None else ""
    keys = link or "  / search  Space select  c copy  s send"
    return f"READING{f'  {told}' if told else ''}{keys}  Esc back"


def source_of(command: CommandStatus | None, folder: str) -> str:
    """Describe for the model whose terminal it is; `folder` is a shell's."""
    if command is None:
        return f"their own shell, in {short_path(folder)}" if folder else "their own shell"
    if command.detached:
        return f"the output of a command that an earlier session left running: {command_label(command)}"
    return f"the terminal of your command {command.id}: {command.command}"
