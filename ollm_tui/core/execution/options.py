"""What an executor works with beside its registry, policy, bus and workspace."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

from ollm_tui.core.base.clock import Clock, IdSource
from ollm_tui.core.base.output import OutputStore
from ollm_tui.core.execution.calls import CallRecord
from ollm_tui.core.files.journal import Journal
from ollm_tui.core.policy.approvals import ApprovalStore
from ollm_tui.core.policy.rules import Mode
from ollm_tui.core.tools.context import ToolContext


class AutoAnswer(StrEnum):
    """Who answers confirmations when no person is there."""

    NOBODY = "nobody"
    YES = "--yes"


@dataclass(frozen=True)
class ExecutorOptions:
    """What an executor works with beside its registry, policy, bus and workspace; all have a default."""

    context: ToolContext | None = None
    """The services of the tools; what it does not have is made on demand and ends with the executor."""
    mode: Mode = Mode.ASK
    auto_answer: AutoAnswer = AutoAnswer.NOBODY
    """Settles each confirmation where no person is there."""
    nobody_hint: str = ""
    """Follows the words that nobody was there to answer."""
    confirm_timeout: float | None = 60.0
    """Seconds; None for no limit."""
    forgiving: bool = True
    """Repair arguments before they are validated."""
    outputs: OutputStore | None = None
    """Saves the full text of a result that is cut."""
    approvals: ApprovalStore | None = None
    on_record: Callable[[CallRecord], None] | None = None
    """Receives what the audit saves."""
    recorded: Callable[[], Awaitable[None]] | None = None
    """Waits before a call runs until the audit has saved what it received. Raises StorageFailed."""
    journal: Journal | None = None
    """Takes down what calls change in the workspace, for undo."""
    clock: Clock | None = None
    ids: IdSource | None = None
