"""One history, the requests that go on from it, and the calls of their replies."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import asdict, replace

from ollm_tui.agent.context import ContextKeeper, ContextPart
from ollm_tui.agent.context_items import ContextItem, event_of, items_of, position_of, without
from ollm_tui.agent.events import ContextDroppedEvent, NoticeEvent
from ollm_tui.agent.guard import TurnMeter
from ollm_tui.agent.hooks.hooks import TurnHooks
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.reply import Reply, collect_reply
from ollm_tui.agent.reply_calls import CallRunner, tool_message
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.core.tools.context import TaskOrder

_EMPTY_ONCE = "The model answered nothing. It is asked once more."
_EMPTY_TWICE = "The model answered nothing again. Word it in another way, or choose another model."


class Rounds:
    """Asks the model with a history that fits its window, and runs what it asks for."""

    def __init__(
        self,
        provider: Callable[[], wire.Provider],
        executor: ToolExecutor,
        stream: EventStream,
        system: str,
        *,
        hooks: TurnHooks | None = None,
        tools: Collection[str] | None = None,
        task: TaskOrder | None = None,
    ) -> None:
        """Begin with a system prompt; `tools` narrows what is offered and runs, `task` is a sub-agent's."""
        self._provider = provider
        self._executor = executor
        self._stream = stream
        self._hooks = hooks
        self._tools = tools
        self.history: list[wire.Message] = [wire.SystemMessage(system)]
        self.calls = CallRunner(executor, stream, tools=tools, task=task)
        self.context = ContextKeeper(provider, stream, hooks)
        """How full the window is, and what gives way."""

    def forget_window(self) -> None:
        """Forget what was learned of the last model's window."""
        self.context = ContextKeeper(self._provider, self._stream, self._hooks)

    async def reply(self, meter: TurnMeter, signal: AbortSignal) -> Reply:
        """Return the model's reply; one without a word or a call is asked for once more."""
        for again in (True, False):
            meter.begin_round()
            try:
                reply = await self._request(signal)
            except wire.ProviderError as error:
                if error.kind is not wire.ProviderErrorKind.CONTEXT_OVERFLOW or not await self._shorten(error, signal):
                    raise
                reply = await self._request(signal)
            meter.used(reply.usage)
            self.context.answered(reply.usage, reply.message())
            if not reply.empty:
                return reply
            self._stream.publish(NoticeEvent(text=_EMPTY_ONCE if again else _EMPTY_TWICE))
        return reply

    async def answer(self, calls: list[wire.ToolCall], meter: TurnMeter, signal: AbortSignal) -> list[ToolResult]:
        """Run the calls and add their results to the history."""
        results = await self.calls.run(calls, signal)
        self.history += map(tool_message, calls, results)
        meter.waited(results)
        signal.throw_if_aborted()
        self.calls.check()
        return results

    async def compact(self, signal: AbortSignal, hint: str | None = None) -> bool:
        """Sum up the earlier conversation; return whether there was anything to sum up."""
        return await self.context.compact(self.history, self._offered(), signal, hint)

    def parts(self) -> list[ContextPart]:
        """Return what the next request is made of, the largest first."""
        return self.context.parts(self.history, self._offered())

    def items(self) -> list[ContextItem]:
        """Return the items of the context that can be dropped, the largest first."""
        return items_of(self.history, lambda message: self.context.estimate([message]))

    def drop(self, item: ContextItem) -> bool:
        """Leave an item out of all further requests; return whether it was there."""
        pairs = ((event_of(message), message) for message in self.history)
        at = position_of(pairs, item.message, item.call_id)
        if at is None:
            return False
        self.history[at] = without(self.history[at])
        self._stream.publish(ContextDroppedEvent(**asdict(item)))
        return True

    async def takes_images(self) -> bool | None:
        """Return whether the model takes images; None where nobody tells."""
        provider = self._provider()
        try:
            return await provider.takes_images() if isinstance(provider, wire.ServerProvider) else False
        except wire.ProviderError:
            return None

    def attach(self, text: str, event_id: int, image: wire.Image | None = None) -> None:
        """Put a text before the last message where that is the person's, else behind it as one of its own."""
        last = self.history[-1]
        if isinstance(last, wire.UserMessage):
            behind = last.behind(text)
            self.history[-1] = replace(behind, images=(*behind.images, image)) if image else behind
        else:
            self.history.append(wire.UserMessage("", text, event_id))

    async def _request(self, signal: AbortSignal) -> Reply:
        """Send one request that fits into the window."""
        provider = self._provider()
        if self.context.limit is None and isinstance(provider, wire.ServerProvider):
            # which tools it is offered depends on it, and the prompt must begin with the same ones in every request
            for notice in await signal.guard(provider.find_window()):
                self._stream.publish(NoticeEvent(text=notice))
        tools = self._offered()
        size = await self.context.make_room(self.history, tools, signal)
        request = wire.ChatRequest(messages=tuple(self.history), tools=tools, estimated_tokens=size)
        return await collect_reply(provider, request, self._stream, signal, self._keep)

    async def _shorten(self, error: wire.ProviderError, signal: AbortSignal) -> bool:
        """Make room after the server found a request too large; return whether there was something to shorten."""
        self.context.refused(error)
        return await self.compact(signal)

    def _keep(self, reply: Reply) -> None:
        if (message := reply.message()) is not None:
            self.history.append(message)

    def _offered(self) -> tuple[wire.ToolSchema, ...]:
        if not self._provider().describe().takes_tools:
            return ()
        return self.context.affordable(
            tuple(
                wire.ToolSchema(name=str(schema["name"]), description=str(schema["description"]), parameters=parameters)
                for schema in self._executor.offered_schemas()
                if isinstance(parameters := schema["parameters"], dict)
                and (self._tools is None or schema["name"] in self._tools)
            ),
            self.history,
        )
