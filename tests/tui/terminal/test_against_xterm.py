"""The same bytes to xterm.js: the conformance table, and random output of the kind programs send.

Left out of the random output is what xterm.js is known to do otherwise than xterm and the VT510: the table's lines
with `alone` say what and why.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ollm_tui.tui.terminal.emulator.cells import DOUBLE_UNDERLINE, UNDERLINE, CellStyle
from tests.tui.terminal import recordings
from tests.tui.terminal.conformance import Fixture, fixtures
from tests.tui.terminal.recordings import frames, raw
from tests.tui.terminal.screens import Terminal, terminal
from tests.tui.terminal.xterm import FLAGS, MISSING, Screen, Xterm

COLUMNS, LINES = 12, 6


@pytest.fixture(scope="module")
def xterm() -> Iterator[Xterm]:
    try:
        running = Xterm()
    except FileNotFoundError:
        pytest.skip(MISSING)
    yield running
    running.close()


def test_the_conformance_table(xterm: Xterm) -> None:
    wrong = [
        fixture.about
        for fixture in fixtures()
        if _agrees(fixture, xterm.show(fixture.output.encode(), fixture.columns, len(fixture.rows)))
        == bool(fixture.alone)
    ]
    assert wrong == []


def test_recorded_programs(xterm: Xterm) -> None:
    wrong: list[str] = []
    for frame in frames():
        data = raw(frame.program)[: frame.size]
        made = terminal(recordings.COLUMNS, recordings.LINES, data)
        shown = xterm.show(data, recordings.COLUMNS, recordings.LINES)
        assert shown is not None
        if (tuple(made.lines), made.cursor) != (shown.rows, shown.cursor) or not _same_looks(made, shown):
            wrong.append(f"{frame.program}: {frame.moment}")
    assert wrong == []


def _agrees(fixture: Fixture, shown: Screen | None) -> bool:
    assert shown is not None
    line, column = shown.cursor
    return (
        (shown.rows, (line + 1, column + 1), shown.back, shown.replies)
        == (fixture.rows, fixture.cursor, fixture.back, fixture.replies)
    ) and _same_looks(fixture.played(fixture.output.encode()), shown)  # fmt: skip


def _same_looks(made: Terminal, shown: Screen) -> bool:
    """A blank cell is compared by its background alone: the rest of it cannot be seen."""
    for y, line in enumerate(shown.looks):
        text = made.screen.rows[y].text.ljust(len(line))
        for x, theirs in enumerate(line):
            ours = _plain(made.style(y, x))
            if ours != theirs and (text[x] != " " or ours.bg != theirs.bg):
                return False
    return True


def _plain(style: CellStyle) -> CellStyle:
    underline = UNDERLINE if style.flags & DOUBLE_UNDERLINE else 0
    return CellStyle(style.fg, style.bg, (style.flags | underline) & sum(FLAGS))


def csi(finals: str) -> st.SearchStrategy[str]:
    count = st.one_of(st.just(""), st.integers(0, 14).map(str), st.just("9999"))
    return st.builds("\x1b[{}{}".format, count, st.sampled_from(finals))


text = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="_"), min_size=1, max_size=25)
places = st.builds("\x1b[{};{}{}".format, st.integers(0, 9), st.integers(0, 14), st.sampled_from("Hf"))
wide = st.builds(
    "\x1b[{};{}H{}".format, st.integers(1, 6), st.integers(1, 3), st.text("日本語字", min_size=1, max_size=4)
)
regions = st.builds("\x1b[{};{}r".format, st.integers(0, 5), st.integers(1, 9))
attributes = (0, 1, 2, 3, 4, 7, 8, 9, 22, 23, 24, 27, 28, 29, 31, 39, 42, 49, 53, 55, 91, 102)
colours = st.lists(
    st.sampled_from([*map(str, attributes), "38;5;9", "48;5;123", "38;2;1;2;3", "4:3"]),
    max_size=3,
).map(lambda codes: f"\x1b[{';'.join(codes)}m")
controls = st.sampled_from(
    ["\r", "\n", "\r\n", "\x08", "\t", "\x0b", "\x0c", "\x00", "\x05", "\x1bD", "\x1bE", "\x1bM"]
)
modes = st.sampled_from(["\x1b[4h", "\x1b[4l", "\x1b[20h", "\x1b[20l", "\x1b(0", "\x1b(B", "\x1b)0", "\x0e", "\x0f"])
swallowed = st.sampled_from(
    ["\x1b[3\x18", "\x1b[3", "\x1b[>4;2m", "\x1b[?4m", "\x1b[<u", "\x1bP1|x\x1b\\", "\x1b_G\x1b\\", "\x1b]0;t\x07"]
)
fixed = st.one_of(
    controls, modes, swallowed, st.sampled_from(["\x1b[\n2C", "\x1b[r", "\x1b[3;4H\x1b7\x1b[31m\x1b[2;2Hx\x1b8"])
)
erasing = st.builds("\x1b[{}{}{}".format, st.sampled_from(["", "?"]), st.integers(0, 4), st.sampled_from("JK"))
piece = st.one_of(text, text, csi("ABCDEFGde`a"), csi("@PXSIb"), places, regions, colours, erasing, fixed, wide)
# Whole lines come and go at the first column: xterm.js drops a pending wrap even where IL and DL do nothing.
lines = st.builds("\r{}".format, csi("LM"))
some = st.lists(st.one_of(piece, lines), max_size=12).map("".join)
# Each screen of xterm.js has a scrolling region and tab stops of its own.
full_screen = st.builds("\x1b[2;2H\x1b[r\x1b[?1049h{}\x1b[r\x1b[?1049l".format, some)
output = st.lists(st.one_of(some, full_screen), max_size=3).map("".join)


@settings(max_examples=100, deadline=None)
@given(output)
def test_random_output(xterm: Xterm, data: str) -> None:
    made = terminal(COLUMNS, LINES, data)
    shown = xterm.show(data.encode(), COLUMNS, LINES)
    assume(shown is not None)
    assert tuple(made.lines) == shown.rows
    assert made.cursor == shown.cursor
    if data.isascii():  # what is left of half a wide character keeps its colour here and takes the pen's there
        assert _same_looks(made, shown)
