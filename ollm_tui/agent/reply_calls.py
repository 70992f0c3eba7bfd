"""The calls of one reply: announced together, run through the executor, their results in order."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from ollm_tui.agent.events import LoggedResult, ToolCallEvent, ToolResultEvent
from ollm_tui.agent.guard import RepetitionGuard, TurnLimitError
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ConfirmationDenied, InvalidArguments, PolicyDenied, ToolFailure, ToolNotFound
from ollm_tui.core.base.results import ToolError, ToolResult
from ollm_tui.core.execution.calls import CallOrder, CallRemarks
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.tools.context import TaskOrder


@dataclass(frozen=True)
class _Place:
    """A call among those of its reply."""

    order: CallOrder
    before: _Place | None
    told: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once its result is published."""

    async def read_before_told(self) -> None:
        """Wait, for a call that only reads, until the result of the read before it is published."""
        before = self.before if self.order.only_reads else None
        while before is not None and not before.order.only_reads:
            before = before.before
        if before is not None:
            await before.told.wait()


class CallRunner:
    """Runs a reply's calls and publishes what becomes of each."""

    def __init__(
        self,
        executor: ToolExecutor,
        stream: EventStream,
        tools: Collection[str] | None = None,
        task: TaskOrder | None = None,
    ) -> None:
        """`tools` are all that run, for the sub-agent of `task`."""
        self._executor = executor
        self._stream = stream
        self._tools = tools
        self._task = task
        self._guard = RepetitionGuard()
        self._stuck = ""

    def begin_turn(self) -> None:
        """Forget what repeated itself in the turn before."""
        self._guard, self._stuck = RepetitionGuard(), ""

    def check(self) -> None:
        """Raise TurnLimitError where a call repeats itself and nobody is there to be asked."""
        if self._stuck:
            raise TurnLimitError(f"{self._stuck} The turn ends here; say how to go on.")

    def announce(self, calls: list[wire.ToolCall]) -> None:
        """Publish the calls before they run."""
        for call in calls:
            self._stream.publish(
                ToolCallEvent(call_id=self._id_of(call), name=call.name, arguments=call.arguments, origin=call.origin)
            )

    async def run(self, calls: list[wire.ToolCall], signal: AbortSignal) -> list[ToolResult]:
        """Validate and confirm all calls of a reply together; reads run together, changes in order."""
        tasks: list[asyncio.Task[ToolResult]] = []
        place: _Place | None = None
        for call in calls:
            place = _Place(CallOrder(place.order if place else None), place)
            tasks.append(asyncio.create_task(self._run_one(call, place, signal)))
        try:
            return list(await asyncio.gather(*tasks))
        except BaseException:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise

    async def _run_one(self, call: wire.ToolCall, place: _Place, signal: AbortSignal) -> ToolResult:
        if (refusal := self._refusal(call)) is not None:
            place.order.done()
            result = ToolResult.of_failure(refusal)
        else:
            result = await self._execute(call, place.order, signal)
        # What was cut for the model may be a hundred thousand entries in `data`: too many to hold up the screen.
        logged = await asyncio.to_thread(LoggedResult.of, result) if result.truncated else LoggedResult.of(result)
        await place.read_before_told()
        self._stream.publish(ToolResultEvent(call_id=self._id_of(call), result=logged))
        place.told.set()
        return result

    def _id_of(self, call: wire.ToolCall) -> str:
        """Return the call's id in events: a model's own repeat in a sub-agent."""
        return call.id if self._task is None else f"{self._task.call_id}.{call.id}"

    def _refusal(self, call: wire.ToolCall) -> ToolFailure | None:
        """Return why a call cannot even be judged."""
        if call.error is not None:
            return InvalidArguments(call.error)
        if self._tools is None:
            return None
        try:
            name = self._executor.registry.resolve(call.name, call.arguments).tool.name
        except ToolFailure as unknown:
            return unknown
        if name in self._tools:
            return None
        return ToolNotFound(f"{name} is not one of your tools. You have {', '.join(sorted(self._tools)) or 'none'}.")

    async def _execute(self, call: wire.ToolCall, order: CallOrder, signal: AbortSignal) -> ToolResult:
        question = self._guard.question(call.name, call.arguments)
        if question and not self._executor.attended:
            order.done()
            self._stuck = f"{call.name}: {question}."
            return ToolResult.of_failure(PolicyDenied(f"Not run: {question}."))
        result = await self._executor.execute(
            call.name,
            call.arguments,
            signal,
            call_id=self._id_of(call),
            origin=call.origin,
            order=order,
            remarks=CallRemarks(question, "" if self._task is None else self._task.name),
        )
        if question:
            self._guard.forget(call.name, call.arguments)
        return self._guard.noted(call.name, call.arguments, result)


def tool_message(call: wire.ToolCall, result: ToolResult) -> wire.ToolMessage:
    """Return a call's result as the model reads it."""
    return wire.ToolMessage(call.id, call.name, result.for_model(), outcome_of(result.error))


def outcome_of(error: ToolError | None) -> wire.ToolOutcome:
    """Return how a call ended."""
    if error is None:
        return wire.ToolOutcome.DONE
    denied = error.code in (PolicyDenied.code, ConfirmationDenied.code)
    return wire.ToolOutcome.DENIED if denied else wire.ToolOutcome.FAILED
