"""What a person and a model should know about files before and after they change: links to them, git's view."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.workspace import Location
from ollm_tui.core.search.repository import Repository


def link_concerns(location: Location, status: os.stat_result) -> list[str]:
    """For the confirmation, before the file is replaced."""
    concerns = [f"The file has {status.st_nlink} names (hard links); the others keep the old content"]
    if status.st_nlink < 2:
        concerns = []
    if _leads_elsewhere(location):
        concerns.append(f"{visible(location.asked)} leads to {location.shown}")
    return concerns


def link_notes(location: Location, status: os.stat_result) -> list[str]:
    """For the model, after it was replaced."""
    notes: list[str] = []
    if status.st_nlink > 1:
        notes.append(f"the file had {status.st_nlink} names (hard links); the others keep the old content")
    if _leads_elsewhere(location):
        notes.append(f"{visible(location.asked)} leads to {location.shown}, which was written")
    return notes


def git_standing(files: Sequence[Path]) -> str:
    """Whether git knows the files (real paths), in words for a confirmation; empty where there is none to tell."""
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
    """Whether links led to another place than the path says."""
    asked = os.path.normpath(location.asked)
    return not str(location.real).endswith(asked) and not location.asked.startswith('"')
