"""Opens the house behind the screen and stands between the two: events become news, wishes become deeds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager

from ollm_tui.agent.events import (
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    Event,
    TodosChangedEvent,
    ToolResultEvent,
    UsageEvent,
)
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, Configuration, Runtime, open_runtime
from ollm_tui.tui import protocol
from ollm_tui.tui.bindings import faults_of
from ollm_tui.tui.controllers.commands_controller import CommandsController, StartError
from ollm_tui.tui.controllers.confirmations_controller import ConfirmationQueue, ConfirmationsController
from ollm_tui.tui.controllers.conversation_controller import ConversationController
from ollm_tui.tui.controllers.detached_jobs_controller import DetachedJobsController
from ollm_tui.tui.controllers.jobs_controller import JobsController
from ollm_tui.tui.controllers.memory_controller import MemoryController
from ollm_tui.tui.controllers.status_controller import StatusController, TrustController
from ollm_tui.tui.controllers.todos_controller import StoreWatcher, TodosController
from ollm_tui.tui.controllers.turns_controller import ActivityTracker, TurnsController
from ollm_tui.tui.conversation_entries import EntriesChanged, NoteEntry, NoteKind
from ollm_tui.tui.panes.confirmations_pane import QueuePane
from ollm_tui.tui.panes.conversation_pane import ConversationPane
from ollm_tui.tui.panes.terminal_pane import TerminalPane
from ollm_tui.tui.panes.todos_pane import TodoPane
from ollm_tui.tui.protocol import Backend, Intent, MemoryIntent, Tell
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
from ollm_tui.tui.screens.dashboard_screen import Dashboard
from ollm_tui.tui.screens.jobs_screen import JobsScreen
from ollm_tui.tui.screens.trust_screen import TrustScreen
from ollm_tui.tui.terminal_references import with_references
from ollm_tui.tui.themes import load_themes
from ollm_tui.tui.values import Activity, CommandTab, FileError, UnfinishedWork
from ollm_tui.tui.widgets.prompt import Prompt

log = logging.getLogger(__name__)


@asynccontextmanager
async def open_house(options: Options, tell: Tell, clock: Clock) -> AsyncGenerator[Backend]:
    """Assemble core and agent, and stay until the screen is left. Raises ConfigurationError."""
    last_words: list[str] = []
    async with open_runtime(options, Attendance.PERSON, clock=clock, report=last_words.append) as house:
        bridge = RuntimeController(house, tell, clock, last_words)
        await bridge.begin()
        if options.prompt:
            bridge.handle(Prompt.Sent(options.prompt))
        try:
            yield bridge
        finally:
            await bridge.close()


class RuntimeController:
    """The one place that knows both sides. Everything it tells is a frozen value; every wish is done in a task."""

    def __init__(self, house: Runtime, tell: Tell, clock: Clock, last_words: list[str]) -> None:
        self._house = house
        self._tell = tell
        self._core = house.core
        self._folder = ConversationController()
        self._activity = ActivityTracker(clock.monotonic)
        self._queue = ConfirmationQueue(self._core.bus, clock.monotonic)
        self._questions = ConfirmationsController(self._queue, self._core.executor, tell)
        self._todos = TodosController(self._core.todos)
        self._memory = MemoryController(self._core.memory, tell, clock)
        self._watcher = StoreWatcher(self._core.store, self._core.todos, self._memory.changed)
        self._turns = TurnsController(house.agent, self._turn_broke)
        left = DetachedJobsController(self._core.jobs, lambda: self._commands_changed(self._commands.tabs()))
        self._commands = CommandsController(
            self._core.hub, left, self._core.configuration.workspace.root, self._commands_changed
        )
        self._jobs = JobsController(self._core.hub, self._core.jobs, left, tell, clock)
        self._last_words = last_words
        self._runs_on: tuple[str, ...] = ()
        self._trust = TrustController(self._core, tell, self._policy_changed)
        self._tasks: set[asyncio.Task[None]] = set()
        self._around = StatusController(house, tell)
        self._folder.model = self._around.now.model
        self._unsubscribe = house.stream.subscribe(self._on_event)

    async def begin(self) -> None:
        """Tell the screen how things stand."""
        self._around.tell()
        self._say_first_notices()
        self._note(*await self._jobs.first_notes())
        self._tell(protocol.TodosUpdate(await self._todos.load()))
        self._begin(self._watcher.run())
        settings = self._core.configuration.settings
        themes = await asyncio.to_thread(load_themes)
        wanted = settings.ui.theme
        chosen = protocol.ScreenSettings(
            themes=tuple(themes.sound.values()),
            theme=wanted,
            keys=dict(settings.keys),
            auto_open=settings.ui.auto_open,
            allow_clipboard=settings.terminal.clipboard,
        )
        self._tell(protocol.SettingsUpdate(chosen))
        found = _faults_in(self._core.configuration)
        self._tell_faults(*found, *themes.faults, *faults_of(settings.keys, "config.toml"))

    async def close(self) -> None:
        """Stop the turn, and listening."""
        await self._turns.close()
        self._unsubscribe()
        self._commands.close()
        self._runs_on = await self._jobs.close()
        for task in tuple(self._tasks):
            task.cancel()

    def unfinished(self) -> UnfinishedWork:
        facts: list[str] = []
        if self._turns.busy:
            facts.append("A turn is running.")
        pending = len(self._queue.snapshot().pending)
        if pending:
            facts.append(f"{pending} approval{'s are' if pending > 1 else ' is'} waiting; quitting denies.")
        running = self._commands.running()
        if running:
            facts.append(
                f"{running} command{'s' if running > 1 else ''} of the agent still run{'' if running > 1 else 's'}."
            )
        return UnfinishedWork(tuple(facts), self._jobs.unfinished())

    async def leave_jobs(self) -> tuple[str, ...]:
        return await self._jobs.leave_all()

    async def end_jobs(self) -> None:
        self._last_words += await self._jobs.end_earlier()

    def last_words(self) -> tuple[str, ...]:
        return (*self._last_words, *self._runs_on)

    # -- events to news ----------------------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        ordinal: int | None = None
        match event:
            case ConfirmationRequestedEvent():
                ordinal = self._queue.asked(event)
            case ConfirmationSettledEvent():
                self._questions.settled(event)
            case TodosChangedEvent():
                rows = self._todos.rows_of(event)
                if rows is not None:
                    self._tell(protocol.TodosUpdate(rows))
            case ToolResultEvent() if self._memory.open:
                self._begin(self._memory.changed())
            case UsageEvent():
                self._around.tokens_used((event.prompt_tokens or 0) + (event.completion_tokens or 0))
            case _:
                pass
        for change in self._folder.fold(event, ordinal):
            self._tell(protocol.ConversationUpdate(change))
        if isinstance(event, (ConfirmationRequestedEvent, ConfirmationSettledEvent)):
            self._questions.tell()
        activity = self._activity.fold(event)
        if activity is not None:
            self._tell(activity)

    def _commands_changed(self, commands: tuple[CommandTab, ...]) -> None:
        self._tell(protocol.CommandsUpdate(commands))

    def _turn_broke(self, error: BaseException) -> None:
        log.error("a turn broke", exc_info=error)
        self._tell(protocol.ActivityUpdate(Activity.FAILED, fault=f"{type(error).__name__}: {error}"))

    # -- wishes to deeds ---------------------------------------------------------------------------------------------

    def handle(self, intent: Intent) -> None:
        match intent:
            case Prompt.Sent(text, references):
                if self._turns.busy:
                    self._tell(protocol.ToastUpdate("Sent when this turn ends."))
                self._turns.send(with_references(text, references))
            case ConversationPane.Retry():
                self._turns.retry()
            case Dashboard.InterruptWanted():
                self._interrupt()
            case Dashboard.ModeWanted(mode):
                self._around.change_mode(mode)
            case ConfirmationScreen.Decided():
                self._questions.decide(intent)
            case QueuePane.Denied(item_ids):
                self._questions.deny(item_ids)
            case ConfirmationScreen.Looked(item_id):
                self._questions.hold(item_id, held=True)
                self._begin(self._questions.review(item_id, None))
            case ConfirmationScreen.LookedAway(item_id):
                self._questions.hold(item_id, held=False)
            case ConfirmationScreen.CheckWanted(item_id, arguments):
                self._begin(self._questions.review(item_id, arguments))
            case TodoPane.Added() | TodoPane.Toggled() | TodoPane.Removed():
                self._begin(self._change_todos(intent))
            case Dashboard.TrustWanted():
                self._begin(self._trust.look())
            case TrustScreen.Trusted(shown):
                self._begin(self._trust.trust(shown))
            case MemoryIntent():
                self._begin(self._memory.do(intent))
            case Dashboard.FocusChanged(focused):
                self._watcher.focused = focused
            case _:
                self._handle_command(intent)

    def _handle_command(self, intent: Intent) -> None:
        match intent:
            case TerminalPane.ShellWanted(columns, lines, typed):
                self._begin(self._open_shell(columns, lines, typed))
            case TerminalPane.Attached(command_id, feed):
                self._commands.attach(command_id, feed)
            case TerminalPane.Detached(command_id):
                self._commands.detach(command_id)
            case TerminalPane.Typed(command_id, data):
                self._commands.type(command_id, data)
            case TerminalPane.Answered(command_id, data):
                self._commands.answer(command_id, data)
            case TerminalPane.Interrupted(command_id):
                self._commands.interrupt(command_id)
            case TerminalPane.TakenOver(command_id):
                self._commands.take_over(command_id)
            case TerminalPane.Sized(command_id, columns, lines):
                self._commands.resize(command_id, columns, lines)
            case JobsScreen.Watched(on):
                self._jobs.watch(on=on)
            case JobsScreen.Interrupted(job_id):
                self._jobs.interrupt(job_id)
            case JobsScreen.Ended(job_id):
                self._begin(self._jobs.end(job_id))
            case _:
                log.warning("nobody knows what to do with %s", type(intent).__name__)

    def _interrupt(self) -> None:
        if self._turns.interrupt():
            stopping = self._activity.stopping()
            if stopping is not None:
                self._tell(stopping)

    async def _change_todos(self, wish: TodoPane.Added | TodoPane.Toggled | TodoPane.Removed) -> None:
        try:
            await self._todos.change(wish)
        except ToolFailure as failure:
            self._tell(protocol.ToastUpdate(failure.message, failed=True))

    async def _open_shell(self, columns: int, lines: int, typed: str) -> None:
        try:
            await self._commands.open_shell(columns, lines, typed)
        except StartError as failure:
            self._tell(protocol.ShellErrorUpdate(str(failure)))

    # -- small things ------------------------------------------------------------------------------------------------

    def _begin(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a wish could not be done", exc_info=error)
            self._tell(protocol.ToastUpdate(f"That went wrong: {type(error).__name__}: {error}", failed=True))

    def _tell_faults(self, *faults: FileError) -> None:
        if faults:
            self._tell(protocol.ConfigErrorsUpdate(faults))
            self._note(*(NoteEntry(f"fault-{one.as_text()}", one.as_text(), NoteKind.ERROR) for one in faults))

    def _policy_changed(self, configuration: Configuration) -> None:
        """The policy was read anew: what is wrong with it is told as at the start."""
        known = _faults_in(self._core.configuration)
        self._tell_faults(*(fault for fault in _faults_in(configuration) if fault not in known))
        self._around.policy_read(configuration.policy_error)

    def _note(self, *notes: NoteEntry) -> None:
        if notes:
            self._tell(protocol.ConversationUpdate(EntriesChanged(tuple(notes))))

    def _say_first_notices(self) -> None:
        texts = list(self._house.notices)
        greeting = self._house.agent.provider.describe().greeting
        if greeting:
            self._note(NoteEntry("greeting", greeting, NoteKind.GREETING))
        fault = self._core.configuration.policy_error
        notes = [NoteEntry(f"first-{place}", text) for place, text in enumerate(texts)] + self._trust.first_notes()
        if fault is not None:
            notes.append(NoteEntry("policy-fault", f"Everything is denied: {fault}", NoteKind.ERROR))
        self._note(*notes)


def _faults_in(configuration: Configuration) -> list[FileError]:
    return [FileError(one.source, one.line, one.message, one.remedy) for one in configuration.errors]
