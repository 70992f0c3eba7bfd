"""Confirmations as they stand, and what the core says while it works; light, as the first frame draws with them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ollm_tui.core.bus.states import ConfirmationState

if TYPE_CHECKING:
    from ollm_tui.core.bus.confirmation import ConfirmationDetails, ConfirmationRequest, ConfirmationResponse
    from ollm_tui.core.todos.todo_list import Todo


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
    source: str = ""
    """Where else it comes from: there it can be answered with yes or no alone. Empty for a call of this session."""

    @property
    def id(self) -> str:
        """The request's id."""
        return self.request.id

    @property
    def call_id(self) -> str:
        """The id of the call that it is about."""
        return self.request.call_id

    @property
    def details(self) -> ConfirmationDetails:
        """What the person is shown."""
        return self.request.details

    @property
    def pending(self) -> bool:
        """Whether it still waits for its answer."""
        return self.state is ConfirmationState.PENDING

    @property
    def asked_again(self) -> bool:
        """Whether it follows one whose arguments or subject changed after it was shown."""
        return self.request.replaces is not None

    @property
    def of_other_session(self) -> bool:
        """Whether another session records it; a foreign agent's call is one of this session."""
        return bool(self.source) and not self.call_id

    def seconds_left(self, now: float) -> float | None:
        """Return the seconds until it expires; None without a running clock."""
        return None if self.deadline is None else max(0.0, self.deadline - now)


@dataclass(frozen=True)
class ConfirmationRequested:
    """A confirmation was put into the queue."""

    confirmation: Confirmation


@dataclass(frozen=True)
class ConfirmationSettled:
    """A confirmation left the queue, once and for all; its state says how."""

    confirmation: Confirmation
    response: ConfirmationResponse | None = None
    """Set when it was approved or denied."""


@dataclass(frozen=True)
class ConfirmationHeld:
    """A confirmation's clock was stopped or goes on, as `held` says."""

    confirmation: Confirmation


@dataclass(frozen=True)
class OutputProduced:
    """A running call produced output: folded text, for reading, not for a terminal."""

    call_id: str
    text: str


@dataclass(frozen=True)
class TodosChanged:
    """The todo list after a change; `revision` grows with each."""

    todos: tuple[Todo, ...]
    by: str
    revision: int


Notice: TypeAlias = ConfirmationRequested | ConfirmationSettled | ConfirmationHeld | OutputProduced | TodosChanged
