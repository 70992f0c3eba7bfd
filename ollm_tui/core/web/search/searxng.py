"""SearXNG: a search server of one's own, by its JSON form."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlencode

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import SearchFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.search.base import Found
from ollm_tui.core.web.search.http import ask_json, results_of, text_under
from ollm_tui.core.web.urls import parse_url

MAX_PAGES = 3
"""Pages asked for until there are enough results."""


class SearXNG:
    """The server that `[web] searxng_url` names; it may be on this machine or in the local network."""

    def __init__(self, url: str) -> None:
        """Raises ToolFailure for an address that is none."""
        given = url if "://" in url else f"http://{url}"
        self._base = parse_url(given.rstrip("/").removesuffix("/search"))

    @property
    def name(self) -> str:
        return f"SearXNG at {self._base.scheme}://{self._base.host_and_port}"

    async def search(self, web: WebAccess, query: str, count: int, signal: AbortSignal) -> Sequence[Found]:
        found: list[Found] = []
        for page in range(1, MAX_PAGES + 1):
            more = await self._page(web, query, page, signal)
            found += more
            if not more or len(found) >= 2 * count:  # duplicates go later
                break
        return found

    async def _page(self, web: WebAccess, query: str, page: int, signal: AbortSignal) -> list[Found]:
        asked = urlencode({"q": query, "format": "json", "pageno": page})
        url = parse_url(f"{self._base.text.rstrip('/')}/search?{asked}")
        answer = await ask_json(web, self.name, url, signal, own=self._base)
        results = results_of(answer, self.name, url, "results")
        troubles = _silent_engines(answer.get("unresponsive_engines"))
        if not results and troubles and page == 1:
            raise SearchFailed(
                f"{self.name} found nothing because its engines did not answer: {troubles}. "
                "Try again later, or switch other engines on there."
            )
        return [Found(text_under(one, "title"), text_under(one, "url"), text_under(one, "content")) for one in results]


def _silent_engines(listed: JsonValue) -> str:
    """`name (reason)` of each engine that was blocked or broken: an empty list then means failure, not "nothing"."""
    if not isinstance(listed, list):
        return ""
    pairs = [entry for entry in listed if isinstance(entry, list) and len(entry) >= 2]
    return ", ".join(f"{visible(str(pair[0]))} ({visible(str(pair[1]))})" for pair in pairs)[:300]
