"""Frozen values the screen is drawn from, made by the controllers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from ollm_tui.core.bus.states import CallOutcome, CallState

if TYPE_CHECKING:
    from ollm_tui.core.bus.confirmation import Preview
    from ollm_tui.core.bus.notices import Confirmation
    from ollm_tui.core.memory import MemoryScope
    from ollm_tui.core.shell.status import CommandStatus


class StatusWord(StrEnum):
    """The first word of the status line (contract section 6), the strongest last."""

    IDLE = "IDLE"
    THINKING = "THINKING"
    STREAMING = "STREAMING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    INPUT = "INPUT"
    WAITING = "WAITING"
    OFFLINE = "OFFLINE"
    ERROR = "ERROR"


class Activity(StrEnum):
    """Current activity of the turn."""

    IDLE = "idle"
    THINKING = "thinking"
    STREAMING = "streaming"
    RUNNING = "running"
    STOPPING = "stopping"
    FAILED = "failed"


@dataclass(frozen=True)
class ConfirmationQueueSnapshot:
    """The queue at one moment: questions by age, with just ended ones."""

    items: tuple[Confirmation, ...] = ()
    said: Mapping[str, str] = field(default_factory=dict[str, str])
    """The model's last sentence before each question, by its id."""

    def said_before(self, item: Confirmation) -> str:
        """Return the model's last sentence before a question, or nothing."""
        return self.said.get(item.id, "")

    @property
    def pending(self) -> tuple[Confirmation, ...]:
        """Return the open questions."""
        return tuple(item for item in self.items if item.pending)

    def find(self, item_id: str) -> Confirmation | None:
        """Return the question with this id."""
        return next((item for item in self.items if item.id == item_id), None)

    def of_call(self, call_id: str) -> Confirmation | None:
        """Return the question of a tool call."""
        return self._by_call.get(call_id)

    @cached_property
    def _by_call(self) -> dict[str, Confirmation]:
        return {item.call_id: item for item in reversed(self.pending)}

    @property
    def next_deadline(self) -> float | None:
        """Return the earliest deadline of an open question."""
        deadlines = [item.deadline for item in self.pending if item.deadline is not None]
        return min(deadlines, default=None)


@dataclass(frozen=True)
class UnfinishedWork:
    """What quitting now would end: facts in words, and jobs."""

    facts: tuple[str, ...] = ()
    jobs: tuple[CommandStatus, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.facts or self.jobs)


@dataclass(frozen=True)
class SessionStatus:
    """Facts of the status line beside the state."""

    model: str = ""
    workspace: str = ""
    mode: str = "ask"
    offline: bool = False
    denied_because: str = ""
    """Not empty when an invalid policy denies everything."""
    tokens_used: int | None = None
    tokens_limit: int | None = None
    tokens_estimated: bool = False
    tokens_per_second: float | None = None
    """Of the last answer that could be measured."""
    recorded: bool = True
    """False while the session log cannot be written."""
    broken_off: str = ""
    """The session that ended unexpectedly, while it is offered to go on with."""
    branch: str = ""
    """Of the workspace's repository, with a star where something is changed."""


@dataclass(frozen=True)
class SessionRow:
    """One session in the list; ages are in words."""

    id: str
    title: str
    workspace: str
    age: str
    size: int
    facts: str = ""
    """When it was changed, and its model."""
    state: str = ""
    """Whether it is this one, is open elsewhere, or broke off."""
    excerpt: str = ""
    """Where the text that is searched for stands."""
    here: bool = True
    """Whether it worked in this workspace."""


@dataclass(frozen=True)
class RequestRow:
    """A message of the person, by the id of its event."""

    event_id: int
    time: str
    text: str


@dataclass(frozen=True)
class MemoryName:
    """Identity of a memory: scope and key."""

    key: str
    scope: MemoryScope

    @property
    def row_id(self) -> str:
        """Return the id of its list row."""
        return f"{self.scope.value}:{self.key}"


@dataclass(frozen=True)
class MemoryRow:
    """One memory in the list; `age` is in words, `concern` says what it looks like, if anything."""

    name: MemoryName
    first_line: str
    size: int
    age: str
    concern: str = ""


@dataclass(frozen=True)
class MemoryQuery:
    """Filter of memories by text in key or value, and by scope."""

    containing: str = ""
    scope: MemoryScope | None = None


@dataclass(frozen=True)
class MemoryListing:
    """The answer to a query; `total` counts also what did not fit into `rows`."""

    query: MemoryQuery
    rows: tuple[MemoryRow, ...]
    total: int


@dataclass(frozen=True)
class MemoryText:
    """The stored text of a memory; None once deleted."""

    name: MemoryName
    value: str | None
    concern: str = ""
    """Suspected secret; such a text is left out of a session's first message."""


class MemoryOutcome(StrEnum):
    """Outcome of a change."""

    SAVED = "saved"
    DELETED = "deleted"
    RESTORED = "restored"
    CONFLICT = "conflict"
    """It was changed elsewhere; nothing was done."""
    FAILED = "failed"


# -- the conversation --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class LoggedAt:
    """The events of the session's log that an entry came from, by their ids."""

    first: int
    last: int


@dataclass(frozen=True)
class UserEntry:
    """A message of the person."""

    id: str
    text: str
    time: str = ""
    queued: bool = False
    """Typed during a turn; sent when that ends."""
    logged: LoggedAt | None = None
    """Where its text is in the log; None while the log does not have it."""
    stored: bool = False
    """Whether its text is in the log alone."""


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
    logged: LoggedAt | None = None
    """Where its text is in the log; None while the log does not have it."""
    stored: bool = False
    """Whether its text is in the log alone."""


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
    result: str = ""
    """What came of it, in a few words."""
    place: str | None = None
    """Where its programs ran, in words."""
    notes: tuple[str, ...] = ()
    verdict: str = ""
    """How it was allowed or refused, in words."""
    picture: str = ""
    """A small picture of what it shows, as PNG in base64."""
    steps: tuple[CallEntry, ...] = ()
    """The calls of the sub-agent that it began, without their outputs."""
    logged: LoggedAt | None = None
    """Where its text is in the log; None while the log does not have it."""
    stored: bool = False
    """Whether its text is in the log alone."""


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


@dataclass(frozen=True)
class EntriesRead:
    """Entries with their texts, read back from the log."""

    entries: tuple[Entry, ...]


Change: TypeAlias = EntriesChanged | AnswerGrew | ConversationCleared | EntriesRead
