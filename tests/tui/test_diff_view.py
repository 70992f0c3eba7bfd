"""Diffs on the screen: numbers, totals, syntax colours, changed words."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.core.bus.confirmation import DiffPreview
from ollm_tui.core.files.diff import MOST_LINES, diff_texts
from ollm_tui.tui.styled_text import StyledLine, TextRole
from ollm_tui.tui.widgets.diff_view import MOST_COLOURED, diff_lines
from ollm_tui.tui.widgets.tool_call_view import preview_title
from tests.tui.pilot import question, stage

OLD = "import os\n\n\ndef export(out, fmt='csv'):\n    return 0  # done\n"
NEW = "import os\n\n\ndef export(out, as_json=False):\n    total = 12\n    return 0  # done\n"


def shown(path: str, old: str, new: str) -> list[StyledLine]:
    return list(diff_lines(diff_texts(path, old, new)))


def texts(lines: list[StyledLine], role: TextRole) -> list[str]:
    return [span.text for one in lines for span in one.spans if span.role is role]


def test_each_line_has_its_numbers_in_both_files() -> None:
    assert [one.text.rstrip() for one in shown("a.py", OLD, NEW)] == [
        "1 1   import os",
        "2 2",
        "3 3",
        "4   - def export(out, fmt='csv'):",
        "  4 + def export(out, as_json=False):",
        "  5 +     total = 12",
        "5 6       return 0  # done",
    ]


def test_a_new_file_has_one_column_of_numbers_and_places_apart_are_parted() -> None:
    assert [one.text for one in shown("a.py", "", "a\nb\n")] == ["1 + a", "2 + b"]
    old = "\n".join(f"line {number}" for number in range(1, 31))
    apart = shown("a.txt", old, old.replace("line 3\n", "line three\n").replace("line 25\n", "line 25!\n"))
    assert [one.text for one in apart].count("...") == 1
    assert "25    - line 25" in [one.text for one in apart]


def test_tokens_are_coloured_by_the_files_name() -> None:
    lines = shown("a.py", OLD, NEW)
    assert {"import", "def", "return"} <= set(texts(lines, TextRole.KEYWORD))
    assert "export" in texts(lines, TextRole.NAME) and "# done" in texts(lines, TextRole.COMMENT)
    assert "12" in texts(lines, TextRole.NUMBER)
    plain = shown("a.unknown", OLD, NEW)
    assert not texts(plain, TextRole.KEYWORD) and "total = 12" in texts(plain, TextRole.ADDED)[-1]


def test_a_string_over_several_lines_is_one_on_all_of_them() -> None:
    lines = shown("a.py", 'x = """\none\n"""\n', 'x = """\nif two\n"""\n')
    assert not texts(lines, TextRole.KEYWORD)


def test_the_words_that_change_within_a_line_are_marked() -> None:
    lines = shown("a.py", OLD, NEW)
    assert "".join(texts(lines, TextRole.WORD_REMOVED)) == "fmt'csv'"
    assert "".join(texts(lines, TextRole.WORD_ADDED)) == "as_jsonFalse"
    unlike = shown("a.txt", "alpha beta gamma\n", "1 2 3 4 5 6 7\n")
    assert not texts(unlike, TextRole.WORD_ADDED), "hardly anything is equal: the whole line changed"


def test_a_great_change_stays_plain_and_says_what_it_leaves_out() -> None:
    lines = shown("a.py", "", "x = 1\n" * MOST_COLOURED)
    assert not texts(lines, TextRole.NUMBER)
    assert lines[-1].text == f"... {MOST_COLOURED - MOST_LINES} more lines, too many to show"


@given(old=st.text("ab'\"#\\\t\n\r\x85\u2028\ufeff é\x1b", max_size=60), new=st.text("ab'\"#\\\t\n\r é", max_size=60))
def test_colours_change_no_character(old: str, new: str) -> None:
    """Whatever a lexer makes of the text, the lines read as without it."""
    coloured, plain = shown("a.py", old, new), shown("a.unknown", old, new)
    assert [one.text for one in coloured] == [one.text for one in plain]


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_box_has_the_totals_in_its_title(size: tuple[int, int]) -> None:
    preview = DiffPreview(diff=diff_texts("a.py", OLD, NEW), created=False)
    assert preview_title(DiffPreview(diff=diff_texts("a", "", "b\n"), created=True)) == "New file  +1"
    async with stage(size) as here:
        await here.show_queue(question(preview=preview))
        assert "Diff  +2 -1" in here.text and "4   - def export(out, fmt='csv'):" in here.text
