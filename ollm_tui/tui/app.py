"""The dashboard's app: paints first, builds the house behind the first frame, and takes both down again."""

from __future__ import annotations

import asyncio
import logging
import signal as signals
from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.screen import Screen

from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.escape import visible
from ollm_tui.options import Options
from ollm_tui.tui import protocol, start
from ollm_tui.tui.first_frame import DEFAULT_THEME, first_frame
from ollm_tui.tui.key_order import KeyOrder
from ollm_tui.tui.panes.conversation_pane import ConversationPane
from ollm_tui.tui.protocol import Backend, Intent, OpenBackend
from ollm_tui.tui.screens.dashboard_screen import Dashboard
from ollm_tui.tui.themes import packaged_theme
from ollm_tui.tui.values import Activity
from ollm_tui.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from ollm_tui.tui.screens.memory_screen import MemoryScreen
    from ollm_tui.tui.screens.quit_screen import QuitChoice

log = logging.getLogger(__name__)

STYLES = ("base", "dashboard", "panes", "confirm", "dialogs", "memory")
TIDY_AFTER_SECONDS = 1.0
"""After the house stands: by then the first news is drawn."""

TOLD_TO_END = 130
"""Exit code after a signal (contract section 0)."""

MODES = ("ask", "auto-edit", "plan", "yolo")


