"""`memory_search`: find memories by words, and by meaning where a model is installed (004)."""

from __future__ import annotations

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import quoted_unless_plain
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput, Wire
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.memory import MemoryMatch, MemoryScope, Ranking
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.query import Query

_KEYWORD_NOTE = "keyword only: no semantic model is installed, so try other words for the same thing"


class MemorySearchParameters(Parameters):
    """What to search for."""

    query: Query
    limit: int = Field(10, ge=1, le=100)


class MemoryHit(Wire):
    """One memory found; `by` tells how it was found."""

    key: str
    value: str
    scope: MemoryScope
    snippet: str
    by: Ranking


class MemorySearchData(ToolData):
    """The results, best first; `ranking` tells how they were ranked."""

    results: tuple[MemoryHit, ...]
    ranking: Ranking


class MemorySearchInvocation(ToolInvocation[MemorySearchParameters]):
    """Searches the memories."""

    def get_description(self) -> str:
        """Return one line about the call."""
        return f"Search memory for {quoted_unless_plain(self.params.query)}"

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Search. Raises StorageFailed, OperationCancelled; no results is no error."""
        signal.throw_if_aborted()
        memory = self.context.memories
        outcome = await signal.in_thread(memory.search, self.params.query, self.params.limit, signal=signal)
        data = MemorySearchData(results=tuple(_hit(hit) for hit in outcome.found), ranking=outcome.ranking)
        if not outcome.found:
            ranked = _KEYWORD_NOTE if outcome.ranking is Ranking.KEYWORD_ONLY else f"ranked by {outcome.ranking}"
            return ToolResult.of_text("No results", data=data, notes=outcome.notes or (ranked,))
        heading = f"{len(outcome.found)} found ({outcome.ranking})"
        text = "\n".join((f"{heading}:", *map(_line, outcome.found)))
        return ToolResult.of_text(text, heading, data=data, notes=outcome.notes)


def _line(found: MemoryMatch) -> str:
    marks = [found.memory.scope.value] if found.memory.scope is MemoryScope.USER else []
    marks += [found.by.value] if found.by is Ranking.MEANING_ONLY else []
    where = f" ({', '.join(marks)})" if marks else ""
    return f"{quoted_unless_plain(found.memory.key)}{where}: {quoted_unless_plain(found.snippet)}"


def _hit(found: MemoryMatch) -> MemoryHit:
    memory = found.memory
    return MemoryHit(key=memory.key, value=memory.value, scope=memory.scope, snippet=found.snippet, by=found.by)


MEMORY_SEARCH = Tool(
    name="memory_search",
    display_name="Search Memory",
    description="Find what is remembered by words in keys and values, and by meaning where a model is installed.",
    group=ToolGroup.MEMORY,
    effect=Effect.READS,
    parameters=MemorySearchParameters,
    invocation=MemorySearchInvocation,
    risk=Risk.LOW,
    returns=MemorySearchData,
)
