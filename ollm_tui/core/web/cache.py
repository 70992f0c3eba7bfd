"""Pages kept for a quarter of an hour, so that reading one twice asks the server once."""

from __future__ import annotations

from collections import OrderedDict

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.web.messages import WebResponse

KEPT_SECONDS = 15 * 60.0
KEPT_BYTES = 32 * 1024 * 1024
"""Bodies beyond that make the oldest pages go."""


class PageCache:
    """Answers by the address asked for; the least recently used go first."""

    def __init__(self, clock: Clock, *, seconds: float = KEPT_SECONDS, max_bytes: int = KEPT_BYTES) -> None:
        self._clock = clock
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._size = 0
        self._pages: OrderedDict[str, WebResponse] = OrderedDict()

    def get(self, url: str) -> WebResponse | None:
        page = self._pages.get(url)
        if page is None:
            return None
        if self._clock.monotonic() - page.fetched_at >= self._seconds:
            self._drop(url)
            return None
        self._pages.move_to_end(url)
        return page

    def put(self, url: str, page: WebResponse) -> None:
        """Keep a page, unless its server forbids that or it is an error or an unfollowed redirect."""
        forbidden = "no-store" in page.headers.get("cache-control", "").lower()
        if forbidden or page.status >= 300 or page.redirect is not None or page.left_site:
            return
        if url in self._pages:
            self._drop(url)
        self._pages[url] = page
        self._size += len(page.body)
        while self._size > self._max_bytes:
            self._drop(next(iter(self._pages)))

    def _drop(self, url: str) -> None:
        self._size -= len(self._pages.pop(url).body)
