"""A foreign agent in the place of ours: its turns are turns of our session."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import PurePath

from ollm_tui.agent.attachments import Sources
from ollm_tui.agent.events import TurnStatus
from ollm_tui.agent.foreign.client import ForeignClient
from ollm_tui.agent.foreign.process import ForeignProcess
from ollm_tui.agent.foreign.turn import ForeignTurn
from ollm_tui.agent.loop import Agent
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.base.escape import visible
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.todos.todo_list import TodoList

CANCEL_SECONDS = 5.0
"""How long an agent may take to stop; one that does not is ended."""

_STOPPED = {
    "max_tokens": "it has no tokens left",
    "max_turn_requests": "it has made as many requests as one turn may",
    "refusal": "it refuses to go on",
}


class ForeignProvider:
    """Stands for the model of a foreign agent, which nobody here asks."""

    name = "agent"

    def __init__(self, command: Sequence[str]) -> None:
        self.command = tuple(command)

    @property
    def model(self) -> str | None:
        """The agent's name: it chooses its model itself."""
        return visible(PurePath(self.command[0]).name)

    def describe(self) -> wire.ProviderDescription:
        """Return the agent's name."""
        return wire.ProviderDescription(self.name, self.model, takes_tools=False)

    def agent(
        self,
        executor: ToolExecutor,
        stream: EventStream,
        todos: TodoList,
        sources: Sources,
        on_turn_end: Callable[[], None],
    ) -> ForeignAgent:
        """Return the agent in the place of ours."""
        return ForeignAgent(self, executor, stream, todos, sources=sources, on_turn_end=on_turn_end)

    async def list_models(self) -> tuple[wire.ModelInfo, ...]:
        """Return nothing: the agent chooses its model itself."""
        return ()

    async def aclose(self) -> None:
        """Do nothing."""

    async def stream(self, request: wire.ChatRequest, signal: AbortSignal) -> AsyncGenerator[wire.StreamEvent, None]:
        """Refuse. Raises ProviderError."""
        message = f"{self.model} keeps its conversation itself: this does not work with an agent of its own."
        raise wire.ProviderError(wire.ProviderErrorKind.REFUSED, message)
        yield wire.StreamFinished(wire.FinishReason.STOP)


class ForeignAgent(Agent):
    """The conversation of person and foreign agent."""

    def __init__(
        self,
        provider: ForeignProvider,
        executor: ToolExecutor,
        stream: EventStream,
        todos: TodoList,
        *,
        sources: Sources,
        on_turn_end: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(provider, executor, stream, sources=sources, on_turn_end=on_turn_end)
        self._told = ForeignTurn(provider.model or "the agent", stream, todos, self.queue.add)
        client = ForeignClient(executor, self._told)
        self._process = ForeignProcess(provider.command, executor.workspace.root, lambda: client)
        self._sent = 0
        """How many messages of the history the agent knows."""
        self._other_session = False
        """Whether the conversation is another one than the agent knows."""

    def restore(self, messages: Iterable[wire.Message], waiting: Iterable[wire.ToolCall] = ()) -> None:
        """Replace the conversation; the agent begins anew with the next message."""
        super().restore(messages, waiting)
        self._sent, self._other_session = 0, True

    def use(self, provider: wire.Provider) -> None:
        """Keep the agent: it chooses its model itself."""
        self._told.tell(f"{self._told.agent} chooses its model itself; a start without --agent has models of yours.")

    async def compact(self, hint: str = "") -> bool:
        """Do nothing: the agent keeps its conversation itself."""
        self._told.tell(f"{self._told.agent} keeps its conversation itself and makes room in it when it has to.")
        return False

    async def aclose(self) -> None:
        """End the agent with all that it started."""
        await self._process.aclose()

    async def _take_turn(self, signal: AbortSignal) -> TurnStatus:
        await self._attachments.before_turn(signal)
        while True:
            stopped = await self._prompt(signal)
            if stopped != "end_turn":
                self._told.tell(f"{self._told.agent} stopped: {_STOPPED.get(stopped, stopped)}.")
            messages = self.queue.take_all()
            if not messages:
                return TurnStatus.COMPLETED
            for message in messages:
                with self._refusals_told():
                    await self._say(message.text, signal)
                await self._attachments.read_references(signal)

    async def _prompt(self, signal: AbortSignal) -> str:
        """Send what the agent does not know yet, and tell what it does until it stops. Raises ProviderError."""
        history = self._rounds.history
        if self._other_session:
            self._other_session = False
            await self._process.aclose()
        if not self._process.started:
            if any(isinstance(one, wire.AssistantMessage) for one in history):
                self._told.tell(f"{self._told.agent} begins anew: it does not know what was said before.")
            last = max(at for at, one in enumerate(history) if isinstance(one, wire.UserMessage))
            self._sent = min(last, self._sent) if self._sent else last
        texts = [part for one in history[self._sent :] if isinstance(one, wire.UserMessage) for part in (one.whole,)]
        self._told.begin(signal)
        asking = asyncio.ensure_future(self._process.prompt(texts))
        try:
            stopped = await signal.guard(asyncio.shield(asking))
        except (OperationCancelled, asyncio.CancelledError):
            await self._stop(asking)
            raise
        finally:
            text = self._told.end()
        if text:
            history.append(wire.AssistantMessage(text))
        self._sent = len(history)
        return stopped

    async def _stop(self, asking: asyncio.Future[str]) -> None:
        """Have the agent stop; end it where it does not."""
        await self._process.cancel()
        with suppress(TimeoutError, wire.ProviderError):
            async with asyncio.timeout(CANCEL_SECONDS):
                await asyncio.shield(asking)
        if not asking.done():
            asking.cancel()
            await self._process.aclose()
        self._sent = len(self._rounds.history)
