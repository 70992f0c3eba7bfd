"""Finding text in scrollback and screen: what is found, where, how often, and while output goes on."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.text_search import MAX_MATCHES, TextFinder, TextMatch, pattern_of
from tests.tui.terminal.screens import whole_text


def engine_with(text: str, columns: int = 40, lines: int = 10, scrollback: int = 10_000) -> TerminalEngine:
    engine = TerminalEngine(columns, lines, scrollback)
    engine.feed(text.encode("utf-8", "replace"))
    return engine


def found(engine: TerminalEngine, query: str) -> list[tuple[int, int, int]]:
    return [(match.line, match.start, match.end) for match in TextFinder(engine, query).find().found]


def test_matches_are_found_in_scrollback_and_screen_with_lines_that_stay() -> None:
    engine = engine_with("".join(f"line {n}\r\n" for n in range(30)))
    assert engine.screen.scrolled == 21
    assert found(engine, "line 2") == [(n, 0, 6) for n in (2, *range(20, 30))]
    engine.feed(b"more\r\n" * 5)
    assert found(engine, "line 2") == [(n, 0, 6) for n in (2, *range(20, 30))]


@pytest.mark.parametrize(
    ("query", "hits"), [("error", 3), ("Error", 1), ("ERROR", 1), ("straße", 1), ("Straße", 1), (".", 1), ("", 0)]
)
def test_the_case_of_capitals_counts_and_nothing_is_a_pattern(query: str, hits: int) -> None:
    assert len(found(engine_with("error Error ERROR Straße a.b"), query)) == hits


def test_a_word_across_the_border_of_a_broken_line_is_one_match_in_two_parts() -> None:
    engine = engine_with("x" * 18 + "needle" + "y" * 20 + "\r\nneedle", columns=20)
    matches = TextFinder(engine, "needle").find()
    assert matches.found == (TextMatch(0, 18, 20, ((1, 0, 4),)), TextMatch(3, 0, 6))
    assert matches.in_lines(1, 1) == {1: [(0, 4, matches.found[0])]}
    assert matches.in_lines(2, 2) == {}


def test_positions_are_those_of_the_drawn_characters() -> None:
    assert found(engine_with("日本語 é👨‍👩‍👧 end"), "end") == [(0, len("日本語 é👨‍👩‍👧 "), len("日本語 é👨‍👩‍👧 end"))]


def test_a_finder_goes_on_where_it_was_while_output_arrives() -> None:
    engine = engine_with("needle\r\n" * 3, scrollback=50)
    finder = TextFinder(engine, "needle")
    assert len(finder.find()) == 3
    for _ in range(40):
        engine.feed(b"hay\r\nneedle\r\n" * 5)
        matches = finder.find()
        assert [match.line for match in matches.found] == [line for line, *_ in found(engine, "needle")]
    oldest = engine.screen.scrolled - 50
    assert all(match.line >= oldest for match in matches.found)


def test_a_screen_that_is_drawn_over_is_looked_at_again() -> None:
    engine = engine_with("needle")
    finder = TextFinder(engine, "needle")
    assert len(finder.find()) == 1
    engine.feed(b"\r\x1b[Kgone")
    assert len(finder.find()) == 0


def test_another_width_begins_anew_and_finds_the_same() -> None:
    engine = engine_with("".join(f"a long line with the needle {n}\r\n" for n in range(40)))
    finder = TextFinder(engine, "needle")
    assert len(finder.find()) == 40
    for columns in (20, 13, 60):
        engine.resize(columns, 10)
        again = finder.find()
        assert again.found == TextFinder(engine, "needle").find().found
        assert again.columns == columns


def test_a_cleared_scrollback_has_no_matches() -> None:
    engine = engine_with("needle\r\n" * 30)
    finder = TextFinder(engine, "needle")
    assert len(finder.find()) == 30
    engine.feed(b"\x1b[3J\x1b[2J")
    assert len(finder.find()) == 0


def test_matches_without_end_are_bounded_and_it_says_so() -> None:
    engine = engine_with("".join("a" * 39 + "\r\n" for _ in range(2_000)))
    finder = TextFinder(engine, "a")
    for _ in range(3):
        matches = finder.find()
        assert len(matches) == MAX_MATCHES
        assert matches.more
        assert matches.found[-1].line == 1_999
        engine.feed(b"\r\n")


def test_next_and_previous_are_told_from_any_place() -> None:
    matches = TextFinder(engine_with("a a\r\n\r\na"), "a").find()
    places = [(match.line, match.start) for match in matches.found]
    assert places == [(0, 0), (0, 2), (2, 0)]
    assert (matches.before(0, 0), matches.at_or_before(0, 0), matches.after(0, 0)) == (None, 0, 1)
    assert (matches.before(1, 5), matches.at_or_before(1, 5), matches.after(1, 5)) == (1, 1, 2)
    assert (matches.before(2, 0), matches.at_or_before(2, 0), matches.after(2, 0)) == (1, 2, None)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cf", "Cs"])), max_size=12), st.data())
def test_what_stands_there_is_found_where_it_stands(lines: list[str], data: st.DataObject) -> None:
    """Any piece of any line that is shown is found, at a position where the frame's own text has it."""
    engine = engine_with("\r\n".join(lines), columns=30, lines=5)
    shown = [line for line in whole_text(engine) if line.isascii() and line.strip()]
    if not shown:
        return
    line = data.draw(st.sampled_from(shown))
    start = data.draw(st.integers(0, len(line) - 1))
    query = line[start : start + data.draw(st.integers(1, 8))]
    matches = TextFinder(engine, query).find()
    assert matches.found
    texts = whole_text(engine)
    oldest = engine.screen.scrolled - len(engine.screen.history)
    pattern = pattern_of(query)
    for match in matches.found:
        if not match.rest and texts[match.line - oldest].isascii():
            assert pattern.fullmatch(texts[match.line - oldest].ljust(30)[match.start : match.end])
    whole = sum(len(pattern.findall(text)) for text in texts)
    assert len(matches) >= whole - sum(map(len, texts)) // 30 - len(texts)


@given(st.text(max_size=30))
def test_any_text_can_be_sought(query: str) -> None:
    assert isinstance(pattern_of(query), re.Pattern)
    TextFinder(engine_with("x"), query).find()


def test_ten_thousand_rows_cost_little_and_later_looks_less() -> None:
    """No bound in milliseconds on a shared machine: the second look must not look at the scrollback again."""
    engine = engine_with("".join(f"{n} GET /some/path/{n * 7}?q={n} 200 {n % 97} ms\r\n" for n in range(10_050)), 120)
    finder = TextFinder(engine, "needle")
    first = _processor_seconds(finder)
    later = min(_processor_seconds(finder) for _ in range(5))
    assert later < first / 10


def _processor_seconds(finder: TextFinder) -> float:
    began = time.thread_time()
    assert len(finder.find()) == 0
    return time.thread_time() - began
