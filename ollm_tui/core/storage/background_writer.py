"""Writing to the store in order, in a thread of its own, so that nobody waits for the disk."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import ParamSpec

from ollm_tui.core.base.errors import StorageFailed

P = ParamSpec("P")


class BackgroundWriter:
    """Runs pieces of work one after the other; the thread starts with the first.

    One that raises StorageFailed is reported to `on_failure` (from that thread) and the next one is tried.
    """

    def __init__(self, name: str, on_failure: Callable[[StorageFailed], None]) -> None:
        self._name = name
        self._on_failure = on_failure
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._last: Future[None] | None = None

    def submit(self, work: Callable[P, object], /, *args: P.args, **kwargs: P.kwargs) -> None:
        """Have it done; returns at once. After `close` it is reported as a failure."""

        def attempt() -> None:
            try:
                work(*args, **kwargs)
            except StorageFailed as failure:
                self._on_failure(failure)

        try:
            self._last = self._thread.submit(attempt)
        except RuntimeError:  # the one way in which a thread pool refuses work
            self._on_failure(StorageFailed(f"{self._name}: something came after the end and is not written."))

    def flush(self) -> None:
        """Wait until everything submitted so far is done; blocks, for the end of a turn or process."""
        if self._last is not None:
            self._last.result()

    def close(self) -> None:
        """Do what is left and end the thread; blocks. Idempotent."""
        self._thread.shutdown(wait=True)
