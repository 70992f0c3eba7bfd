"""The tools of MCP servers as tools of ours: names that clash with nothing, calls that go through the host."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Protocol

from ollm_tui.agent.mcp.pictures import with_pictures
from ollm_tui.agent.mcp.settings import McpServer
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import McpFailed
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import Preview, TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.base import CallFacts, Effect, Question, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.registry import folded_name
from ollm_tui.core.tools.schema_parameters import SchemaParameters, schema_parameters
from ollm_tui.mcp_host.frames import Result, ToolDefinition

MAX_NAME = 64
"""Characters of a tool's name that model servers take."""
MAX_DESCRIPTION = 2_000


class ToolServers(Protocol):
    """What calls of these tools need of the servers."""

    async def call(self, tool: McpTool, arguments: JsonObject, update: UpdateOutput | None) -> Result:
        """Call it on its server."""
        ...

    def why_ask(self, tool: McpTool) -> str:
        """Return why a call has to ask whatever rules say; empty where it has not."""
        ...

    def difference(self, tool: McpTool) -> str:
        """Return what a person should see of its definition."""
        ...

    def fingerprint(self, tool: McpTool) -> str:
        """Return what a yes is bound to: the definition that its server gives now."""
        ...

    async def approve(self, tool: McpTool) -> None:
        """Approve its definition. Raises OSError, ValueError."""
        ...


@dataclass(frozen=True, kw_only=True, eq=False)
class McpTool(Tool[SchemaParameters]):
    """A tool of a server."""

    server: McpServer
    definition: ToolDefinition
    servers: ToolServers


class McpInvocation(ToolInvocation[SchemaParameters]):
    """One call of a server's tool."""

    def get_description(self) -> str:
        tool = self._tool
        said = f": {visible(tool.definition.title)}" if tool.definition.title else ""
        return f"MCP server {tool.server.name}, {visible(tool.definition.name)}{said}"

    def tool_locations(self) -> list[str]:
        return [self._tool.server.address]

    def facts(self) -> CallFacts:
        return CallFacts(self._tool.effect, question=self._tool.servers.why_ask(self._tool) or None)

    async def question(self) -> Question:
        tool = self._tool

        async def preview() -> Preview | None:
            if not (why := tool.servers.why_ask(tool)):
                return None
            arguments = json.dumps(self.params.on_the_wire(), indent=1, ensure_ascii=False)
            return TextPreview(
                text=f"{visible_block(arguments)}\n\nWhat its server says of it:\n{tool.servers.difference(tool)}",
                warnings=(f"{why[:1].upper()}{why[1:]}; a yes approves what is said below the arguments.",),
            )

        return Question(state=tool.servers.fingerprint(tool), preview=preview)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Return the server's answer. Raises McpFailed, ToolTimeout."""
        tool, notes = self._tool, tuple[str, ...]()
        if self.approved and self.context.attended and tool.servers.why_ask(tool):
            try:
                await tool.servers.approve(tool)
            except (OSError, ValueError) as error:
                notes = (f"the approval of {tool.name} could not be kept: {error}",)
        result = await signal.guard(tool.servers.call(tool, self.params.on_the_wire(), update_output))
        text = visible_block(result.text) or "It returned nothing."
        if result.is_error:
            raise McpFailed(text)
        returned = ToolResult.of_text(text, notes=notes)
        folder = self.context.web_access.downloads
        if not result.pictures or folder is None:
            return returned
        return await signal.in_thread(with_pictures, returned, result.pictures, folder)

    @property
    def _tool(self) -> McpTool:
        assert isinstance(self.tool, McpTool), "only those are bound to this"
        return self.tool


@dataclass(frozen=True)
class BuiltTools:
    """The tools of one server, and why others are not there."""

    tools: tuple[McpTool, ...]
    left_out: tuple[str, ...]


def build_tools(
    server: McpServer, definitions: Iterable[ToolDefinition], servers: ToolServers, taken: Collection[str]
) -> BuiltTools:
    """Return the tools that the person wants of a server; `taken` are folded names of others."""
    tools: list[McpTool] = []
    left_out: list[str] = []
    names = set(taken)
    for definition in definitions:
        if not server.wants(definition.name):
            continue
        name = _free_name(server.name, definition.name, names)
        try:
            parameters = schema_parameters(name, definition.input_schema)
        except (ValueError, RecursionError) as error:
            left_out.append(f"{visible(definition.name[:64])} is left out: {error}")
            continue
        names.add(folded_name(name))
        if name != (plain := f"mcp__{server.name}__{definition.name}"):
            left_out.append(f"{visible(plain[:80])} is called {name}")
        tools.append(
            McpTool(
                name=name,
                display_name=visible(definition.title) or definition.name,
                description=_described(definition),
                group=ToolGroup.MCP,
                effect=Effect.SENDS,
                parameters=parameters,
                invocation=McpInvocation,
                risk=Risk.HIGH if definition.destructive and not definition.read_only else Risk.MEDIUM,
                time_limit=None,
                plugin=True,
                server=server,
                definition=definition,
                servers=servers,
            )
        )
    return BuiltTools(tuple(tools), tuple(left_out))


def _described(definition: ToolDefinition) -> str:
    text = visible_block(definition.description).strip() or visible(definition.title) or visible(definition.name[:200])
    return text if len(text) <= MAX_DESCRIPTION else f"{text[:MAX_DESCRIPTION]}..."


def _free_name(server: str, tool: str, taken: Collection[str]) -> str:
    """Return a name that model servers take and nothing else has."""
    name = f"mcp__{server}__{re.sub(r'[^A-Za-z0-9_-]', '_', tool)}"
    if len(name) > MAX_NAME:
        digest = hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:6]
        name = f"{name[: MAX_NAME - 7]}_{digest}"
    number = 1
    free = name
    while folded_name(free) in taken:
        number += 1
        free = f"{name[: MAX_NAME - 4]}_{number}"
    return free
