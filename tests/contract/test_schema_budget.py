"""What the tools cost a model with a small window, in every request of a conversation."""

from __future__ import annotations

import json
import math
import re

from ollm_tui.core.tools.builtin import BUILTIN_TOOLS
from ollm_tui.core.tools.schema import SchemaFormat, function_schema

ALL_TOOLS_TOKENS = 4_515
REDUCED = ("read_file", "ls", "grep", "glob", "edit_file", "shell")
"""What is sent where the window is below 8k."""
REDUCED_TOKENS = 800

_PIECE = re.compile(r"(?P<letters>[A-Za-z]+)|[0-9]|[^\x00-\x7f]|\n+|[ \t]{2,}|[!-/:-@\[-`{-~]{1,2}")


def estimated_tokens(text: str) -> int:
    """A tokenizer's count without one: within -12 to +23 % of real ones on ASCII text."""
    return sum(
        math.ceil(len(piece["letters"]) / 6) if piece["letters"] else 1  # runs of letters come in sixes
        for piece in _PIECE.finditer(text)
    )


def cost(name: str) -> int:
    tool = next(tool for tool in BUILTIN_TOOLS if tool.name == name)
    return estimated_tokens(json.dumps(function_schema(tool, SchemaFormat.OPENAI), separators=(",", ":")))


def test_the_estimator_counts_pieces() -> None:
    assert estimated_tokens("abcdefg 12 é\n\n  {}") == 2 + 2 + 1 + 1 + 1 + 1


def test_all_schemas_fit_their_budget() -> None:
    costs = {tool.name: cost(tool.name) for tool in BUILTIN_TOOLS}
    assert sum(costs.values()) <= ALL_TOOLS_TOKENS, costs


def test_the_reduced_set_fits_a_small_window() -> None:
    costs = {name: cost(name) for name in REDUCED}
    assert sum(costs.values()) <= REDUCED_TOKENS, costs


def test_every_tool_says_what_it_is_for() -> None:
    for tool in BUILTIN_TOOLS:
        assert len(tool.description) > 10 and tool.description.endswith("."), tool.name
