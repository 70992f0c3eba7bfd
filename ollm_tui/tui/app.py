"""The dashboard's app: paints first, opens the backend behind the first frame, and closes both."""

from __future__ import annotations

import logging
import os
import signal as signals
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from textual import events, on
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.escape import visible
from ollm_tui.options import Options
from ollm_tui.tui.backend_holder import BackendHolder, runtime_backend
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys, register_loader
from ollm_tui.tui.external_editor import EditorError, ExternalEditor
from ollm_tui.tui.first_frame import DEFAULT_THEME, first_frame
from ollm_tui.tui.garbage import IdleCollector
from ollm_tui.tui.key_order import KeyOrder
from ollm_tui.tui.leaving import Leaving
from ollm_tui.tui.link_opener import LinkOpener
from ollm_tui.tui.links import LinkAsked
from ollm_tui.tui.notifications import Notifier
from ollm_tui.tui.pictures.outer_pictures import OuterPictures
from ollm_tui.tui.protocol import OpenBackend, updates
from ollm_tui.tui.protocol.intents import Intent, InterruptTurn, ReportFocus, RetryTurn, SendMessage
from ollm_tui.tui.screen_commands import ScreenCommands, app_commands, palette_entries, pane_commands
from ollm_tui.tui.screens import load_all
from ollm_tui.tui.screens.dashboard_screen import Dashboard
from ollm_tui.tui.slash_commands import SlashCommands, conversation_commands, message_command
from ollm_tui.tui.themes import ThemedStylesheet, packaged_theme
from ollm_tui.tui.values import Activity
from ollm_tui.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from textual.driver import Driver


log = logging.getLogger(__name__)

STYLES = ("dashboard", "panes", "confirm", "dialogs")
COLLECT_AFTER_SECONDS = 1.0
"""After the backend is ready: by then its first updates are drawn."""

register_loader(load_all)


