"""The runtime behind the screen: events become updates, intents become actions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Coroutine
from contextlib import asynccontextmanager

from ollm_tui.agent.events import (
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    Event,
    NoticeEvent,
    TodosChangedEvent,
    ToolResultEvent,
    UserMessageEvent,
)
from ollm_tui.agent.session.catalogue import recent_calls
from ollm_tui.agent.session.history import plan_since
from ollm_tui.config import ConfigError
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.log_file import unexpected
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, Configuration, Runtime, open_runtime
from ollm_tui.tui.bindings import key_errors
from ollm_tui.tui.controllers.commands_controller import CommandsController, DetachedJobs
from ollm_tui.tui.controllers.confirmations_controller import ConfirmationsController
from ollm_tui.tui.controllers.conversation_controller import ConversationController
from ollm_tui.tui.controllers.jobs_controller import JobsController
from ollm_tui.tui.controllers.memory_controller import MemoryController
from ollm_tui.tui.controllers.models_controller import ModelsController
from ollm_tui.tui.controllers.policy_controller import PolicyController
from ollm_tui.tui.controllers.reports_controller import ReportsController
from ollm_tui.tui.controllers.sessions_controller import SessionsController
from ollm_tui.tui.controllers.status_controller import StatusController
from ollm_tui.tui.controllers.stored_entries import StoredEntriesController
from ollm_tui.tui.controllers.todos_controller import StoreWatcher, TodosController
from ollm_tui.tui.controllers.trust_controller import TrustController
from ollm_tui.tui.controllers.turns_controller import TurnsController
from ollm_tui.tui.controllers.undo_controller import UndoController
from ollm_tui.tui.protocol import Backend, PostUpdate, command_intents, intents, updates
from ollm_tui.tui.protocol.policy import PolicyIntent
from ollm_tui.tui.protocol.undo import UndoIntent
from ollm_tui.tui.themes import load_themes
from ollm_tui.tui.values import (
    Activity,
    ConversationCleared,
    EntriesChanged,
    NoteEntry,
    NoteKind,
    UnfinishedWork,
)

log = logging.getLogger(__name__)

PIECE = 250
"""Entries of an earlier conversation that are shown at once, so that keys are taken in between."""


@asynccontextmanager
async def open_backend(options: Options, post: PostUpdate, clock: Clock) -> AsyncGenerator[Backend]:
    """Assemble core and agent until the screen is left. Raises ConfigurationError."""
    closing_lines: list[str] = []
    async with open_runtime(options, Attendance.PERSON, clock=clock, report=closing_lines.append) as runtime:
        controller = RuntimeController(runtime, post, clock, closing_lines)
        await controller.begin()
        if options.prompt:
            controller.handle(intents.SendMessage(options.prompt))
        try:
            yield controller
        finally:
            await controller.close()


class RuntimeController:
    """Dispatcher of events and intents; slow work runs in tasks."""

    def __init__(self, runtime: Runtime, post: PostUpdate, clock: Clock, closing_lines: list[str]) -> None:
        self._runtime = runtime
        self._post = post
        self._core = core = runtime.core
        self._tasks: set[asyncio.Task[None]] = set()
        self._conversation = self._new_conversation()
        self._stored = StoredEntriesController(lambda: runtime.log.path, post)
        self._turns = TurnsController(runtime.agent, post, clock.monotonic)
        self._confirmations = ConfirmationsController(
            core.bus, core.executor, post, self._start, lambda: recent_calls(runtime.log.folder)
        )
        self._todos = TodosController(core.todos, post)
        self._memory = MemoryController(core.memory, post, clock)
        self._watcher = StoreWatcher(core.store, core.todos, self._memory.changed)
        detached = DetachedJobs(core.jobs, clock)
        self._commands = CommandsController(core.hub, detached, core.configuration.workspace.root, post, self._start)
        self._jobs = JobsController(core.hub, core.jobs, detached, post, clock)
        self._undo = UndoController(
            core.undo,
            post,
            lambda text: runtime.stream.publish(NoticeEvent(text=text)),
            lambda message: plan_since(core.undo, runtime.log.folder, message),
        )
        self._trust = TrustController(core, post, self._policy_changed)
        self._policy = PolicyController(core, post, self._trust)
        self._sessions = SessionsController(runtime, post, clock, self._session_switched, self._undo.take_back)
        self._status = StatusController(runtime, post, clock)
        self._models = ModelsController(runtime, post, self._model_switched, self._status.rates)
        self._closing_lines = closing_lines
        self._still_running: tuple[str, ...] = ()
        self._reports = ReportsController(core, post)
        self._unsubscribe = runtime.stream.subscribe(self._on_event)
        self._unhear = core.bus.subscribe(self._confirmations.heard_elsewhere)

    async def begin(self) -> None:
        """Begin the session, and post the initial state."""
        await self._begin_session()
        self._status.post()
        self._note(*self._first_notes())
        self._note(*await self._jobs.first_notes())
        await self._trust.post_prompt_files()
        if self._core.mcp is not None:
            self._core.mcp.on_change = lambda: self._start(self._trust.post_prompt_files())
        await self._todos.load()
        self._start(self._watcher.run())
        self._reports.sources.watch()
        settings = self._core.configuration.settings
        themes = await asyncio.to_thread(load_themes)
        self._post(
            updates.SettingsUpdate(
                updates.ScreenSettings(
                    themes=tuple(themes.valid.values()),
                    theme=settings.ui.theme,
                    keys=dict(settings.keys),
                    auto_open=settings.ui.auto_open == "idle",
                    notify=settings.ui.notify,
                    allow_clipboard=settings.terminal.clipboard,
                )
            )
        )
        wrong_keys = await asyncio.to_thread(key_errors, settings.keys, "config.toml")
        self._post_errors(*self._core.configuration.errors, *themes.errors, *wrong_keys)
        self._start(self._status.read_repository())
        self._start(self._models.greet())

    async def _begin_session(self) -> None:
        """Show what the session has had so far, and begin or go on with it."""
        opened = self._runtime.session.now
        entries = await asyncio.to_thread(self._conversation.replay, opened.earlier.events)
        if entries:
            self._post(updates.ConversationUpdate(ConversationCleared(entries[:PIECE])))
        for at in range(PIECE, len(entries), PIECE):
            self._post(updates.ConversationUpdate(EntriesChanged(entries[at : at + PIECE])))
        self._note(*(NoteEntry(f"opened-{at}", text) for at, text in enumerate(opened.notices)))
        self._runtime.begin()
        if opened.history.waiting:
            self._turns.handle(intents.RetryTurn())  # what waited for an answer is asked again

    def _new_conversation(self) -> ConversationController:
        described = self._runtime.agent.provider.describe()
        return ConversationController(described.model or described.provider, lambda: not self._runtime.log.error)

    def _model_switched(self) -> None:
        """Show the model that is in use from now on."""
        described = self._runtime.agent.provider.describe()
        self._conversation.model = described.model or described.provider
        self._status.model_switched()

    async def _session_switched(self) -> None:
        """Show the session that took the place of the one before."""
        self._conversation = self._new_conversation()
        self._post(updates.ConversationUpdate(ConversationCleared()))
        self._post(updates.ActivityUpdate(Activity.IDLE))
        self._status.session_switched()
        await self._begin_session()

    async def close(self) -> None:
        """Stop the turn and all subscriptions."""
        self._core.wait_less()
        await self._turns.close()
        self._unsubscribe()
        self._unhear()
        await self._reports.sources.aclose()
        self._commands.close()
        self._still_running = await self._jobs.close()
        for task in tuple(self._tasks):
            task.cancel()

    def unfinished(self) -> UnfinishedWork:
        """Return what quitting now would end."""
        facts: list[str] = []
        if self._turns.busy:
            facts.append("A turn is running.")
        pending = len(self._core.bus.pending())
        if pending:
            facts.append(f"{pending} approval{'s are' if pending > 1 else ' is'} waiting; quitting denies.")
        running = self._commands.running()
        if running:
            facts.append(
                f"{running} command{'s' if running > 1 else ''} of the agent still run{'' if running > 1 else 's'}."
            )
        return UnfinishedWork(tuple(facts), self._jobs.unfinished())

    async def leave_jobs(self) -> tuple[str, ...]:
        """Detach the running jobs; return the errors."""
        return await self._jobs.detach_all()

    async def end_jobs(self) -> None:
        """End the jobs that earlier dashboards left running."""
        self._closing_lines += await self._jobs.end_earlier()

    def closing_lines(self) -> tuple[str, ...]:
        """Return the lines to print once the dashboard has closed."""
        return (*self._closing_lines, *self._still_running)

    def handle(self, intent: intents.Intent) -> None:
        """Hand an intent to the controller of its subject."""
        match intent:
            case intents.TurnIntent():
                self._turns.handle(intent)
            case intents.ConfirmationIntent():
                self._confirmations.handle(intent)
            case command_intents.CommandIntent():
                self._commands.handle(intent)
            case intents.ChangeMode(mode):
                self._status.change_mode(mode)
            case intents.ReportFocus(focused):
                self._watcher.focused = focused
                if focused:
                    self._start(self._status.read_repository())
            case _:
                self._handle_in_task(intent)

    def _handle_in_task(self, intent: intents.Intent) -> None:
        match intent:
            case intents.EntryIntent():
                self._start(self._stored.handle(intent))
            case command_intents.JobIntent():
                self._start(self._jobs.handle(intent))
            case UndoIntent():
                self._start(self._undo.handle(intent))
            case PolicyIntent():
                self._start(self._policy.handle(intent))
            case intents.TodoIntent():
                self._start(self._todos.handle(intent))
            case intents.MemoryIntent():
                self._start(self._memory.handle(intent))
            case intents.TrustIntent():
                self._start(self._trust.handle(intent))
            case intents.SessionIntent():
                self._start(self._sessions.handle(intent))
            case intents.ModelIntent():
                self._start(self._models.handle(intent))
            case intents.ShowReport():
                self._start(self._reports.show(intent))
            case intents.AttachCommand(command):
                self._reports.sources.attach(command)
            case _:
                log.warning("no controller takes %s", type(intent).__name__)

    def _on_event(self, event: Event) -> None:
        ordinal: int | None = None
        if isinstance(event, ToolResultEvent):
            self._status.mode_read()
            self._start(self._status.read_repository())
        self._status.follow(event)
        match event:
            case ConfirmationRequestedEvent():
                sentence = self._conversation.sentence_before(event.call_id, event.task)
                ordinal = self._confirmations.requested(event, sentence)
            case ConfirmationSettledEvent():
                self._confirmations.settled(event)
            case TodosChangedEvent():
                if not self._todos.changed(event):
                    self._start(self._todos.load())
            case ToolResultEvent() if self._memory.open:
                self._start(self._memory.changed())
            case UserMessageEvent():
                self._status.offer_nothing()
            case _:
                pass
        for change in self._conversation.fold(event, ordinal):
            self._post(updates.ConversationUpdate(change))
        self._turns.follow(event)

    def _start(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("an intent failed", exc_info=error)
            self._post(updates.ToastUpdate(f"That went wrong: {unexpected(error)}", failed=True))

    def _policy_changed(self, configuration: Configuration) -> None:
        """Report new errors of a policy that was read again."""
        known = self._core.configuration.errors
        self._post_errors(*(error for error in configuration.errors if error not in known))
        self._status.policy_read(str(configuration.policy_error or ""))

    def _post_errors(self, *errors: ConfigError) -> None:
        if errors:
            self._post(updates.ConfigErrorsUpdate(errors))
            self._note(*(NoteEntry(f"error-{one}", str(one), NoteKind.ERROR) for one in errors))

    def _note(self, *notes: NoteEntry) -> None:
        if notes:
            self._post(updates.ConversationUpdate(EntriesChanged(tuple(notes))))

    def _first_notes(self) -> list[NoteEntry]:
        greeting = self._runtime.agent.provider.describe().greeting
        notes = [NoteEntry("greeting", greeting, NoteKind.GREETING)] if greeting else []
        notes += [NoteEntry(f"first-{at}", text) for at, text in enumerate(self._runtime.notices)]
        if (broken_off := self._runtime.broken_off) is not None:
            offer = " F2 goes on with it." if broken_off.session_id else ""
            notes.append(NoteEntry("broken-off", f"{broken_off.text}{offer}"))
        notes += self._trust.first_notes()
        error = self._core.configuration.policy_error
        if error is not None:
            notes.append(NoteEntry("policy-error", f"Everything is denied: {error}", NoteKind.ERROR))
        return notes
