"""Every line of the conformance table: the exact screen, however the bytes arrive."""

from __future__ import annotations

import pytest

from tests.tui.terminal.conformance import Fixture, fixtures


@pytest.mark.parametrize("fixture", fixtures(), ids=lambda fixture: f"{fixture.group}: {fixture.about}")
def test_the_screen_is_what_the_standards_say(fixture: Fixture) -> None:
    data = fixture.output.encode()
    for pieces in ([data], [data[place : place + 1] for place in range(len(data))]):
        made = fixture.played(*pieces)
        line, column = made.cursor
        assert tuple(made.lines) == fixture.rows
        assert (line + 1, column + 1) == fixture.cursor
        assert [[made.style(y, x) for x in range(fixture.columns)] for y in range(len(made.lines))] == fixture.styles()
        assert tuple(line.rstrip() for line in made.scrolled_back()) == fixture.back
        assert tuple(made.replies) == fixture.replies


def test_the_table_names_every_behaviour_once() -> None:
    names = [(fixture.group, fixture.about) for fixture in fixtures()]
    assert len(names) == len(set(names)) > 150
