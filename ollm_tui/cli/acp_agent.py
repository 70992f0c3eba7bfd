"""Sessions of an editor: prompts become turns, events become updates, questions become requests for permission."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

import acp
from acp import helpers, schema

from ollm_tui import __version__
from ollm_tui.agent.events import ConfirmationRequestedEvent, ErrorEvent, Event, TurnStatus
from ollm_tui.cli.acp_updates import Update, Updates, permission_options
from ollm_tui.cli.streams import say
from ollm_tui.core.bus.confirmation import ConfirmationRequest, ConfirmationResponse
from ollm_tui.core.bus.states import RememberScope
from ollm_tui.core.policy.rules import Mode
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, ConfigurationError, Runtime, open_runtime
from ollm_tui.runtime.runtime import prompt_files

log = logging.getLogger(__name__)

PROTOCOL_VERSION = 1

_MODES = {
    Mode.ASK: "Ask before what your rules do not allow",
    Mode.AUTO_EDIT: "Edit files of the folder without asking",
    Mode.PLAN: "Read and plan only",
}
"""The modes that an editor may choose; the one in which nothing asks is chosen on the command line alone."""

_REASONS: dict[str, schema.StopReason] = {"TURN_LIMIT": "max_turn_requests"}

Prompt = Sequence[
    schema.TextContentBlock
    | schema.ImageContentBlock
    | schema.AudioContentBlock
    | schema.ResourceContentBlock
    | schema.EmbeddedResourceContentBlock
]


class EditorAgent:
    """The agent's side of one connection (`acp.Agent`)."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._client: acp.Client | None = None
        self._sessions: dict[str, EditorSession] = {}

    def on_connect(self, conn: acp.Client) -> None:
        """Take the editor's side."""
        self._client = conn

    async def initialize(self, protocol_version: int, **_: Any) -> schema.InitializeResponse:
        """Say what this agent can do; the version is ours, and an editor that cannot speak it leaves."""
        return schema.InitializeResponse(
            protocol_version=min(protocol_version, PROTOCOL_VERSION) or PROTOCOL_VERSION,
            agent_capabilities=schema.AgentCapabilities(
                load_session=True, prompt_capabilities=schema.PromptCapabilities(embedded_context=True)
            ),
            agent_info=schema.Implementation(name="ollm-tui", title="ollm-tui", version=__version__),
        )

    async def new_session(
        self, cwd: str, mcp_servers: Sequence[object] | None = None, **_: Any
    ) -> schema.NewSessionResponse:
        """Open a session in a folder."""
        session = await self._open(cwd, None)
        await session.offer_commands()
        if mcp_servers:
            session.note("The editor's MCP servers are not used: name them in [mcp.servers] of the config file.")
        return schema.NewSessionResponse(session_id=session.id, modes=session.modes())

    async def load_session(self, cwd: str, session_id: str, **_: Any) -> schema.LoadSessionResponse:
        """Go on with an earlier session, which is told anew."""
        session = await self._open(cwd, session_id)
        await session.replay()
        return schema.LoadSessionResponse(modes=session.modes())

    async def prompt(self, session_id: str, prompt: Prompt, **_: Any) -> schema.PromptResponse:
        """Run a turn; the answer comes when all of it was told."""
        return await self._session(session_id).turn(prompt)

    async def cancel(self, session_id: str, **_: Any) -> None:
        """Interrupt the turn."""
        self._session(session_id).interrupt("cancelled in the editor")

    async def set_session_mode(self, mode_id: str, session_id: str, **_: Any) -> schema.SetSessionModeResponse:
        """Change how much runs without asking."""
        session = self._session(session_id)
        if mode_id not in _MODES:
            raise acp.RequestError(-32602, f"there is no mode {mode_id!r}: {', '.join(_MODES)}")
        session.runtime.core.executor.mode = Mode(mode_id)
        return schema.SetSessionModeResponse()

    async def authenticate(self, method_id: str, **_: Any) -> schema.AuthenticateResponse:
        """Let everyone in: whoever starts this program is its person."""
        return schema.AuthenticateResponse()

    async def ext_method(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        """Refuse what the protocol does not have."""
        raise acp.RequestError.method_not_found(method)

    async def ext_notification(self, method: str, params: dict[str, Any]) -> None:
        """Pass over what the protocol does not have."""

    async def aclose(self) -> None:
        """End all sessions; what waits for an answer gets none."""
        await asyncio.gather(*(session.aclose() for session in self._sessions.values()), return_exceptions=True)

    async def _open(self, cwd: str, session_id: str | None) -> EditorSession:
        assert self._client is not None, "a connection comes first"
        options = replace(self._options, workspace=Path(cwd), resume=session_id)
        session = await EditorSession.open(options, self._client)
        self._sessions[session.id] = session
        return session

    def _session(self, session_id: str) -> EditorSession:
        try:
            return self._sessions[session_id]
        except KeyError:
            raise acp.RequestError(-32602, f"there is no session {session_id!r}") from None


class EditorSession:
    """One session: a runtime of its own, in a task of its own, and what its editor is told, in order."""

    runtime: Runtime
    _updates: Updates

    def __init__(self, client: acp.Client) -> None:
        self._client = client
        self._told: asyncio.Queue[Update | ConfirmationRequest] = asyncio.Queue()
        self._asking: set[asyncio.Task[None]] = set()
        self._over = asyncio.Event()
        self._idle = asyncio.Event()
        self._idle.set()
        self._tasks: list[asyncio.Task[None]] = []
        self._error: ErrorEvent | None = None
        self._waiting = False

    @classmethod
    async def open(cls, options: Options, client: acp.Client) -> EditorSession:
        """Open the runtime. Raises RequestError where it cannot be."""
        session = cls(client)
        ready: asyncio.Future[Runtime] = asyncio.get_running_loop().create_future()
        session._tasks = [asyncio.ensure_future(session._run(options, ready)), asyncio.ensure_future(session._tell())]
        try:
            session.runtime = await ready
        except ConfigurationError as error:
            session._tasks[1].cancel()
            raise acp.RequestError(-32603, str(error)) from None
        runtime = session.runtime
        session._waiting = bool(runtime.session.now.history.waiting)
        session._updates = Updates(runtime.core.registry, runtime.core.configuration.workspace.root)
        for notice in (*runtime.notices, *runtime.session.now.notices):
            session.note(notice)
        runtime.stream.subscribe(session._hear)
        runtime.begin()
        return session

    @property
    def id(self) -> str:
        """The id of the recorded session."""
        return self.runtime.session_id

    def modes(self) -> schema.SessionModeState:
        """Return the mode that holds, and those to choose from."""
        now = self.runtime.core.executor.mode
        offered = _MODES if now in _MODES else {**_MODES, now: "Nothing asks"}
        return schema.SessionModeState(
            current_mode_id=now.value,
            available_modes=[
                schema.SessionMode(id=mode.value, name=mode.value, description=words) for mode, words in offered.items()
            ],
        )

    def note(self, text: str) -> None:
        """Tell the person something that is no part of the conversation."""
        self._told.put_nowait(helpers.update_agent_thought_text(f"{text}\n"))

    def interrupt(self, why: str) -> None:
        """End the running turn, and what it asks."""
        self.runtime.agent.interrupt(why)

    async def replay(self) -> None:
        """Tell what happened in the session before."""
        for event in self.runtime.session.now.earlier.events:
            for update in self._updates.replayed(event):
                self._told.put_nowait(update)
        await self._told.join()

    async def turn(self, prompt: Prompt) -> schema.PromptResponse:
        """Run a turn and wait until all of it was told."""
        agent = self.runtime.agent
        if agent.busy:
            raise acp.RequestError(-32600, "a turn is running: cancel it, or wait for its end")
        self._error = None
        self._idle.clear()
        try:
            if self._waiting:  # calls that an earlier session left open: they are asked about first
                self._waiting = False
                await agent.retry()
            status = await agent.run_turn(self._text_of(prompt))
        finally:
            self._idle.set()
        await self._told.join()
        match status:
            case TurnStatus.COMPLETED:
                return schema.PromptResponse(stop_reason="end_turn")
            case TurnStatus.INTERRUPTED:
                return schema.PromptResponse(stop_reason="cancelled")
            case TurnStatus.FAILED:
                error = self._error.error if self._error is not None else None
                if error is not None and error.code in _REASONS:
                    return schema.PromptResponse(stop_reason=_REASONS[error.code])
                raise acp.RequestError(-32603, error.message if error is not None else "the turn failed")

    async def offer_commands(self) -> None:
        """Name the commands and skills of the person and the folder."""
        found = await asyncio.to_thread(prompt_files, self.runtime.core)
        commands = [schema.AvailableCommand(name=file.name, description=file.description) for file in found.files]
        if commands:
            self._told.put_nowait(cast("Update", helpers.update_available_commands(commands)))

    async def aclose(self) -> None:
        """End the session with all that it started."""
        self.interrupt("the editor has gone")
        self._over.set()
        for task in (*self._asking, self._tasks[1]):
            task.cancel()
        await self._tasks[0]

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _run(self, options: Options, ready: asyncio.Future[Runtime]) -> None:
        """Hold the runtime: it is opened and closed in one task."""
        try:
            async with open_runtime(options, Attendance.PERSON, report=say) as runtime:
                ready.set_result(runtime)
                await self._over.wait()
                await self._idle.wait()
        except Exception as error:
            if ready.done():
                log.exception("a session ended unexpectedly")
            else:
                ready.set_exception(error)

    def _hear(self, event: Event) -> None:
        if isinstance(event, ErrorEvent):
            self._error = event
        if isinstance(event, ConfirmationRequestedEvent):
            self._told.put_nowait(event.request)
            return
        for update in self._updates.of(event):
            self._told.put_nowait(update)

    async def _tell(self) -> None:
        """Tell the editor one thing after the other; questions wait beside that."""
        while True:
            one = await self._told.get()
            try:
                if isinstance(one, ConfirmationRequest):
                    task = asyncio.ensure_future(self._ask(one))
                    self._asking.add(task)
                    task.add_done_callback(self._asking.discard)
                else:
                    await self._client.session_update(self.id, one)
            except (acp.RequestError, ConnectionError) as error:
                log.warning("the editor cannot be told: %s", error)
            finally:
                self._told.task_done()

    async def _ask(self, request: ConfirmationRequest) -> None:
        """Ask the person in the editor; what is no answer approves nothing."""
        core = self.runtime.core
        confirmation = core.bus.find(request.id)
        if confirmation is None or not confirmation.pending:
            return
        review = await core.executor.review(request.details.tool_name, request.details.args, origin=request.proposed_by)
        always = review.offer.text if review.offer is not None and review.risk.value != "high" else ""
        try:
            response = await self._client.request_permission(
                self.id, self._updates.question(confirmation), permission_options(always)
            )
        except (acp.RequestError, ConnectionError) as error:
            log.warning("the editor cannot be asked: %s", error)
            core.bus.cancel_request(request.id, by="editor")
            return
        chosen = response.outcome.option_id if isinstance(response.outcome, schema.AllowedOutcome) else None
        match chosen:
            case "once" | "session":
                remember = RememberScope.SESSION if chosen == "session" and always else None
                answer = ConfirmationResponse(id=request.id, approved=True, remember=remember)
                core.bus.respond_to_confirmation(answer)
            case "deny":
                core.bus.respond_to_confirmation(ConfirmationResponse(id=request.id, approved=False))
            case _:
                core.bus.cancel_request(request.id)

    def _text_of(self, prompt: Prompt) -> str:
        """Return a prompt as a message: files as references, which are read under the policy."""
        parts: list[str] = []
        for block in prompt:
            match block:
                case schema.TextContentBlock():
                    parts.append(block.text)
                case schema.ResourceContentBlock():
                    parts.append(self._reference(block.uri))
                case schema.EmbeddedResourceContentBlock():
                    text = getattr(block.resource, "text", None)
                    parts.append(f"\n[{block.resource.uri}]\n{text if text is not None else '(not text)'}\n")
                case schema.ImageContentBlock() | schema.AudioContentBlock():
                    parts.append(f"[{block.type}, not read]")
        return "".join(parts)

    def _reference(self, uri: str) -> str:
        """Return how a message names a file of the workspace."""
        path = Path(unquote(urlsplit(uri).path)) if uri.startswith("file:") else None
        root = self.runtime.core.configuration.workspace.root
        if path is None or not path.is_relative_to(root):
            return uri
        name = str(path.relative_to(root))
        return f'@"{name}"' if " " in name else f"@{name}"
