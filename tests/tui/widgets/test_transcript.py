"""The conversation's surface: what is painted, what is followed, and that it stays where it is read."""

from __future__ import annotations

import re
import weakref
from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rich.cells import chop_cells
from rich.style import Style

from ollm_tui.core.bus.confirmation import Preview
from ollm_tui.core.bus.states import CallOutcome, CallState
from ollm_tui.tui import styled_text
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.styled_text import RolePalette, StyledLine, StyledSpan, TextRole, line
from ollm_tui.tui.values import (
    AnswerEntry,
    AnswerGrew,
    CallEntry,
    ConversationCleared,
    EntriesChanged,
    Entry,
    NoteEntry,
    UserEntry,
)
from ollm_tui.tui.widgets import markdown_blocks, tool_call_view
from ollm_tui.tui.widgets.block_painting import BlockPainter
from ollm_tui.tui.widgets.conversation_layout import LAID_OUT_ENTRIES, BlockSlot, ConversationLayout
from ollm_tui.tui.widgets.entry_blocks import EntryComposer
from ollm_tui.tui.widgets.markdown_blocks import TAIL_CHARS, BlockSplitter, Code, Prose, split_markdown
from ollm_tui.tui.widgets.row_list import ListRow
from ollm_tui.tui.widgets.tool_call_view import state_word
from tests.tui.pilot import Stage, question, stage, wait_until

MARKDOWN = st.lists(
    st.one_of(
        st.text(max_size=30),
        st.sampled_from(
            ["", "```python", "```", "- item", "1. one", "   more", "# head", "| a | b |", "~~~", "> quote"]
        ),
    ),
    max_size=25,
).map("\n".join)


@given(MARKDOWN, st.data())
@settings(max_examples=100)
def test_a_text_is_cut_into_the_same_blocks_however_it_arrives(text: str, data: st.DataObject) -> None:
    assert_cut_alike(text, data)


@given(MARKDOWN, st.data())
@settings(max_examples=100)
def test_lines_longer_than_a_block_are_cut_alike_however_they_arrive(text: str, data: st.DataObject) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(markdown_blocks, "TAIL_CHARS", 8)
        assert_cut_alike(text, data)


def assert_cut_alike(text: str, data: st.DataObject) -> None:
    whole = split_markdown(text)
    splitter, rest = BlockSplitter(), text
    while rest:
        size = data.draw(st.integers(1, len(rest)))
        splitter.feed(rest[:size])
        rest = rest[size:]
    tail = splitter.tail
    assert [*splitter.closed, *([tail] if tail else [])] == whole


@given(MARKDOWN)
@settings(max_examples=100)
def test_cutting_loses_no_line_but_fences_and_blank_ones(text: str) -> None:
    kept = "\n".join(block.text for block in split_markdown(text)).split("\n")
    wanted = [one for one in text.split("\n") if one.strip()]
    for one in wanted:
        fence = one.strip().startswith(("```", "~~~")) or not one.strip().strip("`~")
        assert fence or one in kept


def test_a_long_fence_is_cut_into_pieces_that_join() -> None:
    code = "\n".join(f"x = {number}" for number in range(150))
    blocks = split_markdown(f"```python\n{code}\n```\nafter")
    pieces = [block for block in blocks if isinstance(block, Code)]
    assert "\n".join(piece.text for piece in pieces) == code
    assert [piece.joins for piece in pieces] == [False, True, True]
    assert blocks[-1] == Prose("after")


@pytest.mark.parametrize("text", ["x" * 100_000, "some words " * 9_000, "```python\n" + "x = 1; " * 15_000], ids=len)
def test_a_line_without_end_is_many_blocks_and_nothing_of_it_is_lost(text: str) -> None:
    blocks = split_markdown(text)
    assert max(len(block.text) for block in blocks) <= 2 * TAIL_CHARS + 1
    assert "".join(block.text for block in blocks).replace("\n", "") == text.removeprefix("```python\n")


