"""The tabs of the terminal pane and the views behind them: which there are, which is in front, what is said of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.panes.terminal_tabs import SHELL, shown_tabs
from ollm_tui.tui.protocol.intents import AttachTerminal, DetachTerminal, TypeKeys
from ollm_tui.tui.styled_text import app_of
from ollm_tui.tui.values import CommandMark, CommandTab
from ollm_tui.tui.widgets.tab_strip import TabStrip

if TYPE_CHECKING:
    from ollm_tui.tui.terminal.terminal_view import TerminalView


EDITING = {"enter": "\r", "backspace": "\x7f"}


class ShellHint(Static, can_focus=True):
    """Says how the shell comes to be, and hands on what is typed while it starts: nothing typed is lost."""

    @dataclass
    class Typed(Message):
        """Meant for the shell. Never printed: a password may be among it."""

        text: str = field(repr=False)

    def __init__(self) -> None:
        super().__init__("Shell starts on first focus", markup=False, id="term-hint")
        self._failed = False

    def starting(self) -> None:
        """The shell was asked for."""
        self._failed = False
        self.update("Shell is starting")

    def failed(self, why: str) -> None:
        """There will be none."""
        self._failed = True
        self.update(f"{visible(why)}\nEnter tries again.")

    def on_key(self, event: events.Key) -> None:
        text = EDITING.get(event.key) or (event.character if event.is_printable else None)
        if text and not self._failed:
            event.stop()
            self.post_message(self.Typed(text))


BELL_SECONDS = 1.0
"""A program that rings or copies without end is heard this often."""

MAX_TITLE = 60


class TerminalViews(Vertical):
    """A view is made when its tab is first looked at, so that nothing of it costs start-up time."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id="term", classes="pane")
        self._now = now
        self._strip = TabStrip("term-tabs")
        self._hint = ShellHint()
        self._commands: dict[str, CommandTab] = {}
        self._views: dict[str, TerminalView] = {}
        self._shell_id = ""
        self._typed_ahead = ""
        self._chosen = SHELL
        self._label = SHELL
        self._titles: dict[str, str] = {}
        self._rung: set[str] = set()
        self._heard_at = float("-inf")
        self._copied_at = float("-inf")
        self._clipboard_allowed = False
        self.border_title = "Terminal"

    def compose(self) -> ComposeResult:
        self._draw_tabs()
        yield self._strip
        yield self._hint

    def show_commands(self, commands: tuple[CommandTab, ...]) -> None:
        """The commands there are; a new one of the agent comes to the front while nobody works in here."""
        fresh = [
            tab
            for tab in commands
            if tab.id not in self._commands and not tab.person and tab.state is not CommandMark.LEFT
        ]
        self._commands = {tab.id: tab for tab in commands}
        for tab in commands:
            if tab.person and tab.alive and tab.id != self._shell_id:
                self._bind_shell(tab.id)
            view = self._views.get(SHELL if tab.id == self._shell_id else tab.id)
            if view is not None:
                view.interactive = tab.alive
        for tab_id in [known for known in self._views if known != SHELL and known not in self._commands]:
            self._drop(tab_id)
        if fresh and not self.has_focus_within:
            self.choose(fresh[-1].id)
        self._draw_tabs()

    def allow_clipboard(self, allowed: bool) -> None:
        """Let programs put text on the clipboard, or no longer."""
        self._clipboard_allowed = allowed
        for view in self._views.values():
            view.engine.screen.allow_clipboard = allowed

    @property
    def busy(self) -> bool:
        """Whether a command of the agent runs whose age is to be counted."""
        return any(tab.alive and not tab.person for tab in self._commands.values())

    def tick(self) -> None:
        """A second has passed."""
        self._draw_tabs()

    @property
    def captures_keys(self) -> bool:
        """Every key belongs to a program now, but F8 and ctrl+]."""
        view = self._views.get(self._chosen)
        return view is not None and view.captures_keys

    @property
    def view(self) -> TerminalView | None:
        """The terminal in front; None while the shell has not been started."""
        return self._views.get(self._chosen)

    @property
    def agents_tab(self) -> CommandTab | None:
        """The agent's command in front."""
        return None if self._chosen == SHELL else self._commands.get(self._chosen)

    @property
    def focus_target(self) -> Widget:
        """What to focus when somebody comes here."""
        return self._views.get(self._chosen, self._hint)

    def choose(self, tab_id: str) -> None:
        """Bring a tab to the front."""
        keep_focus = self.has_focus_within
        if tab_id != self._chosen and self.view is not None:
            self.view.end_reading()
        self._chosen = tab_id
        self._rung.discard(tab_id)
        if tab_id != SHELL:
            self._view_of(tab_id)
        for known, view in self._views.items():
            view.display = known == tab_id
        self._hint.display = tab_id not in self._views
        if keep_focus:
            self.focus_target.focus()
        self._draw_tabs()

    def action_turn(self, step: int) -> None:
        """Another tab, round and round."""
        ids = [tab.id for tab in shown_tabs(self._commands, self._shell_id, self._chosen, self._now())]
        place = ids.index(self._chosen) if self._chosen in ids else 0
        self.choose(ids[(place + step) % len(ids)])

    @on(TabStrip.Chosen)
    def _tab_clicked(self, event: TabStrip.Chosen) -> None:
        event.stop()
        self.choose(event.tab_id)
        self.focus_target.focus()

    def on_terminal_view_bell(self, event: TerminalView.Bell) -> None:
        event.stop()
        tab_id = self._tab_of(event.view)
        if tab_id != self._chosen:
            self._rung.add(tab_id)
            self._draw_tabs()
        if self._now() - self._heard_at >= BELL_SECONDS:
            self._heard_at = self._now()
            app_of(self).bell()

    def on_terminal_view_title_changed(self, event: TerminalView.TitleChanged) -> None:
        event.stop()
        self._titles[self._tab_of(event.view)] = event.title
        self._draw_title()

    def on_terminal_view_reported(self, event: TerminalView.Reported) -> None:
        event.stop()
        self._draw_title()

    def on_terminal_view_clipboard(self, event: TerminalView.Clipboard) -> None:
        event.stop()
        if self._now() - self._copied_at >= BELL_SECONDS:
            self._copied_at = self._now()
            self.notify(f"A program put {len(event.text)} characters on the clipboard.", markup=False)

    def _bind_shell(self, command_id: str) -> None:
        if SHELL in self._views:
            self._drop(SHELL)
        self._shell_id = command_id
        view = self._make_view(SHELL)
        view.display = self._chosen == SHELL
        self._hint.display = self._chosen not in self._views
        self.post_message(AttachTerminal(command_id, view.engine.feed))
        if self._typed_ahead:
            self.post_message(TypeKeys(command_id, self._typed_ahead.encode()))
            self._typed_ahead = ""
        if self._chosen == SHELL and self.screen.focused is self._hint:
            self.screen.set_focus(view)

    @on(ShellHint.Typed)
    def _typed_for_shell(self, event: ShellHint.Typed) -> None:
        """The shell may have come between the key and this."""
        event.stop()
        if SHELL in self._views:
            self.post_message(TypeKeys(self._shell_id, event.text.encode()))
        else:
            self._typed_ahead += event.text

    def shell_failed(self, why: str) -> None:
        """The person's shell could not be started."""
        self._typed_ahead = ""
        self._hint.failed(why)

    def _view_of(self, tab_id: str) -> None:
        if tab_id not in self._views and tab_id in self._commands:
            view = self._make_view(tab_id)
            view.interactive = self._commands[tab_id].alive
            self.post_message(AttachTerminal(tab_id, view.engine.feed))

    def _make_view(self, tab_id: str) -> TerminalView:
        # Loaded with the first terminal: the emulator is most of its weight.
        from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
        from ollm_tui.tui.terminal.terminal_view import TerminalView

        # At its size from the start: what came before a first resize would stand on lines with other numbers.
        room = self.focus_target.outer_size
        engine = TerminalEngine(room.width, room.height) if room.area else None
        view = TerminalView(engine, classes="terminal-view")
        view.engine.screen.allow_clipboard = self._clipboard_allowed
        self._views[tab_id] = view
        self.mount(view)
        return view

    def _drop(self, tab_id: str) -> None:
        view = self._views.pop(tab_id)
        self._titles.pop(tab_id, None)
        self.post_message(DetachTerminal(self._shell_id if tab_id == SHELL else tab_id))
        view.remove()
        if self._chosen == tab_id and tab_id != SHELL:
            self.choose(SHELL)

    def _tab_of(self, view: Widget) -> str:
        return next((known for known, one in self._views.items() if one is view), "")

    def _draw_tabs(self) -> None:
        tabs = shown_tabs(self._commands, self._shell_id, self._chosen, self._now(), self._rung)
        self._strip.display = len(tabs) > 1
        self._strip.show_tabs(tabs, self._chosen)
        self._label = next((tab.label for tab in tabs if tab.id == self._chosen), tabs[0].label)
        self._draw_title()

    def _draw_title(self) -> None:
        """Whose terminal is in front, the title its program gave it or else its folder, and how the last command of
        the shell ended."""
        parts = ["Terminal", self._label if self._chosen == SHELL else f"agent: {self._label}"]
        view = self.view
        if view is not None:
            marks = view.marks
            parts.append(visible(self._titles.get(self._chosen) or short_path(marks.directory))[:MAX_TITLE])
            if self._chosen == SHELL and marks.last_exit_code:
                parts.append(f"exit {marks.last_exit_code}")
        self.border_title = Content("  ".join(part for part in parts if part))


def short_path(path: str) -> str:
    """A folder as people call it: `~/src/app`."""
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path
