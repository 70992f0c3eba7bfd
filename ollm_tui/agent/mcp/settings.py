"""Read `[mcp.servers.NAME]` of config files: a faulty entry drops alone (contract 11)."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import cast

from pydantic import BaseModel, ConfigDict, Field, JsonValue, ValidationError, model_validator

from ollm_tui.core.base.app_dirs import line_of_key, state_dir
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.fence.secrets import mask
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.instruction_files import read_instructions
from ollm_tui.core.policy.repository_trust import TrustState, TrustStore
from ollm_tui.mcp_host.frames import ServerSpec

WORKSPACE_FILE = ".mcp.json"
MAX_NAME = 24


class _Entry(BaseModel):
    """One server's table."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    command: str = ""
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str = ""
    url: str = Field("", pattern=r"^(https?://.*)?$")
    headers: dict[str, str] = {}
    timeout: float = Field(60.0, ge=1, le=86_400)
    connect_timeout: float = Field(30.0, ge=1, le=600)
    include: list[str] = []
    exclude: list[str] = []
    required: bool = False
    protocol: str = Field("", pattern=r"^(\d{4}-\d\d-\d\d)?$")

    @model_validator(mode="after")
    def _has_one_address(self) -> _Entry:
        if bool(self.command) == bool(self.url):
            raise ValueError("give either command or url")
        return self


@dataclass(frozen=True)
class McpServer:
    """A server of the person; `${VAR}` in its values stands for a variable of theirs."""

    name: str
    entry: _Entry
    source: str
    """The file it comes from, with its line where that is known."""

    @property
    def identity(self) -> str:
        """What approvals of its tools are bound to: the command line or URL, as written."""
        return _digest([self.entry.command, *self.entry.args, self.entry.url])

    @property
    def address(self) -> str:
        """The command line or URL in one line, for a person; what looks like a secret is masked."""
        return visible(mask(self.entry.url or " ".join([self.entry.command, *self.entry.args])))

    @property
    def stderr(self) -> Path:
        """The file with what it last wrote to stderr."""
        return state_dir() / "mcp" / f"{self.name}.stderr"

    def wants(self, tool: str) -> bool:
        """Return whether a tool is one that the person wants of it."""
        return tool not in self.entry.exclude and (not self.entry.include or tool in self.entry.include)

    def spec(self, workspace: Path, environment: Mapping[str, str] = os.environ) -> ServerSpec:
        """Return how to reach it from this workspace. Raises ValueError for a variable that is not set."""

        def filled(text: str) -> str:
            return _VARIABLE.sub(lambda found: _value_of(found, environment), text)

        entry = self.entry
        return ServerSpec(
            name=self.name,
            command=filled(entry.command),
            args=tuple(filled(word) for word in entry.args),
            env={name: filled(value) for name, value in entry.env.items()},
            cwd=str(workspace / Path(filled(entry.cwd)).expanduser()),
            url=filled(entry.url),
            headers={name: filled(value) for name, value in entry.headers.items()},
            timeout=entry.timeout,
            connect_timeout=entry.connect_timeout,
            protocol=entry.protocol,
            stderr=str(self.stderr),
            root=str(workspace),
        )


@dataclass(frozen=True)
class McpSettings:
    """All servers by name, and what is wrong with entries."""

    servers: Mapping[str, McpServer] = field(default_factory=dict[str, McpServer])
    findings: tuple[str, ...] = ()
    untrusted: str = ""
    """What a person should know of a workspace's servers that do not count."""


def read_mcp(tables: Mapping[str, JsonValue], text: str, path: str) -> McpSettings:
    """Return the servers of a config file; entries that cannot be used are findings."""
    given = tables.get("mcp", {})
    servers = given.get("servers", {}) if isinstance(given, dict) else None
    if not isinstance(given, dict) or not isinstance(servers, dict):
        where = f"{path}:{line_of_key(text, ['mcp']) or 1}"
        return McpSettings(findings=(f"{where}: write a table [mcp.servers.NAME] for each server.",))
    known = [f"{path}: unknown key mcp.{visible(key)}" for key in given if key != "servers"]
    read = read_servers(servers, path, {name: line_of_key(text, ["mcp", "servers", name]) or 1 for name in servers})
    return McpSettings(read.servers, (*known, *read.findings))


def with_workspace(own: McpSettings, workspace: Workspace, store: TrustStore) -> McpSettings:
    """Return the person's servers with those of a workspace's `.mcp.json`, once that is trusted. Raises ValueError."""
    shared = read_instructions(workspace, WORKSPACE_FILE, store)
    if shared is None:
        return own
    if shared.refusal or shared.trust is not TrustState.TRUSTED:
        why = shared.refusal or f"{WORKSPACE_FILE} is {shared.trust.value}: its servers do not count"
        return replace(own, untrusted=f"{why.rstrip('.')}. /trust or `ollm-tui trust` shows it and asks.")
    return joined(own, _of_json(shared.content, str(shared.path)), str(shared.path))


def joined(own: McpSettings, theirs: McpSettings, path: str) -> McpSettings:
    """Return the person's servers with those that something else brings; of two with one name the former count."""
    again = tuple(
        f"{path}: {name} is a server of yours already; yours counts." for name in theirs.servers if name in own.servers
    )
    return McpSettings({**theirs.servers, **own.servers}, (*own.findings, *theirs.findings, *again))


def _of_json(content: bytes, path: str) -> McpSettings:
    """Return the servers of a file in the form that other agents share; what only they know is passed over."""
    try:
        given: object = json.loads(content)
    except (ValueError, RecursionError) as error:
        return McpSettings(findings=(f"{path} is not JSON: {error}. None of its servers counts.",))
    tables = cast("JsonObject", given).get("mcpServers") if isinstance(given, dict) else None
    if not isinstance(tables, dict):
        return McpSettings(findings=(f'{path}: it has no object "mcpServers". None of its servers counts.',))
    known = {
        name: {key: value for key, value in table.items() if key in _Entry.model_fields and key != "required"}
        if isinstance(table, dict)
        else table
        for name, table in tables.items()
    }
    return read_servers(known, path, {})


def read_servers(tables: Mapping[str, JsonValue], path: str, lines: Mapping[str, int]) -> McpSettings:
    """Return the servers of these tables by their names."""
    servers: dict[str, McpServer] = {}
    findings: list[str] = []
    for given, table in tables.items():
        where = f"{path}:{lines[given]}" if given in lines else path
        name = re.sub(r"[^a-z0-9]+", "-", given.casefold()).strip("-")
        try:
            if not name or len(name) > MAX_NAME:
                raise ValueError(f"a server's name has 1 to {MAX_NAME} letters, digits and hyphens")
            if name in servers:
                raise ValueError(f"{name} is the name of another server already")
            servers[name] = McpServer(name, _Entry.model_validate(table), where)
        except ValidationError as error:
            first = error.errors()[0]
            words = f"{'.'.join(map(str, first['loc']))}: {first['msg']}".removeprefix(": Value error, ")
            if first["type"] == "extra_forbidden":
                words = f"unknown key {visible(str(first['loc'][0]))}"
            findings.append(f"{where}: the MCP server {visible(given)} is left out: {words}.")
        except ValueError as error:
            findings.append(f"{where}: the MCP server {visible(given[:80])} is left out: {error}.")
    return McpSettings(servers, tuple(findings))


_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


def _value_of(found: re.Match[str], environment: Mapping[str, str]) -> str:
    default: str | None = found[2]
    value = environment.get(found[1], default)
    if value is None:
        raise ValueError(f"the variable {found[1]} is not set")
    return value


def _digest(value: JsonValue) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()
