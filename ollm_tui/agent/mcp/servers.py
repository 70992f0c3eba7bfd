"""The MCP servers of this process: connected in the background; their tools join when the person next speaks."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import shlex
from collections.abc import Awaitable, Callable, Generator
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from pathlib import Path

from ollm_tui.agent.context import TOOL_SEARCH
from ollm_tui.agent.mcp.host import McpHost
from ollm_tui.agent.mcp.offers import ServerOffers, offer_tools
from ollm_tui.agent.mcp.search import search_tool
from ollm_tui.agent.mcp.settings import McpServer, McpSettings
from ollm_tui.agent.mcp.tools import ApprovedTools, McpTool, build_tools, digest_of
from ollm_tui.agent.token_estimate import estimated_tokens
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import McpFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import JsonObject, UpdateOutput
from ollm_tui.core.fence.secrets import mask
from ollm_tui.core.tools.registry import ALIASES, ToolRegistry, folded_name
from ollm_tui.core.tools.schema import function_schema
from ollm_tui.mcp_host.frames import (
    Asked,
    CallKind,
    Connected,
    ElicitationAnswer,
    Lost,
    PromptEntry,
    ResourceEntry,
    Result,
    ToolDefinition,
)

log = logging.getLogger(__name__)

STDERR_LINES, STDERR_BYTES = 3, 4_000
"""What a report shows of what a server wrote there."""

NOT_INSTALLED = "MCP is not installed. Run: pip install 'ollm-tui[mcp]'"


class ServerState(StrEnum):
    """Whether a server is there."""

    CONNECTING = "connecting"
    CONNECTED = "connected"
    LOST = "not there"


@dataclass
class ServerStatus:
    """What is known of a server."""

    server: McpServer
    state: ServerState = ServerState.CONNECTING
    reason: str = ""
    """Why it is not there."""
    title: str = ""
    protocol: str = ""
    definitions: tuple[ToolDefinition, ...] = ()
    resources: tuple[ResourceEntry, ...] = ()
    prompts: tuple[PromptEntry, ...] = ()
    left_out: tuple[str, ...] = ()
    tools: tuple[McpTool, ...] = ()
    """The tools that the model is offered."""
    changed: bool = False
    """Whether its tools are others than those that are offered."""

    @property
    def tokens(self) -> int:
        """What its tools take of each request."""
        return sum(estimated_tokens(json.dumps(function_schema(tool))) for tool in self.tools)


class McpServers:
    """All servers of the configuration; nothing is started before `start`, and never without servers."""

    def __init__(
        self,
        settings: McpSettings,
        registry: ToolRegistry,
        workspace: Path,
        *,
        wait_for_all: bool = False,
        approved: ApprovedTools | None = None,
    ) -> None:
        """`wait_for_all` is for a program whose first message is its only one."""
        self.settings = settings
        self.tell: Callable[[str], object] = log.warning
        """Takes sentences for the person."""
        self.ask_person: Callable[[Asked], Awaitable[ElicitationAnswer]] | None = None
        """Answers what servers ask the person; without one they are declined."""
        self.why_not: Callable[[str, str], Awaitable[str]] | None = None
        """Returns why a server's command must not run now; given the server in words, and the command."""
        self.approved = approved or ApprovedTools()
        self._registry = registry
        self._workspace = workspace
        self._wait_for_all = wait_for_all
        self._statuses = {name: ServerStatus(server) for name, server in settings.servers.items()}
        self._host: McpHost | None = None
        self.offers = ServerOffers(self._statuses, self._wait_for)
        self.on_change: Callable[[], object] = lambda: None
        """Called when a server has come, gone or changed."""
        self._news = asyncio.Event()
        self._starting: asyncio.Task[None] | None = None

    def statuses(self) -> list[ServerStatus]:
        """Return what is known of each server, in the order of the configuration."""
        return list(self._statuses.values())

    def report(self) -> list[str]:
        """Return what a person should know of all servers, line by line. Counts tokens: not on the event loop."""
        return [line for status in self.statuses() for line in _described(status, self.why_ask)]

    def start(self) -> None:
        """Connect all servers in the background."""
        if self._statuses and self._starting is None:
            for status in self._statuses.values():
                for tool in offer_tools(status.server, self._get):
                    self._registry.register(tool)
            self._starting = asyncio.ensure_future(self._start())

    async def join(self, signal: AbortSignal) -> None:
        """Offer the tools that have come, and no longer those that are gone; wait where a server is required."""
        self.start()
        for name, status in self._statuses.items():
            if status.server.entry.required or self._wait_for_all:
                await signal.guard(self._wait_for(name))
        for status in self._statuses.values():
            if status.changed:
                self._offer(status)
        offered = [status.server.name for status in self._statuses.values() if status.tools]
        self._registry.unregister(TOOL_SEARCH)
        if offered:
            servers = self._statuses.values()
            self._registry.register(search_tool(offered, lambda: [tool for one in servers for tool in one.tools]))

    async def _wait_for(self, name: str) -> None:
        """Return once a server is there or lost."""
        self.start()
        while self._statuses[name].state is ServerState.CONNECTING:
            self._news.clear()
            await self._news.wait()

    async def aclose(self) -> None:
        """End all servers."""
        if self._starting is not None:
            self._starting.cancel()
            await asyncio.gather(self._starting, return_exceptions=True)
        if self._host is not None:
            await self._host.aclose()

    # -- for calls ---------------------------------------------------------------------------------------------------

    async def call(self, tool: McpTool, arguments: JsonObject, update: UpdateOutput | None) -> Result:
        """Call a tool on its server. Raises McpFailed, ToolTimeout."""
        if self._host is None:
            raise McpFailed(f"The MCP server {tool.server.name} is not there.")
        await self._check_program(tool.server)
        return await self._host.call(tool.server.name, tool.definition.name, arguments, update)

    async def _get(self, server: str, kind: CallKind, name: str, arguments: JsonObject) -> Result:
        await self._wait_for(server)
        if self._host is None:
            raise McpFailed(f"The MCP server {server} is not there: {self._statuses[server].reason}")
        await self._check_program(self._statuses[server].server)
        return await self._host.call(server, name, arguments, kind=kind)

    def why_ask(self, tool: McpTool) -> str:
        """Return why a call has to ask whatever rules say: its definition is not one that a person has approved."""
        return self.approved.why_not(tool.name, tool.server.identity, self._definition_now(tool))

    def difference(self, tool: McpTool) -> str:
        """Return what a person should see of its definition."""
        return self.approved.difference(tool.name, self._definition_now(tool))

    def fingerprint(self, tool: McpTool) -> str:
        """Return what a yes is bound to."""
        return f"{tool.server.identity} {digest_of(self._definition_now(tool))}"

    async def approve(self, tool: McpTool) -> None:
        """Approve the definition that its server gives now. Raises OSError, ValueError."""
        definition = self._definition_now(tool)
        await asyncio.to_thread(self.approved.approve, tool.server.identity, [(tool.name, definition)])

    def _definition_now(self, tool: McpTool) -> ToolDefinition:
        """Return what its server says of it now: it may have changed since the tool was offered."""
        now = self._statuses[tool.server.name].definitions
        return next((one for one in now if one.name == tool.definition.name), tool.definition)

    # -- inside ------------------------------------------------------------------------------------------------------

    async def _start(self) -> None:
        if find_spec("mcp") is None:
            for status in self._statuses.values():
                self._hear(Lost(server=status.server.name, reason=NOT_INSTALLED))
            return
        await asyncio.to_thread(self.approved.read)
        if self.approved.fault:
            self.tell(f"Every call of an MCP server asks: {self.approved.fault}")
        self._host = McpHost(self._hear, self._ask)
        for status in self._statuses.values():
            await self._connect(status)

    async def _check_program(self, server: McpServer) -> None:
        """Raise McpFailed where its program may not run: a call starts one again that has ended."""
        if self.why_not is None or not server.entry.command:
            return
        command = shlex.join((server.entry.command, *server.entry.args))
        if server.entry.cwd:
            command = f"cd {shlex.quote(server.entry.cwd)} && {command}"
        if why_not := await self.why_not(f"the MCP server {server.name}", command):
            raise McpFailed(f"The MCP server {server.name} was not started: {why_not}.")

    async def _connect(self, status: ServerStatus) -> None:
        assert self._host is not None
        try:
            await self._check_program(status.server)
            await self._host.connect(status.server.spec(self._workspace))
        except (ValueError, OSError, McpFailed) as error:
            reason = error.message if isinstance(error, McpFailed) else str(error)
            self._hear(Lost(server=status.server.name, reason=reason))

    def _hear(self, report: Connected | Lost) -> None:
        status = self._statuses[report.server]
        match report:
            case Connected():
                status.state, status.reason = ServerState.CONNECTED, ""
                status.title, status.protocol = visible(report.title), report.protocol
                status.changed = status.changed or status.definitions != report.tools or not status.tools
                status.resources, status.prompts = report.resources, report.prompts
                status.definitions, status.left_out = report.tools, tuple(map(visible, report.left_out))
            case Lost(reason=reason):
                status.state, status.reason = ServerState.LOST, visible(reason)
                self.tell(f"The MCP server {status.server.name} is not there: {status.reason}. /mcp says more.")
        self._news.set()
        self.on_change()

    def _offer(self, status: ServerStatus) -> None:
        """Replace a server's tools by those that it has now."""
        for tool in status.tools:
            self._registry.unregister(tool.name)
        taken = {folded_name(name) for name in (*ALIASES, *(tool.name for tool in self._registry.list()))}
        built = build_tools(status.server, status.definitions, self, taken)
        status.tools, status.changed = built.tools, False
        status.left_out = (*status.left_out, *built.left_out)
        for tool in built.tools:
            self._registry.register(tool)

    async def _ask(self, asked: Asked) -> ElicitationAnswer:
        return (
            ElicitationAnswer(id=asked.id, action="decline")
            if self.ask_person is None
            else await self.ask_person(asked)
        )


