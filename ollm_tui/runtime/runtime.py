"""Open the runtime, a conversation on top of the core, from settings and flags."""

from __future__ import annotations

import asyncio
import shlex
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from ollm_tui.agent.events import Event, NoticeEvent, SessionStartedEvent, UserMessageEvent
from ollm_tui.agent.guard import TurnLimits
from ollm_tui.agent.hooks.hooks import SessionFacts, TurnHooks
from ollm_tui.agent.instructions import MAX_CHARACTERS, Instructions
from ollm_tui.agent.loop import Agent, Sources
from ollm_tui.agent.prompt_commands import PromptCommands
from ollm_tui.agent.prompt_files import PromptFiles, catalogue, read_prompt_files
from ollm_tui.agent.providers.provider import Provider
from ollm_tui.agent.recall import MemoryRecall
from ollm_tui.agent.references import MAX_CHARACTERS as MAX_REFERENCE
from ollm_tui.agent.references import ReferenceReader
from ollm_tui.agent.session.catalogue import BrokenOff, take_broken_off
from ollm_tui.agent.session.history import turn_name
from ollm_tui.agent.session.log import OutputDirectory, SessionLog, sessions_folder
from ollm_tui.agent.session.reading import lineage
from ollm_tui.agent.session.recording import TerminalRecorder
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.policy.repository_trust import TrustStore
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.memory import MEMORY_GET
from ollm_tui.options import Options
from ollm_tui.runtime.configuration import Configuration, ConfigurationError, configure
from ollm_tui.runtime.core import Attendance, Core, begin_session, open_core
from ollm_tui.runtime.disk_bounds import OUTPUT
from ollm_tui.runtime.model_provider import ChosenProvider, choose_provider
from ollm_tui.runtime.recorded_session import RecordedSession, SessionError, SessionWish

if TYPE_CHECKING:
    from ollm_tui.agent.foreign.agent import ForeignProvider

CHARACTERS_PER_TOKEN = 4
INSTRUCTIONS_WINDOW_SHARE = 8
"""A file of instructions takes at most about this part of a known context window."""

REFERENCE_WINDOW_SHARE = 4
"""What one reference names takes at most about this part of a known context window."""

SMALL_WINDOW, FEW_SKILLS, MOST_SKILLS = 8192, 5, 30
"""A window up to so many tokens lists the few skills, a larger one the most."""

OWN_MIND = ("offline", "agent")
"""Providers that read no instructions and notes of ours: none, and an agent that finds its own."""

RECALL_WINDOW_SHARE = 8
"""Recalled notes take at most this part of a known context window."""


@dataclass(frozen=True)
class Runtime:
    """The core with a conversation on top."""

    core: Core
    stream: EventStream
    agent: Agent
    session: RecordedSession
    notices: tuple[str, ...]
    broken_off: BrokenOff | None = None
    """The last session of the workspace, where it ended unexpectedly."""

    @property
    def session_id(self) -> str:
        """The id of the session that is recorded now."""
        return self.session.now.id

    @property
    def log(self) -> SessionLog:
        """The log that is written now."""
        return self.session.log

    def begin(self) -> None:
        """Publish the session's first events to those who have subscribed to the stream."""
        self.stream.publish(self.session.started(self.agent.provider.describe()))
        for event in self.session.now.history.closing:
            self.stream.publish(event)

    async def open_session(self, wish: SessionWish) -> None:
        """Record another session from now on, between two turns; `begin` comes next.

        What was approved for the session before is asked about again.

        Raises:
            SessionError: It cannot be opened; the one before goes on.
        """
        if self.agent.busy:
            raise SessionError("A turn is running. Stop it first, then open the other session.")
        await self.session.open(wish)
        await begin_session(self.core, *(one / OUTPUT for one in lineage(self.session.folder)))
        self.restore()

    def restore(self) -> None:
        """Give the agent and the stream what the session has had so far."""
        opened = self.session.now
        self.stream.go_on_after(opened.earlier.last_id)
        self.agent.restore(opened.history.messages, opened.history.waiting)


