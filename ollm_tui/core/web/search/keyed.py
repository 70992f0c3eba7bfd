"""Brave and Tavily: search services that want a key. The key goes into a header and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.search.base import Found
from ollm_tui.core.web.search.http import ask_json, results_of, text_under
from ollm_tui.core.web.urls import parse_url

BRAVE_URL = "https://api.search.brave.com/res/v1/web/search"
TAVILY_URL = "https://api.tavily.com/search"
_MOST = 20
"""What either gives at once."""


class Brave:
    """Brave Search. `url` stands in for the service in tests."""

    name = "Brave Search"

    def __init__(self, key: str, url: str = BRAVE_URL) -> None:
        self._key = key
        self._url = parse_url(url)

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[Found]:
        asked = urlencode({"q": query[:400], "count": min(_MOST, max(count, 5))})
        url = parse_url(f"{self._url.text}?{asked}")
        headers = {"x-subscription-token": self._key}
        answer = await ask_json(web, self.name, url, signal, headers=headers, own=self._url)
        if answer.get("web") is None and isinstance(answer.get("query"), dict):
            return []  # an answer without web results has no such part
        results = results_of(answer, self.name, url, "web", "results")
        return [
            Found(text_under(one, "title"), text_under(one, "url"), text_under(one, "description")) for one in results
        ]


class Tavily:
    """Tavily. `url` stands in for the service in tests."""

    name = "Tavily"

    def __init__(self, key: str, url: str = TAVILY_URL) -> None:
        self._key = key
        self._url = parse_url(url)

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[Found]:
        answer = await ask_json(
            web,
            self.name,
            self._url,
            signal,
            headers={"authorization": f"Bearer {self._key}"},
            body={"query": query, "max_results": min(_MOST, max(count, 5))},
            own=self._url,
        )
        results = results_of(answer, self.name, self._url, "results")
        return [Found(text_under(one, "title"), text_under(one, "url"), text_under(one, "content")) for one in results]
