"""What the core can say while it works; the agent's stream wraps these into events."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from ollm_tui.core.bus.confirmation import ConfirmationResponse
from ollm_tui.core.bus.states import Confirmation

if TYPE_CHECKING:
    from ollm_tui.core.todos.todo_list import Todo


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
