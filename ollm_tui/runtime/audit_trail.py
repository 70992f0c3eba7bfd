"""What the executor tells about calls, as lines of the audit log and as counts of approvals."""

from __future__ import annotations

import logging

from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.execution.calls import CallRecord
from ollm_tui.core.policy.approvals import ApprovalUses
from ollm_tui.core.policy.audit import AuditEntry, AuditEvent, AuditLog, AuditWriter, entry_about
from ollm_tui.core.storage.store import Store

log = logging.getLogger(__name__)


def audit_writer(store: Store, clock: Clock) -> AuditWriter:
    """The writer of a process; what cannot be written is said in the program's own log."""
    return AuditWriter(AuditLog(store, clock=clock), _failed, clock=clock)


def audit_entry(record: CallRecord) -> AuditEntry:
    """One line about one event of a call."""
    outcome = record.answer
    latency: int | None = record.waited_ms
    match record.event:
        case AuditEvent.DECIDED:
            outcome, latency = None, None
        case AuditEvent.SETTLED:
            pass
        case AuditEvent.FINISHED:
            outcome, latency = record.error_type or "ok", record.waited_ms + record.duration_ms
    return entry_about(
        record.event,
        record.explanation,
        call_id=record.call_id,
        tool=record.tool,
        origin=record.origin,
        arguments_sha256=record.arguments_digest,
        outcome=outcome,
        by=record.by if record.event is not AuditEvent.DECIDED else None,
        latency_ms=latency,
    )


def approval_uses(store: Store, clock: Clock) -> ApprovalUses:
    """The counts of a process; what cannot be written is said in the program's own log."""
    return ApprovalUses(store, _uncounted, clock=clock)


def _failed(failure: StorageFailed) -> None:
    log.error("A line of the audit log is lost: %s", failure.message)


def _uncounted(failure: StorageFailed) -> None:
    log.warning("The use of an approval is not counted: %s", failure.message)
