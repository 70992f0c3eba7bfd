"""What an executor may be given beside its registry, policy, bus and workspace; the composition root fills it in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ollm_tui.core.base.clock import Clock, IdSource
from ollm_tui.core.base.output import OutputStore
from ollm_tui.core.execution.calls import CallRecord
from ollm_tui.core.execution.permission import AutoAnswer
from ollm_tui.core.policy.approvals import ApprovalStore
from ollm_tui.core.policy.rules import Mode
from ollm_tui.core.tools.context import ToolContext


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
    """Keeps the full text of a result that is cut."""
    approvals: ApprovalStore | None = None
    on_record: Callable[[CallRecord], None] | None = None
    """Receives what the audit keeps."""
    clock: Clock | None = None
    ids: IdSource | None = None
