"""Open the runtime, a conversation on top of the core, from settings and flags."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from ollm_tui import __version__
from ollm_tui.agent.events import Event, NoticeEvent, SessionStartedEvent
from ollm_tui.agent.loop import Agent
from ollm_tui.agent.providers.provider import Provider
from ollm_tui.agent.recall import MemoryRecall
from ollm_tui.agent.session.log import OutputDirectory, SessionLog, new_session_id, sessions_folder, take_broken_off
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.memory import MEMORY_GET
from ollm_tui.options import Options
from ollm_tui.runtime.configuration import Configuration, configure
from ollm_tui.runtime.core import Attendance, Core, open_core
from ollm_tui.runtime.model_provider import choose_provider

RECALL_WINDOW_SHARE = 8
"""Recalled notes take at most this part of a known context window."""


@dataclass(frozen=True)
class Runtime:
    """The core with a conversation on top."""

    core: Core
    stream: EventStream
    agent: Agent
    session_id: str
    log: SessionLog
    notices: tuple[str, ...]

    def begin(self) -> None:
        """Publish the session's first event to those who have subscribed to the stream."""
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
        ConfigurationError: There is no workspace, or no provider as asked for.
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
            open_core(configuration, attendance, outputs, report=report, clock=clock)
        )
        stream = EventStream(core.bus, clock)
        stack.callback(stream.close)
        notices = [*core.notices]
        broken_off = await asyncio.to_thread(take_broken_off, folder.parent, configuration.workspace.root)
        if broken_off:
            notices.append(broken_off)
        log = await asyncio.to_thread(SessionLog, folder)
        stack.push(_closing(log))
        stream.subscribe(log.write)
        if log.error:
            notices.append(log.error)
        log.subscribe(lambda change: _later(stream.publish, NoticeEvent(text=change)))
        agent = Agent(
            chosen.provider,
            core.executor,
            stream,
            max_rounds=configuration.settings.agent.max_rounds,
            recall=_recall(chosen.provider, core),
            on_first_message=core.todos.archive_when_done,  # a new task begins with an empty list
            on_turn_end=lambda: _sync(core, log),
        )
        if chosen.notice:
            notices.append(chosen.notice)
        yield Runtime(core, stream, agent, session_id, log, tuple(notices))


def _recall(provider: Provider, core: Core) -> MemoryRecall | None:
    """Return what chooses notes for the first message; None where it is off or no model reads them."""
    settings, described = core.configuration.settings.memory, provider.describe()
    if not settings.inject or described.provider == "offline":
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
