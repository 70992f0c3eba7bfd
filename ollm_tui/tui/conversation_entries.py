"""Frozen values that make up the conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from ollm_tui.core.bus.states import CallOutcome, CallState

if TYPE_CHECKING:
    from ollm_tui.core.bus.confirmation import Preview


@dataclass(frozen=True)
class UserEntry:
    """A message of the person."""

    id: str
    text: str
    time: str = ""
    queued: bool = False
    """Typed during a turn; sent when that ends."""


@dataclass(frozen=True)
class AnswerEntry:
    """An answer of the model; grows while `live`."""

    id: str
    model: str
    text: str = ""
    reasoning: str = ""
    time: str = ""
    live: bool = False
    partial: bool = False
    tokens: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class CallEntry:
    """A tool call with its result."""

    id: str
    tool: str
    summary: str
    state: CallState = CallState.RUNNING
    outcome: CallOutcome | None = None
    """Set once it has ended."""
    arguments: str = ""
    """As JSON, for the body without preview."""
    output: str = ""
    preview: Preview | None = None
    ordinal: int | None = None
    """The number of the question it waits for."""
    duration_ms: int | None = None
    exit_code: int | None = None
    notes: tuple[str, ...] = ()
    verdict: str = ""
    """How it was allowed or refused, in words."""


class NoteKind(StrEnum):
    """Kind of a line between messages."""

    NOTICE = "notice"
    ERROR = "error"
    GREETING = "greeting"
    """The provider's own introduction, before the first message."""


@dataclass(frozen=True)
class NoteEntry:
    """A line between messages: a notice, a decision, an error."""

    id: str
    text: str
    kind: NoteKind = NoteKind.NOTICE
    body: str = ""
    """What unfolds below the line."""


Entry: TypeAlias = UserEntry | AnswerEntry | CallEntry | NoteEntry


@dataclass(frozen=True)
class EntriesChanged:
    """Entries that are new or replace the ones of the same id, in order."""

    entries: tuple[Entry, ...]


@dataclass(frozen=True)
class AnswerGrew:
    """A further piece of a live answer."""

    id: str
    text: str = ""
    reasoning: str = ""


@dataclass(frozen=True)
class ConversationCleared:
    """All entries are removed for another session."""

    entries: tuple[Entry, ...] = field(default=())


Change: TypeAlias = EntriesChanged | AnswerGrew | ConversationCleared
