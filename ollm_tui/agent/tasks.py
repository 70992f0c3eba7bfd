"""Sub-agents: loops with a context of their own and fewer tools, on the same policy, queue, journal and limits."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from ollm_tui.agent.attachments import Sources
from ollm_tui.agent.events import (
    UNLOGGED,
    AssistantMessageEvent,
    AttachedEvent,
    Event,
    NoticeEvent,
)
from ollm_tui.agent.guard import TurnLimitError, TurnMeter
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.rounds import Rounds
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.abort import AbortController, AbortSignal, linked
from ollm_tui.core.base.errors import OperationCancelled, TaskFailed, ToolNotFound
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.tools.context import TaskOrder
from ollm_tui.core.tools.propose_plan import PROPOSE_PLAN
from ollm_tui.core.tools.task import TASK
from ollm_tui.core.tools.write_todos import WRITE_TODOS

MOST_AT_ONCE = 3

NOT_FOR_TASKS = frozenset({TASK.name, PROPOSE_PLAN.name, WRITE_TODOS.name})
"""No sub-agents of sub-agents; plan and todo list are the agent's that gave the task."""

NO_ANSWER = "(the sub-agent ended without an answer)"

_INSTRUCTION = """\
You are a sub-agent: another agent gave you the task below and reads only your last message. You cannot ask anybody.
Do the task, then say in that message what you found or did, with the names, paths and lines that matter."""


class Tasks:
    """Runs the sub-agents of one agent, so many at once."""

    def __init__(
        self,
        provider: Callable[[], wire.Provider],
        executor: ToolExecutor,
        stream: EventStream,
        parent: Rounds,
        meter: Callable[[], TurnMeter],
        sources: Sources,
    ) -> None:
        """Take the rounds whose system prompt they share, and how to get the meter of the running turn."""
        self._provider = provider
        self._executor = executor
        self._stream = stream
        self._parent = parent
        self._meter = meter
        self._hooks = sources.hooks
        self._instructions = sources.instructions
        self._room = asyncio.Semaphore(MOST_AT_ONCE)
        self._running: dict[str, AbortController] = {}
        executor.offer_tasks(self)

    def unknown_tools(self, names: Sequence[str]) -> list[str]:
        """Return those of the names that no sub-agent can have."""
        return [name for name in names if self._tool_named(name) is None]

    def stop(self, call_id: str) -> bool:
        """Stop the sub-agent of this call alone; return False where none runs for it."""
        controller = self._running.get(call_id)
        if controller is not None:
            controller.abort("stopped by the person")
        return controller is not None

    async def run(self, order: TaskOrder, signal: AbortSignal) -> str:
        """Return the sub-agent's last text. Raises TaskFailed, OperationCancelled."""
        with linked(signal) as controller:
            self._running[order.call_id] = controller
            try:
                await controller.signal.guard(self._room.acquire())
                try:
                    return await self._loop(order, controller.signal)
                finally:
                    self._room.release()
            finally:
                del self._running[order.call_id]

    async def _loop(self, order: TaskOrder, signal: AbortSignal) -> str:
        chosen = self._available() if order.tools is None else {self._tool_named(name) for name in order.tools}
        system = self._parent.history[0]
        assert isinstance(system, wire.SystemMessage), "a history begins with the system prompt"
        stream = TaskStream(self._stream, order.call_id)
        instructions = None if self._instructions is None else self._instructions.for_task()
        rounds = Rounds(
            self._provider,
            self._executor,
            stream,
            f"{system.text}\n\n{_INSTRUCTION}",
            tools=frozenset(filter(None, chosen)),
            task=order,
        )
        rounds.history.append(wire.UserMessage(order.prompt))
        said = ""
        try:
            while True:
                reply = await rounds.reply(self._meter(), signal)
                said = reply.text.strip() or said
                if not reply.calls:
                    if self._hooks is not None:
                        await self._hooks.after_task(order.name, signal)
                    return said or NO_ANSWER
                rounds.calls.announce(reply.calls)
                results = await rounds.answer(reply.calls, self._meter(), signal)
                if instructions is not None:
                    touched = [call.arguments for call, one in zip(reply.calls, results, strict=True) if one.ok]
                    found = await signal.in_thread(instructions.on_the_way_to, touched)
                    for words in found.notices:
                        stream.publish(NoticeEvent(text=words))
                    for name, text in found.texts:
                        event = stream.publish(AttachedEvent(name=name, text=text, place="conversation"))
                        rounds.attach(text, event.id)
        except OperationCancelled as stopped:
            raise OperationCancelled(stopped.message, partial=said) from None
        except TurnLimitError as error:
            raise TaskFailed(str(error), partial=said) from None
        except wire.ProviderError as error:
            raise TaskFailed(f"The sub-agent's model failed: {error.message}", partial=said) from None

    def _available(self) -> set[str]:
        offered = {str(schema["name"]) for schema in self._executor.offered_schemas()}
        return offered - NOT_FOR_TASKS

    def _tool_named(self, name: str) -> str | None:
        """Return the name of a tool that a sub-agent can have."""
        try:
            resolved = self._executor.registry.resolve(name, None).tool.name
        except ToolNotFound:
            return None
        return resolved if resolved in self._available() else None


class TaskStream(EventStream):
    """Marks a sub-agent's events as its own, and leaves out what only a live answer needs."""

    def __init__(self, stream: EventStream, call_id: str) -> None:
        self._whole = stream
        self._call_id = call_id

    def publish(self, event: Event) -> Event:
        """Publish an event of the sub-agent; the ids of its calls are unique in the session."""
        if isinstance(event, UNLOGGED):
            return event
        if isinstance(event, AssistantMessageEvent):
            calls = [call.model_copy(update={"id": f"{self._call_id}.{call.id}"}) for call in event.tool_calls]
            event = event.model_copy(update={"tool_calls": tuple(calls)})
        return self._whole.publish(event.model_copy(update={"task": self._call_id}))
