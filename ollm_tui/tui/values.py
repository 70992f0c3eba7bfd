"""Frozen values the screen is drawn from, made by the controllers."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.bus.confirmation import Preview
    from ollm_tui.core.memory import MemoryScope
    from ollm_tui.core.shell.status import CommandStatus


def _no_arguments() -> JsonObject:
    return {}


class StatusWord(StrEnum):
    """The first word of the status line (contract section 6), the strongest last."""

    IDLE = "IDLE"
    THINKING = "THINKING"
    STREAMING = "STREAMING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
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


class RiskLevel(StrEnum):
    """Risk values of the core, without loading its models at start-up."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


class QueueState(StrEnum):
    """State of a question. All but PENDING are final."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class Reach(StrEnum):
    """How far a remembered approval applies; values of the core's scopes."""

    SESSION = "session"
    WORKSPACE = "workspace"
    USER = "user"


@dataclass(frozen=True)
class ConfirmationItem:
    """One question. `ordinal` is its number in this session.

    `deadline` is on the screen's monotonic clock in seconds; None where there is no limit or while `held`.
    """

    id: str
    ordinal: int
    call_id: str
    tool: str
    description: str
    risk: RiskLevel
    reason: str = ""
    origin: str = "model"
    locations: tuple[str, ...] = ()
    arguments: JsonObject = field(default_factory=_no_arguments)
    preview: Preview | None = None
    state: QueueState = QueueState.PENDING
    deadline: float | None = None
    timeout: float | None = None
    held: bool = False
    follows_change: bool = False
    """Asked again because its arguments or subject changed after it was shown."""

    @property
    def pending(self) -> bool:
        """Return whether the question is open."""
        return self.state is QueueState.PENDING

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until expiry; None without a running clock."""
        return None if self.deadline is None or not self.pending else max(0.0, self.deadline - now)


@dataclass(frozen=True)
class ConfirmationQueueSnapshot:
    """The queue at one moment: questions by age, with just ended ones."""

    items: tuple[ConfirmationItem, ...] = ()

    @property
    def pending(self) -> tuple[ConfirmationItem, ...]:
        """Return the open questions."""
        return tuple(item for item in self.items if item.pending)

    def find(self, item_id: str) -> ConfirmationItem | None:
        """Return the question with this id."""
        return next((item for item in self.items if item.id == item_id), None)

    def of_call(self, call_id: str) -> ConfirmationItem | None:
        """Return the question of a tool call."""
        return self._by_call.get(call_id)

    @cached_property
    def _by_call(self) -> dict[str, ConfirmationItem]:
        return {item.call_id: item for item in reversed(self.pending)}

    @property
    def next_deadline(self) -> float | None:
        """Return the earliest deadline of an open question."""
        deadlines = [item.deadline for item in self.pending if item.deadline is not None]
        return min(deadlines, default=None)


@dataclass(frozen=True)
class RuleOffer:
    """A rule to remember, in the exact words to be saved."""

    reach: Reach
    text: str
    editable: bool = False
    also: tuple[str, ...] = ()
    """Other questions of this session it would have allowed."""


@dataclass(frozen=True)
class ReviewValue:
    """Review of arguments: errors, decision, risk and effect."""

    faults: tuple[str, ...] = ()
    decision: str = "ask"
    risk: RiskLevel = RiskLevel.MEDIUM
    reason: str = ""
    preview: Preview | None = None
    offers: tuple[RuleOffer, ...] = ()


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
