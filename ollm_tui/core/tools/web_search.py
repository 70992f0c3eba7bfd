"""`web_search`, a tool in its own file (001 R6.6-R6.7, 000 Property 32, 003)."""

from __future__ import annotations

from pydantic import Field

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import SearchFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput, Wire
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.tools.base import Effect, Parameters, Query, Tool, ToolGroup, ToolInvocation
from ollm_tui.core.tools.web_request import UNTRUSTED_NOTE, WebResult
from ollm_tui.core.web.client import SearchProvider

DEFAULT_RESULTS = 5
MAX_QUERY = 2_000


class WebSearchParameters(Parameters):
    """What to search for."""

    query: Query = Field(max_length=MAX_QUERY)
    num_results: int = Field(DEFAULT_RESULTS, ge=1)


class SearchResult(Wire):
    """One page found."""

    title: str
    url: str
    snippet: str

    def for_model(self, number: int) -> str:
        """Return title, address and snippet as numbered text."""
        lines = [f"{number}. {self.title}", f"   {self.url}"]
        return "\n".join([*lines, f"   {self.snippet}"] if self.snippet else lines)


class WebSearchData(ToolData):
    """The pages found, best first."""

    results: tuple[SearchResult, ...]


class WebSearchInvocation(ToolInvocation[WebSearchParameters]):
    """Searches the web."""

    def get_description(self) -> str:
        return f'Search the web for "{visible(self.params.query)}"'

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Check that a provider is configured. Raises SearchFailed."""
        self._provider()
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Search. Raises SearchFailed; no results is no error."""
        from ollm_tui.core.web.search_providers import normalised

        signal.throw_if_aborted()
        provider = self._provider()
        limit = self.params.num_results
        query = self.params.query.strip()
        found = normalised(await provider.search(self.context.web_access, query, limit, signal), limit)
        results = tuple(SearchResult(title=one.title, url=one.url, snippet=one.snippet) for one in found)
        data = WebSearchData(results=results)
        if not results:
            return ToolResult.of_text("No results", data=data, notes=(f"searched with {provider.name}",))
        text = "\n\n".join(result.for_model(number) for number, result in enumerate(results, 1))
        return WebResult(
            source=f"a search with {provider.name}",
            llm_content=text,
            return_display=f"Found {len(results)} results",
            data=data,
            notes=(UNTRUSTED_NOTE,),
        )

    def _provider(self) -> SearchProvider:
        from ollm_tui.core.web.search_providers import HOW_TO_CONFIGURE

        provider = self.context.web_access.search
        if provider is None:
            raise SearchFailed(f"No search provider is configured. {HOW_TO_CONFIGURE}", {"reason": "not configured"})
        return provider


WEB_SEARCH = Tool(
    name="web_search",
    display_name="Search the Web",
    description="Search the web; returns titles, addresses and snippets. Read a page with web_fetch.",
    group=ToolGroup.NET,
    effect=Effect.READS,
    parameters=WebSearchParameters,
    invocation=WebSearchInvocation,
    risk=Risk.LOW,
    returns=WebSearchData,
)
