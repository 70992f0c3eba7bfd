"""Tools of MCP servers as ours, called through the host process."""

from __future__ import annotations

import base64
import binascii
import difflib
import hashlib
import json
import os
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from pydantic import BaseModel, ConfigDict, ValidationError

from ollm_tui.agent.mcp.settings import McpServer
from ollm_tui.agent.providers.images import MEDIA_TYPES
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.core.base.errors import FileWriteFailed, McpFailed, from_os_error
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import Artifact, JsonObject, ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import Preview, TextPreview
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.files.atomic import replace_file, replace_text
from ollm_tui.core.files.text_files import looks_like
from ollm_tui.core.tools.base import CallFacts, Effect, Question, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.registry import folded_name
from ollm_tui.core.tools.schema_parameters import SchemaParameters, schema_parameters
from ollm_tui.mcp_host.frames import Picture, Result, ToolDefinition


class _Approved(BaseModel):
    """The definition of a tool as a person saw it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    server: str
    """The server's identity."""
    definition: str


class _Record(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")

    tools: dict[str, _Approved] = {}


@dataclass
class ApprovedTools:
    """The record, in the user's config directory; with a `fault` nothing counts as approved."""

    path: Path = field(default_factory=lambda: config_dir() / "mcp-approved.json")
    fault: str = ""
    _tools: Mapping[str, _Approved] = field(default_factory=dict[str, _Approved])

    def read(self) -> None:
        """Read the record. Blocks."""
        try:
            self._tools, self.fault = _Record.model_validate_json(self.path.read_bytes()).tools, ""
        except FileNotFoundError:
            self._tools, self.fault = {}, ""
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is damaged"
            self._tools = {}
            self.fault = f"{self.path} cannot be read ({reason}). Move it away to start a new record."

    def why_not(self, name: str, server: str, definition: ToolDefinition) -> str:
        """Return why a call of this tool has to ask; empty where its definition was approved."""
        known = self._tools.get(name)
        if known is None:
            return "its definition is new: nobody has approved it" if not self.fault else self.fault
        if known.server != server:
            return "it comes from another server than the one that was approved"
        if known.definition != wording(definition):
            return "its definition is not the one that was approved"
        return ""

    def difference(self, name: str, definition: ToolDefinition) -> str:
        """Return what a person should see of a definition: all of it, or its changes since it was approved."""
        known = self._tools.get(name)
        now = wording(definition)
        if known is None or known.definition == now:
            return visible_block(now)
        lines = difflib.unified_diff(known.definition.splitlines(), now.splitlines(), "approved", "now", lineterm="")
        return visible_block("\n".join(lines))

    def approve(self, server: str, tools: Iterable[tuple[str, ToolDefinition]]) -> None:
        """Approve the definitions of these tools as they are. Blocks; raises OSError, ValueError."""
        self.read()
        if self.fault:
            raise ValueError(self.fault)
        added = {name: _Approved(server=server, definition=wording(definition)) for name, definition in tools}
        record = _Record(tools={**self._tools, **added})
        replace_text(self.path, f"{record.model_dump_json(indent=1)}\n")
        self._tools = record.tools


def wording(definition: ToolDefinition) -> str:
    """Return a definition as a person reads it, the same for the same meaning."""
    hints = {"reads only": definition.read_only, "may destroy": definition.destructive}
    said = "; ".join(f"{hint}: {'yes' if given else 'no'}" for hint, given in hints.items() if given is not None)
    schema = json.dumps(definition.input_schema, indent=1, sort_keys=True, ensure_ascii=False)
    head = f"{definition.name}{f' ({definition.title})' if definition.title else ''}"
    return "\n".join([head, *([f"The server says: {said}"] if said else []), definition.description, schema])


def digest_of(definition: ToolDefinition) -> str:
    """Return what a yes to a call is bound to."""
    return hashlib.sha256(wording(definition).encode("utf-8", "surrogatepass")).hexdigest()


MAX_NAME = 64
"""Characters of a tool's name that model servers take."""
MAX_DESCRIPTION = 2_000
SHOWN_DATA = 300_000
"""Characters of the largest picture that the conversation keeps to show, in base64."""


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

        self._shown = tool.servers.fingerprint(tool)
        return Question(state=self._shown, preview=preview)

    _shown = ""
    """The definition that was last asked about: a server may change it while its question is answered."""

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Return the server's answer. Raises McpFailed, ToolTimeout."""
        tool, notes = self._tool, tuple[str, ...]()
        if self.approved and self.context.attended and tool.servers.why_ask(tool):
            if tool.servers.fingerprint(tool) != self._shown:
                raise McpFailed(f"{tool.name} was not called: its server changed its definition meanwhile. Try again.")
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
        return await signal.in_thread(_with_pictures, returned, result.pictures, folder)

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
    given: set[str] = set()
    for definition in definitions:
        if not server.wants(definition.name):
            continue
        if definition.name in given:
            left_out.append(f"a second {visible(definition.name[:64])} is left out")  # a yes would be about either
            continue
        given.add(definition.name)
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
                display_name=visible(definition.title or definition.name),
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


class PictureData(ToolData):
    """What a program gets of the pictures of a result."""

    picture: str | None = None
    """The first one, as PNG in base64, where it is small."""


def _with_pictures(result: ToolResult, pictures: Iterable[Picture], folder: Path) -> ToolResult:
    """Keep the result's pictures as files. Blocking. Raises FileWriteFailed."""
    notes: list[str] = []
    artifacts: list[Artifact] = []
    shown: str | None = None
    for picture in pictures:
        try:
            content = base64.b64decode(picture.data, validate=True)
        except binascii.Error:
            notes.append("a picture is left out: it is not base64")
            continue
        kind = MEDIA_TYPES.get(looks_like(content))
        if kind is None:
            notes.append("a picture is left out: it is no PNG, JPEG, GIF or WebP image")
            continue
        path = _kept_picture(content, kind.rpartition("/")[2], folder)
        artifacts.append(Artifact(kind="picture", path=path))
        notes.append(f"picture, {len(content):,} bytes: {path}")
        if shown is None and kind == "image/png" and len(picture.data) <= SHOWN_DATA:
            shown = picture.data
    data = PictureData(picture=shown) if shown else None
    return result.model_copy(update={"data": data, "artifacts": tuple(artifacts), "notes": (*result.notes, *notes)})


def _kept_picture(content: bytes, ending: str, folder: Path) -> str:
    """Write under a name made of the content, once a picture."""
    path = folder / f"picture-{hashlib.sha256(content).hexdigest()[:16]}.{ending}"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        inside = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            replace_file(inside, path.name, [content], mode=0o600, sync=False)
        finally:
            os.close(inside)
    except FileExistsError:
        pass  # the same picture came before
    except OSError as error:
        raise from_os_error(error, str(path), FileWriteFailed) from None
    return str(path)
