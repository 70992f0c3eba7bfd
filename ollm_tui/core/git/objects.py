"""What words on git's command line name: commits, or contents that git prints without knowing their path."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

MOST_NAMES = 100
ASK_GIT = ("-c", "core.disambiguate=none", "cat-file", "--batch-check=%(objecttype)")
"""Behind git's name: prints a line for each name that it reads."""

UNREADABLE = "something missing"
"""The answer about what git cannot read."""

EMPTY_TREES = frozenset(
    {
        "4b825dc642cb6eb9a060e54bf8d69288fbee4904",
        "6ef19b41225c5369f1c104d45d8d85efa9b057b53b14b4b9b939dd74decc5321",
    }
)
"""What commits are compared with to see all that they hold."""


_OF_HEAD = re.compile(r"(?:HEAD|@)(?:[~^][0-9]*)*", re.ASCII)
"""What is always a commit."""


class NamePart(Enum):
    """Which part of a word a name is."""

    WHOLE = "a revision"
    BASE = "what stands before a colon"
    PATH = "a path in a revision"


class ObjectName(NamedTuple):
    """A name that git looks up for a word."""

    word: str
    name: str
    part: NamePart


def object_names(words: Iterable[str]) -> list[ObjectName]:
    """Return all names that git may look up for these words, tags taken off."""
    found: dict[ObjectName, None] = {}
    for word in words:
        if is_of_head(word):
            continue  # asking takes git 5 ms
        for piece in _pieces(word):
            name = piece.removeprefix("^")
            colons = [index for index, character in enumerate(name) if character == ":"]
            if name and not colons and name not in EMPTY_TREES:
                found[ObjectName(word, f"{name}^{{}}", NamePart.WHOLE)] = None
            for index in colons:
                if index:  # `:path` is of the index
                    found[ObjectName(word, f"{name[:index]}^{{}}", NamePart.BASE)] = None
                    found[ObjectName(word, name, NamePart.PATH)] = None
    return list(found)


def is_of_head(word: str) -> bool:
    """Return whether all that a word names are commits before HEAD."""
    return all(_OF_HEAD.fullmatch(piece) for piece in _pieces(word)[1:])


def _pieces(word: str) -> list[str]:
    """Return a word, and what it is a range of."""
    return [word, *re.split(r"\.\.\.?", word)]


def nameless(names: Sequence[ObjectName], answers: Sequence[str], *, below_trees: bool) -> str | None:
    """Return a word by which git would print contents without their path.

    Args:
        names: What was asked about.
        answers: The lines that git printed.
        below_trees: What lies in a directory is printed as well, and not its names alone.
    """
    if len(answers) != len(names):
        return names[0].word
    for (word, _, part), answer in zip(names, answers, strict=True):
        kind = answer.rpartition(" ")[2]
        if kind == "ambiguous" or (kind == "blob" and part is not NamePart.PATH):
            return word
        if kind == "tree" and (part is NamePart.BASE or below_trees):
            return word
    return None


def any_found(answers: Sequence[str]) -> bool:
    """Return whether any of the names is something that git keeps."""
    return not all(answer.endswith(" missing") for answer in answers)
