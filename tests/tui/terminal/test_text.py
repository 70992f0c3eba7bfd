"""Text on the screen: widths, clusters, wrapping, erasing, blocks of lines, scrollback, and changing the size."""

from __future__ import annotations

import re
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyte.screens import wcwidth
from rich.cells import get_character_cell_size

from ollm_tui.tui.terminal.emulator import LiveScreen, LiveStream
from ollm_tui.tui.terminal.emulator.cells import NARROW, WIDE, CellStyle
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from tests.tui.terminal.screens import Terminal, terminal


@pytest.mark.parametrize(("characters", "columns"), [(NARROW, 1), (WIDE, 2)])
def test_the_fast_classes_agree_with_the_width_tables(characters: str, columns: int) -> None:
    everything = "".join(map(chr, [*range(0xD800), *range(0xE000, sys.maxunicode + 1)]))
    chosen = re.findall(f"[{characters}]", everything)
    assert len(chosen) > 500
    assert {(wcwidth(char), get_character_cell_size(char)) for char in chosen} == {(columns, columns)}


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("⚠️", 1),
        ("👨‍👩‍👧", 2),
        ("👍🏽", 2),
        ("🇫🇷", 2),
        ("日", 2),
        ("é", 1),
        ("e\u0301", 1),
        ("a\u200bb", 2),
        ("a\ufeffb", 2),
        ("❤️", 1),
        ("\u202eab", 2),
        ("각", 2),
        ("\U00100005", 1),
    ],
)
def test_clusters_take_the_columns_of_their_base(text: str, column: int) -> None:
    made = terminal(20, 1, text + "|")
    assert made.cursor == (0, column + 1)
    assert made.screen.rows[0].text[column] == "|"


def test_text_behind_a_zero_width_character_is_not_lost() -> None:
    assert terminal(40, 1, "ok \u2714\ufe0f 12 passed \u26a0\ufe0f done").lines == [
        "ok \u2714\ufe0f 12 passed \u26a0\ufe0f done"
    ]


def test_combining_marks_join_the_cell_before_across_a_wrap_too() -> None:
    assert terminal(3, 2, "abe\u0301x").lines == ["abé", "x"]
    made = terminal(3, 2, "abq\u0301")
    assert made.lines == ["abq\u0301", ""]
    assert terminal(3, 2, "\u0301x").lines == ["x", ""]


def test_bidi_controls_and_tags_are_not_kept() -> None:
    made = terminal(20, 1, "a\u202eb\u2066c\U000e0041d\u200e")
    assert made.lines == ["abcd"]


def test_a_wide_character_that_does_not_fit_wraps_whole() -> None:
    made = terminal(5, 2, "abcd日x")
    assert made.lines == ["abcd", "日x"]
    assert made.screen.display[0] == "abcd "


def test_wide_characters_on_a_one_column_screen_are_replaced() -> None:
    assert terminal(1, 2, "日").lines == ["\ufffd", ""]


def test_lines_from_the_top_of_the_screen_go_to_a_bounded_scrollback() -> None:
    made = terminal(8, 3, "".join(f"{n}\r\n" for n in range(1_000)), scrollback=10)
    assert made.lines == ["998", "999", ""]
    assert made.scrolled_back() == [str(n) for n in range(988, 998)]
    assert made.screen.scrolled == 998


def test_the_scrollback_reads_as_text() -> None:
    scrollback = terminal(10, 2, "日本 e\u0301q\u0301\r\n\x1b[31mred\r\nx\r\n").screen.scrollback
    assert scrollback == ["日本 éq\u0301", "red"]


def test_styles_survive_in_the_scrollback() -> None:
    made = terminal(20, 2, "x\x1b[31mred\x1b[0m y\r\n" * 5)
    line = made.screen.history[0]
    assert isinstance(line, ScreenRow)
    assert list(line.runs()) == [("x", CellStyle()), ("red", CellStyle(fg=1)), (" y", CellStyle())]