@asynccontextmanager
async def open_runtime(
    options: Options,
    attendance: Attendance,
    *,
    configuration: Configuration | None = None,
    report: Callable[[str], None] | None = None,
    clock: Clock | None = None,
) -> AsyncGenerator[Runtime]:
    """Build core and agent from settings; close them when the block is left.

    The scripted provider without a script plays the tour in a temporary workspace of its own.

    Raises:
        ConfigurationError: There is no workspace, no provider or no session as asked for.
    """
    clock = clock or SystemClock()
    async with AsyncExitStack() as stack:
        if configuration is None or _plays_tour(configuration):
            options = await stack.enter_async_context(_tour_workspace(options, configuration))
            configuration = configure(options)
        foreign = None if options.agent is None else _foreign(options.agent)
        chosen = ChosenProvider(foreign) if foreign else await choose_provider(configuration.settings, options)
        stack.push_async_callback(chosen.provider.aclose)
        root = configuration.workspace.root
        session = RecordedSession(sessions_folder(), root, clock, attended=attendance.attended)
        try:
            await session.open(SessionWish.of(options))
        except SessionError as error:
            raise ConfigurationError(str(error)) from None
        log = session.log
        configuration = configuration.with_readable([one / OUTPUT for one in lineage(session.folder)])
        stack.push(_closing(log))
        core = await stack.enter_async_context(
            open_core(configuration, attendance, OutputDirectory(session.folder / OUTPUT), report=report, clock=clock)
        )
        stream = EventStream(core.bus, clock)
        stack.callback(stream.close)
        notices = [*core.notices]
        broken_off = await asyncio.to_thread(take_broken_off, session.sessions, root)
        stream.subscribe(log.write)
        stream.subscribe(_naming_turns(core, session))
        if log.error:
            notices.append(log.error)
        log.subscribe(lambda change: _later(stream.publish, NoticeEvent(text=change)))
        attended = attendance.attended
        stack.callback(TerminalRecorder(core.hub, clock, lambda: session.folder, attended=attended).close)
        hooks = TurnHooks(core.hooks, lambda words: stream.publish(NoticeEvent(text=words)))
        core.hooks.session = lambda: SessionFacts(session.now.id, str(session.log.path))
        core.hooks.tell = lambda words: stream.publish(NoticeEvent(text=words))
        if core.mcp is not None:
            core.mcp.tell = lambda words: _later(stream.publish, NoticeEvent(text=words))
            if attended:
                from ollm_tui.agent.mcp.elicitation import Elicitation  # without servers nobody waits for it

                core.mcp.ask_person = Elicitation(core.executor, core.mcp.tell).ask
            core.mcp.start()
        stack.push_async_callback(hooks.at_end)
        if attended:
            stack.callback(hooks.watch(core.bus))
        limits = configuration.settings.agent
        sources = Sources(
            _recall(chosen.provider, core),
            _instructions(chosen.provider, core),
            _references(chosen.provider, core),
            hooks,
            PromptCommands(core.executor, lambda: prompt_files(core), core.mcp and core.mcp.offers),
            core.mcp.join if core.mcp is not None else None,
        )
        if foreign is not None:
            agent = foreign.agent(core.executor, stream, core.todos, sources, lambda: _sync(core, log))
            stack.push_async_callback(agent.aclose)
        else:
            agent = Agent(
                chosen.provider,
                core.executor,
                stream,
                limits=TurnLimits(limits.max_rounds, limits.max_tokens, limits.max_seconds),
                sources=sources,
                on_first_message=core.todos.archive_when_done,  # a new task begins with an empty list
                on_turn_end=lambda: _sync(core, log),
            )
        if chosen.notice:
            notices.append(chosen.notice)
        runtime = Runtime(core, stream, agent, session, tuple(notices), broken_off)
        runtime.restore()
        yield runtime


