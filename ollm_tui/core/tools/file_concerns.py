"""What a person and a model should know about a file before and after it is replaced: links to it."""

from __future__ import annotations

import os

from ollm_tui.core.base.visible import visible
from ollm_tui.core.base.workspace import Location


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


def _leads_elsewhere(location: Location) -> bool:
    """Whether links led to another place than the path says."""
    asked = os.path.normpath(location.asked)
    return not str(location.real).endswith(asked) and not location.asked.startswith('"')