def _described(status: ServerStatus, why_ask: Callable[[McpTool], str]) -> Generator[str]:
    server = status.server
    if status.state is not ServerState.CONNECTED:
        yield f"{server.name}: {status.state.value}{f': {status.reason}' if status.reason else ''}"
        yield f"  {server.address}"
        yield from _stderr(server)
        return
    offered = f"{len(status.tools)} tools, about {status.tokens:,} tokens a request"
    yield f"{server.name}: {status.state.value} ({status.title}), {offered}"
    width = max((len(tool.name) for tool in status.tools), default=0)
    for tool in status.tools:
        price = f"{estimated_tokens(json.dumps(function_schema(tool))):>5,} tokens"
        why = why_ask(tool)
        yield f"  {tool.name:<{width}} {price}{f'   asks: {why}' if why else ''}"
    for kind, count in (("resources", len(status.resources)), ("prompts", len(status.prompts))):
        if count:
            yield f"  {count} {kind}: {f'@{server.name}:URI' if kind == 'resources' else f'/{server.name}:NAME'}"
    for words in (*status.left_out, *(["its tools join with your next message"] if status.changed else [])):
        yield f"  {words}"
    yield from _stderr(server)


def _stderr(server: McpServer) -> Generator[str]:
    """Yield the last lines that a server wrote there, and where all are."""
    try:
        with server.stderr.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - STDERR_BYTES))
            lines = file.read().decode("utf-8", "replace").splitlines()[-STDERR_LINES:]
    except OSError:
        return
    for line in lines:
        yield f"  | {visible(mask(line))[:200]}"
    if lines:
        yield f"  (the end of what it wrote to stderr: {server.stderr})"
