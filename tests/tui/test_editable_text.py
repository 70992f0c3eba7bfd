"""Editing any text: what cannot be drawn is written out, and what was not touched comes back exactly."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.widgets import TextArea

from ollm_tui.core.base.escape import visible_block
from ollm_tui.tui.screens.memory_editor import Editable
from ollm_tui.tui.widgets.line_view import wrapped_rows

ANY = st.text(max_size=200) | st.text(st.sampled_from("a⟨U+0041⟩\r\n\t\x1b\u2028\x85\u202e é漢"), max_size=60)


@settings(max_examples=100, deadline=None)
@given(value=ANY)
def test_a_text_that_is_not_changed_comes_back_exactly(value: str) -> None:
    editable = Editable.of(value)
    assert editable.read_back(editable.text) == value
    assert visible_block(editable.text) == editable.text, "nothing in it moves the cursor or hides"


@settings(max_examples=100, deadline=None)
@given(value=ANY)
def test_the_text_area_keeps_every_line(value: str) -> None:
    editable = Editable.of(value)
    assert editable.read_back(TextArea(editable.text).text) == value


def test_windows_line_ends_stay_where_all_lines_have_them() -> None:
    editable = Editable.of("one\r\ntwo\r\n")
    assert editable.text == "one\ntwo\n"
    assert editable.read_back("one\nmore\ntwo\n") == "one\r\nmore\r\ntwo\r\n"
    assert Editable.of("one\r\ntwo\n").text == "one⟨U+000D⟩\ntwo\n"


@pytest.mark.parametrize("written", ["⟨U+D800⟩", "⟨U+FFFFFF⟩", "⟨U+12⟩"])
def test_what_stands_for_no_character_is_kept_as_typed(written: str) -> None:
    assert Editable("").read_back(written) == written


@settings(max_examples=100, deadline=None)
@given(text=ANY, width=st.integers(2, 40))
def test_folding_loses_nothing(text: str, width: int) -> None:
    rows = wrapped_rows(text, width)
    whole = "".join(one.expandtabs(4) for one in visible_block(text).split("\n"))
    assert "".join(rows) == whole


async def test_a_paste_brings_nothing_that_the_screen_would_obey() -> None:
    from textual import events

    from ollm_tui.tui.screens.memory_editor import SafeArea

    class Only(App[None]):
        def compose(self) -> ComposeResult:
            yield SafeArea()

    app = Only()
    async with app.run_test() as pilot:
        area = app.query_one(SafeArea)
        area.focus()
        app.post_message(events.Paste("a\x1b[31mb\r\nc\u202e"))
        await pilot.pause()
        assert area.text == "a⟨U+001B⟩[31mb\nc⟨U+202E⟩"


@settings(max_examples=100, deadline=None)
@given(seed=st.text(max_size=40), times=st.integers(1, 8_000))
def test_the_parts_of_a_text_are_the_text(seed: str, times: int) -> None:
    from ollm_tui.tui.screens.memory_editor import PART_CHARS, parts_of

    text = seed * times
    parts = parts_of(text)
    assert "".join(parts) == text and all(0 < len(part) <= PART_CHARS for part in parts[:-1])


async def test_the_cursor_goes_from_part_to_part_and_edits_stay() -> None:
    from ollm_tui.core.memory import MemoryScope
    from ollm_tui.tui.screens.memory_editor import MemoryEditor, SafeArea, parts_of
    from ollm_tui.tui.values import MemoryName

    text = "".join(f"line {number}\n" for number in range(12_000))
    first, second, *_ = parts_of(text)

    class Only(App[None]):
        def compose(self) -> ComposeResult:
            yield MemoryEditor(MemoryName("k", MemoryScope.USER), MemoryScope.USER, text, Editable.of(text))

    app = Only()
    async with app.run_test(size=(80, 24)) as pilot:
        editor, area = app.query_one(MemoryEditor), app.query_one(SafeArea)
        assert area.text == first and not editor.touched
        area.move_cursor(area.document.end)
        await pilot.press("down")
        await pilot.pause()
        assert area.text == second and area.cursor_location == (0, 0) and "part 2 of" in editor.title
        await pilot.press("x", "left", "up")
        await pilot.pause()
        assert area.text == first and area.cursor_location == area.document.end
        assert editor.touched and await editor.value() == f"{first}x{text[len(first) :]}"
