"""How long something runs, and how long ago something was, in words: one exact form and one short one."""

from __future__ import annotations

from datetime import datetime, timedelta

MONTH = timedelta(days=31)


def exact_age(seconds: float) -> str:
    """In the two largest units: `12s`, `3m05s`, `2h14m`, `3d02h`."""
    whole = max(0, int(seconds))
    minutes, hours, days = whole // 60, whole // 3600, whole // 86_400
    if minutes == 0:
        return f"{whole}s"
    if hours == 0:
        return f"{minutes}m{whole % 60:02}s"
    return f"{hours}h{minutes % 60:02}m" if days == 0 else f"{days}d{hours % 24:02}h"


def short_age(seconds: float) -> str:
    """In the largest unit alone, for where every cell counts: `12s`, `3m`, `2h`, `3d`."""
    whole = max(0, int(seconds))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "m")):
        if whole >= size:
            return f"{whole // size}{unit}"
    return f"{whole}s"


def short_age_since(moment: str, now: datetime) -> str:
    """How long ago a moment (ISO 8601) was: `now`, its short age, a date where it is more than a month; else empty."""
    try:
        then = datetime.fromisoformat(moment)
    except ValueError:
        return ""
    ago = now - then
    if ago >= MONTH:
        return then.astimezone(now.tzinfo).date().isoformat()
    return "now" if ago < timedelta(seconds=5) else short_age(ago.total_seconds())
