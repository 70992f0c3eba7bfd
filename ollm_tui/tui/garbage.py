"""The garbage collector of the dashboard's process: full collections run where no key waits for them.

Textual's objects form circles, so they are needed; one over all that lives stops everything for a tenth of a second,
and by itself Python runs it while objects are made: in the midst of a painting.
"""

from __future__ import annotations

import gc
from collections.abc import Callable

DUE = 20
"""Collections of the young since the last full one."""
DUE_AT_ONCE = 2_000
"""After so many Python runs a full one by itself, whoever types."""
QUIET_SECONDS = 1.0
"""Without a key."""
THOROUGH_SECONDS = 120.0
"""Between collections of what outlived one as well: they take longer."""


def collect_after_start() -> None:
    """Collect the garbage of the start; most of what lives now lives to the end."""
    gc.collect()
    gc.freeze()


class IdleCollector:
    """Collects garbage between keys, in a process whose start switched the collector off; else does nothing.

    What outlives a collection is left out of the next ones, so that they take milliseconds; now and then one goes over
    everything.
    """

    def __init__(self, set_timer: Callable[[float, Callable[[], None]], object], now: Callable[[], float]) -> None:
        self._set_timer = set_timer
        self._now = now
        self._on = False
        self._waiting = False
        self._last_key = self._last_thorough = now()

    def end_start(self) -> None:
        """Switch the collector on again."""
        if not gc.isenabled():
            collect_after_start()
            gc.set_threshold(*gc.get_threshold()[:2], DUE_AT_ONCE)
            gc.enable()
            self._on = True

    def note_key(self) -> None:
        """Wait until no other key follows."""
        self._last_key = self._now()
        self.consider()

    def consider(self) -> None:
        """Collect soon where it is due; called often."""
        if self._on and not self._waiting and gc.get_count()[2] >= DUE:
            self._wait()

    def _wait(self) -> None:
        self._waiting = True
        self._set_timer(QUIET_SECONDS, self._collect)

    def _collect(self) -> None:
        now = self._now()
        if now - self._last_key < QUIET_SECONDS:
            self._wait()
            return
        self._waiting = False
        if now - self._last_thorough >= THOROUGH_SECONDS:
            self._last_thorough = now
            gc.unfreeze()
        gc.collect()
        gc.freeze()
