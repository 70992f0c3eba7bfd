"""The suites kept here: the table of behaviours, and recorded programs with the screens they must leave."""

from __future__ import annotations

from tests.conformance.counts import Counts
from tests.tui.terminal import recordings
from tests.tui.terminal.conformance import fixtures
from tests.tui.terminal.recordings import frames, raw
from tests.tui.terminal.screens import terminal


def table() -> Counts:
    counts = Counts()
    for fixture in fixtures():
        made = fixture.played(fixture.output.encode())
        line, column = made.cursor
        counts.check(
            f"{fixture.group}: {fixture.about}",
            (fixture.rows, fixture.cursor, fixture.replies),
            (tuple(made.lines), (line + 1, column + 1), tuple(made.replies)),
        )
    return counts


def programs() -> Counts:
    counts = Counts()
    for frame in frames():
        made = terminal(recordings.COLUMNS, recordings.LINES, raw(frame.program)[: frame.size])
        counts.check(
            f"{frame.program}: {frame.moment}", (_padded(frame.screen), frame.cursor), (tuple(made.lines), made.cursor)
        )
    return counts


def _padded(screen: tuple[str, ...]) -> tuple[str, ...]:
    return (*screen, *[""] * (recordings.LINES - len(screen)))
