"""The backend's life behind the screen: opened after the first frame, kept until the app is left, closed in order."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from importlib import import_module
from typing import TYPE_CHECKING

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.log_file import unexpected
from ollm_tui.options import Options
from ollm_tui.tui.garbage import collect_after_start
from ollm_tui.tui.protocol import Backend, OpenBackend, PostUpdate
from ollm_tui.tui.protocol.intents import Intent
from ollm_tui.tui.protocol.updates import ActivityUpdate
from ollm_tui.tui.values import Activity

if TYPE_CHECKING:
    from textual.app import App

log = logging.getLogger(__name__)

CLOSING_SECONDS = 10.0
"""How long leaving waits for the backend."""


def runtime_backend(options: Options, clock: Clock) -> OpenBackend:
    """Return what opens the real runtime behind the screen."""

    @asynccontextmanager
    async def opened(post: PostUpdate) -> AsyncGenerator[Backend]:
        # Models, providers and the store take as long to import as the screen: import them later, off the loop.
        # Freeing the garbage of the first frame (1.4 MB) makes room for them.
        if not gc.isenabled():
            collect_after_start()
        await asyncio.to_thread(import_module, "ollm_tui.tui.controllers.runtime_controller")
        from ollm_tui.tui.controllers.runtime_controller import open_backend

        async with open_backend(options, post, clock) as backend:
            yield backend

    return opened


class BackendHolder:
    """Holds the open backend, and queues what is asked before it is ready."""

    def __init__(
        self, app: App[int], opening: Callable[[], AbstractAsyncContextManager[Backend]], started: Callable[[], object]
    ) -> None:
        """Take what opens the backend, and what is called once it is open or could not be opened."""
        self._app = app
        self._opening = opening
        self._started = started
        self.backend: Backend | None = None
        """The open backend; None until it is ready."""
        self.failed = False
        """Whether it could not be opened, or broke off."""
        self.closing_lines: tuple[str, ...] = ()
        """Printed in the terminal after the dashboard has closed."""
        self._queued: list[Intent] = []
        self._leaving = asyncio.Event()
        self._closed = asyncio.Event()

    def start(self) -> None:
        """Open the backend beside the screen; once more where it failed."""
        self._app.run_worker(self._hold(), name="backend", exit_on_error=False)

    async def _hold(self) -> None:
        """Keep the backend open until the app is left; its errors do not take the screen down."""
        self.failed = False
        try:
            async with self._opening() as backend:
                self.backend = backend
                self._started()
                for intent in self._queued:
                    backend.handle(intent)
                self._queued.clear()
                await self._leaving.wait()
        except Exception as error:
            log.exception("the backend failed")
            self.failed = True
            self._started()
            self._app.screen_stack[0].post_message(ActivityUpdate(Activity.FAILED, error=unexpected(error)))
        finally:
            if self.backend is not None:
                self.closing_lines = self.backend.closing_lines()
            self.backend = None
            self._closed.set()

    def handle(self, intent: Intent) -> None:
        """Pass an intent on, or queue it until the backend is ready."""
        if self.backend is not None:
            self.backend.handle(intent)
        else:
            self._queued.append(intent)

    async def close(self) -> None:
        """Let the backend end, which saves."""
        self._leaving.set()
        if self.backend is None:
            return
        try:
            await asyncio.wait_for(self._closed.wait(), CLOSING_SECONDS)
        except TimeoutError:
            log.warning("the backend did not close within %d seconds", CLOSING_SECONDS)
            self.closing_lines = ("The commands were still being ended when the dashboard closed; see ps.",)
