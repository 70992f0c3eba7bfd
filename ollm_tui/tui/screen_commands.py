"""Commands of the prompt about screens and panes; entries of the palette."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from textual.app import SystemCommand
from textual.binding import Binding

from ollm_tui.tui.layout import Pane
from ollm_tui.tui.protocol.intents import ChooseModel, OpenSession
from ollm_tui.tui.protocol.undo import ApplyUndo, since
from ollm_tui.tui.slash_commands import SlashCommand, SlashCommands
from ollm_tui.tui.values import Activity

if TYPE_CHECKING:
    from textual.app import App

    from ollm_tui.tui.external_editor import ExternalEditor
    from ollm_tui.tui.protocol.updates import Update
    from ollm_tui.tui.screens.dashboard_screen import Dashboard
    from ollm_tui.tui.screens.memory_screen import MemoryScreen
    from ollm_tui.tui.screens.models_screen import ModelsScreen
    from ollm_tui.tui.screens.policy_screen import PolicyScreen
    from ollm_tui.tui.screens.rewind_screen import RewindChoice, RewindScreen
    from ollm_tui.tui.screens.sessions_screen import SessionsScreen


MODES = ("ask", "auto-edit", "plan", "yolo")


class ScreenCommands:
    """Opens screens over the dashboard, which are imported when they are first opened."""

    def __init__(self, app: App[int], dashboard: Dashboard, editor: ExternalEditor) -> None:
        self._app = app
        self._editor = editor
        self._dashboard = dashboard
        self._open: SessionsScreen | RewindScreen | PolicyScreen | ModelsScreen | MemoryScreen | None = None

    def slash_commands(self) -> Iterator[SlashCommand]:
        """Yield the commands of the prompt."""
        yield SlashCommand("new", "Begin a new session; this one stays in the list", lambda _: self.begin())
        yield SlashCommand(
            "resume", "Go on with an earlier session, narrowed to what has the words in it", self.browse, "[WORDS]"
        )
        yield SlashCommand(
            "rewind", "Go back to before one of your messages: conversation, files, or both", lambda _: self.rewind()
        )
        yield SlashCommand("memory", "What is remembered", self.memory, "[WORDS]", in_palette=False)
        yield SlashCommand("model", "The models there are; NAME takes that one", self.models, "[NAME]")
        yield SlashCommand("policy", "What holds and why, and what would happen to a call", lambda _: self.policy())

    def models(self, name: str = "") -> None:
        """Take the model of a name; without one open the list."""
        from ollm_tui.tui.screens.models_screen import ModelsScreen

        if name:
            self._app.post_message(ChooseModel(name))
            return
        self._open = screen = ModelsScreen()
        self._app.push_screen(screen)

    def memory(self, containing: str = "") -> None:
        """Open the memory, narrowed to what contains the text."""
        from ollm_tui.tui.screens.memory_screen import MemoryScreen

        self._open = screen = MemoryScreen(self._dashboard.presses, containing, self._dashboard.waiting)
        self._app.push_screen(screen)

    def policy(self) -> None:
        """Open the policy."""
        from ollm_tui.tui.screens.policy_screen import PolicyScreen

        self._open = screen = PolicyScreen(self._editor, self._dashboard.presses)
        self._app.push_screen(screen)

    def take(self, update: Update) -> None:
        """Hand an update to the open screen."""
        if self._open is not None and self._open.is_attached:
            self._open.take(update)

    def browse(self, containing: str = "") -> None:
        """Open the list of sessions."""
        from ollm_tui.tui.screens.sessions_screen import SessionsScreen

        self._open = screen = SessionsScreen(self._dashboard.presses, containing)
        self._app.push_screen(screen)

    def help(self, commands: SlashCommands) -> None:
        """Open the help."""
        from ollm_tui.tui.screens.help_screen import HelpScreen

        self._app.push_screen(HelpScreen(commands))

    def begin(self) -> None:
        """Begin a new session."""
        self._app.post_message(OpenSession())

    def rewind(self) -> None:
        """Ask for a message, and go on in a fork from before it."""
        from ollm_tui.tui.screens.rewind_screen import RewindScreen, Scope

        if self._dashboard.status.activity not in (Activity.IDLE, Activity.FAILED):
            self._app.notify("A turn is running. Stop it first (Esc twice), then /rewind.", markup=False)
            return

        def go_back(choice: RewindChoice | None) -> None:
            if choice is None:
                return
            row = choice.request
            if choice.scope is Scope.FILES:
                self._app.post_message(ApplyUndo(since(row.event_id)))
                return
            self._app.post_message(OpenSession(before=row.event_id, files=choice.scope is Scope.BOTH))
            prompt = self._dashboard.prompt
            prompt.text = row.text if not prompt.text.strip() else f"{prompt.text}\n{row.text}"
            prompt.move_cursor(prompt.document.end)

        self._open = screen = RewindScreen(self._dashboard.presses)
        self._app.push_screen(screen, go_back)


def pane_commands(show: Dashboard) -> Iterator[SlashCommand]:
    """Yield the commands that go to a pane or do something there."""
    yield SlashCommand("copy", "Copy the last answer to the clipboard", lambda _: show.chat.copy_answer())
    yield SlashCommand(
        "fold", "Fold or unfold everything in the conversation", lambda _: show.action_fold(), in_palette=False
    )
    over = show.dialogs
    yield SlashCommand("jobs", "Commands that run in the background", lambda _: over.open_jobs(), in_palette=False)
    yield SlashCommand("terminal", "Go to the terminal", lambda _: show.action_terminal(), in_palette=False)
    yield SlashCommand("todos", "Go to the todo list", lambda _: show.go_to(Pane.TODO))
    yield SlashCommand(
        "trust",
        "Look at this folder's own config file and instructions, and let them count",
        lambda _: show.action_trust(),
    )
    yield SlashCommand("undo", "What calls changed, and the way back", lambda _: over.open_undo())


def app_commands(app: App[int], show: Dashboard) -> Iterator[SlashCommand]:
    """Yield the commands about the whole: help, mode, theme, and quitting."""

    def choose_mode(mode: str) -> None:
        if mode in MODES:
            show.dialogs.choose_mode(mode)
        else:
            app.notify(f"Write /mode and one of {', '.join(MODES)}.", markup=False)

    def choose_theme(theme: str) -> None:
        if theme in app.available_themes:
            app.theme = theme
        else:
            app.action_change_theme()

    async def leave(_: str) -> None:
        await app.run_action("leave")

    async def explain(_: str) -> None:
        await app.run_action("open('help')")

    yield SlashCommand("exit", "Quit", leave, in_palette=False)
    yield SlashCommand("help", "All keys, and the documentation", explain, in_palette=False)
    yield SlashCommand("mode", "Change the policy mode", choose_mode, "|".join(MODES), lambda: MODES, in_palette=False)
    yield SlashCommand("quit", "Quit; asks while something is live", leave, in_palette=False)
    yield SlashCommand("theme", "Change the theme", choose_theme, "[NAME]", lambda: app.available_themes)


def palette_entries(app: App[int], show: Dashboard, commands: SlashCommands) -> Iterator[SystemCommand]:
    """Yield the entries of the palette: every action with a key, and more."""
    for owner in (app, show, show.prompt):
        for binding in type(owner).BINDINGS:
            if not isinstance(binding, Binding) or (owner is show.prompt and binding.id != "prompt.editor"):
                continue  # the rest of the prompt's keys mean what was typed just now
            if binding.action != "command_palette":
                run = partial(app.run_action, binding.action, owner)
                yield SystemCommand(binding.description, f"{binding.tooltip} ({app.get_key_display(binding)})", run)
    for mode in MODES:
        words = (
            "Run everything without asking, except what is denied or always asked about"
            if mode == "yolo"
            else "Change the policy mode"
        )
        yield SystemCommand(f"Mode: {mode}", words, partial(show.dialogs.choose_mode, mode))
    term = show.term
    for action, name, words in (
        ("interrupt", "Interrupt command", "Ctrl+C for the agent's command in front of the terminal"),
        ("take_over", "Take over command", "Go on yourself with the agent's command in front of the terminal"),
    ):
        if term.check_action(action, ()):
            yield SystemCommand(name, words, partial(term.run_action, action))
    for command in commands:
        if command.in_palette:
            yield SystemCommand(f"/{command.name}", command.summary, partial(command.run, ""))
