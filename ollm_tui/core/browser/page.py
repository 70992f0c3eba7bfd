"""The one page of a browser: what is done on it."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ollm_tui.core.base.errors import FetchFailed, FetchTimeout, InvalidArguments, UrlNotAllowed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.browser.chromium import VIEWPORT
from ollm_tui.core.browser.outline import REF, Outline
from ollm_tui.core.browser.page_events import PageEvents, reason_in_words
from ollm_tui.core.web.filtering_proxy import FilteringProxy
from ollm_tui.core.web.urls import WebUrl

if TYPE_CHECKING:
    from playwright.async_api import ElementHandle, Page

SETTLE_SECONDS = 3.0
"""How long a page may go on loading before it is looked at as it is."""
ANSWER_SECONDS = 2.0
"""How long a page that was too slow has to say that it is there."""
MAX_TEXT = 100_000
PICTURE_COLUMNS = 96
"""Pixels across of the small picture for the screen."""

# Anything else types into it as well, but these a person fills in.
_PERSONS = "[type=password],[autocomplete*=password],[autocomplete=one-time-code],[autocomplete^=cc-]"
_SETTLE = "() => new Promise(done => setTimeout(done, 30))"


class BrokenPage(FetchFailed):
    """The page can no longer be used: its browser has to end."""


class BrowserPage:
    """Actions on the open page. One at a time; what the page did by itself meanwhile is in its `events`."""

    def __init__(self, page: Page, proxy: FilteringProxy) -> None:
        self._page = page
        self._proxy = proxy
        self.outline = Outline()
        self.events = PageEvents(page, proxy)
        """What the page does by itself during the action."""

    @property
    def url(self) -> str:
        """The address as the page has it now."""
        return self._page.url

    async def title(self) -> str:
        """Return the page's title on one line."""
        return visible(" ".join((await self._page.title()).split()))[:200]

    @asynccontextmanager
    async def action(self, timeout: float) -> AsyncGenerator[None]:
        """Bound an action, and turn what goes wrong in it into words."""
        from playwright.async_api import Error
        from playwright.async_api import TimeoutError as PlaywrightTimeout

        self.events.begin_action()
        broken = self.events.broken
        task = asyncio.current_task()
        ended = False

        def stop(_: object) -> None:
            if task is not None and not ended:
                task.cancel()

        broken.add_done_callback(stop)
        try:
            if broken.done():
                raise self._breakage()
            async with asyncio.timeout(timeout):
                yield
            self.events.raise_failure()
        except asyncio.CancelledError:
            if broken.done() and task is not None:
                task.uncancel()
                raise self._breakage() from None
            raise
        except (TimeoutError, PlaywrightTimeout):
            self.events.raise_failure()
            await self._break_if_silent()
            if broken.done():
                raise self._breakage() from None
            raise self._timed_out(timeout) from None
        except Error as error:
            if broken.done():
                raise self._breakage() from None
            self.events.raise_failure()
            raise FetchFailed(
                f"{self.events.shown_url}: {reason_in_words(error.message)}.", {"url": self.url}
            ) from None
        finally:
            ended = True
            broken.remove_done_callback(stop)

    async def open(self, url: WebUrl, timeout: float) -> None:
        """Go to an address."""
        self._proxy.admit(url)
        response = await self._page.goto(url.text, wait_until="domcontentloaded", timeout=1000 * timeout)
        if response is not None and response.status >= 400:
            self.events.note(f"the server answered with HTTP {response.status}")
        await self.settle()

    async def back(self, timeout: float) -> None:
        """Go back in the page's history. Raises InvalidArguments where there is nothing before."""
        before = self.url
        await self._page.go_back(wait_until="domcontentloaded", timeout=1000 * timeout)
        await self.settle()
        if self.url == before or self.url == "about:blank":
            self.events.note("there is no page before this one")

    async def click(self, selector: str, timeout: float) -> None:
        """Click an element."""
        element = await self._found(selector)
        await element.click(timeout=1000 * timeout)
        await self.settle()

    async def type(self, selector: str, text: str, timeout: float) -> None:
        """Put text into a field in place of what is in it, or choose from a list."""
        element = await self._found(selector)
        await self._refuse_persons(element)
        if await element.evaluate("e => e.tagName === 'SELECT'"):
            await element.select_option(label=text, timeout=1000 * timeout)
        else:
            await element.fill(text, timeout=1000 * timeout)
        await self.settle()

    async def press(self, selector: str | None, key: str, timeout: float) -> None:
        """Press a key in an element, or where the page has its focus."""
        if selector is not None:
            element = await self._found(selector)
            await self._refuse_persons(element)
            await element.press(key, timeout=1000 * timeout)
        else:
            focused = (await self._page.main_frame.evaluate_handle("document.activeElement")).as_element()
            if focused is not None and len(key) == 1:
                await self._refuse_persons(focused)
            await self._page.keyboard.press(key)
        await self.settle()

    async def text(self, selector: str | None) -> str:
        """Return the text of an element, or of the page."""
        element = await self._found("body" if selector is None else selector)
        read = (
            "(e, most) => (typeof e.value === 'string' && e.type !== 'password' ? e.value : e.innerText || "
            "e.textContent || '').slice(0, most)"
        )
        return str(await element.evaluate(read, MAX_TEXT))

    async def wait(self, selector: str | None, timeout: float) -> None:
        """Wait for an element, or until the page has loaded."""
        if selector is None:
            await self._page.wait_for_load_state("networkidle", timeout=1000 * timeout)
        elif not REF.fullmatch(selector):
            await self._page.main_frame.wait_for_selector(selector, state="attached", timeout=1000 * timeout)

    async def screenshot(self, timeout: float) -> tuple[bytes, bytes]:
        """Return what the page looks like, as PNG: as it is, and small."""
        whole = await self._page.screenshot(type="png", timeout=1000 * timeout)
        session = await self._page.context.new_cdp_session(self._page)
        clip = {"x": 0, "y": 0, **VIEWPORT, "scale": PICTURE_COLUMNS / VIEWPORT["width"]}
        small = await session.send("Page.captureScreenshot", {"format": "png", "clip": clip})
        await session.detach()
        return whole, base64.b64decode(small["data"])

    async def look(self) -> None:
        """Take the outline anew."""
        frames = [self._page.main_frame, *(frame for frame in self._page.frames if frame is not self._page.main_frame)]
        self.outline = await Outline.of(frames)

    async def settle(self) -> None:
        """Let what an action began come to rest, for a moment."""
        from playwright.async_api import Error

        with suppress(Error, TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                with suppress(Error):  # the page is on its way to another one
                    await self._page.main_frame.evaluate(_SETTLE)
                await self._page.wait_for_load_state("load")
        await self.events.close_popups()

    async def _found(self, selector: str) -> ElementHandle:
        """Return the element of a ref or selector. Raises InvalidArguments naming the nearest."""
        from playwright.async_api import Error

        if REF.fullmatch(selector):
            known = self.outline.elements.get(selector)
            try:
                element = None if known is None else await known.element()
                if element is not None and await element.evaluate("e => e.isConnected"):
                    return element
            except Error:
                pass  # the page that it was on is gone
            raise InvalidArguments(
                f"selector: {selector} is not on the page (any more). Its refs are those of the newest outline."
            )
        try:
            element = await self._page.main_frame.query_selector(selector)
        except Error as error:
            raise InvalidArguments(f"selector: {visible(selector[:200])}: {reason_in_words(error.message)}.") from None
        if element is not None:
            return element
        await self.look()
        nearest = "; ".join(self.outline.nearest(selector))
        hint = f"Nearest on the page: {nearest}." if nearest else "Nothing on the page can be operated."
        raise InvalidArguments(f"selector: nothing on the page matches {visible(selector[:200])}. {hint}")

    async def _refuse_persons(self, element: ElementHandle) -> None:
        if await element.evaluate(f"e => !!e.matches && e.matches({_PERSONS!r})"):
            raise UrlNotAllowed(
                "This field takes a password or the like: only the person may fill it in, in their own browser."
            )
        if await element.evaluate("e => e.type === 'file'"):
            raise UrlNotAllowed("This field takes a file: only the person may give one, in their own browser.")

    def _timed_out(self, limit: float) -> FetchTimeout:
        return FetchTimeout(
            f"{self.events.shown_url}: not done within the limit of {limit:g} s. Try again with a larger timeout, "
            "or look with action=text.",
            {"url": self.url, "limitSeconds": limit},
        )

    def _breakage(self) -> BrokenPage:
        return BrokenPage(
            f"{self.events.shown_url}: {self.events.broken.result()}. The browser was closed; open the page again."
        )

    async def _break_if_silent(self) -> None:
        """Find out whether the page still answers: one whose script never ends can only be closed."""
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                await self._page.main_frame.evaluate("1")
        except TimeoutError:
            self.events.break_off("it no longer answers")
