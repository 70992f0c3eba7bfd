"""Cutting outputs: what is kept and what is said about the rest (000 Property 43, contract "Cutting")."""

from __future__ import annotations

import io
import re
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.escape import boundary_after, boundary_before, is_boundary
from ollm_tui.core.base.output import ExcerptBuffer, OutputFormatter, TruncationConfig


def _lines_of(text: str, start: int, end: int) -> set[int]:
    """The numbers of the lines that a part of the text shows something of: two parts may show the same one."""
    return {text.count("\n", 0, place) for place in range(start, end)}


TEXTS = st.text(
    st.one_of(st.characters(), st.sampled_from("\n\n\nab \r\u0301\U0001f469\u200d\U0001f1e9")), max_size=120
)
LIMITS = st.one_of(st.none(), st.integers(0, 60))


class TestTruncate:
    @given(TEXTS, LIMITS, LIMITS)
    @settings(max_examples=100)
    def test_property_43_keeps_the_beginning_and_says_how_much_is_missing(
        self, text: str, max_chars: int | None, max_lines: int | None
    ) -> None:
        """Property 43."""
        result = OutputFormatter.truncate(text, TruncationConfig(max_chars, max_lines))
        lines = text.split("\n")
        too_many_lines = bool(text) and max_lines is not None and len(lines) > max_lines
        kept = "\n".join(lines[:max_lines]) if too_many_lines else text
        too_many_chars = max_chars is not None and len(kept) > max_chars
        assert result.truncated == (too_many_lines or too_many_chars)
        if not result.truncated:
            assert (result.content, result.omitted) == (text, None)
            return
        shown = kept[: boundary_before(kept, max_chars)] if too_many_chars and max_chars is not None else kept
        assert result.content == f"{shown}\n\n[Output truncated: {result.omitted} omitted]"
        missing = {unit: int(count) for count, unit in re.findall(r"(\d+) (lines|characters)", result.omitted or "")}
        expected = {}
        if too_many_lines and max_lines is not None:
            expected["lines"] = len(lines) - max_lines
        if too_many_chars and max_chars is not None:
            expected["characters"] = len(kept) - len(shown)
        assert missing == expected

    def test_counts_characters_in_the_kept_lines_only(self) -> None:
        result = OutputFormatter.truncate("abcdef\nghi\njkl", TruncationConfig(max_chars=4, max_lines=1))
        assert result.content == "abcd\n\n[Output truncated: 2 lines and 2 characters omitted]"

    def test_a_grapheme_that_does_not_fit_goes_whole(self) -> None:
        result = OutputFormatter.truncate("ae\u0301\U0001f469\u200d\U0001f467b", TruncationConfig(max_chars=2))
        assert result.content == "a\n\n[Output truncated: 6 characters omitted]"

    def test_zero_keeps_nothing(self) -> None:
        assert OutputFormatter.truncate("abc", TruncationConfig(max_chars=0)).content == (
            "\n\n[Output truncated: 3 characters omitted]"
        )
        assert OutputFormatter.truncate("abc", TruncationConfig(max_lines=0)).content == (
            "\n\n[Output truncated: 1 lines omitted]"
        )

    def test_a_limit_that_is_just_met_cuts_nothing(self) -> None:
        assert not OutputFormatter.truncate("abc\nd", TruncationConfig(max_chars=5, max_lines=2)).truncated

    def test_refuses_negative_limits(self) -> None:
        with pytest.raises(ValueError, match="max_lines"):
            TruncationConfig(max_lines=-1)


