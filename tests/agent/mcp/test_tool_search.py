"""Tools of MCP servers in a small window: looked for, and offered once found."""

from __future__ import annotations

import sys
from pathlib import Path

from ollm_tui.agent.context import TOOL_SEARCH, ContextKeeper
from ollm_tui.agent.events import Event, NoticeEvent
from ollm_tui.agent.mcp.search import best
from ollm_tui.agent.mcp.servers import McpServers
from ollm_tui.agent.mcp.settings import McpServer, McpSettings, read_servers
from ollm_tui.agent.mcp.tools import McpTool, build_tools
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.stream import EventStream
from ollm_tui.core import MessageBus, PolicyEngine, ToolExecutor, ToolRegistry, Workspace
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.execution.options import ExecutorOptions
from ollm_tui.core.policy.engine import PolicySources
from ollm_tui.core.policy.policy_file import load_preset
from ollm_tui.core.policy.rule_set import RuleSet
from ollm_tui.core.policy.rules import Decision
from ollm_tui.mcp_host.frames import ToolDefinition
from tests.agent.test_context import SmallModel

FAKE = str(Path(__file__).parents[2] / "data" / "mcp_server.py")
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
"""A schema."""


def server() -> McpServer:
    return read_servers({"hub": {"command": sys.executable, "args": ["-I", FAKE, "good"]}}, "config.toml", {}).servers[
        "hub"
    ]


def tools_named(**described: str) -> list[McpTool]:
    given = [ToolDefinition(name=name, description=text, input_schema=dict(TEXT)) for name, text in described.items()]
    return list(build_tools(server(), given, McpServers(McpSettings(), ToolRegistry(), Path("/")), ()).tools)


ISSUES = {
    "create_issue": "Open a new issue in a repository",
    "list_issues": "List the issues of a repository",
    "get_commit": "Show a commit of a repository",
    "send_mail": "Send a message to people",
}


async def test_what_shares_the_rarest_words_comes_first() -> None:
    tools = tools_named(**ISSUES)
    assert [tool.definition.name for tool in best("open an issue", tools)][:2] == ["create_issue", "list_issues"]
    assert [tool.definition.name for tool in best("mails", tools)] == ["send_mail"]
    assert best("quantum", tools) == []


def schema(name: str) -> wire.ToolSchema:
    return wire.ToolSchema(name=name, description="What it does, at length. " * 8, parameters=dict(TEXT))


async def test_too_many_tools_for_the_window_are_offered_once_found_and_stay_offered() -> None:
    stream = EventStream(MessageBus())
    said: list[Event] = []
    stream.subscribe(said.append)
    keeper = ContextKeeper(lambda: SmallModel(8_192, 8_192), stream)  # type: ignore[arg-type,return-value]
    tools = (schema("read_file"), *(schema(f"mcp__hub__t{number}") for number in range(60)), schema(TOOL_SEARCH))
    history: list[wire.Message] = []

    def offered() -> list[str]:
        return [tool.name for tool in keeper.affordable(tools, history)]

    assert offered() == ["read_file", TOOL_SEARCH]
    [notice, brief] = [event.text for event in said if isinstance(event, NoticeEvent)]
    assert notice.startswith("The 60 tools of MCP servers would take about ") and notice.endswith("with tool_search.")
    assert "described in few words" in brief
    history.append(
        wire.ToolMessage("1", TOOL_SEARCH, "mcp__hub__t7(text): it\nmcp__hub__t9(text): mcp__hub__t1(not this)")
    )
    assert offered() == ["read_file", "mcp__hub__t7", "mcp__hub__t9", TOOL_SEARCH]
    history[:] = [wire.ToolMessage("2", "mcp__hub__t3", "called by a name that it knew")]
    assert offered() == ["read_file", "mcp__hub__t3", "mcp__hub__t7", "mcp__hub__t9", TOOL_SEARCH]


async def test_where_there_is_room_all_are_offered_and_nothing_is_looked_for() -> None:
    keeper = ContextKeeper(lambda: SmallModel(131_072, 131_072), EventStream(MessageBus()))  # type: ignore[arg-type,return-value]
    tools = (schema("read_file"), *(schema(f"mcp__hub__t{number}") for number in range(60)), schema(TOOL_SEARCH))
    assert [tool.name for tool in keeper.affordable(tools)] == [tool.name for tool in tools[:-1]]


async def test_the_tool_answers_unasked_with_what_can_be_called(tmp_path: Path) -> None:
    registry, bus = ToolRegistry(), MessageBus()
    one = server()
    servers = McpServers(McpSettings({one.name: one}), registry, tmp_path, wait_for_all=True)
    rules = RuleSet(load_preset("balanced").rules_with_sources)
    preset = PolicyEngine(PolicySources((rules,), Decision.ASK))
    executor = ToolExecutor(registry, preset, bus, Workspace(tmp_path), False, ExecutorOptions())
    try:
        await servers.join(AbortSignal())
        found = await executor.execute(TOOL_SEARCH, {"query": "say it again"})
        nothing = await executor.execute(TOOL_SEARCH, {"query": "quantum"})
    finally:
        await servers.aclose()
        await executor.aclose()
    assert found.llm_content == "mcp__hub__echo(text): Says it again"
    assert nothing.llm_content == "No tool fits. There are: mcp__hub__echo"