def test_blocks_of_lines_keep_what_stood_above_and_break_long_lines() -> None:
    made = terminal(4, 4, "ab\r\n", "one\r\ntwo long\r\n\x1b[32mgr\x1b[meen line\r\nlast\r\n\r\nx\r\n")
    assert made.scrolled_back() == ["ab", "one", "two ", "long", "gree", "n li", "ne"]
    assert made.lines == ["last", "", "x", ""]
    assert [isinstance(line, ScreenRow) and line.wrapped for line in made.screen.history] == [
        False,
        False,
        True,
        False,
        True,
        True,
        False,
    ]


def test_a_block_with_a_background_at_a_line_end_colours_the_rows_below() -> None:
    made = terminal(4, 3, "a\r\nb\x1b[41m\r\nc\r\nd\r\n")
    assert made.lines == ["c", "d", ""]
    assert made.style(2, 3) == CellStyle(bg=1)


def test_display_lines_are_as_wide_as_the_screen_and_the_buffer_reads_like_pytes() -> None:
    made = terminal(6, 2, "\x1b[1;31m日\x1b[mx")
    assert made.screen.display == ["日x   ", "      "]
    cells = made.screen.buffer[0]
    assert (cells[0].data, cells[0].fg, cells[0].bold) == ("日", "red", True)
    assert (cells[1].data, cells[2].data, cells[5].data) == ("", "x", " ")
    assert made.feed("\x1b[?5h").screen.buffer[0][2].reverse


def test_dirty_names_the_lines_that_changed() -> None:
    made = terminal(10, 4, "a\r\nb\r\n")
    made.screen.dirty.clear()
    made.feed("\x1b[2;1Hx")
    assert made.screen.dirty == {1}
    made.screen.dirty.clear()
    made.feed("\x1b[4;1H\n")
    assert made.screen.dirty == {0, 1, 2, 3}


def test_attaching_to_a_foreign_screen_is_refused() -> None:
    import pyte

    with pytest.raises(TypeError, match="LiveScreen"):
        LiveStream(pyte.Screen(10, 2))


# Changing the size


def test_a_shorter_screen_keeps_the_cursor_and_gives_the_top_to_the_scrollback() -> None:
    made = terminal(10, 5, "a\r\nb\r\nc\r\nd\r\n$ ")
    made.screen.resize(3, 10)
    assert made.lines == ["c", "d", "$"]
    assert made.scrolled_back() == ["a", "b"]
    assert made.cursor == (2, 2)
    made.screen.resize(6, 10)
    assert made.lines == ["a", "b", "c", "d", "$", ""]
    assert made.cursor == (4, 2)
    assert made.scrolled_back() == []


def test_blank_rows_below_the_cursor_go_first() -> None:
    made = terminal(10, 5, "a\r\n$ ")
    made.screen.resize(3, 10)
    assert made.lines == ["a", "$", ""]
    assert made.scrolled_back() == []


def test_a_taller_screen_takes_lines_back_when_text_reaches_its_bottom() -> None:
    made = terminal(10, 3, "a\r\nb\r\nc\r\n$ \r\nmenu\x1b[A")
    assert made.lines == ["c", "$", "menu"]
    made.screen.resize(4, 10)
    assert made.lines == ["b", "c", "$", "menu"]
    assert made.cursor == (2, 4)
    assert made.scrolled_back() == ["a"]
    made.feed("\x1b[J")
    made.screen.resize(5, 10)
    assert made.lines == ["b", "c", "$", "", ""]


def test_lines_broken_by_the_width_are_broken_anew() -> None:
    made = terminal(10, 4, "abcdefghijklmno\r\n日本語日本語\r\n$ ab")
    made.screen.resize(4, 30)
    assert made.lines == ["abcdefghijklmno", "日本語日本語", "$ ab", ""]
    assert made.cursor == (2, 4)
    made.screen.resize(4, 5)
    assert made.lines == ["日本", "語日", "本語", "$ ab"]
    made.screen.resize(4, 30)
    assert [*made.scrolled_back(), *made.lines][:3] == ["abcdefghijklmno", "日本語日本語", "$ ab"]
    assert made.screen.rows[made.cursor[0]].text == "$ ab"


