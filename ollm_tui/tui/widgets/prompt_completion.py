"""What Tab completes in the prompt: commands with their words, and names of files after `@` or in a shell line."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.tui.slash_commands import Words

MOST_ENTRIES = 5_000
"""Entries of a folder that are looked through; a longer one is completed as far as they go."""


@dataclass(frozen=True)
class Completion:
    """The word before the cursor, what may stand there instead, and what those choices have in common."""

    word: str
    choices: tuple[str, ...] = ()

    @property
    def insertion(self) -> str:
        """The text to type: the rest of the only choice, or as much as all choices share."""
        common = os.path.commonprefix(self.choices)  # noqa: RUF071  # of characters, not of folders
        if len(common) < len(self.word):
            return ""
        ends = len(self.choices) == 1 and not common.endswith("/")
        return common[len(self.word) :] + (" " if ends else "")


def complete(before: str, commands: Mapping[str, Words], folder: Path) -> Completion:
    """Return what completes the text before the cursor; reads at most one folder."""
    word = before.split("\n")[-1].split(" ")[-1]
    if before.startswith("/") and "\n" not in before:
        name, space, argument = before[1:].partition(" ")
        if not space:
            return _among(before, (f"/{command}" for command in commands))
        if name in commands and argument == word and not word.startswith("@"):
            return _among(word, commands[name]())
    if word.startswith("@"):
        found = _paths(word[1:], folder)
        return Completion(word, tuple(f"@{path}" for path in found))
    if before.startswith("!"):
        in_shell = word.removeprefix("!") if word == before else word
        return Completion(in_shell, _paths(in_shell, folder))
    return Completion(word)


def _among(word: str, choices: Iterable[str]) -> Completion:
    return Completion(word, tuple(sorted(choice for choice in choices if choice.startswith(word))))


def _paths(written: str, folder: Path) -> tuple[str, ...]:
    """Return the paths that begin as written, folders with a slash; hidden ones only when asked for."""
    parent, _, name = written.rpartition("/")
    shown = written[: len(written) - len(name)]
    found: list[str] = []
    try:
        with os.scandir(folder / parent if parent or not written.startswith("/") else "/") as entries:
            for _, entry in zip(range(MOST_ENTRIES), entries, strict=False):
                hidden = entry.name.startswith(".") and not name.startswith(".")
                if entry.name.startswith(name) and entry.name.isprintable() and not hidden:
                    found.append(f"{shown}{entry.name}{'/' if entry.is_dir() else ''}")
    except (OSError, ValueError):
        return ()
    return tuple(sorted(found))
