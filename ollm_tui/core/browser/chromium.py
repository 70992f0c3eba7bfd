"""Find the system's Chromium, start it behind the proxy, and end all of it."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
import secrets
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ollm_tui.core.base.errors import FetchFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.secrets import MARK, cleaned
from ollm_tui.core.shell.process_tree import ProcessTree
from ollm_tui.core.shell.termination import Termination

if TYPE_CHECKING:
    from playwright.async_api import Browser, BrowserContext, Playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MACOS_PROGRAMS = (
    "/Applications/Chromium.app/Contents/MacOS/Chromium",
    "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
)

VIEWPORT = {"width": 1280, "height": 800}

START_SECONDS = 30.0
CLOSE_SECONDS = 3.0
KILL_GRACE = 0.5

FLAGS = (
    # Nothing goes around the proxy: no name is looked up, no datagram is sent, no service of its own calls home.
    "--proxy-bypass-list=<-loopback>",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--disable-quic",
    "--dns-prefetch-disable",
    "--no-pings",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-domain-reliability",
    "--disable-sync",
    "--disable-extensions",
    "--disable-features="
    + ",".join(
        (
            *("AsyncDns", "DnsOverHttps", "WebTransport", "NetworkPrediction", "MediaRouter", "DialMediaRouteProvider"),
            *("OptimizationHints", "AutofillServerCommunication", "CertificateTransparencyComponentUpdater"),
            *("Translate", "InterestFeedContentSuggestions", "GlobalMediaControls", "HttpsUpgrades"),
        )
    ),
)


def find_chromium() -> str | None:
    """Return the program of the system's Chromium or Chrome; None where there is none."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    return found or next((path for path in MACOS_PROGRAMS if Path(path).exists()), None)


def why_no_browser(*, without_sandbox: bool = False) -> str | None:
    """Return why there is no browser here, and what to do; None where it can start."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed: install ollm-tui[browser]"
    if find_chromium() is None:
        return "no Chromium or Chrome is on PATH: install it with the system's packages"
    if os.geteuid() == 0 and not without_sandbox:
        return (
            "root can run Chromium only without its own sandbox: use another account, "
            "or set [web] browser_without_sandbox = true"
        )
    return None


@dataclass(frozen=True)
class Chromium:
    """A running browser with its one context."""

    playwright: Playwright
    browser: Browser
    context: BrowserContext
    tree: ProcessTree

    async def aclose(self) -> None:
        """Close it; whatever is left of its processes is killed."""
        for close in (self.browser.close, self.playwright.stop):
            with suppress(Exception):  # a broken browser cannot be closed: it is killed
                async with asyncio.timeout(CLOSE_SECONDS):
                    await close()
        await asyncio.to_thread(Termination(self.tree, grace=KILL_GRACE).run_to_end)


async def launch(proxy: str, *, without_sandbox: bool) -> Chromium:
    """Start Chromium behind a proxy. Raises FetchFailed with what it says."""
    await asyncio.to_thread(importlib.import_module, "playwright.async_api")
    from playwright.async_api import Error, async_playwright

    playwright = await async_playwright().start()
    browser: Browser | None = None
    mark = secrets.token_hex(8)
    try:
        browser = await playwright.chromium.launch(
            executable_path=find_chromium(),
            args=FLAGS,
            ignore_default_args=["--disable-popup-blocking"],
            chromium_sandbox=not without_sandbox,
            env=cleaned(os.environ) | {MARK: mark},
            proxy={"server": proxy},
            # The program that we are part of ends it.
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
            timeout=1000 * START_SECONDS,
        )
        context, pid = await asyncio.gather(
            browser.new_context(accept_downloads=False, service_workers="block", viewport=VIEWPORT, permissions=[]),
            _pid_of(browser),
        )
        tree = ProcessTree(pid, mark)
    except BaseException as error:
        with suppress(Exception):
            if browser is not None:
                await browser.close()
        with suppress(Exception):
            await playwright.stop()
        if isinstance(error, Error):
            said = visible(error.message.strip().split("\n")[0])[:300]
            raise FetchFailed(f"Chromium did not start: {said}. `ollm-tui doctor` says more.") from None
        raise
    return Chromium(playwright, browser, context, tree)


async def _pid_of(browser: Browser) -> int:
    session = await browser.new_browser_cdp_session()
    info = await session.send("SystemInfo.getProcessInfo")
    await session.detach()
    return next(int(process["id"]) for process in info["processInfo"] if process["type"] == "browser")
