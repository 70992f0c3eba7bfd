"""The terminal pane: the person's own shell and a tab for each command of the agent, every one on its real PTY."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.core.base.visible import visible
from ollm_tui.tui.ink import app_of
from ollm_tui.tui.panes import terminal_wishes as wishes
from ollm_tui.tui.panes.terminal_tabs import SHELL, shown_tabs
from ollm_tui.tui.references import excerpt_of
from ollm_tui.tui.values import CommandTab
from ollm_tui.tui.widgets.tabs import TabStrip

if TYPE_CHECKING:
    from ollm_tui.tui.panes.terminal_search import TerminalSearch
    from ollm_tui.tui.terminal.view import TerminalView

BELL_SECONDS = 1.0
"""A program that rings without end is heard this often."""

MAX_TITLE = 60


class TerminalPane(Vertical):
    """Views by tab; a view is made when its tab is first looked at, so that nothing of it costs start-up time."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "turn(-1)", "Previous tab", id="terminal.previous", tooltip="Tab before", show=False),
        Binding("right", "turn(1)", "Next tab", id="terminal.next", tooltip="Next tab", show=False),
        Binding("enter", "restart", "Restart", id="terminal.restart", tooltip="Start the shell again", show=False),
        Binding("i", "interrupt", "Interrupt", id="terminal.interrupt", tooltip="Interrupt the command", show=False),
        Binding(
            "t",
            "take_over",
            "Take over",
            id="terminal.take_over",
            tooltip="Go on with the agent's command yourself",
            show=False,
        ),
        Binding("s", "send", "Send", id="terminal.send", tooltip="Put what is selected into the prompt", show=False),
    ]

    ShellWanted = wishes.ShellWanted
    Attached = wishes.Attached
    Detached = wishes.Detached
    Typed = wishes.Typed
    Answered = wishes.Answered
    Interrupted = wishes.Interrupted
    TakenOver = wishes.TakenOver
    Sized = wishes.Sized
    Left = wishes.Left
    SelectionSent = wishes.SelectionSent
    SelectionChanged = wishes.SelectionChanged

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id="term", classes="pane")
        self._now = now
        self._strip = TabStrip("term-tabs")
        self._hint = Static("Shell starts on first focus", markup=False, id="term-hint")
        self._hint.can_focus = True
        self._commands: dict[str, CommandTab] = {}
        self._views: dict[str, TerminalView] = {}
        self._shell_id = ""
        self._shell_asked = False
        self._chosen = SHELL
        self._label = SHELL
        self._search: TerminalSearch | None = None
        self._sought = ""
        self._titles: dict[str, str] = {}
        self._rung: set[str] = set()
        self._heard_at = float("-inf")
        self.border_title = "Terminal"

    def compose(self) -> ComposeResult:
        self._draw_tabs()
        self._say_keys()
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

    @property
    def busy(self) -> bool:
        """Whether a command of the agent runs whose age is to be counted."""
        return any(tab.alive and not tab.person for tab in self._commands.values())

    def tick(self) -> None:
        """A second has passed."""
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
        if self.view is not None:
            self.view.end_reading()

    @property
    def view(self) -> TerminalView | None:
        """The terminal in front; None while the shell has not been started."""
        return self._views.get(self._chosen)

    def read(self) -> None:
        """Let keys move over what is in front, instead of going to its program."""
        if self.view is not None:
            self.view.read()

    def ask_what_to_find(self) -> None:
        """Open the search line over the terminal in front."""
        view = self.view
        if self._search is not None:
            self._search.ask()
        elif view is not None:
            from ollm_tui.tui.panes.terminal_search import TerminalSearch  # not before it is needed: it loads `Input`

            self._search = TerminalSearch(view, self._sought)
            self.mount(self._search)

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
        ids = [tab.id for tab in shown_tabs(self._commands, self._shell_id, self._chosen, self._now())]
        place = ids.index(self._chosen) if self._chosen in ids else 0
        self.choose(ids[(place + step) % len(ids)])

    def action_restart(self) -> None:
        if self._chosen == SHELL and not _is_alive(self._commands.get(self._shell_id)):
            self._start_shell("")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        match action:
            case "send":
                return self.has_selection
            case "interrupt":
                return _is_alive(self._agents_tab)
            case "take_over":
                return self._agents_tab is not None and self._agents_tab.alive and not self._agents_tab.taken_over
            case _:
                return super().check_action(action, parameters)

    @property
    def has_selection(self) -> bool:
        return self.view is not None and self.view.text_selection is not None

    def action_send(self) -> None:
        """Hand what is selected to the prompt, with whose terminal it is from."""
        view = self.view
        if view is None or not (text := view.selected_text):
            self.notify("Nothing is selected in the terminal.", markup=False)
            return
        view.clear_selection()
        view.end_reading()
        self.post_message(self.SelectionSent(excerpt_of(text, self._source_of(view))))

    def action_interrupt(self) -> None:
        if self._agents_tab is not None:
            self.post_message(self.Interrupted(self._agents_tab.id))

    def action_take_over(self) -> None:
        tab = self._agents_tab
        if tab is not None and tab.alive:
            self.post_message(self.TakenOver(tab.id))
            self.notify("Yours now: no time limit ends it, and the agent waits for you.", markup=False)
            if self.view is not None:
                self.view.end_reading()

    @property
    def _agents_tab(self) -> CommandTab | None:
        """The agent's command in front."""
        return None if self._chosen == SHELL else self._commands.get(self._chosen)

    @on(events.DescendantBlur)
    def _gone(self) -> None:
        self.call_after_refresh(self._say_keys)

    @on(events.DescendantFocus)
    def _entered(self) -> None:
        self._say_keys()
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

    def on_terminal_view_answer(self, event: TerminalView.Answer) -> None:
        event.stop()
        command_id = self._command_of(event.view)
        if command_id:
            self.post_message(self.Answered(command_id, event.data))

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

    def on_terminal_view_find_asked(self, event: TerminalView.FindAsked) -> None:
        event.stop()
        self.ask_what_to_find()

    def on_terminal_view_reading_changed(self, event: TerminalView.ReadingChanged) -> None:
        event.stop()
        search = self._search
        if search is not None and search.view is event.view:
            if search.view.seeking:
                search.place(over_tabs=self._strip.display)
            else:
                self._sought, self._search = search.sought, None
                search.remove()
        self._say_keys()
        self.post_message(self.SelectionChanged())

    def on_terminal_view_copied(self, event: TerminalView.Copied) -> None:
        event.stop()
        self.notify(f"{len(event.text)} characters copied.", markup=False)

    def on_terminal_view_scrolled(self, event: TerminalView.Scrolled) -> None:
        event.stop()
        self._say_keys()

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
        self._titles.pop(tab_id, None)
        view.end_reading()
        self.post_message(self.Detached(self._shell_id if tab_id == SHELL else tab_id))
        view.remove()
        if self._chosen == tab_id and tab_id != SHELL:
            self.choose(SHELL)

    def _tab_of(self, view: Widget) -> str:
        return next((known for known, one in self._views.items() if one is view), "")

    def _command_of(self, view: Widget) -> str:
        tab_id = self._tab_of(view)
        return self._shell_id if tab_id == SHELL else tab_id

    def _source_of(self, view: TerminalView) -> str:
        """Whose terminal a view is, for the model."""
        tab = self._agents_tab
        if tab is None:
            folder = view.marks.directory
            return f"their own shell, in {_short_path(folder)}" if folder else "their own shell"
        return f"the terminal of your command {tab.id}: {tab.label}"

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
            parts.append(visible(self._titles.get(self._chosen) or _short_path(marks.directory))[:MAX_TITLE])
            if self._chosen == SHELL and marks.last_exit_code:
                parts.append(f"exit {marks.last_exit_code}")
        self.border_title = Content("  ".join(part for part in parts if part))

    def _say_keys(self) -> None:
        """What can be done here now, in the border."""
        view = self.view
        if view is not None and view.reader is not None:
            words = "READING  / search  Space select  c copy  s send  Esc back"
        elif view is not None and view.scroll_mode:
            words = f"scrollback -{view.frame.back}, End follows"
        elif self.captures_keys:
            words = "^] leave, then F12 sends the selection" if self.has_selection else "^] leave"
        else:
            words = "F12 sends the selection" if self.has_selection else "^T type  F5 read"
        self.border_subtitle = words


def _is_alive(tab: CommandTab | None) -> bool:
    return tab is not None and tab.alive


def _short_path(path: str) -> str:
    """A folder as people call it: `~/src/app`."""
    home = str(Path.home())
    return f"~{path[len(home) :]}" if path == home or path.startswith(f"{home}/") else path
