"""Our estimate of tokens: close to what tokenizers count, and a beginning never costs more than it may."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.agent.token_estimate import estimated_tokens, within


@settings(max_examples=100, deadline=None)
@given(text=st.text(max_size=300), tokens=st.integers(-3, 120))
def test_a_beginning_fits_and_is_as_long_as_it_may_be(text: str, tokens: int) -> None:
    kept = within(text, tokens)
    assert text.startswith(kept)
    assert estimated_tokens(kept) <= max(tokens, 0)
    if estimated_tokens(text) <= tokens:
        assert kept == text


@settings(max_examples=100, deadline=None)
@given(first=st.text(max_size=80), second=st.text(max_size=80))
def test_two_texts_cost_about_as_much_together_as_apart(first: str, second: str) -> None:
    together = estimated_tokens(first + "\n" + second)
    assert together <= estimated_tokens(first) + estimated_tokens(second) + 1
    assert together >= estimated_tokens(first) + estimated_tokens(second) - 2


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("def export(out: Path) -> int:\n    return 0\n", 12, 22),  # 16 and 17 by two real tokenizers
        ("The quick brown fox jumps over the lazy dog.", 9, 13),
        ("3f9a7c21d04b", 9, 13),  # ids cost about a token for each character or two
        ("漢字かな", 4, 4),
        ("", 0, 0),
    ],
)
def test_it_is_near_the_truth(text: str, least: int, most: int) -> None:
    assert least <= estimated_tokens(text) <= most
