"""The house itself: every part built once, in order, and taken down in the opposite one."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from ollm_tui import __version__
from ollm_tui.agent.events import SessionStartedEvent
from ollm_tui.agent.loop import Agent
from ollm_tui.agent.session.log import OutputDirectory, SessionLog, new_session_id, prune_loose_outputs, sessions_folder
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.app_dirs import data_dir, state_dir
from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import TodosChanged
from ollm_tui.core.execution.calls import AutoAnswer
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.files.trash import Trash
from ollm_tui.core.memory import Memory
from ollm_tui.core.memory.embedding import installed_embedder
from ollm_tui.core.memory.overview import MemoryOverview
from ollm_tui.core.policy.approvals import ApprovalStore
from ollm_tui.core.policy.audit import AuditWriter
from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.shell.detached_jobs import JobRecords
from ollm_tui.core.shell.hub import CommandHub, CommandKind
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import Todo, TodoList
from ollm_tui.core.tools.base import Limits, ToolContext
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.search_providers.choice import ProviderName as SearchName
from ollm_tui.core.web.search_providers.choice import SearchSettings
from ollm_tui.core.web.search_providers.choice import choose_provider as choose_search
from ollm_tui.options import Options
from ollm_tui.runtime.audit_trail import approval_uses, audit_entry, audit_writer
from ollm_tui.runtime.configuration import Configuration, configure
from ollm_tui.runtime.memory_recall import recall_for
from ollm_tui.runtime.model_provider import choose_provider
from ollm_tui.runtime.plugins import builtin_registry


class Attendance(StrEnum):
    """Who answers when something asks."""

    PERSON = "person"
    NOBODY = "nobody"
    YES = "yes"


@dataclass(frozen=True)
class Core:
    """The tool and policy core of one process, ready to run calls."""

    configuration: Configuration
    registry: ToolRegistry
    bus: MessageBus
    executor: ToolExecutor
    hub: CommandHub
    jobs: JobRecords
    store: Store
    todos: TodoList
    memory: Memory
    memory_overview: MemoryOverview
    trash: Trash
    outputs: OutputDirectory
    audit: AuditWriter
    notices: tuple[str, ...] = ()
    """What a person should know before anything happens."""


@dataclass(frozen=True)
class Runtime:
    """The core with a conversation on top."""

    core: Core
    stream: EventStream
    agent: Agent
    session_id: str
    log: SessionLog | None
    notices: tuple[str, ...]

    def begin(self) -> None:
        """Publish the session's first event; for whoever has subscribed to the stream."""
        described = self.agent.provider.describe()
        self.stream.publish(
            SessionStartedEvent(
                session_id=self.session_id,
                workspace=str(self.core.configuration.workspace.root),
                provider=described.provider,
                model=described.model or "",
                version=__version__,
            )
        )


@asynccontextmanager
async def assemble_core(
    configuration: Configuration,
    attendance: Attendance,
    outputs: OutputDirectory | None = None,
    *,
    hint: str = "",
    farewell: Callable[[str], None] | None = None,
    clock: Clock | None = None,
    judging_only: bool = False,
) -> AsyncGenerator[Core]:
    """Build the core; commands that still run are ended at the end of the block.

    With `judging_only` calls can be explained and nothing else: nothing on disk is made, opened or pruned.
    `hint` follows "nobody is there to answer"; `farewell` is told of commands that ended with this process and of
    processes that could not be ended.
    """
    clock = clock or SystemClock()
    settings = configuration.settings
    outputs = outputs or OutputDirectory(state_dir() / "outputs")
    configuration = configuration.reading_also(outputs.folder)
    loop = asyncio.get_running_loop()
    bus = MessageBus(clock)
    store = Store(data_dir() / "ollm.db", clock=clock)
    notices: list[str] = []
    if not judging_only:
        notices += await asyncio.to_thread(_opened, store)
        await asyncio.to_thread(prune_loose_outputs, state_dir() / "outputs", clock)

    def todos_changed(todos: tuple[Todo, ...], by: str, revision: int) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(bus.publish, TodosChanged(todos, by, revision))

    todos = TodoList(store, configuration.workspace.root, clock=clock, on_change=todos_changed)
    memory = Memory(store, configuration.workspace.root, clock=clock, embedder=installed_embedder())
    trash = Trash(state_dir())
    jobs = JobRecords(state_dir() / "jobs", configuration.workspace.root, clock=clock)
    hub = CommandHub(outputs.folder, passed=settings.shell.pass_env, records=jobs)
    attended = attendance is Attendance.PERSON
    limits = settings.limits
    context = ToolContext(
        bus=bus,
        workspace=configuration.workspace,
        commands=hub,
        todos=todos,
        memory=memory,
        trash=trash,
        web=_web_access(configuration, outputs, clock),
        clock=clock,
        limits=Limits(
            file_bytes=limits.file_bytes,
            result_lines=limits.result_lines,
            result_chars=limits.result_chars,
            entries=limits.entries,
            call_seconds=limits.call_seconds,
        ),
        strict_edits=settings.tools.strict_edits,
        attended=attended,
    )
    audit = audit_writer(store, clock)
    uses = approval_uses(store, clock)
    registry, plugin_troubles = builtin_registry()
    notices += plugin_troubles
    executor = ToolExecutor(
        registry,
        PolicyEngine(configuration.sources),
        bus,
        configuration.workspace,
        attended,
        context=context,
        mode=settings.mode,
        standin=AutoAnswer.YES if attendance is Attendance.YES else AutoAnswer.NOBODY,
        standin_hint=hint,
        confirm_timeout=settings.confirm.timeout if attended else 60.0,
        forgiving=settings.tools.forgiving,
        outputs=outputs,
        approvals=ApprovalStore(configuration.files.remember_in, on_used=uses.record),
        on_record=lambda record: audit.record(audit_entry(record)),
        clock=clock,
    )
    try:
        yield Core(
            configuration, registry, bus, executor, hub, jobs, store, todos, memory,
            MemoryOverview(store, configuration.workspace.root), trash, outputs, audit, tuple(notices),
        )  # fmt: skip
    finally:
        for words in await _end_commands(hub):
            if farewell is not None:
                farewell(words)
        await asyncio.to_thread(audit.close)
        await asyncio.to_thread(uses.close)
        await asyncio.to_thread(store.close)


