"""What tools that change files share: question, lock, and warnings about links, git and omitted text."""

from __future__ import annotations

import os
import re
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import ToolResult, UpdateOutput
from ollm_tui.core.bus.confirmation import Preview
from ollm_tui.core.fence.workspace import Location
from ollm_tui.core.files.atomic import carry_out, exclusive
from ollm_tui.core.files.snapshots import ABSENT
from ollm_tui.core.search.repository import Repository
from ollm_tui.core.tools.base import AnyTool, CallFacts, P, Question, ToolInvocation


class FileChangeInvocation(ToolInvocation[P]):
    """A call that changes files: bound to their state when it is approved, alone on their paths when it runs."""

    async def question(self) -> Question:
        """Return the fingerprint of the files, and the preview."""
        return Question(await AbortSignal().in_thread(self._state), self._preview)

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Change the files. Raises ToolFailure."""
        locations = self._locations()
        async with exclusive(signal, *(location.real for location in locations)):
            return await carry_out(signal, self._change, locations, signal)

    def _locations(self) -> list[Location]:
        return [self.context.fence.resolve(one.path, one.access, follow=one.follow) for one in self.touched_paths()]

    def _state(self) -> str:
        try:
            return self._fingerprint(self._locations())
        except ToolFailure as error:
            return f"{ABSENT}: {error.code}"

    @abstractmethod
    async def _preview(self) -> Preview | None:
        """Return what the call would change."""

    @abstractmethod
    def _fingerprint(self, locations: Sequence[Location]) -> str:
        """Return a text that changes when the files do. Blocks; raises ToolFailure."""

    @abstractmethod
    def _change(self, locations: Sequence[Location], signal: AbortSignal) -> ToolResult:
        """Change the files, all or nothing. Blocks; raises ToolFailure."""


def facts_of_writing(tool: AnyTool, path: Path, *, is_free: bool) -> CallFacts:
    """Return the facts of a call that writes to a real path: `$exists` among them."""
    return CallFacts(tool.effect, virtual={"$exists": not is_free}, new_path=path if is_free else None)


def link_warnings(location: Location, status: os.stat_result) -> list[str]:
    """Return the warnings for the confirmation, before the file is replaced."""
    warnings: list[str] = []
    if status.st_nlink > 1:
        warnings.append(f"The file has {status.st_nlink} names (hard links); the others keep the old content")
    if _leads_elsewhere(location):
        warnings.append(f"{visible(location.asked)} leads to {location.shown}")
    return warnings


def link_notes(location: Location, status: os.stat_result) -> list[str]:
    """Return the notes for the model, after the file was replaced."""
    notes: list[str] = []
    if status.st_nlink > 1:
        notes.append(f"the file had {status.st_nlink} names (hard links); the others keep the old content")
    if _leads_elsewhere(location):
        notes.append(f"{visible(location.asked)} leads to {location.shown}, which was written")
    return notes


def git_status(files: Sequence[Path]) -> str:
    """Return in words whether git tracks the files at real paths; empty for none."""
    if not files:
        return ""
    repositories = {folder: Repository.around(os.fsencode(folder) + b"/") for folder in {path.parent for path in files}}
    tracked = sum(
        repository.tracked().holds(os.fsencode(path)[len(repository.root) :])
        for path in files
        if (repository := repositories[path.parent]) is not None
    )
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

_FIRST_CHARACTERS = frozenset("/{#-<;%*'\"([.…")
"""What `_OPENING` can begin with: looked at first, since most of 50,000 lines begin with none of it."""
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


def find_omission(content: str) -> tuple[int, str] | None:
    """Return number and text of the first line that looks like a placeholder for omitted text."""
    for number, line in enumerate(content.split("\n"), 1):
        if line.lstrip()[:1] not in _FIRST_CHARACTERS or len(line) > _MOST_CHARACTERS:
            continue
        if (opening := _OPENING.match(line)) is not None:
            text = _CLOSING.sub("", line[opening.end() :]).strip(" \t([")
            if _PLACEHOLDER.fullmatch(text) is not None:
                return number, line.strip()
    return None
