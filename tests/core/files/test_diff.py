"""Diffs: applying the hunks of any two texts to the old one gives the new one."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.files.diff import (
    CONTEXT_LINES,
    MOST_LINES,
    NO_FINAL_NEWLINE,
    FileDiff,
    common_prefix,
    common_suffix,
    diff_replacement,
    diff_texts,
    split_lines,
)
from tests.core.tools.file_calls import texts

lined = st.lists(st.one_of(st.sampled_from(["", "a", "b", "}"]), texts), max_size=30).map("\n".join)


def apply(old: str, diff: FileDiff) -> str:
    """The new text, from the old one and nothing but the hunks; for texts whose lines end in LF."""
    lines, done, place = split_lines(old), list[str](), 0
    for hunk in diff.hunks:
        start = hunk.old_start - 1 if hunk.old_count else hunk.old_start
        done += lines[place:start]
        place = start
        shown = list(hunk.lines)
        for index, line in enumerate(shown):
            if line == NO_FINAL_NEWLINE:
                continue
            bare = index + 1 < len(shown) and shown[index + 1] == NO_FINAL_NEWLINE
            text = line[1:] + ("" if bare else "\n")
            if line[0] in " -":
                assert lines[place] == text
                place += 1
            if line[0] in " +":
                done.append(text)
    return "".join(done + lines[place:])


@settings(max_examples=100, deadline=None)
@given(lined, lined)
def test_the_hunks_turn_the_old_text_into_the_new_one(old: str, new: str) -> None:
    old, new = old.replace("\r", ""), new.replace("\r", "")
    diff = diff_texts("f", old, new)
    assert apply(old, diff) == new
    assert diff.added - diff.removed == len(split_lines(new)) - len(split_lines(old))
    assert (not diff.hunks) == (old == new)


@settings(max_examples=100, deadline=None)
@given(lined, st.integers(0, 30), texts)
def test_hunk_headers_count_and_number_their_lines(old: str, at: int, put: str) -> None:
    old = old.replace("\r", "")
    lines = old.split("\n")
    new = "\n".join([*lines[:at], put.replace("\r", ""), *lines[at:]])
    for hunk in diff_texts("f", old, new).hunks:
        shown = [line for line in hunk.lines if line != NO_FINAL_NEWLINE]
        assert sum(line[0] in " -" for line in shown) == hunk.old_count
        assert sum(line[0] in " +" for line in shown) == hunk.new_count
        if hunk.old_count:
            first = next(line for line in shown if line[0] in " -")
            assert split_lines(old)[hunk.old_start - 1].rstrip("\n") == first[1:]


@settings(max_examples=100, deadline=None)
@given(before=lined, target=texts, replacement=texts, after=lined)
def test_the_diff_of_a_replacement_is_that_of_the_texts(before: str, target: str, replacement: str, after: str) -> None:
    old, new = before + target + after, before + replacement + after
    line = len(re.findall(r"\r\n|\n|\r", before)) + 1 - (before.endswith("\r") and (target + after).startswith("\n"))
    quick = diff_replacement("f", old, len(before), len(before) + len(target), replacement, line)
    if "\r" not in old + new:
        assert apply(old, quick) == new
    whole = diff_texts("f", old, new)
    assert (quick.added - quick.removed) == (whole.added - whole.removed)
    assert bool(quick.hunks) == bool(whole.hunks)
    for hunk in quick.hunks:
        first = next((line for line in hunk.lines if line[0] in " -"), None)
        if first is not None:
            assert split_lines(old)[hunk.old_start - 1].rstrip("\r\n") == first[1:].rstrip("\r")


@settings(max_examples=100)
@given(st.text(), st.text(), st.text())
def test_common_ends_are_as_long_as_a_count_by_hand_says(start: str, one: str, other: str) -> None:
    left, right = start + one, start + other
    by_hand = 0
    while by_hand < min(len(left), len(right)) and left[by_hand] == right[by_hand]:
        by_hand += 1
    assert common_prefix(left, right) == by_hand
    most = min(len(left), len(right))
    assert common_suffix(left[::-1], right[::-1], most) == by_hand


def test_a_change_of_line_ends_is_seen() -> None:
    diff = diff_texts("f", "a\nb\n", "a\r\nb\r\n")
    assert diff.hunks[0].lines == ("-a", "-b", "+a\r", "+b\r")


def test_line_ends_that_all_lines_share_are_not_shown() -> None:
    diff = diff_texts("f", "a\r\nb\r\n", "a\r\nc\r\n")
    assert diff.hunks[0].lines == (" a", "-b", "+c")


def test_a_missing_final_line_end_is_said() -> None:
    diff = diff_texts("f", "a\n", "a")
    assert diff.hunks[0].lines == ("-a", "+a", NO_FINAL_NEWLINE)


def test_only_line_ends_end_lines() -> None:
    text = "a\x0bb\x0cc\u2028d\x85e\n"
    assert split_lines(text) == [text]
    assert diff_texts("f", text, "x\n").removed == 1


def test_changes_far_apart_are_hunks_of_their_own_with_context() -> None:
    old = "".join(f"line {number}\n" for number in range(1, 101))
    new = old.replace("line 10\n", "ten\n").replace("line 90\n", "ninety\n")
    diff = diff_texts("f", old, new)
    assert [hunk.header for hunk in diff.hunks] == ["@@ -7,7 +7,7 @@", "@@ -87,7 +87,7 @@"]
    assert diff.hunks[0].lines[:CONTEXT_LINES] == (" line 7", " line 8", " line 9")
    assert diff.as_text().count("@@ -") == 2


@pytest.mark.parametrize("repeated", ["", "}\n", "a\nb\n"])
def test_texts_of_repeated_lines_take_no_time_to_compare(repeated: str) -> None:
    old = "".join(f"{repeated}\n{number % 7}\n" for number in range(30_000))
    new = "".join(f"{repeated}\n{number % 11}\n" for number in range(30_000))
    started = time.monotonic()
    diff = diff_texts("f", old, new)
    assert time.monotonic() - started < 10
    assert diff.added
    assert sum(len(hunk.lines) for hunk in diff.hunks) <= MOST_LINES
    assert re.search(r"\[\.\.\. \d+ lines omitted \.\.\.\]$", diff.as_text())
