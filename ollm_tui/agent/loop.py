"""The agent loop: stream a reply, run its calls, feed results back, until none are left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass

from ollm_tui.agent.context import ContextKeeper, ContextPart
from ollm_tui.agent.events import (
    AttachedEvent,
    CompactedEvent,
    ErrorEvent,
    Event,
    NoticeEvent,
    TurnError,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
)
from ollm_tui.agent.guard import TurnLimitError, TurnLimits, TurnMeter
from ollm_tui.agent.hooks.hooks import HookTexts
from ollm_tui.agent.hooks.turn_hooks import TurnHooks
from ollm_tui.agent.instructions import Instructions, InstructionsFound, system_prompt
from ollm_tui.agent.message_queue import MessageQueue
from ollm_tui.agent.prompt_commands import CommandFailedError, PromptCommands
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.providers.json_values import well_formed
from ollm_tui.agent.recall import MemoryRecall
from ollm_tui.agent.references import ReferenceReader
from ollm_tui.agent.reply import Reply, collect_reply
from ollm_tui.agent.reply_calls import CallRunner, tool_message
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.errors import (
    OperationCancelled,
    StorageFailed,
    ToolFailure,
)
from ollm_tui.core.base.log_file import log_path
from ollm_tui.core.execution.executor import ToolExecutor

log = logging.getLogger(__name__)

_EMPTY_ONCE = "The model answered nothing. It is asked once more."
_EMPTY_TWICE = "The model answered nothing again. Word it in another way, or choose another model."


@dataclass(frozen=True)
class Sources:
    """What is sent beside what the person writes."""

    recall: MemoryRecall | None = None
    """Chooses what goes before the session's first message."""
    instructions: Instructions | None = None
    references: ReferenceReader | None = None
    """Reads what messages refer to; None for one without a window to mind."""
    hooks: TurnHooks | None = None
    commands: PromptCommands | None = None


class MessageRefusedError(Exception):
    """A hook that keeps a message of the person back; the message says which, and why."""