async def _end_commands(hub: CommandHub) -> list[str]:
    """End all that still runs; what to tell whoever started it."""
    ended = [state for state in hub.unfinished() if state.kind is CommandKind.AGENT]
    survivors = await hub.close()
    words = [f"ended with this process: {one.id} (pid {one.pid}): {visible(one.command)}" for one in ended]
    return words + [f"could not be ended: {visible(str(survivor))}" for survivor in survivors]


def _opened(store: Store) -> list[str]:
    """Open the store; what a person should know about how that went."""
    try:
        damaged = store.open()
    except StorageFailed as failure:
        return [failure.message]
    return [] if damaged is None else [damaged.message]


@asynccontextmanager
async def assemble(
    options: Options,
    attendance: Attendance,
    *,
    configuration: Configuration | None = None,
    farewell: Callable[[str], None] | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[Runtime]:
    """Build everything for a conversation. Raises ConfigurationError where it cannot be had.

    The scripted provider without a script plays the tour in a temporary workspace of its own.
    """
    clock = clock or SystemClock()
    session_id = new_session_id(clock)
    folder = sessions_folder() / session_id
    outputs = OutputDirectory(folder / "output")
    async with AsyncExitStack() as stack:
        if configuration is None or _plays_tour(configuration):
            options = await stack.enter_async_context(_tour_workspace(options, configuration))
            configuration = configure(options)
        chosen = await choose_provider(configuration.settings, options)
        stack.push_async_callback(chosen.provider.aclose)
        core = await stack.enter_async_context(
            assemble_core(configuration, attendance, outputs, farewell=farewell, clock=clock)
        )
        stream = EventStream(core.bus, clock)
        stack.callback(stream.close)
        notices = [*core.notices]
        log: SessionLog | None = None
        try:
            log = await asyncio.to_thread(SessionLog, folder, notices.append)
        except OSError as error:
            notices.append(f"This session is not recorded: {folder}: {error.strerror or error}.")
        else:
            stack.callback(log.close)
            stream.subscribe(log.write)
        agent = Agent(
            chosen.provider,
            core.executor,
            stream,
            max_rounds=configuration.settings.agent.max_rounds,
            recall=recall_for(
                chosen.provider, configuration.settings.memory, core.memory, core.memory_overview, core.executor
            ),
            on_first_message=core.todos.archive_when_done,  # a new task begins with an empty list
            on_turn_end=lambda: _sync(core, log),
        )
        if chosen.notice:
            notices.append(chosen.notice)
        yield Runtime(core, stream, agent, session_id, log, tuple(notices))


def _web_access(configuration: Configuration, outputs: OutputDirectory, clock: Clock) -> WebAccess:
    web = configuration.settings.web
    search = choose_search(
        SearchSettings(
            provider=SearchName(web.search_provider) if web.search_provider else None,
            searxng_url=web.searxng_url,
            brave_key=web.brave_key.get_secret_value() if web.brave_key else None,
            tavily_key=web.tavily_key.get_secret_value() if web.tavily_key else None,
        )
    )
    return WebAccess(configuration.allow_domains, search=search, downloads=outputs.folder, clock=clock)


def _sync(core: Core, log: SessionLog | None) -> None:
    core.audit.flush()
    core.store.sync()
    if log is not None:
        log.sync()


def _plays_tour(configuration: Configuration) -> bool:
    return configuration.settings.provider == "scripted" and configuration.options.script is None


@asynccontextmanager
async def _tour_workspace(options: Options, configuration: Configuration | None) -> AsyncGenerator[Options]:
    """The tour's own folder, where it is what was asked for; else the options as they are."""
    configuration = configuration or configure(options)
    if not _plays_tour(configuration):
        yield options
        return
    with tempfile.TemporaryDirectory(prefix="ollm-tour-") as folder:
        yield replace(options, workspace=Path(folder))
