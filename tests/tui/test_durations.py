"""Ages in words."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from ollm_tui.tui.durations import exact_age, short_age, short_age_since


@pytest.mark.parametrize(
    ("seconds", "exact", "short"),
    [
        (-1, "0s", "0s"),
        (0, "0s", "0s"),
        (59.9, "59s", "59s"),
        (60, "1m00s", "1m"),
        (3599, "59m59s", "59m"),
        (3600, "1h00m", "1h"),
        (7500, "2h05m", "2h"),
        (86_399, "23h59m", "23h"),
        (90_000, "1d01h", "1d"),
    ],
)
def test_ages_are_told_in_one_unit_or_two(seconds: float, exact: str, short: str) -> None:
    assert exact_age(seconds) == exact
    assert short_age(seconds) == short


@pytest.mark.parametrize(
    ("ago", "words"),
    [(timedelta(seconds=2), "now"), (timedelta(seconds=59), "59s"), (timedelta(minutes=59), "59m"),
     (timedelta(hours=23), "23h"), (timedelta(days=30), "30d"), (timedelta(days=40), "2025-12-22"), (-timedelta(1), "now")],
)  # fmt: skip
def test_a_moment_is_told_by_its_age_or_its_date(ago: timedelta, words: str) -> None:
    now = datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert short_age_since((now - ago).isoformat(), now) == words


def test_what_is_no_moment_has_no_age() -> None:
    assert short_age_since("yesterday", datetime(2026, 1, 31, tzinfo=UTC)) == ""
