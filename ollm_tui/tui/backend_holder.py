"""The backend's life behind the screen: opened after the first frame, kept until the app is left, closed in order."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager

from ollm_tui.core.base.log_file import unexpected
from ollm_tui.tui.protocol import Backend, PostUpdate
from ollm_tui.tui.protocol.intents import Intent
from ollm_tui.tui.protocol.updates import ActivityUpdate
from ollm_tui.tui.values import Activity

log = logging.getLogger(__name__)

CLOSING_SECONDS = 10.0
"""How long leaving waits for the backend."""


class BackendHolder:
    """Holds the open backend, and queues what is asked before it is ready."""

    def __init__(self, post: PostUpdate) -> None:
        self._post = post
        self.backend: Backend | None = None
        """The open backend; None until it is ready."""
        self.failed = False
        """Whether it could not be opened, or broke off."""
        self.closing_lines: tuple[str, ...] = ()
        """Printed in the terminal after the dashboard has closed."""
        self._queued: list[Intent] = []
        self._leaving = asyncio.Event()
        self._closed = asyncio.Event()

    async def hold(
        self, opening: Awaitable[AbstractAsyncContextManager[Backend]], started: Callable[[], object]
    ) -> None:
        """Keep the backend open until the app is left; its errors do not take the screen down."""
        self.failed = False
        try:
            async with await opening as backend:
                self.backend = backend
                started()
                for intent in self._queued:
                    backend.handle(intent)
                self._queued.clear()
                await self._leaving.wait()
        except Exception as error:
            log.exception("the backend failed")
            self.failed = True
            started()
            self._post(ActivityUpdate(Activity.FAILED, error=unexpected(error)))
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
