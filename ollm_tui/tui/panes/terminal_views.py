"""Tabs of the terminal pane and the terminal views behind them."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.core.base.app_dirs import short_path
from ollm_tui.core.base.escape import visible
from ollm_tui.core.shell.status import CommandKind, CommandStatus
from ollm_tui.tui.panes.terminal_tabs import SHELL, TerminalTabs
from ollm_tui.tui.protocol.command_intents import AttachTerminal, DetachTerminal
from ollm_tui.tui.styled_text import app_of, set_rule
from ollm_tui.tui.widgets.tab_strip import TabStrip

if TYPE_CHECKING:
    from ollm_tui.tui.pictures.outer_pictures import OuterPictures
    from ollm_tui.tui.terminal.terminal_view import TerminalView


SHELL_GUTTER = 1
"""Columns of the pane that are not the shell's (`command_view.GUTTER`, which is loaded with the first terminal)."""
EDITING = {"enter": "\r", "backspace": "\x7f"}


class ShellHint(Static, can_focus=True):
    """Placeholder of the shell; passes on what is typed while it starts."""

    @dataclass
    class Typed(Message):
        """Text for the shell, hidden from the repr: perhaps a password."""

        text: str = field(repr=False)

    def __init__(self) -> None:
        super().__init__("Shell starts on first focus", markup=False, id="term-hint")
        self.has_failed = False

    def starting(self) -> None:
        """Show that the shell is starting."""
        self.has_failed = False
        self.update("Shell is starting")

    def failed(self, why: str) -> None:
        """Show why the shell could not be started."""
        self.has_failed = True
        self.update(f"{visible(why)}\nEnter tries again.")

    def on_key(self, event: events.Key) -> None:
        """Pass a typed character on to the shell."""
        text = EDITING.get(event.key) or (event.character if event.is_printable else None)
        if text and not self.has_failed:
            event.stop()
            self.post_message(self.Typed(text))


BELL_SECONDS = 1.0
"""Shortest time between two bells or two clipboard notices of programs."""


