"""What the models screen is shown."""

from __future__ import annotations

from dataclasses import dataclass

from ollm_tui.tui.protocol.intents import ModelIntent
from ollm_tui.tui.protocol.updates import Update


@dataclass(frozen=True)
class ModelRow:
    """A model that can be taken; `current` is the one in use."""

    name: str
    server: str
    facts: str
    """Size, window and state in a few words."""
    details: str
    current: bool = False


class ListModels(ModelIntent):
    """Ask the servers what they have."""


@dataclass
class ModelsUpdate(Update):
    """The models there are; none where no server answers."""

    rows: tuple[ModelRow, ...]