def _foreign(command: str) -> ForeignProvider:
    """Return what stands for a foreign agent. Raises ConfigurationError."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise ConfigurationError(f"--agent {command!r} is no command line: {error}.") from None
    if not words:
        raise ConfigurationError('--agent needs a command, such as "gemini --acp".')
    if find_spec("acp") is None:
        raise ConfigurationError("Agents of others need a package. Run: pip install 'ollm-tui[acp]'")
    from ollm_tui.agent.foreign.agent import ForeignProvider  # only those who ask for it load it

    return ForeignProvider(words)


def _instructions(provider: Provider, core: Core) -> Instructions | None:
    """Return what sends the workspace's instructions; None where no model reads them."""
    described = provider.describe()
    if described.provider in OWN_MIND:
        return None
    window = described.context_window
    limit = MAX_CHARACTERS if window is None else window * CHARACTERS_PER_TOKEN // INSTRUCTIONS_WINDOW_SHARE
    most = FEW_SKILLS if window is not None and window <= SMALL_WINDOW else MOST_SKILLS
    return Instructions(
        lambda: core.executor.workspace, limit, lambda: catalogue(prompt_files(core).skills(), limit // 2, most)
    )


def prompt_files(core: Core) -> PromptFiles:
    """Return the commands and skills that count now, and the prompts of servers. Blocking."""
    try:
        found = read_prompt_files(core.executor.workspace, TrustStore.of_user(), core.configuration.bundles.folders)
    except ValueError as error:
        found = PromptFiles(findings=(str(error),))
    if core.mcp is None:
        return found
    prompts = (prompt for prompt in core.mcp.offers.commands() if found.find(prompt.name) is None)
    return replace(found, files=(*found.files, *prompts))


def _references(provider: Provider, core: Core) -> ReferenceReader:
    window = provider.describe().context_window
    limit = None if window is None else window * CHARACTERS_PER_TOKEN // REFERENCE_WINDOW_SHARE
    of_servers = core.mcp.offers.resource_call if core.mcp is not None else None
    return ReferenceReader(core.executor, MAX_REFERENCE if limit is None else limit, of_servers)


def _recall(provider: Provider, core: Core) -> MemoryRecall | None:
    """Return what chooses notes for the first message; None where it is off or no model reads them."""
    settings, described = core.configuration.settings.memory, provider.describe()
    if not settings.inject or described.provider in OWN_MIND:
        return None
    window = described.context_window
    budget = settings.inject_tokens if window is None else min(settings.inject_tokens, window // RECALL_WINDOW_SHARE)

    async def allowed(key: str) -> bool:
        """Return whether the model could read it without a question: what asks or is denied is not disclosed here."""
        explained = await core.executor.explain(MEMORY_GET.name, {"key": key}, origin=Origin.MODEL)
        return explained.decision is Decision.ALLOW

    return MemoryRecall(core.memory, allowed, budget)


def _sync(core: Core, log: SessionLog) -> None:
    core.audit.flush()
    core.store.sync()
    log.sync()


def _closing(log: SessionLog) -> Callable[[type[BaseException] | None, object, object], None]:
    """Return what closes the log; after a crash the session has no end, as the next start says."""

    def close(kind: type[BaseException] | None, error: object, traceback: object) -> None:
        log.close(ended=kind is None or not issubclass(kind, Exception))

    return close


def _naming_turns(core: Core, session: RecordedSession) -> Callable[[Event], None]:
    """Return a listener that names what follows each message in the journal, by which it can be undone as a whole."""
    journal = core.undo.journal

    def follow(event: Event) -> None:
        match event:
            case SessionStartedEvent():
                messages = (one.id for one in session.now.earlier.events if isinstance(one, UserMessageEvent))
                last = max(messages, default=0)
                journal.turn = turn_name(session.now.id, last) if last else ""
            case UserMessageEvent(id=event_id):
                journal.turn = turn_name(session.now.id, event_id)
            case _:
                pass

    return follow


def _later(publish: Callable[[Event], object], event: Event) -> None:
    """Publish an event behind the one that is being read."""
    with suppress(RuntimeError):  # no loop any more: nobody is left to read it
        asyncio.get_running_loop().call_soon(publish, event)


def _plays_tour(configuration: Configuration) -> bool:
    return configuration.settings.provider == "scripted" and configuration.options.script is None


@asynccontextmanager
async def _tour_workspace(options: Options, configuration: Configuration | None) -> AsyncGenerator[Options]:
    """Give the tour a workspace of its own; other options stay as they are."""
    configuration = configuration or configure(options)
    if not _plays_tour(configuration):
        yield options
        return
    with tempfile.TemporaryDirectory(prefix="ollm-tour-") as folder:
        yield replace(options, workspace=Path(folder))
