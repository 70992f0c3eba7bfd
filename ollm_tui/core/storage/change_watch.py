"""Noticing that another process has changed the store, for a dashboard that shows what the store holds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.storage.store import Store

log = logging.getLogger(__name__)

RACY_SECONDS = 2.0
"""A file stamp younger than this may hide a later change within the same tick of the file system's clock."""


class ChangeWatch:
    """Tells whether another process has committed since the last look: a stat first, and only then the database."""

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._version = store.data_version()
        self._stamp: tuple[int, ...] = ()

    def changed(self) -> bool:
        """True once for each batch of foreign commits. Blocking, microseconds while nothing happens."""
        stamp = self._store.stamp()
        if stamp == self._stamp:
            return False
        written = max(stamp[0], stamp[3]) / 1e9
        settled = abs(self._clock.now().timestamp() - written) > RACY_SECONDS
        version = self._store.data_version()
        self._stamp = stamp if settled else ()
        changed, self._version = version != self._version, version
        return changed


async def watch_changes(
    store: Store,
    on_change: Callable[[], object],
    *,
    every: float = 1.0,
    wanted: Callable[[], bool] = lambda: True,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> None:
    """Call `on_change` after each batch of other processes' commits, looking every `every` seconds while `wanted`.

    `on_change` runs in a worker thread, so that it may use the store. Runs until cancelled.
    The one permitted poll: it is meant to run while the dashboard has the focus.
    """
    watch: ChangeWatch | None = None
    while True:
        if wanted():
            try:
                if watch is None:
                    watch = await asyncio.to_thread(ChangeWatch, store)
                if await asyncio.to_thread(watch.changed):
                    await asyncio.to_thread(on_change)
            except StorageFailed as failure:
                # Whoever uses the store is told; the watch just looks again.
                log.debug("the store could not be watched: %s", failure.message)
        await sleep(every)
