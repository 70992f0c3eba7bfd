"""What the core can say while it works; the agent's stream wraps these into events."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, TypeAlias

from ollm_tui.core.bus.confirmation import ConfirmationRequest, ConfirmationResponse

if TYPE_CHECKING:
    from ollm_tui.core.shell.hub import CommandStatus
    from ollm_tui.core.todos.todo_list import Todo


class ConfirmationOutcome(StrEnum):
    """How a question ended (contract section 3)."""

    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class ConfirmationRequested:
    """A question was put into the queue."""

    request: ConfirmationRequest


@dataclass(frozen=True)
class ConfirmationSettled:
    """A question left the queue, once and for all."""

    request: ConfirmationRequest
    outcome: ConfirmationOutcome
    by: str
    """`user`, `timeout`, `signal`, or whoever settled it."""
    response: ConfirmationResponse | None = None


@dataclass(frozen=True)
class ConfirmationHeld:
    """A question's clock was stopped (`held`) or goes on, since somebody looks at it."""

    request_id: str
    held: bool


@dataclass(frozen=True)
class OutputProduced:
    """A running call said something: folded text, for reading, not for a terminal."""

    call_id: str
    text: str


@dataclass(frozen=True)
class TodosChanged:
    """The list after a change; `revision` grows with each."""

    todos: tuple[Todo, ...]
    by: str
    revision: int


@dataclass(frozen=True)
class CommandChanged:
    """A live command started, moved to the background, asked for input, or ended."""

    command: CommandStatus


Notice: TypeAlias = (
    ConfirmationRequested | ConfirmationSettled | ConfirmationHeld | OutputProduced | TodosChanged | CommandChanged
)
