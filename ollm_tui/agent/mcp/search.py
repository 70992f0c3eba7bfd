"""`tool_search`, a tool in its own file: find MCP tools by words."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import Field

from ollm_tui.agent.context import TOOL_SEARCH
from ollm_tui.agent.mcp.tools import McpTool
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.base import Effect, Parameters, Query, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.schema import parameters_in_words

MOST_FOUND = 5
_DESCRIPTION_CHARACTERS = 300
_NAME_WEIGHT = 3

_WORD = re.compile(r"[a-z0-9]{2,}")


class SearchParameters(Parameters):
    """What the tool should do."""

    query: Query = Field(description="What the tool should do")


@dataclass(frozen=True, kw_only=True, eq=False)
class SearchTool(Tool[SearchParameters]):
    """The tool, and how to get what it searches."""

    tools: Callable[[], Sequence[McpTool]]


class SearchInvocation(ToolInvocation[SearchParameters]):
    """Finds tools; the names in its result can be called from the next request on."""

    def get_description(self) -> str:
        return f"Look for tools of MCP servers: {self.params.query}"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Return the tools that fit best, with what they take."""
        assert isinstance(self.tool, SearchTool), "only that is bound to this"
        tools = self.tool.tools()
        found = best(self.params.query, tools)
        if not found:
            names = ", ".join(tool.name for tool in tools)
            return ToolResult.of_text(f"No tool fits. There are: {names}"[:2_000], "nothing found")
        lines = [f"{tool.name}({parameters_in_words(tool.parameters)}): {_short(tool.description)}" for tool in found]
        return ToolResult.of_text("\n".join(lines), f"{len(found)} found")


def search_tool(servers: Sequence[str], tools: Callable[[], Sequence[McpTool]]) -> SearchTool:
    """Return the tool for these servers."""
    return SearchTool(
        name=TOOL_SEARCH,
        display_name="Tool search",
        description=f"Find further tools by what they do, of: {', '.join(servers)}. Those found can be called then.",
        group=ToolGroup.MCP,
        effect=Effect.READS,
        parameters=SearchParameters,
        invocation=SearchInvocation,
        risk=Risk.LOW,
        tools=tools,
    )


def best(query: str, tools: Sequence[McpTool]) -> list[McpTool]:
    """Return the tools that share the rarest words with a query, the best first."""
    texts = [(_words(tool.name.replace("_", " ")), _words(tool.description)) for tool in tools]
    scores = [0.0] * len(tools)
    for word in _words(query):
        having = [at for at, (name, description) in enumerate(texts) if word in name or word in description]
        for at in having:
            rarity = math.log(1 + len(tools) / len(having))
            scores[at] += rarity * (_NAME_WEIGHT if word in texts[at][0] else 1)
    ranked = sorted((at for at in range(len(tools)) if scores[at] > 0), key=lambda at: (-scores[at], tools[at].name))
    return [tools[at] for at in ranked[:MOST_FOUND]]


def _words(text: str) -> set[str]:
    """Return the words of a text, plural and singular as one."""
    return {word.removesuffix("s") for word in _WORD.findall(text.lower())}


def _short(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _DESCRIPTION_CHARACTERS else f"{line[:_DESCRIPTION_CHARACTERS]}..."
