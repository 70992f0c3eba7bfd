"""`memory_search`: find memories by their words (004)."""

from __future__ import annotations

from pydantic import Field, field_validator

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.quoting import quoted_unless_plain
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput, Wire
from ollm_tui.core.confirmation import Risk
from ollm_tui.core.memory import Found, MemoryScope
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.memory import memory_of

_NOTHING_NOTE = "keyword only: no semantic model is installed, so try other words for the same thing"


class MemorySearchParameters(Parameters):
    query: str
    limit: int = Field(10, ge=1, le=100)

    @field_validator("query")
    @classmethod
    def _says_something(cls, query: str) -> str:
        if not query.strip():
            raise ValueError("give at least one word")
        return query


class MemoryHit(Wire):
    """One memory found, best first."""

    key: str
    value: str
    scope: MemoryScope
    snippet: str


class MemorySearchData(ToolData):
    results: tuple[MemoryHit, ...]


class MemorySearchInvocation(ToolInvocation[MemorySearchParameters]):
    def get_description(self) -> str:
        return f"Search memory for {quoted_unless_plain(self.params.query)}"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Raises StorageFailed. Nothing found is no error."""
        signal.throw_if_aborted()
        memory = memory_of(self.context)
        found = await signal.in_thread(memory.search, self.params.query, self.params.limit)
        data = MemorySearchData(results=tuple(_hit(hit) for hit in found))
        if not found:
            return ToolResult.of_text("No results", data=data, notes=(_NOTHING_NOTE,))
        heading = f"{len(found)} found (keyword only)"
        return ToolResult.of_text("\n".join((f"{heading}:", *map(_line, found))), heading, data=data)


def _line(found: Found) -> str:
    where = " (user)" if found.memory.scope is MemoryScope.USER else ""
    return f"{quoted_unless_plain(found.memory.key)}{where}: {quoted_unless_plain(found.snippet)}"


def _hit(found: Found) -> MemoryHit:
    memory = found.memory
    return MemoryHit(key=memory.key, value=memory.value, scope=memory.scope, snippet=found.snippet)


MEMORY_SEARCH = Tool(
    name="memory_search",
    display_name="Search Memory",
    description="Find what is remembered by words in keys and values.",
    group=ToolGroup.MEMORY,
    effect=Effect.READS,
    parameters=MemorySearchParameters,
    invocation=MemorySearchInvocation,
    risk=Risk.LOW,
    returns=MemorySearchData,
)
