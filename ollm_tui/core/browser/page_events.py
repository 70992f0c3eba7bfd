"""What a page does by itself while something is done on it: dialogs, windows, downloads, requests that fail."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from ollm_tui.core.base.errors import FetchFailed, InvalidArguments, ToolFailure, UrlNotAllowed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.web.filtering_proxy import FilteringProxy
from ollm_tui.core.web.urls import parse_url

if TYPE_CHECKING:
    from playwright.async_api import Dialog, Download, Page, Request

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
