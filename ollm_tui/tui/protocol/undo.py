"""What the undo screen asks for and is shown: intents, updates and their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ollm_tui.tui.protocol.intents import Intent
from ollm_tui.tui.protocol.updates import Update

if TYPE_CHECKING:
    from ollm_tui.core.files.diff import FileDiff


@dataclass(frozen=True)
class UndoRow:
    """An entry of the journal in the list; `at` in ISO 8601."""

    id: str
    call: str
    turn: str
    at: str
    title: str
    paths: int
    status: str


@dataclass(frozen=True)
class UndoPart:
    """One path of what would be undone; `why` says why it would be left alone."""

    title: str
    diff: FileDiff | str
    why: str = ""
    since: str = ""
    """What changed after the call, as a diff."""


@dataclass(frozen=True)
class UndoPlan:
    """What undoing an entry, a call, a turn or all since a message would do; `works` where it would do anything."""

    wanted: str
    summary: str
    parts: tuple[UndoPart, ...]
    works: bool = False


_SINCE = "since message "


def since(message: int) -> str:
    """Return what names all that was changed since a message of this session, by the id of its event."""
    return f"{_SINCE}{message}"


def message_of(wanted: str) -> int | None:
    """Return the message that `since` named; None where something else is wanted."""
    return int(wanted.removeprefix(_SINCE)) if wanted.startswith(_SINCE) else None


class UndoIntent(Intent):
    """Base of the intents about undo."""


class ListChanges(UndoIntent):
    """List what calls have changed."""


@dataclass
class PlanUndo(UndoIntent):
    """Show what undoing an entry, a call, a turn or all `since` a message would do."""

    wanted: str


@dataclass
class ApplyUndo(UndoIntent):
    """Undo an entry, a call, a turn or all `since` a message."""

    wanted: str


class UndoUpdate(Update):
    """Base of the updates for the undo screen."""


@dataclass
class ChangesUpdate(UndoUpdate):
    """What calls have changed, the newest first."""

    rows: tuple[UndoRow, ...]


@dataclass
class UndoPlanUpdate(UndoUpdate):
    """What undoing would do."""

    plan: UndoPlan
