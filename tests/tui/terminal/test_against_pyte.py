"""The same bytes to stock pyte, for everything stock pyte does right."""

from __future__ import annotations

import pyte
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tui.terminal.screens import terminal

COLUMNS, LINES = 16, 6

printable = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), min_size=1, max_size=24)
number = st.integers(0, 20).map(lambda n: str(n) if n else "")
moves = st.builds(lambda count, final: f"\x1b[{count}{final}", number, st.sampled_from("ABCDEFGdea"))
places = st.builds(
    lambda y, x, final: f"\x1b[{y};{x}{final}", st.integers(0, 9), st.integers(0, 20), st.sampled_from("Hf")
)
erasing = st.builds(lambda how, final: f"\x1b[{how}{final}", st.integers(0, 2), st.sampled_from("JK"))
# No DL: pyte does not delete a line over one that nothing was ever written to.
shifting = st.builds(lambda count, final: f"\x1b[{count}{final}", number, st.sampled_from("@PXL"))
# No line feed or index after a full line: pyte still wraps afterwards, xterm and the VT510 no longer do.
controls = st.sampled_from(
    ["\r", "\r\n", "\x08", "\x08\n", "\r\t", "\r\x1bM", "\r\x1bD", "\r\x1bH", "\r\x1b[g", "\x1b[3g", "\x1b[r\x1b[H"]
)
colours = st.builds(
    lambda codes: f"\x1b[{';'.join(map(str, codes))}m",
    st.lists(st.sampled_from([0, 1, 3, 4, 7, 9, 22, 23, 24, 27, 29, *range(30, 38), 39, *range(90, 98)]), max_size=3),
)
# The cursor is put down before a sequence that looks at it, because pyte leaves it beyond the last column there.
settled = st.builds(lambda place, action: place + action, places, st.one_of(moves, erasing, shifting))
inside = st.one_of(printable, erasing, shifting, colours, st.sampled_from(["\n", "\r\n", "\x1bM", "\x1bD", "\x08"]))


@st.composite
def _in_a_region(draw: st.DrawFn) -> str:
    """Work inside a scrolling region; a cursor outside one is where pyte and xterm differ."""
    top = draw(st.integers(1, LINES - 1))
    bottom = draw(st.integers(top + 1, LINES))
    steps = draw(st.lists(st.tuples(st.integers(top, bottom), st.integers(1, COLUMNS), inside), max_size=15))
    return f"\x1b[{top};{bottom}r" + "".join(f"\x1b[{y};{x}H{action}" for y, x, action in steps) + "\x1b[r\x1b[H"


without_region = st.lists(st.one_of(printable, places, controls, colours, settled), max_size=25).map("".join)
output = st.lists(st.one_of(without_region, _in_a_region()), max_size=2).map("".join)


def _pyte(data: str) -> pyte.Screen:
    screen = pyte.Screen(COLUMNS, LINES)
    pyte.ByteStream(screen).feed(data.encode())
    return screen


@settings(max_examples=100, deadline=None)
@given(output)
def test_text_cursor_and_tab_stops_agree_with_pyte(data: str) -> None:
    stock = _pyte(data)
    made = terminal(COLUMNS, LINES, data)
    assert made.screen.display == stock.display
    assert made.cursor == (stock.cursor.y, stock.cursor.x)
    assert made.screen.tabstops == stock.tabstops


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(printable, colours, st.just("\r\n")), max_size=20).map("".join))
def test_attributes_of_written_text_agree_with_pyte(data: str) -> None:
    stock = _pyte(data)
    made = terminal(COLUMNS, LINES, data)
    for y in range(LINES):
        for x in range(COLUMNS):
            ours, theirs = made.screen.buffer[y][x], stock.buffer[y][x]
            if theirs.data != " " or ours.data != " ":
                assert ours == theirs
