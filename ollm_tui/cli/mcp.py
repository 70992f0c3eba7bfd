"""`ollm-tui mcp list | test NAME | approve NAME`: the servers that give the model further tools."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from ollm_tui.agent.mcp.servers import McpServers, ServerState, ServerStatus
from ollm_tui.agent.mcp.settings import McpServer, McpSettings
from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, options_of, parse
from ollm_tui.cli.streams import agreed, print_json, say, valid_configuration
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.fence.secrets import mask
from ollm_tui.runtime.plugins import load_registry

_STDERR_LINES = 20


def run_command(argv: list[str]) -> int:
    """List the servers without starting any, try one, or approve its tools' definitions."""
    parser = command_parser("mcp", "MCP servers: programs that give the model further tools.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|test|approve")
    actions.add_parser("list", help="each server as one JSON object; none is started", allow_abbrev=False)
    test = actions.add_parser("test", help="connect to a server, and print its tools", allow_abbrev=False)
    approve = actions.add_parser("approve", help="let its tools' definitions count as seen", allow_abbrev=False)
    approve.add_argument("--yes", action="store_true", help="do not ask")
    for action in (test, approve):
        action.add_argument("name", metavar="NAME", help="a server of `mcp list`")
    given = parse(parser, argv)
    configuration = valid_configuration(options_of(given))
    settings = configuration.mcp or McpSettings()
    for words in filter(None, (*settings.findings, settings.untrusted)):
        say(words)
    if given.action == "list":
        for server in settings.servers.values():
            print_json(_listed(server))
        return ExitCode.FAILED if settings.findings else ExitCode.DONE
    server = settings.servers.get(given.name)
    if server is None:
        there = ", ".join(settings.servers) or "none"
        raise UsageError(f"there is no MCP server {visible(given.name)}. There are: {there}.")
    action = _test if given.action == "test" else _approve
    return asyncio.run(action(server, configuration.workspace.root, given))


def _listed(server: McpServer) -> JsonObject:
    """Return a server as JSON; of variables and headers, which hold secrets, only the names."""
    entry = server.entry
    shown: JsonObject = {
        "name": server.name,
        "command": [entry.command, *(mask(word) for word in entry.args)] if entry.command else None,
        "url": mask(entry.url) or None,
        "env": list(entry.env) or None,
        "headers": list(entry.headers) or None,
        "required": entry.required,
        "source": server.source,
    }
    return {key: value for key, value in shown.items() if value is not None}


@asynccontextmanager
async def _connected(server: McpServer, workspace: Path) -> AsyncGenerator[tuple[McpServers, ServerStatus]]:
    """Connect this one server, and end it with the block."""
    servers = McpServers(McpSettings({server.name: server}), load_registry()[0], workspace, wait_for_all=True)
    servers.tell = lambda _: None  # it is said with what the server wrote
    try:
        await servers.join(AbortSignal())
        yield servers, servers.statuses()[0]
    finally:
        await servers.aclose()


async def _test(server: McpServer, workspace: Path, _: argparse.Namespace) -> ExitCode:
    async with _connected(server, workspace) as (servers, status):
        if status.state is not ServerState.CONNECTED:
            return _lost(status)
        say(f"{server.name}: {status.title}, protocol {status.protocol}, about {status.tokens:,} tokens a request")
        for words in status.left_out:
            say(words)
        for tool in status.tools:
            why = servers.why_ask(tool)
            print_json(
                {
                    "tool": tool.name,
                    "description": tool.description,
                    "risk": tool.risk.value,
                    "approved": not why,
                    **({"asks": why} if why else {}),
                }
            )
    return ExitCode.DONE


async def _approve(server: McpServer, workspace: Path, given: argparse.Namespace) -> ExitCode:
    async with _connected(server, workspace) as (servers, status):
        if status.state is not ServerState.CONNECTED:
            return _lost(status)
        if servers.approved.fault:
            say(servers.approved.fault)
            return ExitCode.FAILED
        pending = [tool for tool in status.tools if servers.why_ask(tool)]
        for tool in pending:
            say(f"{tool.name}\n{servers.difference(tool)}\n")
        if not pending:
            say(f"All {len(status.tools)} tools of {server.name} are as they were approved.")
            return ExitCode.DONE
        if not given.yes and not await asyncio.to_thread(agreed, f"Approve these {len(pending)}? [y/N] "):
            say("Nothing was approved. On a terminal you are asked; elsewhere give --yes.")
            return ExitCode.FAILED
        for tool in pending:
            await servers.approve(tool)
        say(
            f"Approved {len(pending)} tools of {server.name}. Calls still ask unless a rule of your policy allows them."
        )
    return ExitCode.DONE


def _lost(status: ServerStatus) -> ExitCode:
    """Say why a server is not there, with the end of what it wrote to stderr."""
    say(f"{status.server.name} is not there: {status.reason}. Its command: {status.server.address}")
    try:
        written = status.server.stderr.read_text("utf-8", "replace").splitlines()[-_STDERR_LINES:]
    except OSError:
        written = []
    for line in written:
        say(f"  {visible_block(mask(line))[:500]}")
    return ExitCode.FAILED
