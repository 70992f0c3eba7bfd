"""The one page of a browser: what is done on it, and what it does by itself meanwhile."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ollm_tui.core.base.errors import FetchFailed, FetchTimeout, InvalidArguments, ToolFailure, UrlNotAllowed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.browser.chromium import VIEWPORT
from ollm_tui.core.browser.outline import REF, Outline
from ollm_tui.core.web.filtering_proxy import FilteringProxy
from ollm_tui.core.web.urls import WebUrl, parse_url

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, ElementHandle, Page, Request


MAX_DIALOGS = 5
"""Dialogs during one action; a page that shows more is in a loop."""
MAX_NOTES = 10


class PageEvents:
    """Listens to a page and answers it: what a person would have to decide is refused, and noted."""

    def __init__(self, page: Page, proxy: FilteringProxy) -> None:
        self._page = page
        self._proxy = proxy
        self.notes: list[str] = []
        """What the page did by itself during the action, for the model."""
        self.broken: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        """Why the page can no longer be used, once it cannot."""
        self._dialogs = 0
        self._failed: tuple[str, str] | None = None
        """Where a navigation of this action failed, and Chromium's reason."""
        self._popups: set[asyncio.Task[None]] = set()
        self._wanted: set[str] = set()
        """Hosts and ports that requests of the page itself failed to reach; Chromium has wishes of its own."""
        page.on("dialog", self._on_dialog)
        page.on("popup", lambda popup: self._popups.add(asyncio.ensure_future(self._close_popup(popup))))
        page.on("download", self._on_download)
        page.on("crash", lambda _: self.break_off("the page crashed"))
        page.on("close", lambda _: self.break_off("the page closed itself"))
        page.on("filechooser", lambda _: self.note("it asked for a file: files are the person's to give"))
        page.on("requestfailed", self._on_failure)

    def begin_action(self) -> None:
        """Forget what belongs to the action before."""
        self.notes.clear()
        self._dialogs, self._failed = 0, None
        self._wanted.clear()
        self._proxy.refusals.clear()

    @property
    def shown_url(self) -> str:
        """The address that an error is about: where the page is, or was to go."""
        return visible(self._page.url if self._failed is None else self._failed[0])[:300]

    @property
    def refused_hosts(self) -> list[str]:
        """The hosts that the page was kept from during this action."""
        return [where for where in self._proxy.refusals if where in self._wanted]

    def note(self, words: str) -> None:
        """Add a note for the model, up to a number of them."""
        if len(self.notes) < MAX_NOTES:
            self.notes.append(words)

    def break_off(self, why: str) -> None:
        """Give the page up."""
        if not self.broken.done():
            self.broken.set_result(why)

    def raise_failure(self) -> None:
        """Raise UrlNotAllowed where the page went to an address that is refused, FetchFailed where it did not load."""
        if self._failed is None:
            return
        address, code = self._failed
        shown = visible(address)[:300]
        try:
            where = parse_url(address).host_and_port
        except (InvalidArguments, UrlNotAllowed) as failure:
            raise UrlNotAllowed(failure.message) from None
        why = self._proxy.refusals.get(where)
        if why is not None:
            raise UrlNotAllowed(f"The page led to {shown}, which was refused. {why}")
        if self._page.url.startswith("chrome-error:"):
            raise FetchFailed(
                f"The page led to {shown}, which did not load: {reason_in_words(code)}.", {"url": address}
            )

    async def close_popups(self) -> None:
        """Wait until the windows that the page opened are closed."""
        popups, self._popups = self._popups, set()
        await asyncio.gather(*popups)

    async def _on_dialog(self, dialog: Dialog) -> None:
        self._dialogs += 1
        if self._dialogs > MAX_DIALOGS:
            self.break_off(f"it shows one dialog after the other ({self._dialogs} so far)")
            return
        self.note(f"a dialog was dismissed ({dialog.type}): {visible(dialog.message[:200])}")
        with suppress(Exception):  # the page may be gone
            await dialog.dismiss()

    async def _close_popup(self, popup: Page) -> None:
        with suppress(Exception):  # it may close by itself
            async with asyncio.timeout(1.0):
                await popup.wait_for_load_state("domcontentloaded")
        where = visible(popup.url)[:300]
        self.note(f"a new window was closed ({where}): open its address instead")
        with suppress(Exception):
            await popup.close()

    def _on_download(self, download: Download) -> None:
        self._failed = None
        name = visible(download.suggested_filename)[:200]
        self.note(f"a download was refused ({name}): downloads are the person's")

    def _on_failure(self, request: Request) -> None:
        with suppress(ToolFailure):
            self._wanted.add(parse_url(request.url).host_and_port)
        with suppress(Exception):  # a request without a frame is no navigation
            if request.is_navigation_request() and request.frame is self._page.main_frame:
                self._failed = request.url, request.failure or ""


def reason_in_words(message: str) -> str:
    """Return the first line of what Playwright says, in words where it is a code of Chromium's."""
    first = message.strip().split("\n")[0].split(" at http")[0].removeprefix("Page.goto: ")
    known = {
        "net::ERR_NAME_NOT_RESOLVED": "the name is not known",
        "net::ERR_EMPTY_RESPONSE": "no answer",
        "net::ERR_TUNNEL_CONNECTION_FAILED": "no connection",
        "net::ERR_ABORTED": "the page did not load: it is a download, or was broken off",
        "Download is starting": "it is a download, and downloads are the person's",
    }
    return next((words for code, words in known.items() if code in first), visible(first)[:300].rstrip("."))


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
