"""The dashboard's app: paints first, opens the backend behind the first frame, and closes both."""

from __future__ import annotations

import asyncio
import logging
import os
import signal as signals
import time
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import App, SystemCommand
from textual.binding import BindingType
from textual.screen import Screen

from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.escape import visible
from ollm_tui.options import Options
from ollm_tui.tui.attention import Attention
from ollm_tui.tui.backend_holder import BackendHolder
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys, register_loader
from ollm_tui.tui.external_editor import EditorError, ExternalEditor
from ollm_tui.tui.first_frame import DEFAULT_THEME, collect_garbage, end_start, first_frame
from ollm_tui.tui.key_order import KeyOrder
from ollm_tui.tui.link_opener import LinkOpener
from ollm_tui.tui.links import LinkAsked
from ollm_tui.tui.panes.terminal_prefix import TerminalPrefix
from ollm_tui.tui.protocol import Backend, OpenBackend, updates
from ollm_tui.tui.protocol.intents import Intent, InterruptTurn, ReportFocus, RetryTurn, SendMessage
from ollm_tui.tui.screens import load_all
from ollm_tui.tui.screens.dashboard_screen import Dashboard
from ollm_tui.tui.session_commands import MODES, SessionCommands, palette_entries, pane_commands
from ollm_tui.tui.signals import leave_on_signals
from ollm_tui.tui.slash_commands import SlashCommand, SlashCommands, conversation_commands, message_command
from ollm_tui.tui.terminal import LEAVE_KEY, REVIEW_KEY
from ollm_tui.tui.themes import ThemedStylesheet, packaged_theme
from ollm_tui.tui.values import Activity
from ollm_tui.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from textual.driver import Driver

    from ollm_tui.tui.screens.memory_screen import MemoryScreen
    from ollm_tui.tui.screens.question_screens import QuitChoice

log = logging.getLogger(__name__)

STYLES = ("dashboard", "panes", "confirm", "dialogs")
COLLECT_AFTER_SECONDS = 1.0
"""After the backend is ready: by then its first updates are drawn."""

