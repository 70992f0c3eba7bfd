"""What completes a draft: commands with their words, files and resources after `@`, and names in a shell line."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.tui.slash_commands import SlashCommand

MOST_ENTRIES = 5_000
"""Entries of a folder that are looked through; a longer one is completed as far as they go."""
MOST_FILES = 200_000
"""Files of a workspace that are searched."""
MOST_CHOICES = 50
SLICE = 2_000
"""Paths looked at before the thread lets the event loop go on."""
FRESH_SECONDS = 5.0
"""How long a list of files counts as new."""


@dataclass(frozen=True)
class Choice:
    """What may stand in place of a word, with what a person wants to know about it."""

    text: str
    argument: str = ""
    summary: str = ""

    @property
    def insertion(self) -> str:
        """The text to type: a folder is gone on from, everything else is ended by a blank."""
        return self.text if self.text.endswith("/") else f"{self.text} "


@dataclass(frozen=True)
class Completion:
    """The word before the cursor, and what may stand there instead, the best first."""

    word: str = ""
    choices: tuple[Choice, ...] = ()

    @property
    def common(self) -> str:
        """The beginning that all choices share where it goes on from the word, else nothing."""
        common = os.path.commonprefix([choice.text for choice in self.choices])  # noqa: RUF071  # of characters
        return common if common.startswith(self.word) else ""


class DraftCompleter:
    """Completes drafts in one folder. `complete` blocks: it is for a thread of its own, one at a time."""

    def __init__(self) -> None:
        self.commands: Iterable[SlashCommand] = ()
        self.resources: Sequence[tuple[str, str]] = ()
        """How a message refers to each resource of an MCP server, and its name."""
        self.folder = Path()
        """Where file names begin."""
        self._files: dict[bool, list[tuple[str, str]]] = {}
        """What there is in the folder, with hidden files and without; what lies less deep first."""
        self._listed = float("-inf")

    def complete(self, before: str, superseded: Callable[[], bool] = lambda: False) -> Completion:
        """Return what completes the text before the cursor; nothing once it is superseded."""
        found = self.at_once(before)
        if found is not None:
            return found
        word = last_word(before)
        if not word.startswith("@"):
            in_shell = word.removeprefix("!") if word == before else word
            return Completion(in_shell, _entries(in_shell, self.folder))
        path = word[1:]
        if path.startswith(("/", "../", "./", "~")):
            return Completion(word, tuple(Choice(f"@{choice.text}") for choice in _entries(path, self.folder)))
        named = dict(self.resources)
        resources = [Choice(f"@{found}", summary=named[found]) for found in best(path, lowered(named), superseded)]
        files = [Choice(_written(found)) for found in self._search(path, superseded)]
        return Completion(word, (*resources, *files)[:MOST_CHOICES])

    def at_once(self, before: str) -> Completion | None:
        """Return what completes the text without a look at files; None where that takes one."""
        word = last_word(before)
        if before.startswith("/") and "\n" not in before:
            name, blank, argument = before[1:].partition(" ")
            if not blank:
                return Completion(before, tuple(_commands(name, self.commands)))
            command = next((each for each in self.commands if each.name == name), None)
            if command is not None and argument == word and not word.startswith("@"):
                return Completion(word, tuple(map(Choice, best(word, lowered(command.words())))))
        return None if word.startswith("@") or before.startswith("!") else Completion(word)

    def _search(self, words: str, superseded: Callable[[], bool]) -> list[str]:
        if time.monotonic() - self._listed > FRESH_SECONDS:
            paths = sorted(_listed(self.folder), key=lambda path: (path.rstrip("/").count("/"), path))
            in_sight = [path for path in paths if not path.startswith(".") and "/." not in path]
            self._files = {True: lowered(paths), False: lowered(in_sight)}
            self._listed = time.monotonic()
        return best(words, self._files[words.startswith(".") or "/." in words], superseded)


def last_word(before: str) -> str:
    """Return the word that the cursor stands behind."""
    return before.split("\n")[-1].split(" ")[-1]


def best(words: str, choices: Sequence[tuple[str, str]], superseded: Callable[[], bool] = lambda: False) -> list[str]:
    """Return the choices that have the letters in this order: from their start, a name's, together, at all.

    `choices` come with their lower case; among equals their order counts.
    """
    wanted = words.lower()
    fits = re.compile("".join(f"[^{c}]*{c}" for c in map(re.escape, wanted)), re.DOTALL).match
    tests: tuple[Callable[[str], object], ...] = (
        lambda low: low.startswith(wanted),
        lambda low: f"/{wanted}" in low,
        lambda low: wanted in low,
        fits,
    )
    found: dict[str, None] = {}
    for test in tests:
        for start in range(0, len(choices), SLICE):
            if superseded() or len(found) >= MOST_CHOICES:
                return list(found)[:MOST_CHOICES]
            found.update((choice, None) for choice, low in choices[start : start + SLICE] if test(low))
            time.sleep(0)  # lets the event loop have the interpreter
    return list(found)[:MOST_CHOICES]


def lowered(choices: Iterable[str]) -> list[tuple[str, str]]:
    """Return the choices as `best` takes them."""
    return [(choice, choice.lower()) for choice in choices]


def _commands(typed: str, commands: Iterable[SlashCommand]) -> Iterable[Choice]:
    known = {command.name: command for command in commands}
    for name in best(typed, lowered(known)):
        yield Choice(f"/{name}", known[name].argument, known[name].summary)


def _listed(folder: Path) -> Iterable[str]:
    """Return files and folders as git would list them, folders with a slash."""
    # Imported with the first use, to keep the start fast.
    from ollm_tui.core.fence.dir_handle import DirHandle
    from ollm_tui.core.search.listing import Listing, ListingOptions

    start = os.fsencode(folder.resolve())
    paths: dict[str, None] = {}
    try:
        listing = Listing(DirHandle.at(start), start, ListingOptions(include_hidden=True))
        for count, path in enumerate(map(os.fsdecode, listing.files(links=True))):
            if path.isprintable():
                parent = path.rpartition("/")[0]
                while parent and f"{parent}/" not in paths:
                    paths[f"{parent}/"] = None
                    parent = parent.rpartition("/")[0]
                paths[path] = None
            if count >= MOST_FILES:
                break
            if count % SLICE == 0:
                time.sleep(0)
    except OSError:
        return ()
    return paths


def _written(path: str) -> str:
    return f'@"{path}"' if " " in path else f"@{path}"


def _entries(written: str, folder: Path) -> tuple[Choice, ...]:
    """Return the paths in one folder that begin as written; hidden ones only when asked for."""
    parent, _, name = written.rpartition("/")
    shown = written[: len(written) - len(name)]
    found: list[str] = []
    try:
        with os.scandir(
            folder / Path(parent).expanduser() if parent or not written.startswith("/") else "/"
        ) as entries:
            for _, entry in zip(range(MOST_ENTRIES), entries, strict=False):
                hidden = entry.name.startswith(".") and not name.startswith(".")
                if entry.name.startswith(name) and entry.name.isprintable() and not hidden:
                    found.append(f"{shown}{entry.name}{'/' if entry.is_dir() else ''}")
    except (OSError, ValueError, RuntimeError):
        return ()
    return tuple(map(Choice, sorted(found)))