class DashboardApp(App[int]):
    """Composition root of the screen; no agent logic. `open_house` builds what stands behind it."""

    TITLE = "ollm-tui"
    CSS_PATH = [Path(__file__).parent / "styles" / f"{name}.tcss" for name in STYLES]  # noqa: RUF012  # as in App
    ENABLE_COMMAND_PALETTE = True
    ESCAPE_TO_MINIMIZE = False

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f1", "help", "Help", id="app.help", tooltip="All keys", priority=True),
        Binding(
            "ctrl+p", "command_palette", "Palette", id="app.palette", tooltip="Find and run any action", priority=True
        ),
        Binding(
            "ctrl+n",
            "memory",
            "Memory",
            id="app.memory",
            tooltip="Read, edit and delete what is remembered",
            priority=True,
        ),
        Binding("ctrl+c", "copy_or_stop", "Copy", id="app.copy", tooltip="Copy what is selected; else stop the turn"),
        Binding("ctrl+q", "leave", "Quit", id="app.quit", tooltip="Quit; asks while something is live", priority=True),
    ]

    def __init__(
        self, options: Options, *, open_house: OpenBackend | None = None, clock: Clock | None = None, blink: bool = True
    ) -> None:
        super().__init__()
        self.options = options
        self.clock = clock or SystemClock()
        self.key_order = KeyOrder(self, self._take_key)
        self._first = first_frame(options)
        self.dashboard = Dashboard(self.clock.monotonic, blink=blink and not self._first.reduced_motion)
        self.animation_level = "none"
        self._open_house = open_house
        self._steward: Backend | None = None
        self._held_back: list[Intent] = []
        self._memory: MemoryScreen | None = None
        self._broken = False
        self._leaving = asyncio.Event()
        self._house_closed = asyncio.Event()
        self.last_words: tuple[str, ...] = ()
        """What the person has to know once their terminal is theirs again."""

    def get_default_screen(self) -> Screen[None]:
        return self.dashboard

    def on_mount(self) -> None:
        name = self._first.theme
        self.register_theme(packaged_theme(name if name not in self.available_themes else DEFAULT_THEME))
        self.theme = name if name in self.available_themes else DEFAULT_THEME
        self.call_after_refresh(self._start_house)
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signals.SIGTERM, self._told_to_end)

        def hung_up(number: int, frame: object) -> None:
            # At once, not from the loop: the SIGCONT that comes along makes Textual write to the terminal.
            start.let_go_of_lost_terminal()
            loop.call_soon_threadsafe(self._told_to_end)

        signals.signal(signals.SIGHUP, hung_up)

    def on_unmount(self) -> None:
        signals.signal(signals.SIGHUP, signals.SIG_DFL)

    def _told_to_end(self) -> None:
        """The system wants this process gone, or its terminal is: what runs is ended as at any end."""
        self.run_worker(self._leave(TOLD_TO_END), name="told to end", exit_on_error=False)

    # -- the house ---------------------------------------------------------------------------------------------------

    def _start_house(self) -> None:
        self._broken = False
        self.run_worker(self._live_in_house(), name="house", exit_on_error=False)

    async def _live_in_house(self) -> None:
        """Keep the house open until the app is left; nothing that goes wrong in it takes the screen down."""
        try:
            async with await self._house() as steward:
                self._steward = steward
                self.set_timer(TIDY_AFTER_SECONDS, start.end_start)
                for intent in self._held_back:
                    steward.handle(intent)
                self._held_back.clear()
                await self._leaving.wait()
        except Exception as error:
            log.exception("the house could not be kept")
            self._broken = True
            start.end_start()
            self.tell(protocol.ActivityUpdate(Activity.FAILED, fault=f"{type(error).__name__}: {error}"))
        finally:
            if self._steward is not None:
                self.last_words = self._steward.last_words()
            self._steward = None
            self._house_closed.set()

    async def _house(self) -> AbstractAsyncContextManager[Backend]:
        if self._open_house is not None:
            return self._open_house(self.tell)
        # Models, providers and the store take as long to import as the screen itself: not before it, not on its loop.
        # What painting the first frame has left behind (1.4 MB) makes room for them.
        start.tidy_memory()
        from importlib import import_module

        await asyncio.to_thread(import_module, "ollm_tui.tui.controllers.runtime_controller")
        from ollm_tui.tui.controllers.runtime_controller import open_house

        return open_house(self.options, self.tell, self.clock)

    def tell(self, message: protocol.Update) -> bool:
        """Hand news to the dashboard; from any task or thread."""
        return self.dashboard.post_message(message)

    @on(protocol.SettingsUpdate)
    def _adopt(self, message: protocol.SettingsUpdate) -> None:
        """Take over what the settings say about the screen, once they are known."""
        settings = message.settings
        for theme in settings.themes:
            self.register_theme(theme)
        if settings.theme in self.available_themes:
            self.theme = settings.theme
        elif settings.theme:
            self.notify(f"There is no theme {visible(settings.theme)}; /theme lists them.", markup=False, timeout=15)
        self.set_keymap(settings.keys)
        self.dashboard.reviewing.desk.auto_open = settings.auto_open
        self.dashboard.term.allow_clipboard(settings.allow_clipboard)

    @on(Intent)
    async def _take_intent(self, intent: Intent) -> None:
        """Words for the shell and the app stay here; every other wish goes to the house."""
        match intent:
            case Prompt.Sent(text) if text.startswith("!"):
                self.dashboard.show_terminal()
                self.dashboard.term.type_into_shell(text[1:].strip())
            case Prompt.Sent(text) if text.startswith("/") and await self._run_words(text):
                pass
            case ConversationPane.Retry() if self._broken:
                self._start_house()
            case _:
                self._pass_on(intent)

    def _pass_on(self, intent: Intent) -> None:
        """What is wished before the house stands waits for it."""
        if self._steward is not None:
            self._steward.handle(intent)
        else:
            self._held_back.append(intent)

    async def _run_words(self, text: str) -> bool:
        """Do what a `/command` says. False for what is none: `/etc/hosts` may well begin a message."""
        name, _, rest = text[1:].partition(" ")
        match name, rest.strip():
            case ("help", _):
                self.action_help()
            case ("quit" | "exit", _):
                await self.action_leave()
            case ("mode", mode) if mode in MODES:
                self.dashboard.action_choose_mode(mode)
            case ("theme", theme) if theme in self.available_themes:
                self.theme = theme
            case ("theme", _):
                self.action_change_theme()
            case ("retry", _):
                self._pass_on(ConversationPane.Retry())
            case ("trust", _):
                self.dashboard.action_trust()
            case ("jobs", _):
                self.dashboard.action_jobs()
            case ("fold", _):
                self.dashboard.action_fold()
            case ("memory", containing):
                self.action_memory(containing)
            case _ if "/" in name or not name:
                return False
            case _:
                self.notify(f"There is no /{visible(name)}. /help lists what there is.", markup=False)
        return True

    # -- keys --------------------------------------------------------------------------------------------------------

    async def on_event(self, event: events.Event) -> None:
        if not isinstance(event, events.Key | events.Paste) or event.is_forwarded:
            await super().on_event(event)
        elif not self.key_order.holds_back(event):
            await self._take_key(event)

    async def _take_key(self, event: events.Key | events.Paste) -> None:
        """Hand a key to what has the focus; unless it is mere text there, what follows waits for what it does."""
        self.dashboard.key_typed(event.key if isinstance(event, events.Key) else "")
        target = self.focused or self.screen
        is_text = (
            isinstance(event, events.Paste)
            or target.check_consume_key(event.key, event.character)
            or self._goes_to_program(event.key)
        )
        await super().on_event(event)
        if not is_text:
            self.key_order.follow(target)

    def _goes_to_program(self, key: str) -> bool:
        view = self.dashboard.term.view
        return self.screen is self.dashboard and view is not None and view.takes(key)

    # -- actions -----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        # Textual asks priority bindings before the focused widget: a program in the terminal must get its keys.
        if self.screen is self.dashboard and self.dashboard.term.captures_keys:
            return action not in ("help", "memory", "command_palette", "leave", "copy_or_stop")
        if action == "help":
            return self.screen.name != "help"
        if action == "memory":
            return self.screen is self.dashboard
        return super().check_action(action, parameters)

    def action_help(self) -> None:
        from ollm_tui.tui.screens.help_screen import HelpScreen

        self.push_screen(HelpScreen())

    def action_memory(self, containing: str = "") -> None:
        """Open the memory, narrowed to what has `containing` in it."""
        from ollm_tui.tui.screens.memory_screen import MemoryScreen

        self._memory = MemoryScreen(containing, self.dashboard.waiting)
        self.push_screen(self._memory)

    @on(protocol.Update)
    def _show_in_memory(self, message: protocol.Update) -> None:
        if self._memory is not None and self._memory.is_attached:
            self._memory.take(message)

    def action_copy_or_stop(self) -> None:
        if self.dashboard.status.activity not in (Activity.IDLE, Activity.FAILED):
            self.dashboard.post_message(Dashboard.InterruptWanted())
        else:
            self.notify("ctrl+q quits.", markup=False)

    async def action_leave(self) -> None:
        """Quit; while something is live, ask first."""
        unfinished = self._steward.unfinished() if self._steward is not None else None
        if not unfinished:
            await self._leave()
            return
        from ollm_tui.tui.screens.quit_screen import QuitScreen

        if not isinstance(self.screen, QuitScreen):
            self.push_screen(QuitScreen(unfinished), self._leave_as)

    async def _leave_as(self, how: QuitChoice | None) -> None:
        """Quit in the way that was chosen; stay where jobs cannot be left."""
        if how is None or self._steward is None:
            return
        if how == "leave":
            failures = await self._steward.leave_jobs()
            for failure in failures:
                self.notify(visible(failure), severity="error", markup=False, timeout=15)
            if failures:
                return
        else:
            await self._steward.end_jobs()
        await self._leave()

    async def _leave(self, code: int = 0) -> None:
        """Close the house first: what it has to save is saved while the screen still stands."""
        self._leaving.set()
        if self._steward is not None:
            self.notify("Closing ...", markup=False)
            try:
                await asyncio.wait_for(self._house_closed.wait(), 10)
            except TimeoutError:
                log.warning("the house did not close within 10 seconds")
                self.last_words = ("The commands were still being ended when the dashboard closed; see ps.",)
        self.exit(code)

    def on_app_focus(self, event: events.AppFocus) -> None:
        # The click that brings the window back must not press anything.
        self.dashboard.reviewing.window_returned()
        self._pass_on(Dashboard.FocusChanged(True))

    def on_app_blur(self, event: events.AppBlur) -> None:
        self._pass_on(Dashboard.FocusChanged(False))

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """The palette: every action that has a key, and the modes."""
        owners = ((self, DashboardApp.BINDINGS), (self.dashboard, Dashboard.BINDINGS))
        for owner, bindings in owners:
            for binding in bindings:
                if isinstance(binding, Binding) and binding.action != "command_palette":
                    run = partial(self.run_action, binding.action, owner)
                    yield SystemCommand(binding.description, binding.tooltip, run)
        for mode in MODES:
            words = "Everything but denies and floors runs unasked" if mode == "yolo" else "Change the policy mode"
            yield SystemCommand(f"Mode: {mode}", words, partial(self.dashboard.action_choose_mode, mode))
        term = self.dashboard.term
        for action, name, words in (
            ("interrupt", "Interrupt command", "Ctrl+C for the agent's command in front of the terminal"),
            ("take_over", "Take over command", "Go on yourself with the agent's command in front of the terminal"),
        ):
            if term.check_action(action, ()):
                yield SystemCommand(name, words, partial(term.run_action, action))
        words = "Look at this folder's own config file, and let it count"
        yield SystemCommand("Trust", words, self.dashboard.action_trust)
        yield SystemCommand("Theme", "Change the theme", self.action_change_theme)
        yield SystemCommand("Screenshot", "Save an SVG picture of the screen", self.deliver_screenshot)


def run_dashboard(options: Options) -> int:
    """As `start.run_dashboard`, for who has this module already."""
    return start.run_dashboard(options)
