"""Foreign text for people: nothing in it acts on the terminal, and nothing in it is hidden."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.escape import MARKS_PER_BASE, quote_name, unquote_name, visible, visible_blanks, visible_block
from tests.core.tools.file_calls import names

HIDDEN = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@settings(max_examples=100)
@given(st.text())
def test_one_line_form_holds_nothing_that_acts_or_hides_and_is_stable(text: str) -> None:
    shown = visible(text)
    assert not {unicodedata.category(character) for character in shown} & HIDDEN
    assert visible(shown) == shown


@settings(max_examples=100)
@given(st.text())
def test_block_form_keeps_line_ends_and_tabs_alone(text: str) -> None:
    shown = visible_block(text)
    kept = shown.replace("\n", "").replace("\t", "")
    assert not {unicodedata.category(character) for character in kept} & HIDDEN
    assert shown.count("\n") == text.replace("\r\n", "\n").count("\n")
    assert visible_block(shown) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2K", "␛[2K"),
        ("a\rb", "a␍b"),
        ("a\r\nb", "a⏎b"),
        ("a\tb", "a⇥b"),
        ("\x07\x9b", "\\x07\\x9b"),
        ("x\u202ey", "x⟨U+202E⟩y"),
        ("a\u200bb", "a⟨U+200B⟩b"),
        ("a\u00a0b", "a⟨U+00A0⟩b"),
        ("\U000e0041", "⟨U+E0041⟩"),
        ("\u3164", "⟨U+3164⟩"),
        ("Grüße 日本 😀", "Grüße 日本 😀"),
    ],
)
def test_each_kind_of_hidden_character_has_its_mark(text: str, shown: str) -> None:
    assert visible(text) == shown


def test_piled_up_marks_are_cut_to_what_a_letter_can_carry() -> None:
    shown = visible("e" + "\u0301" * 50)
    assert shown.count("\u0301") == MARKS_PER_BASE
    assert shown.count("⟨U+0301⟩") == 50 - MARKS_PER_BASE


def test_blanks_can_be_told_apart() -> None:
    assert visible_blanks("\ta b ") == "→a·b·"


@settings(max_examples=100)
@given(names)
def test_every_name_comes_back_from_its_quoted_form(name: str) -> None:
    quoted = quote_name(name)
    assert quoted.isprintable()
    assert quoted == name or unquote_name(quoted) == name


@pytest.mark.parametrize(
    ("raw", "quoted"),
    [
        (b"a\nb", '"a\\nb"'),
        (b"\xff.txt", '"\\377.txt"'),
        (b'say "hi"', '"say \\"hi\\""'),
        (b"back\\slash", '"back\\\\slash"'),
        (b"a b", "a b"),
        ("ä.txt".encode(), "ä.txt"),
    ],
)
def test_names_are_quoted_as_git_quotes_them(raw: bytes, quoted: str) -> None:
    assert quote_name(os.fsdecode(raw)) == quoted


def test_octal_as_git_prints_it_by_default_is_read_back() -> None:
    assert unquote_name('"\\303\\244.txt"') == "ä.txt"


@pytest.mark.parametrize("text", ["plain", '"no escape"', '"open', '"bad \\q"', '"\\9"', '"a"b\\n"'])
def test_what_is_no_quoted_name_is_not_taken_for_one(text: str) -> None:
    with pytest.raises(ValueError):
        unquote_name(text)
