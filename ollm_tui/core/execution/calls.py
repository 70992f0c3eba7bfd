"""What a call carries on its way through the executor: its order among others, its state, what is kept of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, field

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject, UpdateOutput
from ollm_tui.core.bus.confirmation import Preview
from ollm_tui.core.bus.states import CallState, Origin, Risk
from ollm_tui.core.execution.call_states import Transition, next_state
from ollm_tui.core.policy.approvals import RememberOffer
from ollm_tui.core.policy.audit import AuditEvent
from ollm_tui.core.policy.engine import Explanation, TraceLine
from ollm_tui.core.policy.rules import Decision


@dataclass(frozen=True)
class CallReview:
    """The first half of a call, for the edit form: what it would be judged, and why."""

    decision: Decision
    risk: Risk
    reason: str
    errors: tuple[str, ...] = ()
    """Why it cannot run whatever anybody answers."""
    trace: tuple[TraceLine, ...] = ()
    arguments: JsonObject = field(default_factory=dict[str, JsonValue])
    notes: tuple[str, ...] = ()
    preview: Preview | None = None
    offer: RememberOffer | None = None
    """What "approve and remember" would save; None where that is not offered."""


@dataclass(frozen=True)
class CallRecord:
    """What the audit keeps of a call when it was judged, answered, or ended; never its arguments themselves."""

    event: AuditEvent
    call_id: str
    tool: str
    origin: Origin
    arguments_digest: str
    explanation: Explanation | None
    answer: str | None
    """How the confirmation was settled, where there was one."""
    by: str | None
    """Who or what settled it."""
    error_type: str | None
    waited_ms: int
    duration_ms: int


class CallOrder:
    """A call's position in a reply: all calls are asked about together and in order, and run in order."""

    def __init__(self, before: CallOrder | None = None) -> None:
        self.follows_others = before is not None
        # A call asked about or done is skipped for good: a reply of a thousand calls is a long chain.
        self._unasked = self._undone = before
        self._asked = asyncio.Event()
        self._done = asyncio.Event()

    async def my_question(self) -> None:
        """Wait until the calls before have put their questions, or have none."""
        while (before := self._unasked) is not None:
            await before._asked.wait()
            self._unasked = before._unasked

    async def my_turn(self) -> None:
        """Wait until the calls before are done."""
        while (before := self._undone) is not None:
            await before._done.wait()
            self._undone = before._undone

    def asked(self) -> None:
        """Let the next call ask: this one's question is in the queue, or there is none for now."""
        self._asked.set()

    def done(self) -> None:
        """Let the next call run: this one has its result."""
        self._asked.set()
        self._done.set()


@dataclass
class CallContext:
    """One call on its way through the pipeline."""

    call_id: str
    name: str
    origin: Origin
    signal: AbortSignal
    update_output: UpdateOutput | None
    order: CallOrder
    tool: str = ""
    digest: str = ""
    notes: list[str] = field(default_factory=list[str])
    explanation: Explanation | None = None
    answer: str | None = None
    answered_by: str | None = None
    waited: float = 0.0
    """Seconds for a person."""
    ran: float = 0.0
    """Seconds of the tool's own."""
    state: CallState = CallState.PROPOSED

    def advance(self, transition: Transition) -> None:
        """Move to the next state. Raises IllegalTransitionError."""
        self.state = next_state(self.state, transition)

    async def my_turn(self) -> None:
        """Wait until the calls before are done. Raises OperationCancelled."""
        self.signal.throw_if_aborted()
        if self.order.follows_others:
            await self.signal.guard(self.order.my_turn())

    def record(self, event: AuditEvent, *, error_type: str | None = None, waited: float | None = None) -> CallRecord:
        """Return what is known of the call by now; `waited` in seconds where it is not all of its waiting."""
        return CallRecord(
            event=event,
            call_id=self.call_id,
            tool=self.tool,
            origin=self.origin,
            arguments_digest=self.digest,
            explanation=self.explanation,
            answer=self.answer,
            by=self.answered_by,
            error_type=error_type,
            waited_ms=round((self.waited if waited is None else waited) * 1000),
            duration_ms=round(self.ran * 1000),
        )


def digest_of(*parts: str) -> str:
    """Return the digest of texts in order."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def canonical(arguments: JsonValue) -> str:
    """Return arguments as JSON that is the same for equal arguments."""
    return json.dumps(arguments, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def raw_digest(arguments: JsonValue) -> str:
    """Return the digest of unvalidated arguments; empty where they cannot be written as JSON."""
    try:
        return digest_of(canonical(arguments))
    except (TypeError, ValueError, RecursionError):
        return ""
