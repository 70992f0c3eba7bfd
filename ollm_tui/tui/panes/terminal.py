"""The terminal pane: the person's own shell and a tab for each command of the agent, every one on its real PTY."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.core.base.visible import visible
from ollm_tui.tui.ink import Ink, app_of
from ollm_tui.tui.intents import Intent
from ollm_tui.tui.values import CommandMark, CommandTab
from ollm_tui.tui.widgets.tabs import Tab, TabStrip

if TYPE_CHECKING:
    from ollm_tui.tui.terminal.view import TerminalView

SHELL = "shell"
"""The tab of the person's shell, before and after it has an id of its own."""

KEPT_TABS = 9
"""Tabs of commands that are over, before the oldest leave the strip."""

LABEL_CELLS = 18


class TerminalPane(Vertical):
    """Views by tab; a view is made when its tab is first looked at, so that nothing of it costs start-up time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Previous tab", id="terminal.previous", tooltip="Tab before", show=False),
        Binding("right", "turn(1)", "Next tab", id="terminal.next", tooltip="Next tab", show=False),
        Binding("enter", "restart", "Restart", id="terminal.restart", tooltip="Start the shell again", show=False),
    ]

    @dataclass
    class ShellWanted(Intent):
        """Start the person's shell at this size, in cells; `typed` goes into it as soon as it stands."""

        columns: int
        lines: int
        typed: str = ""

    @dataclass
    class Attached(Intent):
        """Bytes of this command should go to `feed`, which takes them in any thread."""

        command_id: str
        feed: Callable[[bytes], None]

    @dataclass
    class Detached(Intent):
        """They should not any more."""

        command_id: str

    @dataclass
    class Typed(Intent):
        """Bytes for a command."""

        command_id: str
        data: bytes

    @dataclass
    class Sized(Intent):
        """A command's screen has another size, in cells."""

        command_id: str
        columns: int
        lines: int

    class Left(Message):
        """The person wants out of the terminal."""

    def __init__(self) -> None:
        super().__init__(id="term", classes="pane")
        self._strip = TabStrip("term-tabs")
        self._hint = Static("Shell starts on first focus", markup=False, id="term-hint")
        self._hint.can_focus = True
        self._commands: dict[str, CommandTab] = {}
        self._views: dict[str, TerminalView] = {}
        self._shell_id = ""
        self._shell_asked = False
        self._chosen = SHELL
        self.border_title = "Terminal"
        self.border_subtitle = "^] leave"

    def compose(self) -> ComposeResult:
        self._draw_tabs()
        yield self._strip
        yield self._hint

    # -- what the house says -----------------------------------------------------------------------------------------

    def show_commands(self, commands: tuple[CommandTab, ...]) -> None:
        """The commands there are; a new one of the agent comes to the front while nobody works in here."""
        fresh = [tab for tab in commands if tab.id not in self._commands and not tab.person]
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

    # -- what the person does ----------------------------------------------------------------------------------------

    @property
    def captures_keys(self) -> bool:
        """Every key belongs to a program now, but F8 and ctrl+]."""
        view = self._views.get(self._chosen)
        return view is not None and view.captures_keys

    @property
    def focus_target(self) -> Widget:
        """What to focus when somebody comes here."""
        return self._views.get(self._chosen, self._hint)

    def prefer_live(self) -> None:
        """Who comes here to type finds something to type into: a command that runs, else the person's shell."""
        tab = self._commands.get(self._chosen)
        if self._chosen != SHELL and (tab is None or not tab.alive):
            self.choose(SHELL)

    def choose(self, tab_id: str) -> None:
        """Bring a tab to the front."""
        keep_focus = self.has_focus_within
        self._chosen = tab_id
        if tab_id != SHELL:
            self._view_of(tab_id)
        for known, view in self._views.items():
            view.display = known == tab_id
        self._hint.display = tab_id not in self._views
        if keep_focus:
            self.focus_target.focus()
        self._draw_tabs()

    def send_leave_key(self) -> None:
        """The key that leaves the terminal was pressed twice: the program gets it."""
        view = self._views.get(self._chosen)
        if view is not None:
            view.press_leave()

    def type_into_shell(self, text: str) -> None:
        """Type a line into the person's shell, started if need be."""
        self.choose(SHELL)
        data = f"{text}\n"
        if self._shell_id and _is_alive(self._commands.get(self._shell_id)):
            self.post_message(self.Typed(self._shell_id, data.encode()))
        else:
            self._start_shell(data)

    def action_turn(self, step: int) -> None:
        """Another tab, round and round."""
        ids = [tab.id for tab in _shown_tabs(self._commands, self._shell_id, self._chosen)]
        place = ids.index(self._chosen) if self._chosen in ids else 0
        self.choose(ids[(place + step) % len(ids)])

    def action_restart(self) -> None:
        if self._chosen == SHELL and not _is_alive(self._commands.get(self._shell_id)):
            self._start_shell("")

    @on(events.DescendantFocus)
    def _entered(self) -> None:
        if self._chosen == SHELL and SHELL not in self._views and not self._shell_asked:
            self._start_shell("")

    @on(TabStrip.Chosen)
    def _tab_clicked(self, event: TabStrip.Chosen) -> None:
        event.stop()
        self.choose(event.tab_id)
        self.focus_target.focus()

    # -- from the views ----------------------------------------------------------------------------------------------

    def on_terminal_view_input(self, event: TerminalView.Input) -> None:
        event.stop()
        command_id = self._command_of(event.view)
        if command_id:
            self.post_message(self.Typed(command_id, event.data))

    def on_terminal_view_resized(self, event: TerminalView.Resized) -> None:
        event.stop()
        command_id = self._command_of(event.view)
        if command_id:
            self.post_message(self.Sized(command_id, event.columns, event.lines))

    def on_terminal_view_leave(self, event: TerminalView.Leave) -> None:
        event.stop()
        self.post_message(self.Left())

    def on_terminal_view_bell(self, event: TerminalView.Bell) -> None:
        event.stop()
        app_of(self).bell()

    def on_terminal_view_copied(self, event: TerminalView.Copied) -> None:
        event.stop()
        self.notify(f"{len(event.text)} characters copied.", markup=False)

    def on_terminal_view_scrolled(self, event: TerminalView.Scrolled) -> None:
        event.stop()
        self.border_subtitle = f"scrollback -{event.lines}, End follows" if event.lines else "^] leave"

    # -- inside ------------------------------------------------------------------------------------------------------

    def _start_shell(self, typed: str) -> None:
        self._shell_asked = True
        size = self._hint.size if SHELL not in self._views else self._views[SHELL].size
        self.post_message(self.ShellWanted(max(20, size.width), max(2, size.height), typed))

    def _bind_shell(self, command_id: str) -> None:
        if SHELL in self._views:
            self._drop(SHELL)
        self._shell_id = command_id
        view = self._make_view(SHELL)
        view.display = self._chosen == SHELL
        self._hint.display = self._chosen not in self._views
        self.post_message(self.Attached(command_id, view.engine.feed))
        if self._chosen == SHELL and self._hint.has_focus:
            view.focus()

    def _view_of(self, tab_id: str) -> None:
        if tab_id not in self._views and tab_id in self._commands:
            view = self._make_view(tab_id)
            view.interactive = self._commands[tab_id].alive
            self.post_message(self.Attached(tab_id, view.engine.feed))

    def _make_view(self, tab_id: str) -> TerminalView:
        # Loaded with the first terminal: the emulator is most of its weight.
        from ollm_tui.tui.terminal.view import TerminalView

        view = TerminalView(classes="terminal-view")
        self._views[tab_id] = view
        self.mount(view)
        return view

    def _drop(self, tab_id: str) -> None:
        view = self._views.pop(tab_id)
        self.post_message(self.Detached(self._shell_id if tab_id == SHELL else tab_id))
        view.remove()
        if self._chosen == tab_id and tab_id != SHELL:
            self.choose(SHELL)

    def _command_of(self, view: Widget) -> str:
        tab_id = next((known for known, one in self._views.items() if one is view), "")
        return self._shell_id if tab_id == SHELL else tab_id

    def _draw_tabs(self) -> None:
        tabs = _shown_tabs(self._commands, self._shell_id, self._chosen)
        self._strip.display = len(tabs) > 1
        self._strip.show_tabs(tabs, self._chosen)
        chosen = next((tab for tab in tabs if tab.id == self._chosen), tabs[0])
        agent = "agent: " if chosen.id != SHELL else ""
        self.border_title = Content(f"Terminal  {agent}{chosen.label}")


