"""States of calls and confirmations; light, as the first frame draws with them before pydantic is loaded."""

from __future__ import annotations

from enum import StrEnum


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
    """Where a call is on its way; `core.execution.calls` has the transitions."""

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
