"""What a call carries on its way through the executor: its place among others, its state, what is kept of it."""

from __future__ import annotations

import asyncio
import hashlib
import json
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject, UpdateOutput
from ollm_tui.core.bus.confirmation import Preview
from ollm_tui.core.bus.states import CallState, Origin, Risk
from ollm_tui.core.execution.call_states import Transition, next_state
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.approvals import RememberOffer
from ollm_tui.core.policy.audit import AuditEvent
from ollm_tui.core.policy.engine import Explanation, Floor, JudgedCall, TraceLine
from ollm_tui.core.policy.rules import Decision
from ollm_tui.core.tools.base import AnyInvocation, Effect


class AutoAnswer(StrEnum):
    """Who answers questions when no person is there."""

    NOBODY = "nobody"
    YES = "--yes"


@dataclass(frozen=True)
class CallReview:
    """The first half of a call, for the edit form and for `policy check`: what it would be judged, and why."""

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
    """What is kept of a call for the audit when it was judged, answered, or ended; never its arguments themselves."""

    event: AuditEvent
    call_id: str
    tool: str
    origin: Origin
    arguments_digest: str
    explanation: Explanation | None
    answer: str | None
    """How the question was settled, where one was asked."""
    by: str | None
    """Who or what settled it."""
    error_type: str | None
    waited_ms: int
    duration_ms: int


class CallOrder:
    """A call's place among those of one reply: all are asked about together and in order, and run in order."""

    def __init__(self, before: CallOrder | None = None) -> None:
        self.follows_others = before is not None
        # A place asked about or done is skipped for good: a reply of a thousand calls is a long chain.
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
        """This call's question is in the queue, or there is none for now."""
        self._asked.set()

    def done(self) -> None:
        """This call has its result."""
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
    place: CallOrder
    notes: list[str] = field(default_factory=list[str])
    explanation: Explanation | None = None
    answer: str | None = None
    answered_by: str | None = None
    tool: str = ""
    digest: str = ""
    waited: float = 0.0
    ran: float = 0.0
    state: CallState = CallState.PROPOSED

    def advance(self, transition: Transition) -> None:
        """Move to the next state. Raises IllegalTransition."""
        self.state = next_state(self.state, transition)

    def record(self, event: AuditEvent, error_type: str | None, waited: float, ran: float) -> CallRecord:
        """What is known of the call by now; `waited` and `ran` in seconds."""
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
            waited_ms=round(waited * 1000),
            duration_ms=round(ran * 1000),
        )


def canonical(arguments: JsonValue) -> str:
    return json.dumps(arguments, sort_keys=True, ensure_ascii=True, separators=(",", ":"))


def arguments_digest(invocation: AnyInvocation) -> str:
    return hashlib.sha256(canonical(invocation.params.on_the_wire()).encode()).hexdigest()


async def approval_digest(invocation: AnyInvocation, root: Path) -> str:
    """What an approval is bound to: tool, canonical arguments, working directory, states of the files shown."""
    parts = (
        invocation.tool.name,
        canonical(invocation.params.on_the_wire()),
        str(root),
        await invocation.state_digest(),
    )
    return hashlib.sha256("\0".join(parts).encode("utf-8", "surrogatepass")).hexdigest()


def raw_digest(arguments: JsonValue) -> str:
    """Of arguments that may turn out not to fit the tool; empty where they can not even be written down."""
    try:
        return hashlib.sha256(canonical(arguments).encode()).hexdigest()
    except (TypeError, ValueError, RecursionError):
        return ""


async def call_to_judge(
    invocation: AnyInvocation, workspace: Workspace, origin: Origin, signal: AbortSignal
) -> JudgedCall:
    """The call with its floors. Raises InvalidPath for a path outside, and what `should_confirm_execute` raises."""
    floors: list[Floor] = []
    inside = True
    for touched in invocation.touched_paths():
        location = workspace.resolve(touched.path, touched.access, follow=touched.follow)
        inside = inside and location.real.is_relative_to(workspace.root)
        sensitivity = workspace.sensitivity(location, touched.access)
        if sensitivity is not None:
            reason = f"{location.shown} {sensitivity.reason}"
            floors.append(Floor(Decision(sensitivity.decision), reason))
    tool = invocation.tool
    if await invocation.should_confirm_execute(signal):
        floors.append(Floor(Decision.ASK, f"{tool.name} always asks for a call like this"))
    if origin is Origin.SALVAGED and invocation.effect() not in (Effect.READS, Effect.PLANS):
        floors.append(Floor(Decision.ASK, "the call was read out of the model's plain text"))
    return JudgedCall(
        tool=tool,
        arguments=invocation.params.on_the_wire(),
        effect=invocation.effect(),
        origin=Origin.PLUGIN if tool.plugin else origin,
        virtual=invocation.virtual_parameters(),
        inside_workspace=inside,
        floors=tuple(floors),
    )