def _is_alive(tab: CommandTab | None) -> bool:
    return tab is not None and tab.alive


def _shown_tabs(commands: dict[str, CommandTab], shell_id: str, chosen: str) -> list[Tab]:
    """The shell first, then the agent's commands; of those that are over only the last few."""
    shell = commands.get(shell_id)
    ended = "" if shell is None or shell.alive else f" {_end_words(shell)} Enter restarts"
    others = [tab for tab in commands.values() if not tab.person]
    over = [tab.id for tab in others if not tab.alive and tab.id != chosen]
    hidden = set(over[:-KEPT_TABS])
    shown = [Tab(tab.id, _label(tab), _ink(tab)) for tab in others if tab.id not in hidden]
    return [Tab(SHELL, f"shell{ended}"), *shown]


def _label(tab: CommandTab) -> str:
    name = visible(tab.label)
    name = name if len(name) <= LABEL_CELLS else f"{name[: LABEL_CELLS - 2]}.."
    return f"{name} {_end_words(tab)}"


def _end_words(tab: CommandTab) -> str:
    match tab.state:
        case CommandMark.RUNNING:
            return "RUN"
        case CommandMark.WAITING:
            return "INPUT?"
        case CommandMark.EXITED:
            return "ok" if tab.exit_code == 0 else f"exit {tab.exit_code}"
        case CommandMark.KILLED:
            return f"KILLED {tab.exit_code}" if tab.exit_code is not None else "KILLED"


def _ink(tab: CommandTab) -> Ink:
    match tab.state:
        case CommandMark.RUNNING:
            return Ink.ACCENT
        case CommandMark.WAITING:
            return Ink.WARNING
        case CommandMark.EXITED:
            return Ink.MUTED if tab.exit_code == 0 else Ink.ERROR
        case CommandMark.KILLED:
            return Ink.ERROR
