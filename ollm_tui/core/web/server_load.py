"""Limits on the load of a server: a page cache, and few, spaced requests to a host."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import FetchFailed
from ollm_tui.core.web.http_messages import WebResponse

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
        """Return the page unless it is too old."""
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


AT_ONCE = 2
SPACING = 0.5
"""Seconds between the starts of two requests to one host."""

LONGEST_REST = 3_600.0
"""Seconds; a server that asks for more is asked again after this long."""

_KNOWN_HOSTS = 256


@dataclass
class _Host:
    gate: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    next_start: float = 0.0
    rests_until: float = 0.0
    users: int = 0


class HostThrottle:
    """The turns of all requests of one process, by host."""

    def __init__(self, clock: Clock, sleep: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
        self._clock = clock
        self._sleep = sleep
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def turn(self, host: str, *, spaced: bool = True) -> AsyncGenerator[None]:
        """Wait for a turn and hold it. Raises FetchFailed while the host asked to be left alone."""
        state = self._state(host)
        state.users += 1
        try:
            async with state.gate:
                now = self._clock.monotonic()
                if state.rests_until > now:
                    raise FetchFailed(
                        f"{host} answered that it gets too many requests and asked for a pause of "
                        f"{state.rests_until - now:.0f} s. Use what you have, or try another source.",
                        {"host": host, "reason": "rate limited"},
                    )
                if spaced:
                    start = max(now, state.next_start)
                    state.next_start = start + SPACING
                    if start > now:
                        await self._sleep(start - now)
                yield
        finally:
            state.users -= 1

    def note_answer(self, host: str, status: int, headers: Mapping[str, str]) -> None:
        """Take note of a server that asks for a pause (429 or 503 with Retry-After)."""
        if status not in (429, 503):
            return
        seconds = self._seconds(headers.get("retry-after", ""))
        if seconds is not None and seconds > 0:
            self._state(host).rests_until = self._clock.monotonic() + min(seconds, LONGEST_REST)

    def _seconds(self, text: str) -> float | None:
        text = text.strip()
        if text.isascii() and text.isdigit() and len(text) < 10:
            return float(text)
        from email.utils import parsedate_to_datetime  # rarely needed, and large

        try:
            return (parsedate_to_datetime(text) - self._clock.now()).total_seconds()
        except (TypeError, ValueError):
            return None

    def _state(self, host: str) -> _Host:
        state = self._hosts.get(host)
        if state is None:
            if len(self._hosts) >= _KNOWN_HOSTS:
                now = self._clock.monotonic()
                busy = {name: known for name, known in self._hosts.items() if known.users or known.rests_until > now}
                self._hosts = busy
            state = self._hosts[host] = _Host()
        return state
