"""Resources and prompts of MCP servers: got when the person names one, by calls that no model is offered."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from pydantic import Field

from ollm_tui.agent.mcp.settings import McpServer
from ollm_tui.agent.prompt_files import PromptFile, PromptFileKind
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation
from ollm_tui.mcp_host.frames import CallKind, PromptEntry, ResourceEntry, Result


class OfferParameters(Parameters):
    """Which resource or prompt."""

    name: str = Field(min_length=1, max_length=2_000, description="The URI of a resource, or the name of a prompt")
    arguments: dict[str, str] = Field(default_factory=dict, description="Values for the places of a prompt")


class OfferingServer(Protocol):
    """What is known of a server."""

    resources: tuple[ResourceEntry, ...]
    prompts: tuple[PromptEntry, ...]


Get = Callable[[str, CallKind, str, JsonObject], Awaitable[Result]]
"""Gets the thing of that kind and name from a server; raises McpFailed, ToolTimeout."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OfferTool(Tool[OfferParameters]):
    """Gets one kind of thing of one server."""

    server: McpServer
    kind: CallKind
    get: Get


class OfferInvocation(ToolInvocation[OfferParameters]):
    """One resource or prompt."""

    def get_description(self) -> str:
        thing = "resource" if self._tool.kind is CallKind.RESOURCE else "prompt"
        return f"MCP server {self._tool.server.name}, {thing} {visible(self.params.name)}"

    def tool_locations(self) -> list[str]:
        return [self._tool.server.address]

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Return its text. Raises McpFailed, ToolTimeout."""
        tool = self._tool
        arguments: JsonObject = dict(self.params.arguments)
        result = await signal.guard(tool.get(tool.server.name, tool.kind, self.params.name, arguments))
        return ToolResult.of_text(visible_block(result.text) or "It is empty.")

    @property
    def _tool(self) -> OfferTool:
        assert isinstance(self.tool, OfferTool), "only those are bound to this"
        return self.tool


class ServerOffers:
    """What all servers offer to the person: prompts as commands, resources as references."""

    def __init__(self, statuses: Mapping[str, OfferingServer], wait_for: Callable[[str], Awaitable[None]]) -> None:
        """`wait_for` returns once a server is there or lost."""
        self._statuses = statuses
        self._wait_for = wait_for

    def commands(self) -> tuple[PromptFile, ...]:
        """Return all prompts of the moment as commands."""
        return tuple(
            prompt_as_command(name, prompt) for name, status in self._statuses.items() for prompt in status.prompts
        )

    def references(self) -> tuple[tuple[str, str], ...]:
        """Return all known resources: how a message refers to each, and what a person calls it."""
        return tuple(
            (f"{name}:{one.uri}", one.name)
            for name, status in self._statuses.items()
            for one in status.resources
            if one.uri.isprintable()
        )

    async def wait_for_prompt(self, command: str, signal: AbortSignal) -> None:
        """Wait for the server that a command's name begins with, where there is one."""
        server = command.partition(":")[0]
        if server in self._statuses:
            await signal.guard(self._wait_for(server))

    def prompt_call(self, command: str, words: str) -> tuple[str, JsonObject]:
        """Return tool and arguments for a command. Raises ValueError, LookupError."""
        server = command.partition(":")[0]
        prompts = self._statuses[server].prompts
        prompt = next((one for one in prompts if command_name(server, one) == command), None)
        if prompt is None:
            raise LookupError(f"{server} has no such prompt any more")
        return offer_name(server, CallKind.PROMPT), {
            "name": prompt.name,
            "arguments": filled_arguments(prompt, words),
        }

    def resource_call(self, word: str) -> tuple[str, str, JsonObject] | None:
        """Return reference, tool and arguments for a word that names a resource of a server; None for any other."""
        server, colon, uri = word.partition(":")
        status = self._statuses.get(server)
        if status is None or not colon or not uri:
            return None
        known = {one.uri for one in status.resources}
        if uri not in known:
            uri = uri.rstrip(".,;:!?)]}'\"")
        return f"{server}:{uri}", offer_name(server, CallKind.RESOURCE), {"name": uri}


def offer_name(server: str, kind: CallKind) -> str:
    """Return the name that rules know such calls by: the protocol's method, of a server."""
    return f"mcp__{server}__{kind.value.replace('/', '_')}"


def offer_tools(server: McpServer, get: Get) -> tuple[OfferTool, ...]:
    """Return what gets resources and prompts of a server."""
    return tuple(
        OfferTool(
            name=offer_name(server.name, kind),
            display_name=kind.value,
            description="Get what the person named of an MCP server",
            group=ToolGroup.MCP,
            effect=Effect.SENDS,
            parameters=OfferParameters,
            invocation=OfferInvocation,
            risk=Risk.LOW,
            time_limit=None,
            plugin=True,
            offered=False,
            server=server,
            kind=kind,
            get=get,
        )
        for kind in (CallKind.RESOURCE, CallKind.PROMPT)
    )


def command_name(server: str, prompt: PromptEntry) -> str:
    """Return what a person writes after the slash."""
    return f"{server}:{re.sub(r'[^A-Za-z0-9_.-]', '_', prompt.name)[:64]}"


def prompt_as_command(server: str, prompt: PromptEntry) -> PromptFile:
    """Return a prompt as the prompt's menu shows it."""
    places = (f"{visible(one.name)}" if one.required else f"[{visible(one.name)}]" for one in prompt.arguments)
    return PromptFile(
        name=command_name(server, prompt),
        kind=PromptFileKind.PROMPT,
        description=visible(prompt.description),
        text="",
        source=f"the MCP server {server}",
        argument_hint=" ".join(places).upper(),
        model_may_use=False,
    )


def filled_arguments(prompt: PromptEntry, words: str) -> JsonObject:
    """Return the words after a prompt's name in its places: by position, or as `name=value`.

    The last place takes all words that are left.

    Raises:
        ValueError: A place that has to be filled is empty, or there is none for the words.
    """
    places = {one.name: one.required for one in prompt.arguments}
    filled: JsonObject = {}
    left: list[str] = []
    for word in words.split():
        name, equals, value = word.partition("=")
        if equals and name in places and not left:
            filled[name] = value
        else:
            left.append(word)
    open_places = [name for name in places if name not in filled]
    if left and not open_places:
        raise ValueError(f"it has no place for: {' '.join(left)}")
    for name in open_places[:-1]:
        if left:
            filled[name] = left.pop(0)
    if left:
        filled[open_places[-1]] = " ".join(left)
    if missing := [name for name, required in places.items() if required and name not in filled]:
        raise ValueError(f"it needs a value for {', '.join(map(visible, missing))}")
    return filled