class TestExcerpt:
    def test_keeps_two_fifths_head_and_three_fifths_tail(self) -> None:
        text = "".join(f"line {number}\n" for number in range(1, 101))
        result = OutputFormatter.excerpt(text, TruncationConfig(max_lines=10), "/out/1.txt")
        assert result.content == "\n".join(
            [
                *(f"line {number}" for number in range(1, 5)),
                "[... 90 lines omitted ...]",
                *(f"line {number}" for number in range(95, 101)),
                "",
                "[Output truncated: 90 lines omitted] Full text: /out/1.txt",
            ]
        )

    def test_says_characters_where_no_whole_line_is_left_out(self) -> None:
        result = OutputFormatter.excerpt("a" * 60 + "b" * 60, TruncationConfig(max_chars=10))
        assert result.content == (
            "aaaa\n[... 110 characters omitted ...]\nbbbbbb\n\n[Output truncated: 110 characters omitted]"
        )

    def test_says_both_where_lines_are_shown_in_part(self) -> None:
        result = OutputFormatter.excerpt("abcdef\nmiddle\nuvwxyz", TruncationConfig(max_chars=10))
        assert result.content == (
            "abcd\n[... 1 lines omitted ...]\nuvwxyz\n\n[Output truncated: 1 lines and 2 characters omitted]"
        )

    def test_gives_the_tail_what_a_short_head_leaves_free(self) -> None:
        text = "x\n" + "y" * 50 + "\n" + "z" * 90
        result = OutputFormatter.excerpt(text, TruncationConfig(max_chars=60, max_lines=2))
        assert result.content.count("z") == 60

    def test_a_text_within_the_limits_stays_as_it_is(self) -> None:
        text = "one\ntwo\n"
        result = OutputFormatter.excerpt(text, TruncationConfig(max_chars=8, max_lines=2), "/never/said")
        assert (result.content, result.truncated) == (text, False)

    @given(TEXTS, LIMITS, LIMITS)
    @settings(max_examples=100)
    def test_shows_no_more_than_allowed_and_only_what_was_there(
        self, text: str, max_chars: int | None, max_lines: int | None
    ) -> None:
        config = TruncationConfig(max_chars, max_lines)
        result = OutputFormatter.excerpt(text, config)
        assert result.truncated == OutputFormatter.exceeds(text, config)
        if not result.truncated:
            assert result.content == text
            return
        body, indicator = result.content.rsplit("\n\n", 1)
        assert indicator == f"[Output truncated: {result.omitted} omitted]"
        head, tail = re.split(r"(?:^|\n)\[\.\.\. \d+ (?:lines|characters) omitted \.\.\.\](?:\n|$)", body, maxsplit=1)
        assert text.startswith(head)
        assert text.removesuffix("\n").endswith(tail)
        assert max_chars is None or len(head) + len(tail) <= max_chars
        tail_starts = len(text) - len(tail) - text.endswith("\n")
        shown_lines = _lines_of(text, 0, len(head)) | _lines_of(text, tail_starts, tail_starts + len(tail))
        assert max_lines is None or len(shown_lines) <= max_lines
        assert is_boundary(text, len(head))
        assert is_boundary(text, len(text) - len(tail) - text.endswith("\n"))

    @given(TEXTS.filter(lambda text: "\U0001f1e9" not in text), st.integers(0, 40), LIMITS, st.data())
    @settings(max_examples=100)
    @example("a" * 200 + "\n" + "b" * 300 + "\n" + "c" * 10 + "\n", 20, 2, None)
    def test_a_stream_gives_the_same_excerpt_as_the_whole(
        self, text: str, max_chars: int, max_lines: int | None, data: st.DataObject | None
    ) -> None:
        text = text * 3
        buffer = ExcerptBuffer(max_chars, max_lines)
        position = 0
        while position < len(text):
            step = data.draw(st.integers(1, 200)) if data else 7
            buffer.feed(text[position : position + step])
            position += step
        assert buffer.excerpt("/p") == OutputFormatter.excerpt(text, TruncationConfig(max_chars, max_lines), "/p")
        assert (buffer.total_chars, buffer.total_newlines) == (len(text), text.count("\n"))

    @given(
        st.lists(st.one_of(st.binary(max_size=12), st.text(max_size=12).map(str.encode)), max_size=12),
        st.integers(0, 40),
        LIMITS,
        st.data(),
    )
    @settings(max_examples=100)
    @example([b"a" * 90 + b"\n", b"line\n" * 40, "é".encode(), b"\n" * 60, b"\xc3", b"end " * 50], 20, 4, None)
    def test_any_bytes_give_the_excerpt_of_their_text(
        self, parts: list[bytes], max_chars: int, max_lines: int | None, data: st.DataObject | None
    ) -> None:
        raw = b"".join(part * 7 for part in parts)
        buffer = ExcerptBuffer(max_chars, max_lines)
        position = 0
        while position < len(raw):
            step = data.draw(st.integers(1, 120)) if data else 50
            buffer.feed_bytes(raw[position : position + step])
            position += step
        buffer.end_of_input()
        text = raw.decode("utf-8", "replace")
        assert (buffer.total_chars, buffer.total_newlines) == (len(text), text.count("\n"))
        assert buffer.excerpt().omitted == OutputFormatter.excerpt(text, TruncationConfig(max_chars, max_lines)).omitted

    def test_bytes_may_be_split_anywhere_and_the_spill_keeps_them_as_they_came(self) -> None:
        raw = "Größe 📦\n".encode() * 3 + b"\xff\xfe end \xe2\x82"
        spill = io.BytesIO()
        buffer = ExcerptBuffer(1000, spill=spill)
        for index in range(len(raw)):
            buffer.feed_bytes(raw[index : index + 1])
        buffer.end_of_input()
        assert buffer.excerpt().content == raw.decode("utf-8", "replace")
        assert spill.getvalue() == raw

    def test_a_long_stream_needs_little_memory(self) -> None:
        buffer = ExcerptBuffer(1000, 100)
        piece = b"0123456789 some output of a build\n" * 2000
        tracemalloc.start()
        try:
            for _ in range(100):
                buffer.feed_bytes(piece)
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
        assert peak < 500_000
        content = buffer.excerpt().content
        assert content.startswith("0123456789 some output of a build\n")
        assert (
            f"[... {200_000 - 11 - 17 - 2} lines omitted ...]" in content
        )  # 11 whole ones in the head, 17 in the tail
        assert len(content) < 1200

    def test_single_characters_are_joined(self) -> None:
        buffer = ExcerptBuffer(100)
        for number in range(5000):
            buffer.feed(str(number % 10))
        assert buffer.excerpt().content.startswith("0123456789" * 4 + "\n[... 4900 characters omitted ...]\n")