class Agent:
    """A conversation of person, model and tools; one turn at a time, published as events."""

    def __init__(
        self,
        provider: wire.Provider,
        executor: ToolExecutor,
        stream: EventStream,
        *,
        limits: TurnLimits = TurnLimits(),  # noqa: B008  # frozen
        sources: Sources = Sources(),  # frozen
        on_first_message: Callable[[], object] | None = None,
        on_turn_end: Callable[[], None] | None = None,
    ) -> None:
        """`on_first_message` runs before the session's first message, in a thread."""
        self.provider = provider
        self.executor = executor
        self.stream = stream
        self._calls = CallRunner(executor, stream)
        self._hooks = sources.hooks
        self._commands = sources.commands
        self.context = ContextKeeper(lambda: self.provider, stream, self._hooks)
        """How full the window is, and what gives way."""
        self._limits = limits
        self.queue = MessageQueue()
        """Messages for the running turn's next request, or for the next turn."""
        self._recall = sources.recall
        self._instructions = sources.instructions
        self._references = sources.references or ReferenceReader(executor)
        self._unread = ""
        """The newest message, until what it refers to was read."""
        self._instructed = False
        """Whether the system prompt holds the root's instructions; later ones come with a message."""
        if self._instructions is not None:
            stream.subscribe(self._forget_compacted)
        self._on_first_message = on_first_message
        self._on_turn_end = on_turn_end
        self._history: list[wire.Message] = [wire.SystemMessage(system_prompt(executor.workspace))]
        self._hooks_told = False
        """Whether hooks heard that the session begins."""
        self._begun = False
        """Whether the first message was sent, before which memory is recalled."""
        self._waiting: list[wire.ToolCall] = []
        self._controller: AbortController | None = None

    @property
    def busy(self) -> bool:
        """Whether a turn is running."""
        return self._controller is not None

    @property
    def history(self) -> tuple[wire.Message, ...]:
        """The messages of the next request."""
        return tuple(self._history)

    def restore(self, messages: Iterable[wire.Message], waiting: Iterable[wire.ToolCall] = ()) -> None:
        """Replace the conversation between two turns, by another session's or by nothing.

        `waiting` are calls of its last reply that have no result; `retry` must run next, which runs them.
        """
        self._history[1:] = messages
        self._waiting = list(waiting)
        self._begun = any(isinstance(message, wire.UserMessage) for message in self._history)
        if self._instructions is not None:
            self._instructions.forget()
        self._instructed = False
        self._hooks_told = False

    def use(self, provider: wire.Provider) -> None:
        """Go on with another model, between two turns; what was learned of the last one's window is forgotten."""
        self.provider = provider
        self.context = ContextKeeper(lambda: self.provider, self.stream, self._hooks)

    async def run_turn(self, text: str) -> TurnStatus:
        """Answer the person; raise RuntimeError while a turn runs, every other error is an event."""
        self._begin()
        return await self._finish_turn(text)

    async def retry(self) -> TurnStatus:
        """Go on where the last turn failed; raise RuntimeError while one runs."""
        self._begin()
        while isinstance(self._history[-1], wire.AssistantMessage) and not self._history[-1].tool_calls:
            self._history.pop()
        return await self._finish_turn()

    def interrupt(self, reason: str = "interrupted by the person") -> bool:
        """Stop the running turn, keeping what was done; return False when there is none."""
        if self._controller is None:
            return False
        self._controller.abort(reason)
        return True

    # -- a turn ------------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        if self._controller is not None:
            raise RuntimeError("a turn is running already: interrupt it or wait for its end")
        self._controller = AbortController()
        self._calls.begin_turn()

    async def _say(self, text: str, signal: AbortSignal) -> None:
        """Add a message of the person, unless a hook refuses it. Raises MessageRefusedError."""
        text = well_formed(text)
        expanded = await self._commands.expand(text, signal) if self._commands is not None else None
        heard = await self._hooks.before_message(text, signal) if self._hooks is not None else HookTexts()
        if heard.blocked:
            raise MessageRefusedError(f"Your message was not sent: {heard.blocked}")
        event = self.stream.publish(UserMessageEvent(text=text))
        self._history.append(wire.UserMessage(text, event_id=event.id))
        self._unread = text
        if expanded is not None:
            self._attach(*expanded)
            self._unread = f"{text}\n{expanded[1]}"
        for context in heard.context:
            self._attach("hook", context)

    @contextmanager
    def _refusals_told(self) -> Generator[None]:
        try:
            yield
        except (MessageRefusedError, CommandFailedError) as refused:
            self._tell(str(refused))

    async def _finish_turn(self, text: str | None = None) -> TurnStatus:
        assert self._controller is not None, "a turn begins with _begin"
        status = TurnStatus.FAILED
        try:
            if text is not None:
                await self._say(text, self._controller.signal)
            status = await self._rounds(self._controller.signal)
        except OperationCancelled:
            status = TurnStatus.INTERRUPTED
        except TurnLimitError as error:
            self._report("TurnLimitError", "TURN_LIMIT", str(error))
        except MessageRefusedError as error:
            self._report("HookError", "POLICY_DENIED", str(error))
        except CommandFailedError as error:
            self._report("CommandError", "POLICY_DENIED", str(error))
        except wire.ProviderError as error:
            self._report("ProviderError", error.kind.value.upper(), error.message, retryable=error.retryable)
        except asyncio.CancelledError:
            status = TurnStatus.INTERRUPTED
            raise
        except Exception as error:  # whatever goes wrong in a turn becomes an event
            log.exception("a turn failed unexpectedly")
            message = f"The turn failed inside ({type(error).__name__}). Try again with /retry; {log_path()} says more."
            self._report("InternalError", "INTERNAL", message)
        finally:
            self._controller = None
            await self._sync_to_disk()
            self.stream.publish(TurnFinishedEvent(status=status))
        return status

    def _report(self, type_: str, code: str, message: str, *, retryable: bool = False) -> None:
        self.stream.publish(ErrorEvent(error=TurnError(type=type_, code=code, message=message, retryable=retryable)))

    async def _sync_to_disk(self) -> None:
        """Sync the turn to disk; where that fails a notice says so, and the conversation goes on."""
        if self._on_turn_end is None:
            return
        try:
            await asyncio.to_thread(self._on_turn_end)
        except (ToolFailure, OSError) as error:
            self.stream.publish(NoticeEvent(text=f"This turn may not survive a power cut: {error}"))

    async def _begin_session(self, signal: AbortSignal) -> None:
        """Do once, before the first request, what has to be done, and recall notes from memory."""
        if self._hooks is not None and not self._hooks_told:
            self._hooks_told = True
            for context in await self._hooks.at_start(resumed=self._begun, signal=signal):
                self._attach("hook", context)
        if self._begun:
            return
        self._begun = True
        try:
            if self._on_first_message is not None:
                await signal.in_thread(self._on_first_message)
        except StorageFailed as failure:
            self.stream.publish(NoticeEvent(text=f"The finished todo list stays: {failure.message}"))
        try:
            recalled = await self._recall.notes(signal) if self._recall is not None else None
        except StorageFailed as failure:
            self.stream.publish(NoticeEvent(text=f"Nothing from memory goes along: {failure.message}"))
            return
        asked = [at for at, message in enumerate(self._history) if isinstance(message, wire.UserMessage)]
        if recalled is not None and asked:
            first = self._history[asked[0]]
            assert isinstance(first, wire.UserMessage), "it was chosen for being one"
            self._history[asked[0]] = first.behind(recalled.text)
            self.stream.publish(recalled)

    async def _instruct(self, signal: AbortSignal) -> None:
        """Send the root's instructions: with the system prompt at first, later with the newest message."""
        if self._instructions is None:
            return
        found = self._told(await signal.in_thread(self._instructions.of_root))
        if self._instructed:
            for name, text in found.texts:
                self._attach(name, text)
            return
        self._instructed = True
        whole = "\n\n".join([system_prompt(self.executor.workspace), *(text for _, text in found.texts)])
        self._history[0] = wire.SystemMessage(whole)
        for name, text in found.texts:
            self.stream.publish(AttachedEvent(name=name, text=text, place="system"))

    def _forget_compacted(self, event: Event) -> None:
        if isinstance(event, CompactedEvent) and self._instructions is not None:
            self._instructions.forget_nested()

    def _told(self, found: InstructionsFound) -> InstructionsFound:
        for words in found.notices:
            self._tell(words)
        return found

    def _tell(self, words: str) -> None:
        self.stream.publish(NoticeEvent(text=words))

    async def _attach_references(self, signal: AbortSignal) -> None:
        """Attach what the newest message refers to, once."""
        text, self._unread = self._unread, ""
        if "@" in text:
            await self._references.read(text, signal, self._attach, self._tell)

    def _attach(self, name: str, text: str) -> None:
        """Add a text that the person did not write, before their newest message where that is the last."""
        last = self._history[-1]
        if isinstance(last, wire.UserMessage):
            self._history[-1] = last.behind(text)
            self.stream.publish(AttachedEvent(name=name, text=text, place="message"))
        else:
            event = self.stream.publish(AttachedEvent(name=name, text=text, place="conversation"))
            self._history.append(wire.UserMessage("", text, event.id))

    async def _rounds(self, signal: AbortSignal) -> TurnStatus:
        await self._begin_session(signal)
        await self._instruct(signal)
        await self._attach_references(signal)
        meter = TurnMeter(self._limits)
        calls, self._waiting = self._waiting, []
        while True:
            if not calls:
                calls = (await self._reply(meter, signal)).calls
                if not calls:
                    more = await self._hooks.after_answer(signal) if self._hooks is not None else ""
                    if not more:
                        return TurnStatus.COMPLETED
                    self._attach("hook", more)
                    continue
                self._calls.announce(calls)
            await self._answer_calls(calls, meter, signal)
            calls = []
            for message in self.queue.take_all():
                with self._refusals_told():
                    await self._say(message.text, signal)
                await self._attach_references(signal)

    async def _reply(self, meter: TurnMeter, signal: AbortSignal) -> Reply:
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
            self.stream.publish(NoticeEvent(text=_EMPTY_ONCE if again else _EMPTY_TWICE))
        return reply

    async def _request(self, signal: AbortSignal) -> Reply:
        """Send one request that fits into the window."""
        tools = self._offered()
        size = await self.context.make_room(self._history, tools, signal)
        request = wire.ChatRequest(messages=tuple(self._history), tools=tools, estimated_tokens=size)
        return await collect_reply(self.provider, request, self.stream, signal, self._keep)

    async def _shorten(self, error: wire.ProviderError, signal: AbortSignal) -> bool:
        """Make room after the server found a request too large; return whether there was something to shorten."""
        self.context.refused(error)
        return await self.context.compact(self._history, self._offered(), signal)

    async def compact(self, hint: str = "") -> bool:
        """Sum up the earlier conversation between two turns; return whether there was anything to sum up.

        Raises:
            RuntimeError: A turn is running.
        """
        self._begin()
        assert self._controller is not None, "it was just made"
        try:
            return await self.context.compact(self._history, self._offered(), self._controller.signal, hint)
        except OperationCancelled:
            return False
        finally:
            self._controller = None

    def context_parts(self) -> list[ContextPart]:
        """Return what the next request is made of, the largest first."""
        return self.context.parts(self._history, self._offered())

    def _keep(self, reply: Reply) -> None:
        if (message := reply.message()) is not None:
            self._history.append(message)

    def _offered(self) -> tuple[wire.ToolSchema, ...]:
        return self.context.affordable(
            tuple(
                wire.ToolSchema(name=str(schema["name"]), description=str(schema["description"]), parameters=parameters)
                for schema in self.executor.offered_schemas()
                if isinstance(parameters := schema["parameters"], dict)
            )
        )

    async def _answer_calls(self, calls: list[wire.ToolCall], meter: TurnMeter, signal: AbortSignal) -> None:
        """Run the calls and add their results to the history."""
        results = await self._calls.run(calls, signal)
        self._history += map(tool_message, calls, results)
        meter.waited(results)
        signal.throw_if_aborted()
        self._calls.check()
        if self._instructions is not None:
            touched = [call.arguments for call, result in zip(calls, results, strict=True) if result.ok]
            found = await signal.in_thread(self._instructions.on_the_way_to, touched)
            for name, text in self._told(found).texts:
                self._attach(name, text)
