"""One call on its way through the executor: its states, its order among others, its record for the audit."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import NamedTuple

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import ExecutionPlace, JsonObject, UpdateOutput
from ollm_tui.core.bus.confirmation import Preview
from ollm_tui.core.bus.states import CallState, Origin, Risk
from ollm_tui.core.execution.call_hooks import HookWord
from ollm_tui.core.policy.approvals import RememberOffer
from ollm_tui.core.policy.audit import AuditEvent
from ollm_tui.core.policy.engine import Explanation, JudgedCall, TraceLine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.base import AnyInvocation


class Transition(StrEnum):
    """What moves a call from one state to the next."""

    VALIDATE = "validate"
    JUDGE = "judge"
    """Also once more, when calls before it may have changed what it does."""
    ASK = "ask"
    APPROVE = "approve"
    EDIT = "edit"
    """Approved with changed arguments: back to the top."""
    STALE = "stale"
    """What was approved is not what would happen now: asked again."""
    RUN = "run"
    FINISH = "finish"
    """It has a result, an error and a denial included."""
    CANCEL = "cancel"


TRANSITIONS: Mapping[CallState, Mapping[Transition, CallState]] = {
    CallState.PROPOSED: {
        Transition.VALIDATE: CallState.VALIDATED,
    },
    CallState.VALIDATED: {
        Transition.JUDGE: CallState.JUDGED,
    },
    CallState.JUDGED: {
        Transition.JUDGE: CallState.JUDGED,
        Transition.ASK: CallState.WAITING,
        Transition.RUN: CallState.RUNNING,
    },
    CallState.WAITING: {
        Transition.APPROVE: CallState.REVIEWING,
        Transition.EDIT: CallState.PROPOSED,
    },
    CallState.REVIEWING: {
        Transition.STALE: CallState.JUDGED,
        Transition.RUN: CallState.RUNNING,
    },
    CallState.RUNNING: {
        Transition.JUDGE: CallState.JUDGED,  # whether it may run again outside its cage, or run more, is asked
    },
    CallState.DONE: {},
}
"""Beside these, FINISH and CANCEL lead from everywhere but DONE to DONE."""


class IllegalTransitionError(RuntimeError):
    """A transition that the call's state does not have; carries both."""

    def __init__(self, state: CallState, transition: Transition) -> None:
        self.state = state
        self.transition = transition
        super().__init__(f"a call that is {state} cannot {transition}")


def next_state(state: CallState, transition: Transition) -> CallState:
    """Return the state that `transition` leads to. Raises IllegalTransitionError."""
    if transition in (Transition.FINISH, Transition.CANCEL) and state is not CallState.DONE:
        return CallState.DONE
    try:
        return TRANSITIONS[state][transition]
    except KeyError:
        raise IllegalTransitionError(state, transition) from None


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
    digest: str = ""
    """Of all that was reviewed; an approval of changed arguments that carries it holds for exactly that."""


class Judged(NamedTuple):
    """A call that was validated and judged, as things stood then."""

    invocation: AnyInvocation
    call: JudgedCall
    explanation: Explanation

    def place_where_it_runs(self) -> ExecutionPlace | None:
        """Have it run as it was judged, in a cage or not; return where."""
        self.invocation.looks = self.explanation.looks
        return self.invocation.place


class CallToJudge(NamedTuple):
    """A call as it was sent, to be judged anew."""

    name: str
    arguments: JsonObject
    origin: Origin
    call_id: str = ""


class CallRecord(NamedTuple):
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
    place: ExecutionPlace | None = None
    """Where its programs ran; None until it runs."""


class CallOrder:
    """A call's position in a reply: calls are asked about together, reads run together, changes in order."""

    def __init__(self, before: CallOrder | None = None) -> None:
        self.follows_others = before is not None
        self.only_reads = False
        """Whether it runs beside others that only read; known once it runs."""
        # A call asked about or done is skipped for good: a reply of a thousand calls is a long chain.
        self._unasked = self._undone = self._unpassed = before
        self._asked = asyncio.Event()
        self._passed = asyncio.Event()
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

    async def my_turn_to_read(self) -> None:
        """Wait until the calls before are done, except for those that only read."""
        while (before := self._unpassed) is not None:
            await before._passed.wait()
            self._unpassed = before._unpassed

    def asked(self) -> None:
        """Let the next call ask: this one's question is in the queue, or there is none for now."""
        self._asked.set()

    def reads(self) -> None:
        """Let calls that read run beside this one, which only reads and needs no answer."""
        self.only_reads = True
        self._passed.set()

    def done(self) -> None:
        """Let the next call run: this one has its result."""
        self._asked.set()
        self._passed.set()
        self._done.set()


class CallRemarks(NamedTuple):
    """What a caller adds to a call."""

    question: str = ""
    """Why a person is asked whatever the policy says."""
    task: str = ""
    """The name of the sub-agent that proposed it."""


@dataclass
class CallContext:
    """One call on its way through the pipeline."""

    call_id: str
    name: str
    origin: Origin
    signal: AbortSignal
    update_output: UpdateOutput | None
    order: CallOrder
    arguments: JsonValue
    """As the caller gave them."""
    tool: str = ""
    digest: str = ""
    """Of the validated arguments, once it is judged."""
    remarks: CallRemarks = field(default_factory=CallRemarks)
    hooked: HookWord = field(default_factory=HookWord)
    """What hooks made of its arguments as they are now."""
    ran_with: JsonObject | None = None
    """The arguments it ran with, where hooks hear of it."""
    only_reads: bool = False
    """It was judged to change nothing, and to need no answer."""
    notes: list[str] = field(default_factory=list[str])
    explanation: Explanation | None = None
    answer: str | None = None
    answered_by: str | None = None
    place: ExecutionPlace | None = None
    """Where its programs run, once it does."""
    waited: float = 0.0
    """Seconds for a person."""
    ran: float = 0.0
    """Seconds of the tool's own."""
    state: CallState = CallState.PROPOSED

    def advance(self, transition: Transition) -> None:
        """Move to the next state. Raises IllegalTransitionError."""
        self.state = next_state(self.state, transition)

    async def my_turn(self) -> None:
        """Wait until the calls before are done, beside others that read where it reads. Raises OperationCancelled."""
        self.signal.throw_if_aborted()
        if self.order.follows_others:
            await self.signal.guard(self.order.my_turn_to_read() if self.only_reads else self.order.my_turn())

    def record(self, event: AuditEvent, *, error_type: str | None = None, waited: float | None = None) -> CallRecord:
        """Return what is known of the call by now; `waited` in seconds where it is not all of its waiting."""
        return CallRecord(
            event=event,
            call_id=self.call_id,
            tool=self.tool,
            origin=self.origin,
            arguments_digest=self.digest or raw_digest(self.arguments),
            explanation=self.explanation,
            answer=self.answer,
            by=self.answered_by,
            error_type=error_type,
            waited_ms=round((self.waited if waited is None else waited) * 1000),
            duration_ms=round(self.ran * 1000),
            place=self.place,
        )


def digest_of(*parts: str) -> str:
    """Return the digest of texts in order."""
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode
"""Return arguments as JSON that is the same for equal arguments."""


def raw_digest(arguments: JsonValue) -> str:
    """Return the digest of unvalidated arguments; empty where they cannot be written as JSON."""
    try:
        return digest_of(canonical(arguments))
    except (TypeError, ValueError, RecursionError):
        return ""
