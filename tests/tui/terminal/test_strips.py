"""Rows as strips: attributes, colours, links, and cells that always fit."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.color import Color
from rich.style import Style as RichStyle

from ollm_tui.tui.terminal.strips import Mark, Overlay, StripPainter, TerminalPalette
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.view_frame import ViewFrame, ViewState
from tests.tui.terminal.screens import Terminal, terminal

WHITE, BLACK = Color.parse("#fefefe"), Color.parse("#010101")
PALETTE = TerminalPalette(WHITE, BLACK, tuple(Color.from_rgb(n, n, n) for n in range(16)))


def painter(made: Terminal) -> StripPainter:
    screen = made.screen
    return StripPainter(PALETTE, screen.columns, screen.clusters, screen.links.uri)


def first_style(output: str, *, reverse: bool = False) -> RichStyle:
    made = terminal(10, 1, output)
    drawn = painter(made)
    drawn.reverse = reverse
    style = next(iter(drawn.strip(made.screen.rows[0]))).style
    assert style is not None
    return style


@pytest.mark.parametrize(
    ("sgr", "attribute"),
    [
        ("1", "bold"),
        ("2", "dim"),
        ("3", "italic"),
        ("4", "underline"),
        ("4:3", "underline"),
        ("21", "underline2"),
        ("5", "blink"),
        ("9", "strike"),
        ("53", "overline"),
    ],
)
def test_each_attribute_is_drawn(sgr: str, attribute: str) -> None:
    assert getattr(first_style(f"\x1b[{sgr}mx"), attribute)
    assert not getattr(first_style("x"), attribute)


def test_colours_are_the_themes_the_fixed_ones_or_their_own() -> None:
    assert (first_style("x").color, first_style("x").bgcolor) == (WHITE, BLACK)
    assert first_style("\x1b[33mx").color == Color.from_rgb(3, 3, 3)
    assert first_style("\x1b[103mx").bgcolor == Color.from_rgb(11, 11, 11)
    assert first_style("\x1b[38;5;99mx").color == Color.from_ansi(99)
    assert first_style("\x1b[48;2;7;8;9mx").bgcolor == Color.from_rgb(7, 8, 9)


def test_colours_that_a_program_sets_are_drawn_until_it_takes_them_back() -> None:
    engine = TerminalEngine(10, 1)
    frame = ViewFrame(engine)
    frame.repaint(PALETTE, ViewState(shows_cursor=False))

    def colours() -> list[tuple[Color | None, Color | None]]:
        frame.update(ViewState(shows_cursor=False))
        styles = [segment.style for segment in frame.strips[0] if segment.text.strip()]
        return [(style.color, style.bgcolor) for style in styles if style is not None]

    engine.feed(b"\x1b[31mr\x1b[38;5;99mv\x1b[mx\x1b]4;?;?\x07\x1b]4;1;?\x07")
    assert colours() == [(Color.from_rgb(1, 1, 1), BLACK), (Color.from_ansi(99), BLACK), (WHITE, BLACK)]
    engine.feed(b"\x1b]4;1;rgb:f/00/0;99;#010203;256;#ffffff\x07\x1b]10;#040506\x1b\\\x1b]11;rgb:ffff/0000/0000\x1b\\")
    red = Color.from_rgb(255, 0, 0)
    assert colours() == [(red, red), (Color.from_rgb(1, 2, 3), red), (Color.from_rgb(4, 5, 6), red)]
    engine.feed(b"\x1b]104;99\x07\x1b]110\x07\x1b]111\x07\x1b]4;1;blue\x07")
    assert colours() == [(red, BLACK), (Color.from_ansi(99), BLACK), (WHITE, BLACK)]
    engine.feed(b"\x1b]104\x07")
    assert colours()[0] == (Color.from_rgb(1, 1, 1), BLACK)


def test_reverse_exchanges_the_colours_and_a_reversed_screen_does_it_again() -> None:
    assert (first_style("\x1b[7mx").color, first_style("\x1b[7mx").bgcolor) == (BLACK, WHITE)
    assert first_style("x", reverse=True).color == BLACK
    assert first_style("\x1b[7mx", reverse=True).color == WHITE


def test_hidden_text_has_the_colour_of_its_ground() -> None:
    style = first_style("\x1b[8;41mx")
    assert style.color == style.bgcolor == Color.from_rgb(1, 1, 1)


def test_links_are_kept_until_they_are_forgotten() -> None:
    assert first_style("\x1b]8;;https://example.org/\x07x").link == "https://example.org/"
    assert first_style("\x1b]8;;file:///etc/passwd\x1b[1m\x07x").link is None


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=40), st.integers(1, 30), st.integers(0, 29), st.integers(0, 30), st.integers(-1, 30))
def test_any_text_fills_its_line_exactly(text: str, columns: int, cursor: int, start: int, end: int) -> None:
    made = terminal(columns, 3, text.encode("utf-8", "replace"))
    drawn = painter(made)
    overlay = Overlay(min(cursor, columns - 1), RichStyle(reverse=True), (Mark(start, end, RichStyle(bold=True)),))
    for row in made.screen.rows:
        for strip in (drawn.strip(row), drawn.strip(row, overlay)):
            assert strip.cell_length == columns
            assert cell_len(strip.text) == sum(cell_len(segment.text) for segment in strip) == columns
            assert not any(char < " " or "\x7f" <= char <= "\x9f" for char in strip.text)


def test_a_line_longer_than_the_screen_is_cut_between_characters() -> None:
    made = terminal(10, 1, "ab日本語")
    narrow = StripPainter(PALETTE, 5, made.screen.clusters, made.screen.links.uri)
    assert narrow.strip(made.screen.rows[0]).text == "ab日 "
