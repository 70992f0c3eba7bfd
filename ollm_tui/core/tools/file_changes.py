"""Warnings about a file's links, git status and omitted text."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.workspace import Location
from ollm_tui.core.search.repository import Repository


def link_concerns(location: Location, status: os.stat_result) -> list[str]:
    """Return the warnings for the confirmation, before the file is replaced."""
    concerns = [f"The file has {status.st_nlink} names (hard links); the others keep the old content"]
    if status.st_nlink < 2:
        concerns = []
    if _leads_elsewhere(location):
        concerns.append(f"{visible(location.asked)} leads to {location.shown}")
    return concerns


def link_notes(location: Location, status: os.stat_result) -> list[str]:
    """Return the notes for the model, after the file was replaced."""
    notes: list[str] = []
    if status.st_nlink > 1:
        notes.append(f"the file had {status.st_nlink} names (hard links); the others keep the old content")
    if _leads_elsewhere(location):
        notes.append(f"{visible(location.asked)} leads to {location.shown}, which was written")
    return notes


def git_standing(files: Sequence[Path]) -> str:
    """Return whether git tracks the files, in words for a confirmation.

    Takes real paths; empty where there are none.
    """
    if not files:
        return ""
    repositories: dict[Path, Repository | None] = {}
    tracked = 0
    for path in files:
        folder = path.parent
        if folder not in repositories:
            repositories[folder] = Repository.around(os.fsencode(folder) + b"/")
        repository = repositories[folder]
        if repository is not None and repository.tracked().holds(os.fsencode(path)[len(repository.root) :]):
            tracked += 1
    if tracked == len(files):
        return "tracked by git" if tracked == 1 else "all tracked by git"
    if tracked:
        return f"{tracked:,} tracked by git, {len(files) - tracked:,} not"
    return "not tracked by git" if any(repositories.values()) else "in no git repository"


def _leads_elsewhere(location: Location) -> bool:
    """Return whether symbolic links lead away from the given path."""
    asked = os.path.normpath(location.asked)
    return not str(location.real).endswith(asked) and not location.asked.startswith('"')


_MOST_CHARACTERS = 200
"""The longest line, in characters, that can be a placeholder."""

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
class OmissionPlaceholder:
    """A line that looks like a placeholder; counted from 1."""

    line: int
    text: str


def find_omission(content: str) -> OmissionPlaceholder | None:
    """Return the first line that looks like a placeholder for omitted text."""
    for number, line in enumerate(content.split("\n"), 1):
        if len(line) <= _MOST_CHARACTERS and _is_placeholder(line):
            return OmissionPlaceholder(number, line.strip())
    return None


def _is_placeholder(line: str) -> bool:
    opening = _OPENING.match(line)
    if opening is None:
        return False
    said = _CLOSING.sub("", line[opening.end() :]).strip(" \t([")
    return _PLACEHOLDER.fullmatch(said) is not None
