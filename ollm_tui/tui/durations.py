"""Durations, ages and countdowns in words."""

from __future__ import annotations

from datetime import datetime, timedelta

MONTH = timedelta(days=31)


def exact_age(seconds: float) -> str:
    """Return seconds in the two largest units: `12s`, `3m05s`, `2h14m`, `3d02h`."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if minutes == 0:
        return f"{whole}s"
    if hours == 0:
        return f"{minutes}m{whole % 60:02}s"
    return f"{hours}h{minutes % 60:02}m" if days == 0 else f"{days}d{hours % 24:02}h"


def short_age(seconds: float) -> str:
    """Return seconds in the largest unit alone: `12s`, `3m`, `2h`, `3d`."""
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def short_age_since(moment: str, now: datetime) -> str:
    """Return how long ago a moment (ISO 8601) was; a date after a month, empty where it is none."""
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return ""
    ago = now - then
    if ago >= MONTH:
        return then.astimezone(now.tzinfo).date().isoformat()
    return "now" if ago < timedelta(seconds=5) else short_age(ago.total_seconds())


def clock_text(seconds: float) -> str:
    """Return `m:ss`, rounded up so that a running clock never shows 0:00."""
    whole = max(0, -int(-seconds // 1))
    return f"{whole // 60}:{whole % 60:02d}"


def duration_text(milliseconds: int) -> str:
    """Return how long a call ran: `4 ms`, `2.3 s`, `3 min 5 s`."""
    if milliseconds < 1_000:
        return f"{milliseconds} ms"
    if milliseconds < 60_000:
        return f"{milliseconds / 1000:.1f} s"
    return f"{milliseconds // 60_000} min {milliseconds % 60_000 // 1000} s"
