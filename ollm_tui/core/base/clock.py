"""The one clock and the one source of ids, injected so that tests and pictures are exact."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """Time as the core sees it."""

    def monotonic(self) -> float:
        """Seconds that never run backwards; for deadlines and durations."""
        ...

    def now(self) -> datetime:
        """Return the moment, in UTC; for records."""
        ...


class SystemClock:
    """The machine's clock."""

    def monotonic(self) -> float:
        """Return seconds that never run backwards."""
        return time.monotonic()

    def now(self) -> datetime:
        """Return the moment, in UTC."""
        return datetime.now(UTC)


class IdSource(Protocol):
    """Where unique names come from."""

    def new_id(self, kind: str) -> str:
        """Return an id that no other call returns, starting with `kind`."""
        ...


class RandomIds:
    """Ids of 64 random bits."""

    def new_id(self, kind: str) -> str:
        """Return an id that starts with `kind`."""
        return f"{kind}-{secrets.token_hex(8)}"


def iso_time(moment: datetime) -> str:
    """UTC in ISO 8601 with milliseconds, as logs and results carry it: `2026-01-31T09:05:00.000Z`."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"
