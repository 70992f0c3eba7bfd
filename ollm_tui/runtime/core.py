"""Build the tool and policy core of a process, and close it again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING

from ollm_tui.agent.hooks.entries import HookSettings
from ollm_tui.agent.hooks.hooks import Hooks
from ollm_tui.agent.prompt_files import user_skills
from ollm_tui.agent.session.log import OutputDirectory, prune_loose_outputs, sessions_folder
from ollm_tui.core.base.app_dirs import data_dir, state_dir
from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.browser.session import BrowserSession
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import TodosChanged
from ollm_tui.core.bus.states import RememberScope
from ollm_tui.core.execution.calls import CallRecord
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.execution.options import AutoAnswer, ExecutorOptions
from ollm_tui.core.execution.program_guard import ProgramGuard
from ollm_tui.core.files.journal_undo import Undo, open_undo
from ollm_tui.core.files.trash import Trash
from ollm_tui.core.files.unasked_writes import UnaskedWrites
from ollm_tui.core.files.vacated_paths import VacatedPaths
from ollm_tui.core.memory import Memory
from ollm_tui.core.policy.approvals import ApprovalStore, ApprovalUses
from ollm_tui.core.policy.audit import AuditEntry, AuditEvent, AuditLog, AuditWriter, with_decision
from ollm_tui.core.policy.audit_chain import EndFile
from ollm_tui.core.policy.engine import PolicyEngine
from ollm_tui.core.sandbox.engines import Sandbox
from ollm_tui.core.search.code_vectors import CodeVectors
from ollm_tui.core.search.embedder import installed_embedder
from ollm_tui.core.shell.detached_jobs import JobRecords
from ollm_tui.core.shell.hub import CommandHub
from ollm_tui.core.shell.status import CommandKind
from ollm_tui.core.shell.termination import GRACE
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import Todo, TodoList
from ollm_tui.core.tools.context import Limits, ToolContext
from ollm_tui.core.tools.registry import ToolRegistry
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.search_providers import ProviderName as SearchName
from ollm_tui.core.web.search_providers import SearchSettings
from ollm_tui.core.web.search_providers import choose_provider as choose_search
from ollm_tui.runtime.configuration import Configuration
from ollm_tui.runtime.disk_bounds import OutputBound, bound_sessions
from ollm_tui.runtime.plugins import load_registry

if TYPE_CHECKING:
    from ollm_tui.agent.mcp.servers import McpServers

log = logging.getLogger(__name__)

UNATTENDED_CONFIRM_SECONDS = 60.0

UNATTENDED_GRACE = 1.0
"""Seconds between asking a command to end and forcing it: a signal ends `run` and `tool call` within two."""

CLOSING_SECONDS = 5.0
"""How long a closing program waits for the store in all."""
STUCK_SECONDS = 0.5
"""The same where it has been waited for already."""


class Attendance(StrEnum):
    """Who answers confirmations."""

    PERSON = "person"
    REMOTE = "remote"
    """A person who may attach from elsewhere."""
    NOBODY = "nobody"
    YES = "yes"

    @property
    def attended(self) -> bool:
        """Whether a person answers."""
        return self in (Attendance.PERSON, Attendance.REMOTE)


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
    outputs: OutputDirectory
    audit: AuditWriter
    web: WebAccess
    browser: BrowserSession
    undo: Undo
    hooks: Hooks
    mcp: McpServers | None = None
    """The MCP servers; None where the person has none."""
    notices: tuple[str, ...] = ()
    """What a person should know before anything happens."""

    def use_hooks(self, settings: HookSettings) -> None:
        """Let calls be told to these hooks from now on; without any, calls do not wait for them."""
        self.hooks.settings = settings
        self.executor.hooks = self.hooks if settings.hooks else None

    def wait_less(self) -> None:
        """Bound what the program waits for a locked store from now on: it is ending."""
        self.store.wait_at_most(STUCK_SECONDS if self.audit.is_stuck else CLOSING_SECONDS)


@asynccontextmanager
async def open_core(
    configuration: Configuration,
    attendance: Attendance,
    outputs: OutputDirectory | None = None,
    *,
    hint: str = "",
    report: Callable[[str], None] | None = None,
    clock: Clock | None = None,
    judging_only: bool = False,
) -> AsyncGenerator[Core]:
    """Build the core; end its commands when the block is left.

    Args:
        configuration: What files, variables and flags say.
        attendance: Who answers confirmations.
        outputs: Where full texts of cut outputs go; by default a directory that belongs to no session.
        hint: Follows "nobody is there to answer" in a denial.
        report: Called at the end for each command that was ended, or could not be.
        clock: The time; the system's by default.
        judging_only: Calls can be judged but not run; nothing on disk is made, opened or pruned.
    """
    clock = clock or SystemClock()
    outputs = outputs or OutputDirectory(state_dir() / "outputs")
    configuration = configuration.with_readable((outputs.folder, user_skills()))
    root = configuration.workspace.root
    store = Store(data_dir() / "ollm.db", clock=clock)
    jobs = JobRecords(state_dir() / "jobs", root, clock=clock)
    bound = OutputBound(state_dir(), jobs)
    notices = [] if judging_only else await asyncio.to_thread(_prepare_disk, store, clock, bound)
    registry, plugin_errors = load_registry(browser_without_sandbox=configuration.settings.web.browser_without_sandbox)
    bus = MessageBus(clock)
    passed = configuration.settings.shell.pass_env
    grace = GRACE if attendance.attended else UNATTENDED_GRACE
    hub = CommandHub(outputs.folder, passed=passed, records=jobs, grace=grace, make_room=bound.make_room)
    todos = TodoList(store, root, clock=clock, on_change=_todos_publisher(bus))
    embedder = installed_embedder()
    memory = Memory(store, root, clock=clock, embedder=embedder)
    code_vectors = CodeVectors(embedder) if embedder is not None else None
    audit = AuditWriter(AuditLog(store, clock=clock, end_file=EndFile.of_store(store.path)), clock=clock)
    uses = ApprovalUses(store, _use_not_counted, clock=clock)
    web = _web_access(configuration, outputs, clock)
    browser = BrowserSession(web, without_sandbox=configuration.settings.web.browser_without_sandbox)
    context = ToolContext(
        bus=bus,
        workspace=configuration.workspace,
        commands=hub,
        todos=todos,
        memory=memory,
        trash=Trash(state_dir()),
        vacated=VacatedPaths(store, clock),
        unasked=UnaskedWrites(store, clock),
        web=web,
        browser=browser,
        clock=clock,
        limits=Limits(**dict(configuration.settings.limits)),
        strict_edits=configuration.settings.tools.strict_edits,
        test_command=configuration.settings.tools.test_command,
        code_vectors=code_vectors,
        sandbox=Sandbox(configuration.sandbox),
        attended=attendance.attended,
    )
    if context.attended:
        # The probe runs a program: whoever judges the first call must not wait for it.
        asyncio.get_running_loop().run_in_executor(None, lambda: context.sandbox.works)
    undo = open_undo(state_dir(), root, clock)
    if not judging_only:
        notices += await asyncio.to_thread(_prepare_undo, undo)
    hooks = Hooks(configuration.hooks, root)
    mcp = _mcp_servers(configuration, registry, attendance)
    options = ExecutorOptions(outputs=outputs, nobody_hint=hint, journal=undo.journal)
    executor = _executor(configuration, attendance, registry, context, options, audit, uses)
    core = Core(
        configuration=configuration,
        registry=registry,
        bus=bus,
        executor=executor,
        hub=hub,
        jobs=jobs,
        store=store,
        todos=todos,
        memory=memory,
        outputs=outputs,
        audit=audit,
        web=web,
        browser=browser,
        undo=undo,
        hooks=hooks,
        mcp=mcp,
        notices=(
            *notices,
            *plugin_errors,
            *configuration.bundles.findings,
            *configuration.hooks.findings,
            *_mcp_notices(mcp),
        ),
    )
    core.use_hooks(configuration.hooks)
    guard = ProgramGuard(executor, configuration.settings.confirm.timeout, answers_yes=attendance is Attendance.YES)
    hooks.why_not = guard.why_not
    if mcp is not None:
        mcp.why_not = guard.why_not
    try:
        yield core
    finally:
        core.wait_less()
        report = report or log.warning
        await browser.aclose()
        if code_vectors is not None:
            await asyncio.to_thread(code_vectors.close)
        if mcp is not None:
            await mcp.aclose()
        for text in await _end_commands(hub):
            report(text)
        await executor.settle_journal()
        for close in (audit.close, uses.close, store.close, undo.journal.store.close):
            await asyncio.to_thread(close)
        if audit.missing:
            report(f"The audit log is not complete: {audit.missing}")


async def begin_session(core: Core, outputs: Path, *origins: Path) -> None:
    """Keep outputs in another folder, and forget what was approved for the session before.

    `origins` are the outputs' folders of those that it is a fork of.
    """
    core.outputs.folder = outputs
    core.executor.plan = None
    core.hub.keep_logs_in(outputs)
    core.web.downloads = outputs
    await core.browser.aclose()
    given = core.configuration.sources.commands.approvals
    workspace = core.executor.workspace.varied(readable=(outputs, *origins))

    def forget(now: PolicyEngine) -> PolicyEngine:
        rules = tuple(each for each in now.sources.rule_sets if each.source != RememberScope.SESSION)
        lasting = tuple(each for each in now.sources.commands.approvals if each.file or each in given)
        commands = replace(now.sources.commands, approvals=lasting, workspace=workspace)
        return PolicyEngine(replace(now.sources, rule_sets=rules, commands=commands))

    await core.executor.change_policy(forget, workspace)
    core.web.domains.forget_session()


def _executor(
    configuration: Configuration,
    attendance: Attendance,
    registry: ToolRegistry,
    context: ToolContext,
    options: ExecutorOptions,
    audit: AuditWriter,
    uses: ApprovalUses,
) -> ToolExecutor:
    settings = configuration.settings

    def record(call: CallRecord) -> None:
        audit.record(audit_entry(call))

    return ToolExecutor(
        registry,
        PolicyEngine(configuration.sources),
        context.bus,
        configuration.workspace,
        context.attended,
        replace(
            options,
            context=context,
            mode=settings.mode,
            auto_answer=AutoAnswer.YES if attendance is Attendance.YES else AutoAnswer.NOBODY,
            confirm_timeout=settings.confirm.timeout if context.attended else UNATTENDED_CONFIRM_SECONDS,
            forgiving=settings.tools.forgiving,
            approvals=ApprovalStore(configuration.files.remember_in, on_used=uses.record),
            on_record=record,
            recorded=audit.written,
            clock=context.clock,
        ),
    )


def _mcp_servers(configuration: Configuration, registry: ToolRegistry, attendance: Attendance) -> McpServers | None:
    if configuration.mcp is None:
        return None
    from ollm_tui.agent.mcp.servers import McpServers  # without servers nobody waits for it

    root = configuration.workspace.root
    return McpServers(configuration.mcp, registry, root, wait_for_all=attendance is not Attendance.PERSON)


def _mcp_notices(mcp: McpServers | None) -> tuple[str, ...]:
    return () if mcp is None else (*mcp.settings.findings, *filter(None, [mcp.settings.untrusted]))


def _prepare_disk(store: Store, clock: Clock, bound: OutputBound) -> list[str]:
    """Open the store and prune old outputs and sessions; return what a person should know about that."""
    notices: list[str] = []
    try:
        damaged = store.open()
        if damaged is not None:
            notices.append(damaged.message)
    except StorageFailed as failure:
        notices.append(failure.message)
    prune_loose_outputs(state_dir() / "outputs", clock)
    bound.make_room(0)
    pruned = bound_sessions(sessions_folder())
    return [*notices, pruned] if pruned else notices


def _prepare_undo(undo: Undo) -> list[str]:
    """Finish undos that were cut short and forget what is too old; return what a person should know."""
    try:
        damaged = undo.journal.store.open()
        finished = undo.finish_interrupted()
        undo.journal.prune()
    except (StorageFailed, OSError) as failure:
        return [f"Undo is off: {failure}"]
    said = ["An undo that was cut short was finished; `ollm-tui undo list` shows it."] if finished else []
    return said + ([damaged.message] if damaged is not None else [])


def _todos_publisher(bus: MessageBus) -> Callable[[tuple[Todo, ...], str, int], None]:
    """Return a listener that publishes changes, which come from any thread, on this event loop."""
    loop = asyncio.get_running_loop()

    def publish(todos: tuple[Todo, ...], by: str, revision: int) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(bus.publish, TodosChanged(todos, by, revision))

    return publish


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


async def _end_commands(hub: CommandHub) -> list[str]:
    """End all commands that still run; return a line about each."""
    ended = [state for state in hub.unfinished() if state.kind is CommandKind.AGENT]
    survivors = await hub.close()
    lines = [f"ended with this process: {one.id} (pid {one.pid}): {visible(one.command)}" for one in ended]
    return lines + [f"could not be ended: {visible(str(survivor))}" for survivor in survivors]


def audit_entry(record: CallRecord) -> AuditEntry:
    """Return the audit log's line about one event of a call."""
    outcome = record.answer
    latency: int | None = record.waited_ms
    match record.event:
        case AuditEvent.DECIDED:
            outcome, latency = None, None
        case AuditEvent.SETTLED | AuditEvent.GAP:
            pass
        case AuditEvent.FINISHED:
            outcome, latency = record.error_type or "ok", record.waited_ms + record.duration_ms
    entry = AuditEntry(
        event=record.event,
        call_id=record.call_id,
        tool=record.tool,
        origin=record.origin,
        arguments_sha256=record.arguments_digest,
        outcome=outcome,
        by=record.by if record.event is not AuditEvent.DECIDED else None,
        latency_ms=latency,
        place=record.place,
    )
    return with_decision(entry, record.explanation)


def _use_not_counted(failure: StorageFailed) -> None:
    log.warning("The use of an approval is not counted: %s", failure.message)
