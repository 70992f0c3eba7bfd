"""Recognising a placeholder that a model wrote instead of text it left out (`// ... rest of the code ...`)."""

from __future__ import annotations

import re
from dataclasses import dataclass

_MOST_CHARACTERS = 200
"""A placeholder is a short line of its own."""

# A comment mark (or a bracket, or dots) has to open the line: the same words in a string or in prose are text.
_OPENING = re.compile(r"\s*(?://+|/\*+|\{/\*+|#+|--+|<!--+|;+|%+|\*+|'|\"{3}|\(|\[|<|(?=\.\.\.|…))\s*")
_CLOSING = re.compile(r"\s*(?:\*+/\}?|--+>|\"{3}|\)|\]|>|\*+)?\s*$")
_DOTS = r"(?:\.{3,}|…)"
_WHAT = (
    r"(?:code|file|files|content|contents|text|implementation|implementations|functions?|methods?|class(?:es)?|logic|"
    r"lines?|imports?|body|section|sections|document|definitions?|tests?|cases?|items?|entries|fields?|rows?|stuff)"
)
_WHICH = r"(?:rest|remaining|remainder|existing|other|previous|original|unchanged|same|omitted|more|above)"
_STAYS = (
    r"(?:unchanged|omitted|truncated|elided|as\s+(?:before|above|is)|goes\s+here|here|continues?(?:\s+here)?|"
    r"(?:remains?|stays?|is|are)\s+(?:(?:the\s+)?(?:same|unchanged|identical)|as\s+before|as\s+is|here))"
)
_PHRASE = rf"(?:(?:the|your|all|of)\s+)*{_WHICH}(?:\s+(?:of|the|your|this|that))*(?:\s+\w+)?(?:\s+{_WHAT})?"
_PLACEHOLDER = re.compile(
    rf"""
      {_DOTS}\s*[(\[]?{_PHRASE}(?:\s+{_STAYS})?[)\]]?\s*{_DOTS}?
    | {_PHRASE}(?:\s+{_STAYS})?\s*{_DOTS}
    | {_PHRASE}\s+{_STAYS}\.?
    | (?:{_WHAT}\s+)?(?:unchanged|omitted|truncated|elided)(?:\s+for\s+brevity)?\s*{_DOTS}?
    """,
    re.VERBOSE | re.IGNORECASE,
)


@dataclass(frozen=True)
class Omission:
    """A line that looks like a placeholder; counted from 1."""

    line: int
    text: str


def find_omission(content: str) -> Omission | None:
    """The first line of `content` that looks like a placeholder for left-out text."""
    for number, line in enumerate(content.split("\n"), 1):
        if len(line) <= _MOST_CHARACTERS and _is_placeholder(line):
            return Omission(number, line.strip())
    return None


def _is_placeholder(line: str) -> bool:
    opening = _OPENING.match(line)
    if opening is None:
        return False
    said = _CLOSING.sub("", line[opening.end() :]).strip(" \t([")
    return _PLACEHOLDER.fullmatch(said) is not None