EXIT_ON_SIGNAL = 130
"""Exit code after a signal (contract section 0)."""


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
            ("f1", "help", "Help", "app.help", "All keys"),
            ("ctrl+p", "command_palette", "Palette", "app.palette", "Find and run any action"),
            ("ctrl+n", "memory", "Memory", "app.memory", "Read, edit and delete what is remembered"),
            ("ctrl+s", "sessions", "Sessions", "session.pick", "Go on with an earlier session, or begin a new one"),
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
        self.key_order = KeyOrder(self, self._take_key)
        self._first = first_frame(options)
        name = self._first.theme
        self.register_theme(packaged_theme(name if name not in self.available_themes else DEFAULT_THEME))
        self.theme = name if name in self.available_themes else DEFAULT_THEME
        self.stylesheet = ThemedStylesheet(self.get_css_variables())
        self.dashboard = Dashboard(self.clock.monotonic)
        folder = options.workspace or Path()
        self.dashboard.prompt.completer.folder = self.dashboard.term.workspace = folder
        self.dashboard.chat.transcript.links.folders = lambda: (folder,)
        self.holder = BackendHolder(self.post_update)
        self.attention = Attention(self._write_out, os.environ)
        self.editor = ExternalEditor(self)
        self.opener = LinkOpener(self, self.editor, self.dashboard.presses)
        self.sessions = SessionCommands(self, self.dashboard, self.editor)
        self.commands = self._slash_commands()
        self.dashboard.prompt.completer.commands = self.commands
        self.animation_level = "none"
        self._open_backend = open_backend
        self._memory: MemoryScreen | None = None

    def get_default_screen(self) -> Screen[None]:
        """Return the dashboard."""
        return self.dashboard

    def on_mount(self) -> None:
        """Open the backend once the first frame is painted, and end tidily on signals."""
        self.call_after_refresh(self._start_backend)
        leave_on_signals(self._leave_on_signal, lambda: self.editor.is_open)

    def on_unmount(self) -> None:
        """Restore the signal handler."""
        signals.signal(signals.SIGHUP, signals.SIG_DFL)

    def _leave_on_signal(self) -> None:
        self.run_worker(self.leave(EXIT_ON_SIGNAL), name="leave on signal", exit_on_error=False)

    # -- the backend -------------------------------------------------------------------------------------------------

    def _start_backend(self) -> None:
        def started() -> None:
            self.set_timer(COLLECT_AFTER_SECONDS, end_start)
            remember = partial(self.dashboard.prompt.remember, self.options.workspace or Path())
            self.run_worker(remember, name="prompt history", exit_on_error=False)

        self.run_worker(self.holder.hold(self._import_backend(), started), name="backend", exit_on_error=False)

    async def _import_backend(self) -> AbstractAsyncContextManager[Backend]:
        if self._open_backend is not None:
            return self._open_backend(self.post_update)
        # Models, providers and the store take as long to import as the screen: import them later, off the loop.
        # Freeing the garbage of the first frame (1.4 MB) makes room for them.
        collect_garbage()
        from importlib import import_module

        await asyncio.to_thread(import_module, "ollm_tui.tui.controllers.runtime_controller")
        from ollm_tui.tui.controllers.runtime_controller import open_backend

        return open_backend(self.options, self.post_update, self.clock)

    def post_update(self, update: updates.Update) -> bool:
        """Post an update to the dashboard, from any task or thread."""
        return self.dashboard.post_message(update)

    @on(updates.SettingsUpdate)
    def _adopt(self, message: updates.SettingsUpdate) -> None:
        """Apply the screen settings once they are known."""
        settings = message.settings
        for theme in settings.themes:
            self.register_theme(theme)
        if settings.theme in self.available_themes:
            self.theme = settings.theme
        elif settings.theme:
            self.notify(f"There is no theme {visible(settings.theme)}; /theme lists them.", markup=False, timeout=15)
        self.set_keymap(settings.keys)
        self.dashboard.reviewing.auto_open.enabled = settings.auto_open
        self.attention.how = settings.notify
        self.dashboard.term.allow_clipboard(settings.allow_clipboard)

    @on(updates.PromptFilesUpdate)
    def _offer_prompt_files(self, message: updates.PromptFilesUpdate) -> None:
        """Complete and explain the commands and skills that are kept as files."""
        self.commands.offer_messages(map(message_command, message.files))
        self.dashboard.prompt.completer.resources = message.resources

    @on(Intent)
    async def _take_intent(self, intent: Intent) -> None:
        """Run `!` lines and `/` commands; pass every other intent to the backend."""
        match intent:
            case SendMessage(text) if text.startswith("!"):
                self.dashboard.show_terminal()
                self.dashboard.term.type_into_shell(text[1:].strip())
            case SendMessage(text) if text.startswith("/") and await self._run_slash_command(text):
                pass
            case RetryTurn() if self.holder.failed:
                self._start_backend()
            case _:
                self.holder.handle(intent)

    async def _run_slash_command(self, text: str) -> bool:
        """Run a `/command`. False for what is none: `/etc/hosts` may well begin a message."""
        unknown = None if self.commands.is_message(text) else await self.commands.run(text)
        if unknown is None:
            return not self.commands.is_message(text)
        if "/" in unknown or not unknown:
            return False
        self.notify(f"There is no /{visible(unknown)}. /help lists what there is.", markup=False)
        return True

    def _slash_commands(self) -> SlashCommands:
        """Return the commands of the prompt; each also stands in the help, and in the palette where no key does."""
        return SlashCommands(
            *self.sessions.slash_commands(),
            *conversation_commands(self.holder.handle),
            *pane_commands(self.dashboard),
            SlashCommand("exit", "Quit", lambda _: self.action_leave(), in_palette=False),
            SlashCommand("help", "All keys, and the documentation", lambda _: self.action_help(), in_palette=False),
            SlashCommand("memory", "What is remembered", self.action_memory, "[WORDS]", in_palette=False),
            SlashCommand(
                "mode", "Change the policy mode", self._choose_mode, "|".join(MODES), lambda: MODES, in_palette=False
            ),
            SlashCommand("quit", "Quit; asks while something is live", lambda _: self.action_leave(), in_palette=False),
            SlashCommand("theme", "Change the theme", self._choose_theme, "[NAME]", lambda: self.available_themes),
        )

    def _choose_mode(self, mode: str) -> None:
        if mode in MODES:
            self.dashboard.action_choose_mode(mode)
        else:
            self.notify(f"Write /mode and one of {', '.join(MODES)}.", markup=False)

    def _choose_theme(self, theme: str) -> None:
        if theme in self.available_themes:
            self.theme = theme
        else:
            self.action_change_theme()

    # -- keys --------------------------------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        """Let keys and pastes act in the order they were typed."""
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            if isinstance(event, events.MouseDown) and not event.is_forwarded:
                self._note_press(event)
            await super().on_event(event)
        elif not self.key_order.holds_back(event):
            await self._take_key(event)

    async def _take_key(self, event: events.Key | events.Paste) -> None:
        """Give a key to what has the focus; unless it is text there, later keys wait for what it does."""
        self._note_press(event)
        self.dashboard.key_typed(event.key if isinstance(event, events.Key) else "")
        target = self.focused or self.screen
        if isinstance(target, TerminalPrefix) and target.yields_to(event):
            self.key_order.postpone(event, target)
            return
        is_text = (
            isinstance(event, events.Paste)
            or target.check_consume_key(event.key, event.character)
            or (self.program_takes_keys() and event.key not in (LEAVE_KEY, REVIEW_KEY))
        )
        await super().on_event(event)
        if not is_text:
            self.key_order.follow(target)

    def _note_press(self, event: events.Event) -> None:
        # A key that waited behind another was pressed before: the driver's thread made the event.
        age = max(0.0, time.monotonic() - event.time)
        character = event.character if isinstance(event, events.Key) and event.is_printable else None
        self.dashboard.reviewing.key_pressed(age, character or "")

    def program_takes_keys(self) -> bool:
        """Whether keys go to a program; also asked in the driver's thread."""
        view = self.dashboard.term.view
        return self.screen is self.dashboard and view is not None and view.takes_keys

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
            return action not in ("help", "memory", "sessions", "command_palette", "leave", "copy_or_stop")
        if action == "help":
            return self.screen.name != "help"
        if action in ("memory", "sessions"):
            return self.screen is self.dashboard
        return super().check_action(action, parameters)

    def action_help(self) -> None:
        """Open the help."""
        from ollm_tui.tui.screens.help_screen import HelpScreen

        self.push_screen(HelpScreen(self.commands))

    def action_sessions(self) -> None:
        """Open the list of sessions."""
        self.sessions.browse()

    def action_memory(self, containing: str = "") -> None:
        """Open the memory, narrowed to what contains the text."""
        from ollm_tui.tui.screens.memory_screen import MemoryScreen

        self._memory = MemoryScreen(self.dashboard.presses, containing, self.dashboard.waiting)
        self.push_screen(self._memory)

    @on(updates.Update)
    def _show_in_screen(self, message: updates.Update) -> None:
        self.attention.follow(self.dashboard.status.word)
        self.sessions.take(message)
        if self._memory is not None and self._memory.is_attached:
            self._memory.take(message)

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
        backend = self.holder.backend
        unfinished = backend.unfinished() if backend is not None else None
        if not unfinished:
            await self.leave()
            return
        from ollm_tui.tui.screens.question_screens import QuitScreen

        if not isinstance(self.screen, QuitScreen):
            self.push_screen(QuitScreen(unfinished, self.dashboard.presses), self._leave_as)

    async def _leave_as(self, how: QuitChoice | None) -> None:
        """Quit in the way that was chosen; stay when jobs cannot be left running."""
        backend = self.holder.backend
        if how is None or backend is None:
            return
        if how == "leave":
            failures = await backend.leave_jobs()
            for failure in failures:
                self.notify(visible(failure), severity="error", markup=False, timeout=15)
            if failures:
                return
        else:
            await backend.end_jobs()
        await self.leave()

    async def leave(self, code: int = 0) -> None:
        """Close the backend, which saves, and then the screen."""
        if self.holder.backend is not None:
            self.notify("Closing ...", markup=False)
        self.attention.give_title_back()
        await self.holder.close()
        self.exit(code)

    def on_app_focus(self, event: events.AppFocus) -> None:
        """Report that the window has the focus again."""
        # The click that brings the window back must not press anything.
        self.dashboard.reviewing.window_returned()
        self.attention.focus_changed(True)
        self.holder.handle(ReportFocus(True))

    def on_app_blur(self, event: events.AppBlur) -> None:
        """Report that the window lost the focus."""
        self.attention.focus_changed(False)
        self.holder.handle(ReportFocus(False))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """Return the entries of the palette: every action with a key, and more."""
        yield from palette_entries(self, self.dashboard, self.commands)
        yield SystemCommand("Screenshot", "Save an SVG picture of the screen", self.deliver_screenshot)
