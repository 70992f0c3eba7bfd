"""Use the store in the background: write in order, and notice what other processes write."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec

from ollm_tui.core.base.clock import Clock, SystemClock
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.storage.store import Store

P = ParamSpec("P")

log = logging.getLogger(__name__)

RACY_SECONDS = 2.0
"""A file stamp younger than this may hide a later change within the same tick of the file system's clock."""


class BackgroundWriter:
    """Runs work in order in one thread; a StorageFailed goes to `on_failure`, and the next work is tried."""

    def __init__(self, name: str, on_failure: Callable[[StorageFailed], None]) -> None:
        self._name = name
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._last: Future[None] | None = None

    def submit(self, work: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Have it done; returns at once. Raises StorageFailed after `close`."""

        def attempt() -> None:
            try:
                work(*args, **kwargs)
            except StorageFailed as failure:
                self._on_failure(failure)

        try:
            self._last = self._thread.submit(attempt)
        except RuntimeError as error:  # the one way in which a thread pool refuses work
            raise StorageFailed(f"{self._name}: it came when the program was ending already") from error

    async def idle(self) -> None:
        """Wait until everything submitted so far is done, without blocking."""
        if self._last is not None:
            await asyncio.shield(asyncio.wrap_future(self._last))

    def flush(self) -> None:
        """Wait until everything submitted so far is done; blocks, for the end of a turn or process."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Do what is left and end the thread; blocks. Idempotent."""
        self._thread.shutdown(wait=True)


class ChangeWatch:
    """Tells whether another process has committed since the last look: a stat first, and only then the database."""

    def __init__(self, store: Store, *, clock: Clock | None = None) -> None:
        self._store = store
        self._clock = clock or SystemClock()
        self._version = store.data_version()
        self._stamp: tuple[int, ...] = ()

    def changed(self) -> bool:
        """Return True once for each batch of foreign commits. Blocks for microseconds."""
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
