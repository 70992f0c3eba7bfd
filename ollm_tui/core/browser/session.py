"""The browser of one session: it starts with its first page, and ends after idle minutes and with the session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from ollm_tui.core.base.errors import FetchFailed, InvalidArguments
from ollm_tui.core.browser.chromium import Chromium, launch, why_no_browser
from ollm_tui.core.browser.page import BrokenPage, BrowserPage
from ollm_tui.core.web.client import WebAccess
from ollm_tui.core.web.filtering_proxy import FilteringProxy

IDLE_SECONDS = 300.0


@dataclass(frozen=True)
class _Running:
    chromium: Chromium
    proxy: FilteringProxy
    page: BrowserPage

    async def aclose(self) -> None:
        await self.chromium.aclose()
        await self.proxy.aclose()


class BrowserSession:
    """One browser, one page, one action at a time."""

    def __init__(self, web: WebAccess, *, without_sandbox: bool = False, idle_seconds: float = IDLE_SECONDS) -> None:
        self._web = web
        self._without_sandbox = without_sandbox
        self._idle_seconds = idle_seconds
        self._lock = asyncio.Lock()
        self._running: _Running | None = None
        self._idle: asyncio.Task[None] | None = None

    @property
    def page(self) -> BrowserPage | None:
        """The page that is open."""
        return None if self._running is None else self._running.page

    @asynccontextmanager
    async def use(self, *, start: bool = False) -> AsyncGenerator[BrowserPage]:
        """Hold the page for one action. Raises InvalidArguments where none is open and `start` is False.

        A page that breaks meanwhile ends the browser.
        """
        async with self._lock:
            self._stop_waiting()
            if self._running is None:
                if not start:
                    raise InvalidArguments("action: no page is open. Begin with action=open and a url.")
                self._running = await self._started()
            try:
                yield self._running.page
            except BrokenPage:
                await self._end()
                raise
            finally:
                if self.page is not None:
                    self._idle = asyncio.create_task(self._end_when_idle())

    async def aclose(self) -> bool:
        """End the browser; return whether one ran."""
        async with self._lock:
            self._stop_waiting()
            return await self._end()

    async def _started(self) -> _Running:
        absent = why_no_browser(without_sandbox=self._without_sandbox)
        if absent is not None:
            raise FetchFailed(f"There is no browser here: {absent}.")
        proxy = FilteringProxy(self._web)
        try:
            chromium = await launch(await proxy.start(), without_sandbox=self._without_sandbox)
        except BaseException:
            await proxy.aclose()
            raise
        try:
            return _Running(chromium, proxy, BrowserPage(await chromium.context.new_page(), proxy))
        except BaseException:
            await chromium.aclose()
            await proxy.aclose()
            raise

    async def _end(self) -> bool:
        running, self._running = self._running, None
        if running is None:
            return False
        await asyncio.shield(running.aclose())
        return True

    async def _end_when_idle(self) -> None:
        await asyncio.sleep(self._idle_seconds)
        self._idle = None
        await self.aclose()

    def _stop_waiting(self) -> None:
        if self._idle is not None and self._idle is not asyncio.current_task():
            self._idle.cancel()
        self._idle = None
