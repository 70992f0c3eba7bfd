"""States of calls and confirmations; light, as the first frame draws with them before pydantic is loaded."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ollm_tui.core.bus.confirmation import ConfirmationRequest


class Risk(StrEnum):
    """How much a call can hurt (000 Property 36)."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"

    @property
    def rank(self) -> int:
        """The position in the order from low to high, from 0."""
        return list(Risk).index(self)


class Origin(StrEnum):
    """Who proposed a call."""

    MODEL = "model"
    USER = "user"
    PLUGIN = "plugin"
    SALVAGED = "salvaged"
    """Read out of a model's plain text."""


class RememberScope(StrEnum):
    """How far an approval reaches when it is remembered."""

    SESSION = "session"
    WORKSPACE = "workspace"
    USER = "user"


class ConfirmationState(StrEnum):
    """Where a confirmation stands; all but PENDING are final (contract section 3)."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


class CallState(StrEnum):
    """Where a call is on its way; `core.execution.call_states` has the transitions."""

    PROPOSED = "proposed"
    """Named with arguments that nobody has looked at yet."""
    VALIDATED = "validated"
    JUDGED = "judged"
    WAITING = "waiting"
    """Its confirmation is in the queue."""
    REVIEWING = "reviewing"
    """Approved; whether that still fits what would happen is being checked."""
    RUNNING = "running"
    DONE = "done"


class CallOutcome(StrEnum):
    """How a call ended."""

    OK = "ok"
    FAILED = "failed"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"

    @classmethod
    def of_error(cls, error_type: str | None) -> CallOutcome:
        """Return the outcome of a result whose error has this type, None for no error."""
        return cls.OK if error_type is None else _OUTCOMES.get(error_type, cls.FAILED)


_OUTCOMES = {
    "PolicyDeniedError": CallOutcome.DENIED,
    "ConfirmationDenied": CallOutcome.DENIED,
    "ConfirmationTimeout": CallOutcome.EXPIRED,
    "ConfirmationCancelled": CallOutcome.CANCELLED,
    "OperationCancelled": CallOutcome.CANCELLED,
}


@dataclass(frozen=True)
class Confirmation:
    """A confirmation in the queue or just settled: the request and how it stands.

    `ordinal` is its number in the session, from 1. `deadline` is in seconds on the bus's monotonic clock; None without
    a limit, while `held`, and once settled.
    """

    request: ConfirmationRequest
    ordinal: int
    state: ConfirmationState = ConfirmationState.PENDING
    deadline: float | None = None
    held: bool = False
    """Its clock is stopped, since somebody looks at it."""
    settled_by: str = ""
    """`user`, `timeout`, `signal`, or whoever settled it."""

    @property
    def id(self) -> str:
        """The request's id."""
        return self.request.id

    @property
    def call_id(self) -> str:
        """The id of the call that it is about."""
        return self.request.call_id

    @property
    def pending(self) -> bool:
        """Whether it still waits for its answer."""
        return self.state is ConfirmationState.PENDING

    @property
    def asked_again(self) -> bool:
        """Whether it follows one whose arguments or subject changed after it was shown."""
        return self.request.replaces is not None

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until it expires; None without a running clock."""
        return None if self.deadline is None else max(0.0, self.deadline - now)
