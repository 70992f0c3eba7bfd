"""Opens links: an address in the person's browser, a file in their editor."""

from __future__ import annotations

import asyncio
import os
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping

from textual.app import App

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.decisions import KeyPresses
from ollm_tui.tui.external_editor import EditorError, ExternalEditor
from ollm_tui.tui.links import FileLink, Link, WebLink

WATCH_SECONDS = 10.0
"""How long a browser is watched for an error; one that still runs then has opened the address."""
POLL_SECONDS = 0.1


class LinkOpener:
    """Opens one link at a time; only http and https addresses, only files that were found."""

    def __init__(self, app: App[int], editor: ExternalEditor, presses: KeyPresses) -> None:
        self._app, self._editor, self._presses = app, editor, presses
        self._browsers: list[subprocess.Popen[bytes]] = []

    def open(self, link: Link) -> None:
        """Open a link; an address that another text stands for is shown first."""
        if isinstance(link, FileLink):
            if not self._editor.is_open:
                self._app.run_worker(self._edit(link), name="editor", exit_on_error=False)
        elif link.differs:
            self._ask(link)
        else:
            self._browse(link)

    def _ask(self, link: WebLink) -> None:
        from ollm_tui.tui.screens.question_screens import YesNoScreen, ask_first

        facts = (f"The text is: {link.text}", f"It opens:    {link.url}")
        question = YesNoScreen("Open this address?", facts, "open it", self._presses)
        ask_first(self._app, question, lambda: self._browse(link))

    def _browse(self, link: WebLink) -> None:
        self._app.run_worker(self._run_browser(link.url), name="browser", exit_on_error=False)

    async def _edit(self, link: FileLink) -> None:
        try:
            await self._editor.open_file(link.path, link.line, link.column)
        except EditorError as error:
            self._tell(str(error))

    async def _run_browser(self, url: str) -> None:
        command = browser_command(os.environ, sys.platform)
        if command is None:
            self._app.copy_to_clipboard(url)
            self._tell(f"There is no browser here, so {url} is on the clipboard. $BROWSER can name one.")
            return
        self._browsers = [browser for browser in self._browsers if browser.poll() is None]
        try:
            browser = await asyncio.to_thread(_start, [*command, url])
        except OSError as error:
            self._tell(f"{command[0]} could not be started for {url}: {error.strerror}. $BROWSER can name another.")
            return
        self._browsers.append(browser)
        end = time.monotonic() + WATCH_SECONDS
        while browser.poll() is None and time.monotonic() < end:  # noqa: ASYNC110  # a browser that outlives us has no event
            await asyncio.sleep(POLL_SECONDS)
        if browser.poll():
            self._app.copy_to_clipboard(url)
            self._tell(f"{command[0]} ended with {browser.returncode}, so {url} is on the clipboard.")

    def _tell(self, words: str) -> None:
        self._app.notify(visible(words), severity="error", markup=False, timeout=15)


def browser_command(environment: Mapping[str, str], platform: str) -> list[str] | None:
    """Return the program that opens addresses; None where there is none, as over ssh."""
    try:
        own = shlex.split(environment.get("BROWSER", ""))
    except ValueError:
        own = []
    if own and shutil.which(own[0]) is not None:
        return own
    if platform == "darwin":
        return ["open"]
    has_desktop = any(environment.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY", "WSL_DISTRO_NAME"))
    names = ("xdg-open", "wslview") if has_desktop else ()
    return next(([name] for name in names if shutil.which(name) is not None), None)


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    """Start a program that has nothing of our terminal and goes on when we end."""
    nothing = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True)
