"""Frozen values that make up the conversation."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    from ollm_tui.core.bus.confirmation import Preview


class CallState(StrEnum):
    """Where a tool call stands, in the word that is shown."""

    WAIT = "WAIT"
    RUN = "RUN"
    OK = "ok"
    FAIL = "FAIL"
    DENIED = "DENIED"
    EXPIRED = "EXPIRED"
    CANCELLED = "STOPPED"

    @property
    def final(self) -> bool:
        """Return whether the call has ended."""
        return self not in (CallState.WAIT, CallState.RUN)


@dataclass(frozen=True)
class UserEntry:
    """What the person asked."""

    id: str
    text: str
    time: str = ""
    queued: bool = False
    """Typed while a turn was running; it is sent when that one ends."""


@dataclass(frozen=True)
class AnswerEntry:
    """What the model said; grows while `live`."""

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
    """A tool call with what came of it."""

    id: str
    tool: str
    summary: str
    state: CallState
    arguments: str = ""
    """As JSON, for the body where nothing better is known."""
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
    """What a line between the messages is."""

    NOTICE = "notice"
    ERROR = "error"
    GREETING = "greeting"
    """What the provider says for itself before anything is asked."""


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
    """Another session begins: everything goes."""

    entries: tuple[Entry, ...] = field(default=())


Change: TypeAlias = EntriesChanged | AnswerGrew | ConversationCleared