@register_keys(KeyGroup.EVERYWHERE)
class DashboardApp(App[int]):
    """Composition root of the screen; no agent logic."""

    TITLE = "ollm-tui"
    CSS_PATH = [Path(__file__).parent / "styles" / f"{name}.tcss" for name in STYLES]  # noqa: RUF012  # as in App
    ENABLE_COMMAND_PALETTE = True
    ESCAPE_TO_MINIMIZE = False

    BINDINGS: ClassVar[list[BindingType]] = [
        *key_bindings(
            ("f1", "open('help')", "Help", "app.help", "All keys"),
            ("ctrl+p", "command_palette", "Palette", "app.palette", "Find and run any action"),
            ("ctrl+n", "open('memory')", "Memory", "app.memory", "Read, edit and delete what is remembered"),
            (
                "ctrl+s",
                "open('sessions')",
                "Sessions",
                "session.pick",
                "Go on with an earlier session, or begin a new one",
            ),
            priority=True,
        ),
        *key_bindings(("ctrl+c", "copy_or_stop", "Copy", "app.copy", "Copy what is selected; else stop the turn")),
        *key_bindings(("ctrl+q", "leave", "Quit", "app.quit", "Quit; asks while something is live"), priority=True),
    ]

    def __init__(
        self,
        options: Options,
        *,
        open_backend: OpenBackend | None = None,
        clock: Clock | None = None,
    ) -> None:
        """`open_backend` and `clock` replace the real ones in tests."""
        super().__init__()
        self.options = options
        self.clock = clock or SystemClock()
        self._first = first_frame(options)
        name = self._first.theme
        self.register_theme(packaged_theme(name if name not in self.available_themes else DEFAULT_THEME))
        self.theme = name if name in self.available_themes else DEFAULT_THEME
        self.stylesheet = ThemedStylesheet(self.get_css_variables())
        self.dashboard = Dashboard(self.clock.monotonic)
        self.collector = IdleCollector(self.set_timer, self.clock.monotonic)
        self.key_order = KeyOrder(self, self.dashboard, super().on_event)
        self.program_takes_keys = self.key_order.program_takes_keys
        folder = options.workspace or Path()
        self.dashboard.prompt.completer.folder = self.dashboard.term.workspace = folder
        self.dashboard.chat.transcript.links.folders = lambda: (folder,)
        open_backend = open_backend or runtime_backend(options, self.clock)
        self.holder = BackendHolder(self, partial(open_backend, self.post_update), self._backend_started)
        self.notifier = Notifier(self._write_out, os.environ)
        self.pictures = OuterPictures(
            self._write_out, colours=self.console.color_system == "truecolor" and not self.no_color
        )
        self.take_terminal_version = self.pictures.take_version
        self.dashboard.term.outer_pictures = self.pictures
        self.leaving = Leaving(self, self.holder, self.notifier, self.dashboard.presses)
        self.editor = ExternalEditor(self)
        self.opener = LinkOpener(self, self.editor, self.dashboard.presses)
        self.screens = ScreenCommands(self, self.dashboard, self.editor)
        self.commands = SlashCommands(
            *self.screens.slash_commands(),
            *conversation_commands(self.holder.handle),
            *pane_commands(self.dashboard),
            *app_commands(self, self.dashboard),
        )
        self.dashboard.prompt.completer.commands = self.commands
        self._tell = partial(self.notify, markup=False)
        self.animation_level = "none"

    def get_default_screen(self) -> Screen[None]:
        """Return the dashboard."""
        return self.dashboard

    def on_mount(self) -> None:
        """Open the backend once the first frame is painted, and end tidily on signals."""
        self.call_after_refresh(self.holder.start)
        self.leaving.on_signals(lambda: self.editor.is_open)

    def on_unmount(self) -> None:
        """Restore the signal handler, and have the outer terminal forget our pictures."""
        self.pictures.forget()
        signals.signal(signals.SIGHUP, signals.SIG_DFL)

    # -- the backend -------------------------------------------------------------------------------------------------

    def _backend_started(self) -> None:
        self.set_timer(COLLECT_AFTER_SECONDS, self.collector.end_start)
        remember = partial(self.dashboard.prompt.remember, self.options.workspace or Path())
        self.run_worker(remember, name="prompt history", exit_on_error=False)

    def post_update(self, update: updates.Update) -> bool:
        """Post an update to the dashboard, from any task or thread."""
        return self.dashboard.post_message(update)

    @on(updates.Update)
    def _take_update(self, message: updates.Update) -> None:
        """Take what concerns more than the dashboard, which has taken it already."""
        match message:
            case updates.SettingsUpdate(settings):
                adopt_settings(self, settings)
            case updates.PromptFilesUpdate(files, resources):
                self.commands.offer_messages(map(message_command, files))
                self.dashboard.prompt.completer.resources = resources
            case _:
                pass
        self.notifier.follow(self.dashboard.status.word)
        self.screens.take(message)
        self.collector.consider()

    @on(Intent)
    async def _take_intent(self, intent: Intent) -> None:
        """Run `!` lines and `/` commands; pass every other intent to the backend."""
        match intent:
            case SendMessage(text) if text.startswith("!"):
                self.dashboard.show_terminal()
                self.dashboard.term.type_into_shell(text[1:].strip())
            case SendMessage(text) if text.startswith("/") and await self.commands.take(
                text, partial(self.notify, markup=False)
            ):
                pass
            case RetryTurn() if self.holder.failed:
                self.holder.start()
            case _:
                self.holder.handle(intent)

    # -- keys --------------------------------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Let keys and pastes act in the order they were typed."""
        if isinstance(event, events.InputEvent | events.Paste):
            self.collector.note_key()
        if isinstance(event, events.Key | events.Paste) and not event.is_forwarded:
            await self.key_order.take(event)
            return
        if isinstance(event, events.MouseDown) and not event.is_forwarded:
            self.key_order.note_press(event)
        await super().on_event(event)

    def _write_out(self, sequence: str) -> None:
        """Send a control sequence to the outer terminal."""
        if self._driver is not None:
            self._driver.write(sequence)

    def modify_outer_keys(self, level: int) -> None:
        """Ask the outer terminal for modified keys as the focused program did."""
        from ollm_tui.tui.terminal.raw_keys import RawKeyDriver

        if isinstance(self._driver, RawKeyDriver):
            self._driver.modify_keys(level)

    def get_driver_class(self) -> type[Driver]:
        """Return the driver that reads a program's keys as they were typed."""
        driver_class = super().get_driver_class()
        if driver_class.__name__ != "LinuxDriver":
            return driver_class
        try:
            from ollm_tui.tui.terminal.raw_keys import RawKeyDriver
        except ImportError:  # a Textual with another parser: keys as it names them
            return driver_class
        return RawKeyDriver

    # -- actions -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now."""
        # Textual asks priority bindings before the focused widget: a program in the terminal must get its keys.
        if self.screen is self.dashboard and self.dashboard.term.captures_keys:
            return action not in ("open", "command_palette", "leave", "copy_or_stop")
        if action == "open":
            return self.screen.name != "help" if parameters == ("help",) else self.screen is self.dashboard
        return super().check_action(action, parameters)

    def action_open(self, screen: Literal["help", "memory", "sessions"]) -> None:
        """Open a screen that has a key everywhere."""
        match screen:
            case "help":
                self.screens.help(self.commands)
            case "memory":
                self.screens.memory()
            case "sessions":
                self.screens.browse()

    @on(Prompt.EditorAsked)
    def _edit_draft(self, message: Prompt.EditorAsked) -> None:
        async def edit() -> None:
            try:
                self.dashboard.prompt.take_edited(message.draft, await self.editor.edit(message.draft))
            except EditorError as error:
                self.notify(visible(str(error)), severity="error", markup=False, timeout=15)

        if not self.editor.is_open:
            self.run_worker(edit(), name="editor", exit_on_error=False)

    @on(LinkAsked)
    def _open_link(self, message: LinkAsked) -> None:
        self.opener.open(message.link)

    def action_copy_or_stop(self) -> None:
        """Stop the running turn; a selection is copied by Textual before this runs."""
        if self.dashboard.status.activity not in (Activity.IDLE, Activity.FAILED):
            self.dashboard.post_message(InterruptTurn())
        else:
            self.notify("ctrl+q quits.", markup=False)

    async def action_leave(self) -> None:
        """Quit; while something is live, ask first."""
        await self.leaving.ask()

    @on(events.AppFocus)
    @on(events.AppBlur)
    def _window_focus_changed(self, event: events.AppFocus | events.AppBlur) -> None:
        """Report that the window has the focus again, or lost it."""
        focused = isinstance(event, events.AppFocus)
        if focused:
            # The click that brings the window back must not press anything.
            self.dashboard.reviewing.window_returned()
        self.notifier.focus_changed(focused)
        self.holder.handle(ReportFocus(focused))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Return the entries of the palette: every action with a key, and more."""
        yield from palette_entries(self, self.dashboard, self.commands)
        yield SystemCommand("Screenshot", "Save an SVG picture of the screen", self.deliver_screenshot)


def adopt_settings(app: DashboardApp, settings: updates.ScreenSettings) -> None:
    """Apply the screen settings once they are known."""
    for theme in settings.themes:
        app.register_theme(theme)
    if settings.theme in app.available_themes:
        app.theme = settings.theme
    elif settings.theme:
        app.notify(f"There is no theme {visible(settings.theme)}; /theme lists them.", markup=False, timeout=15)
    app.set_keymap(settings.keys)
    app.dashboard.reviewing.auto_open.enabled = settings.auto_open
    app.notifier.how = settings.notify
    app.dashboard.term.allow_clipboard(settings.allow_clipboard)