def test_what_looks_like_a_fence_within_a_long_line_is_none() -> None:
    text = "x" * TAIL_CHARS + "```python"
    assert split_markdown(text + "\nafter") == [Prose("x" * TAIL_CHARS + "\n```python"), Prose("after")]


def test_a_long_line_is_wrapped_without_measuring_its_rest_for_each_row(monkeypatch: pytest.MonkeyPatch) -> None:
    measured: list[int] = []

    def counted(text: str, cells: int) -> list[str]:
        measured.append(len(text))
        return chop_cells(text, cells)

    monkeypatch.setattr(styled_text, "chop_cells", counted)
    text = "e\u0301 \u4e2d" * 5_000
    rows = line(text).wrapped(80)
    assert "".join(row.text for row in rows) == text
    assert all(row.cells > 70 for row in rows[:-1])
    assert sum(measured) < 20 * len(text)


@given(st.text(max_size=200), st.integers(1, 40), st.integers(0, 10), st.booleans())
@example("0\u2e80", 2, 1, False)
@settings(max_examples=100)
def test_wrapping_loses_nothing_and_fits(text: str, width: int, hang: int, prose: bool) -> None:
    from ollm_tui.core.base.escape import visible

    shown = visible(text)
    rows = StyledLine((StyledSpan(shown),), hang, prose).wrapped(width)
    indent = hang if hang <= min(width // 2, width - 2) and len(rows) > 1 else 0
    joined = rows[0].text + "".join(row.text[indent:] for row in rows[1:])
    assert joined == shown
    assert all(row.cells <= max(2, width) for row in rows)


@given(st.lists(st.text("abc", min_size=1, max_size=7), max_size=40), st.integers(8, 40), st.integers(0, 4))
@settings(max_examples=100)
def test_a_folded_sentence_begins_no_line_with_a_blank(words: list[str], width: int, hang: int) -> None:
    rows = StyledLine((StyledSpan(" ".join(words)),), hang, prose=True).wrapped(width)
    indent = hang if hang <= width // 2 else 0
    assert all(len(row.text) > indent and row.text[indent] != " " for row in rows[1:] if width - indent > 7)


def painter() -> BlockPainter:
    return BlockPainter(
        RolePalette({"foreground": "#ffffff", "background": "#000000"}, ansi=False), Style(), dark=True, ansi=False
    )


@given(st.lists(st.tuples(st.sampled_from("uncm"), st.text(max_size=120)), max_size=12), st.integers(8, 90))
@settings(max_examples=100, deadline=None)
def test_measured_rows_agree_with_what_is_painted(entries: list[tuple[str, str]], width: int) -> None:
    document = ConversationLayout(EntryComposer(lambda: 0.0).blocks_of)
    document.restyle(painter(), width)
    for number, (kind, text) in enumerate(entries):
        match kind:
            case "u":
                document.upsert(UserEntry(f"{number}", text))
            case "n":
                document.upsert(NoteEntry(f"{number}", text))
            case "c":
                document.upsert(CallEntry(f"{number}", "shell", text, CallState.WAITING, arguments=text))
            case _:
                document.upsert(AnswerEntry(f"{number}", "m", text))
    while document.measure(0, document.height):
        pass
    height = document.height
    painted = [document.strip_at(row) for row in range(height)]
    assert document.height == height, "painting what was measured changes nothing"
    assert all(strip is None or strip.cell_length == width for strip in painted)
    assert document.strip_at(height) is None


def test_an_answer_that_grows_leaves_none_of_its_earlier_states_behind() -> None:
    document = ConversationLayout(EntryComposer(lambda: 0.0).blocks_of)
    document.restyle(painter(), 80)
    document.upsert(AnswerEntry("a", "m", "", live=True))
    earlier: list[weakref.ref[BlockSlot]] = []
    for number in range(50):
        document.grow(AnswerGrew("a", text=f"word{number} of one long paragraph "))
        document.measure(0, document.height)
        earlier.append(weakref.ref(document.items[0].slots[-1]))
    assert [slot() is None for slot in earlier] == [True] * 49 + [False]


def answer(text: str, name: str = "a", *, live: bool = False) -> EntriesChanged:
    return EntriesChanged((AnswerEntry(name, "m", text, live=live),))


async def stream(here: Stage, pieces: int) -> None:
    for number in range(pieces):
        here.app.post_update(updates.ConversationUpdate(AnswerGrew("a", text=f"line {number}\n\n")))
    shown = here.app.dashboard.chat.transcript
    await wait_until(here.pilot, lambda: f"line {pieces - 1}" in shown.document.items[-1].entry.text)  # type: ignore[union-attr]  # the last is an answer
    await here.settle()


async def test_it_follows_a_growing_answer() -> None:
    async with stage() as here:
        await here.post(updates.ConversationUpdate(answer("", live=True)))
        await stream(here, 120)
        assert "line 119" in here.text


async def test_scrolled_up_it_does_not_move_during_200_pieces_and_end_follows_again() -> None:
    async with stage() as here:
        old = "\n\n".join(f"old {number}" for number in range(80))
        await here.post(
            updates.ConversationUpdate(answer(old, "before")), updates.ConversationUpdate(answer("", live=True))
        )
        await here.press("f6", "g")
        first = [
            one[:100].rstrip() for one in here.text.splitlines() if "old" in one
        ]  # without the scroll bar, which shrinks
        await stream(here, 200)
        assert [one[:100].rstrip() for one in here.text.splitlines() if "old" in one] == first
        await here.post(updates.ConversationUpdate(EntriesChanged((NoteEntry("n", "news"),))))
        assert "1 new below - End" in here.text
        await here.press("G")
        assert "line 199" in here.text
        assert "new below" not in here.text


async def test_a_resize_keeps_what_is_read_in_the_top_row() -> None:
    async with stage() as here:
        long = "\n\n".join(f"paragraph {number} " + "word " * 30 for number in range(60))
        await here.post(updates.ConversationUpdate(answer(long)))
        await here.press("f6", "pageup", "pageup")
        shown = here.app.dashboard.chat.transcript
        before = shown.document.position_at(shown.scroll_offset.y)
        await here.pilot.resize_terminal(90, 40)
        await here.settle()
        assert shown.document.position_at(shown.scroll_offset.y).index == before.index
        assert not shown.following


async def test_ten_thousand_messages_are_painted_only_where_they_are_seen() -> None:
    async with stage() as here:
        entries = tuple(UserEntry(f"u{number}", f"message {number}") for number in range(10_000))
        await here.post(updates.ConversationUpdate(ConversationCleared(entries)))
        assert "message 9999" in here.text
        document = here.app.dashboard.chat.transcript.document
        painted = sum(slot.strips is not None for item in document.items for slot in item.slots)
        assert painted < 100


async def test_a_long_session_keeps_the_blocks_of_what_was_seen_last_and_shows_finds_and_copies_the_first() -> None:
    async with stage() as here:
        shown = here.app.dashboard.chat.transcript
        for turn in range(200):
            entries = (
                UserEntry(f"u{turn}", f"question {turn}"),
                CallEntry(f"c{turn}", "grep", f"word {turn}", outcome=CallOutcome.OK, output=f"found {turn}"),
                AnswerEntry(f"a{turn}", "m", f"It is **answer {turn}**.\n\n```\ncode {turn}\n```\n"),
            )
            here.app.post_update(updates.ConversationUpdate(EntriesChanged(entries)))
        await wait_until(here.pilot, lambda: "code 199" in here.text)
        assert sum(bool(item.slots) for item in shown.document.items) == LAID_OUT_ENTRIES
        await here.press("f6", "g")
        rows = here.text
        assert all(words in rows for words in ("question 0", "word 0", "It is answer 0.", "code 0", "question 1"))
        seen: list[str] = []
        while not shown.scroll_offset.y >= shown.max_scroll_y:
            await here.press("pagedown")
            seen += [row for row in here.text.splitlines() if "question" in row]
        assert [turn for turn in range(3, 200) if not any(re.search(rf"question {turn}\b", row) for row in seen)] == []
        assert sum(bool(item.slots) for item in shown.document.items) == LAID_OUT_ENTRIES
        await here.press("ctrl+f", *"found 7", "enter")
        assert shown.chosen_entry is not None and shown.chosen_entry.id.startswith("c7")
        shown.focus()
        await here.press("c")
        assert here.app.clipboard.startswith("found 7")


async def test_a_call_is_folded_until_it_is_opened_and_copied_with_a_key() -> None:
    async with stage() as here:
        call = CallEntry(
            "c", "shell", "pytest -q", outcome=CallOutcome.OK, output="1 failed, 40 passed", duration_ms=2310
        )
        await here.post(updates.ConversationUpdate(EntriesChanged((call,))))
        assert "pytest -q" in here.text
        assert "40 passed" not in here.text
        await here.press("f6", "j", "space")
        assert "40 passed" in here.text
        await here.press("c")
        assert here.app.clipboard == "1 failed, 40 passed"


async def test_what_waits_is_one_line_with_its_number_key_and_clock() -> None:
    async with stage() as here:
        await here.press("x")
        call = CallEntry("call-1", "edit_file", "cli/export.py", CallState.WAITING)
        await here.post(updates.ConversationUpdate(EntriesChanged((call,))))
        await here.show_queue(question(deadline=here.clock.seconds + 47, timeout=60.0))
        assert "WAIT #1 F8  0:47" in here.text
        assert "as_json" not in here.text, "its diff is a key away"
        here.clock.seconds += 2
        here.app.dashboard.updates.tick()
        await here.settle()
        assert "WAIT #1 F8  0:45" in here.text


async def test_each_second_only_what_is_in_sight_is_drawn_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    async with stage() as here:
        await here.press("x")
        waiting = tuple(CallEntry(f"call-{number}", "ls", "", CallState.WAITING) for number in range(1, 401))
        await here.post(updates.ConversationUpdate(EntriesChanged(waiting)))
        end = here.clock.seconds + 47
        await here.show_queue(*(question(number, deadline=end, timeout=60.0) for number in range(1, 401)))
        touched: list[str] = []
        draw, refresh = ListRow.at_width, ConversationLayout.refresh_entry

        def drawn(row: ListRow, width: int) -> list[StyledLine]:
            touched.append(row.id)
            return draw(row, width)

        def refreshed(document: ConversationLayout, entry_id: str) -> None:
            touched.append(entry_id)
            refresh(document, entry_id)

        monkeypatch.setattr(ListRow, "at_width", drawn)
        monkeypatch.setattr(ConversationLayout, "refresh_entry", refreshed)
        here.clock.seconds += 2
        here.app.dashboard.updates.tick()
        await here.settle()
        assert "WAIT #400 F8  0:45" in here.text and "0:47" not in here.text
        assert len(set(touched)) <= 40


async def test_what_a_waiting_call_would_do_is_laid_out_once_and_not_each_second(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    laid_out: list[str] = []
    lay_out = tool_call_view.preview_lines

    def counted(preview: Preview) -> list[StyledLine]:
        laid_out.append(preview.kind)
        return lay_out(preview)

    monkeypatch.setattr(tool_call_view, "preview_lines", counted)
    async with stage() as here:
        await here.press("x")
        await here.post(
            updates.ConversationUpdate(EntriesChanged((CallEntry("call-1", "edit_file", "", CallState.WAITING),)))
        )
        here.app.dashboard.chat.transcript.fold_all()
        await here.show_queue(question(deadline=here.clock.seconds + 47, timeout=60.0))
        for _ in range(5):
            here.clock.seconds += 1
            here.app.dashboard.updates.tick()
            await here.settle()
        assert "0:42" in here.text and "as_json" in here.text
    assert laid_out == ["diff"]


async def test_search_finds_backwards_and_says_when_there_is_nothing() -> None:
    async with stage(notifications=True) as here:
        many = tuple(UserEntry(f"u{number}", f"message {number}") for number in range(200))
        await here.post(updates.ConversationUpdate(EntriesChanged(many)))
        await here.press("ctrl+f", *"message 42", "enter")
        assert here.app.dashboard.chat.transcript.chosen_entry == many[42]
        assert "message 42" in here.text


async def test_hits_are_marked_counted_and_gone_through_row_by_row() -> None:
    async with stage(notifications=True) as here:
        chat = here.app.dashboard.chat
        long = "\n\n".join(
            f"paragraph {number}{' with a needle' if number % 40 == 20 else ''}" for number in range(120)
        )
        entries = (UserEntry("u1", "Needle?"), AnswerEntry("a1", "qwen3", text=long), UserEntry("u2", "thanks"))
        await here.post(updates.ConversationUpdate(EntriesChanged(entries)))
        await here.press("ctrl+f", *"needle")
        await wait_until(here.pilot, lambda: "2 entries" in here.text)
        await here.press("enter")
        assert (
            chat.transcript.has_focus and "2/2, line 3 of 3" in here.text and "paragraph 100 with a needle" in here.text
        )
        row = next(at for at, text in enumerate(here.text.splitlines()) if "paragraph 100" in text)
        marked = [
            part.text
            for part in here.app.dashboard._compositor.render_strips()[row]
            if part.style and part.style.reverse
        ]
        assert marked == ["needle"]
        await here.press("N")
        assert "2/2, line 2 of 3" in here.text and "paragraph 60 with" in here.text
        await here.press("N", "N")
        assert "1/2" in here.text and "Needle?" in here.text and chat.transcript.chosen_entry == entries[0]
        await here.press("n")
        assert "2/2, line 1 of 3" in here.text and "paragraph 20 with" in here.text
        await here.press("ctrl+f", *"zzz", "enter")
        await wait_until(here.pilot, lambda: "Nothing contains" in here.text)
        await here.press("escape")
        assert "needlezzz  " not in here.text and not chat.check_action("found", (1,))


@pytest.mark.parametrize("kind", [UserEntry, partial(AnswerEntry, model="qwen3")])
async def test_a_hit_that_is_wrapped_is_found_and_marked_in_both_rows(kind: Callable[..., Entry]) -> None:
    async with stage() as here:
        text = " ".join(["filling"] * 11) + " a silver birch and more"
        await here.post(updates.ConversationUpdate(EntriesChanged((kind("e1", text=text), UserEntry("e2", "silver")))))
        rows = here.text.splitlines()
        above = next(at for at, row in enumerate(rows) if "silver" in row)
        assert "birch" not in rows[above] and rows[above + 1].strip().startswith("birch"), here.text
        await here.press("ctrl+f", *"silver birch", "enter")
        await wait_until(here.pilot, lambda: "1/1" in here.text)
        strips = here.app.dashboard._compositor.render_strips()
        rows = here.text.splitlines()
        above = next(at for at, row in enumerate(rows) if "silver" in row)
        marked = [
            "".join(part.text for part in strips[row] if part.style and part.style.reverse)
            for row in (above, above + 1)
        ]
        assert marked == ["silver", "birch"]


async def test_a_search_marks_wide_characters_and_takes_no_pattern() -> None:
    async with stage() as here:
        entries = (UserEntry("u1", "日本語 a.b 日本語"), UserEntry("u2", "axb"))
        await here.post(updates.ConversationUpdate(EntriesChanged(entries)))
        await here.press("ctrl+f", *"a.b", "enter")
        await wait_until(here.pilot, lambda: "1/1" in here.text)
        strips = here.app.dashboard._compositor.render_strips()
        marked = [part.text for strip in strips for part in strip if part.style and part.style.reverse]
        assert "a.b" in marked and "axb" not in marked


def test_roles_differ_in_words_too() -> None:
    states = [state_word(CallEntry("c", "t", "", outcome=outcome))[0] for outcome in (None, *CallOutcome)]
    assert len(set(states)) == len(states)
    assert line(("x", TextRole.ERROR)).text == "x"