class TerminalViews(Vertical):
    """Terminal views, each created when its tab is first shown.

    Nothing is created at the start, to keep that fast.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id="term", classes="pane")
        self._now = now
        self._strip = TabStrip("term-tabs")
        self._hint = ShellHint()
        self.tabs = TerminalTabs()
        self._views: dict[str, TerminalView] = {}
        """By tab."""
        self._label = SHELL
        self._heard_at = float("-inf")
        self._copied_at = float("-inf")
        self._clipboard_allowed = False
        self.outer_pictures: OuterPictures | None = None
        """What hands pictures of programs on."""
        self.workspace = Path()
        """Files that a program names are below it, or below the program's own folder."""
        set_rule(self, "Terminal")

    def compose(self) -> ComposeResult:
        """Yield the tabs and the shell's placeholder."""
        self.draw_tabs()
        yield self._strip
        yield self._hint

    def show_commands(self, commands: tuple[CommandStatus, ...]) -> None:
        """Show these commands; bring a new one to the front without focus."""
        tabs = self.tabs
        agents = [command for command in commands if command.kind is CommandKind.AGENT and not command.detached]
        fresh = [command for command in agents if command.id not in tabs.commands]
        known, tabs.commands = tabs.commands, {command.id: command for command in commands}
        for command in commands:
            if command.kind is CommandKind.PERSON and command.attached and command.id not in known:
                self._bind_shell(command.id)
            view = self._views.get(tabs.tab_of(command.id))
            if view is not None:
                view.interactive = command.attached
        for tab_id in [one for one in self._views if one != SHELL and tabs.is_over(one)]:
            self._drop(tab_id)
        if fresh and not self.has_focus_within:
            self.choose(fresh[-1].id)
        self.draw_tabs()

    @abstractmethod
    def _bind_shell(self, command_id: str) -> None:
        """Show a shell of the person's that has started."""

    def allow_clipboard(self, allowed: bool) -> None:
        """Set whether programs may put text on the clipboard."""
        self._clipboard_allowed = allowed
        for view in self._views.values():
            view.engine.screen.allow_clipboard = allowed

    @property
    def captures_keys(self) -> bool:
        """Whether all keys but F8 and ctrl+] go to a program."""
        view = self._views.get(self.tabs.chosen)
        return view is not None and view.captures_keys

    @property
    def view(self) -> TerminalView | None:
        """The terminal in front; None while the shell has not been started."""
        return self._views.get(self.tabs.chosen)

    @property
    def focus_target(self) -> Widget:
        """The widget to focus when the person comes here."""
        return self._views.get(self.tabs.chosen, self._hint)

    def choose(self, tab_id: str) -> None:
        """Bring a tab to the front."""
        keep_focus = self.has_focus_within
        if tab_id != self.tabs.chosen and self.view is not None:
            self.view.end_reading()
        self.tabs.chosen = tab_id
        self.tabs.rung.discard(tab_id)
        if tab_id != SHELL:
            self._make_view(tab_id)
        for known, view in self._views.items():
            view.display = known == tab_id
        self._hint.display = tab_id not in self._views
        if keep_focus:
            self.focus_target.focus()
        self.draw_tabs()

    def action_turn(self, step: int) -> None:
        """Go to another tab; after the last comes the first."""
        self.choose(self.tabs.beside(step, self._now()))

    @on(TabStrip.Chosen)
    def _tab_clicked(self, event: TabStrip.Chosen) -> None:
        event.stop()
        self.choose(event.tab_id)
        self.focus_target.focus()

    def on_terminal_view_bell(self, event: TerminalView.Bell) -> None:
        """Ring the bell, and mark a tab in the background."""
        event.stop()
        tab_id = self._tab_of(event.view)
        if tab_id != self.tabs.chosen:
            self.tabs.rung.add(tab_id)
            self.draw_tabs()
        if self._now() - self._heard_at >= BELL_SECONDS:
            self._heard_at = self._now()
            app_of(self).bell()

    def on_terminal_view_title_changed(self, event: TerminalView.TitleChanged) -> None:
        """Show the title that the program set."""
        event.stop()
        self.tabs.titles[self._tab_of(event.view)] = event.title
        self._draw_title()

    def on_terminal_view_reported(self, event: TerminalView.Reported) -> None:
        """Show the directory and exit code that the shell reported."""
        event.stop()
        self._draw_title()

    def on_terminal_view_clipboard(self, event: TerminalView.Clipboard) -> None:
        """Report that a program set the clipboard."""
        event.stop()
        if self._now() - self._copied_at >= BELL_SECONDS:
            self._copied_at = self._now()
            self.notify(f"A program put {len(event.text)} characters on the clipboard.", markup=False)

    def _make_view(self, tab_id: str) -> None:
        """Make the view of a tab and attach its command, unless it has one."""
        command = self.tabs.commands.get(self.tabs.command_id(tab_id))
        if command is None or tab_id in self._views:
            return
        # Imported with the first terminal: the emulator takes most of the load time.
        from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
        from ollm_tui.tui.terminal.terminal_view import TerminalView

        # Right size from the start: a later resize would renumber the lines written before it.
        room = self.focus_target.outer_size
        gutter = command.kind is CommandKind.PERSON  # only a shell tells of its commands
        engine = TerminalEngine(room.width - (SHELL_GUTTER if gutter else 0), room.height) if room.area else None
        view = TerminalView(engine, classes="terminal-view", gutter=gutter)
        view.engine.screen.allow_clipboard = self._clipboard_allowed
        view.engine.screen.pictures.outer = self.outer_pictures

        def folders() -> list[Path]:
            """Return where files are that the terminal's program may name."""
            now = self.tabs.commands.get(tab_id)
            own = view.marks.directory or ("" if now is None else now.cwd)
            return [*([Path(own)] if own else []), self.workspace]

        view.links.folders = folders
        self._views[tab_id] = view
        self.mount(view)
        view.interactive = command.attached
        self.post_message(AttachTerminal(command.id, view.engine.feed))

    def _drop(self, tab_id: str) -> None:
        view = self._views.pop(tab_id)
        self.tabs.forget(tab_id)
        self.post_message(DetachTerminal(self.tabs.command_id(tab_id)))
        view.remove()
        if self.tabs.chosen == tab_id and tab_id != SHELL:
            self.choose(SHELL)

    def _tab_of(self, view: Widget) -> str:
        return next((known for known, one in self._views.items() if one is view), "")

    def draw_tabs(self) -> None:
        """Draw the tabs and the title; ages change each second."""
        shown = self.tabs.shown(self._now())
        self._strip.display = len(shown) > 1
        self._strip.show_tabs(shown, self.tabs.chosen)
        self._label = next((tab.label for tab in shown if tab.id == self.tabs.chosen), shown[0].label)
        self._draw_title()

    def _draw_title(self) -> None:
        marks = None if self.view is None else self.view.marks
        directory, exit_code = ("", None) if marks is None else (short_path(marks.directory), marks.last_exit_code)
        set_rule(self, self.tabs.title(self._label, directory, exit_code))