class TestGraphemes:
    @pytest.mark.parametrize(
        "grapheme",
        [
            "e\u0301",
            "\U0001f468\u200d\U0001f469\u200d\U0001f467",
            "\U0001f44d\U0001f3fd",
            "\U0001f1e9\U0001f1ea",
            "\r\n",
            "\u1112\u1161\u11ab",
            "\ud558\u11ab",
            "\u2764\ufe0f",
            "\ud83d\ude00",
        ],
    )
    def test_nothing_inside_a_grapheme_is_a_boundary(self, grapheme: str) -> None:
        text = f"a{grapheme}b"
        assert [index for index in range(len(text) + 1) if is_boundary(text, index)] == [0, 1, len(text) - 1, len(text)]
        for inside in range(2, len(text) - 1):
            assert (boundary_before(text, inside), boundary_after(text, inside)) == (1, len(text) - 1)

    def test_flags_are_pairs(self) -> None:
        assert [is_boundary("\U0001f1e9\U0001f1ea\U0001f1eb\U0001f1f7", index) for index in (1, 2, 3)] == [
            False,
            True,
            False,
        ]


class TestShaping:
    @given(st.text())
    def test_a_model_never_reads_an_empty_text(self, text: str) -> None:
        assert OutputFormatter.format_for_llm(text) == (text.strip() or "(no output)")

    @given(st.text())
    def test_the_screen_gets_the_text_as_it_is(self, text: str) -> None:
        assert OutputFormatter.format_for_display(text) == text