@pytest.mark.parametrize(
    "replaced",
    ["\x1b[M", "\x1b[L", "\r\x1b[K", "\x1b[2K", "\x1b[J\r\x1b[J", "\x1b[?2J", "\x1b[2;4r\x1b[S", "\x1b[2;4r\x1b[T"],
)
def test_a_line_put_where_a_broken_one_went_on_is_not_joined_to_it(replaced: str) -> None:
    made = terminal(10, 4, "abcdefghijklm\r\x1b[B3\x1b[2;2H", replaced, "\x1b[2;1Hnew\x1b[1;1Habcdefghij")
    assert made.lines[1].startswith("new")
    made.screen.resize(4, 30)
    assert [line for line in (*made.scrolled_back(), *made.lines) if line.startswith("abc")] == ["abcdefghij"]


@pytest.mark.parametrize("replaced", ["\x1b[2J", "\x1b[J", "\x1b[2K", "\x1b[M"])
def test_nor_to_one_that_began_in_the_scrollback(replaced: str) -> None:
    made = terminal(10, 2, "abcdefghijklmnopqrstuvwxyz", "\x1b[H", replaced, "new\x1b[K")
    made.screen.resize(2, 40)
    assert "new" in [*made.scrolled_back(), *made.lines]


shapes = st.lists(st.tuples(st.integers(1, 12), st.integers(2, 40)), max_size=5)
lines_of_text = st.lists(
    st.text(st.one_of(st.characters(categories=["L", "N"]), st.sampled_from(" 日本")), max_size=60)
)


@settings(max_examples=100, deadline=None)
@given(lines_of_text, shapes)
def test_no_change_of_size_loses_text_or_the_cursors_place_in_it(
    written: list[str], sizes: list[tuple[int, int]]
) -> None:
    made = terminal(10, 4, "\r\n".join(written), scrollback=10_000)
    before = logical_lines(made)
    for lines, columns in sizes:
        made.screen.resize(lines, columns)
        assert logical_lines(made) == before
        y, x = made.cursor
        assert made.screen.rows[y].text[x:].strip() == ""
        assert not any(row.text for row in made.screen.rows[y + 1 :])


def logical_lines(made: Terminal) -> list[str]:
    """All that was written, with the breaks that stem from the width taken out; blank lines at the end left out."""
    text = ""
    for line in (*made.screen.history, *made.screen.rows):
        row = ScreenRow(line) if isinstance(line, str) else line
        text += row.text + ("" if row.wrapped else "\n")
    return made.screen.clusters.plain(text).rstrip("\n").split("\n")


def test_the_primary_screen_is_resized_behind_a_full_screen_program() -> None:
    made = terminal(10, 4, "a\r\nb\r\nc\r\n$ vi", "\x1b[?1049h\x1b[Hfull")
    made.screen.resize(2, 8)
    assert made.lines == ["full", ""]
    made.feed("\x1b[?1049l")
    assert made.lines == ["c", "$ vi"]
    assert made.cursor == (1, 4)
    assert made.scrolled_back() == ["a", "b"]


@pytest.mark.parametrize("size", [(1, 1), (1, 200), (300, 1), (100_000, 100_000)])
def test_any_size_is_possible_within_bounds(size: tuple[int, int]) -> None:
    made = terminal(10, 4, "abcdefghijkl\r\n日本\r\n" * 5)
    lines, columns = size
    if lines <= 300:
        made.screen.resize(lines, columns)
        made.feed("x日\r\n" * 3)
        assert len(made.screen.display) == made.screen.lines == lines
    else:
        screen = LiveScreen(10, 2)
        screen.resize(lines, 10)
        assert screen.lines == 2_000
