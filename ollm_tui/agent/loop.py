"""The agent loop: stream a reply, run its calls, feed results back, until none are left."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager

from ollm_tui.agent.attachments import Attachments, Sources
from ollm_tui.agent.context import ContextKeeper, ContextPart
from ollm_tui.agent.context_items import ContextItem
from ollm_tui.agent.events import (
    ErrorEvent,
    NoticeEvent,
    TurnError,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
)
from ollm_tui.agent.guard import TurnLimitError, TurnLimits, TurnMeter
from ollm_tui.agent.hooks.hooks import HookTexts
from ollm_tui.agent.instructions import system_prompt
from ollm_tui.agent.message_queue import MessageQueue
from ollm_tui.agent.prompt_commands import CommandFailedError
from ollm_tui.agent.providers import provider as wire
from ollm_tui.agent.providers.json_values import well_formed
from ollm_tui.agent.rounds import Rounds
from ollm_tui.agent.stream import EventStream
from ollm_tui.agent.tasks import Tasks
from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.errors import OperationCancelled, ToolFailure
from ollm_tui.core.base.log_file import log_path
from ollm_tui.core.execution.executor import ToolExecutor

log = logging.getLogger(__name__)


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
        sources: Sources = Sources(),  # noqa: B008  # frozen
        on_first_message: Callable[[], object] | None = None,
        on_turn_end: Callable[[], None] | None = None,
    ) -> None:
        """`on_first_message` runs before the session's first message, in a thread."""
        self.provider = provider
        self.executor = executor
        self.stream = stream
        self._hooks = sources.hooks
        self._commands = sources.commands
        self._rounds = Rounds(
            lambda: self.provider, executor, stream, system_prompt(executor.workspace), hooks=sources.hooks
        )
        self._attachments = Attachments(executor, stream, self._rounds, sources, on_first_message)
        self._limits = limits
        self._meter = TurnMeter(limits)
        """What the running turn has used, its sub-agents included."""
        self.tasks = Tasks(lambda: self.provider, executor, stream, self._rounds, lambda: self._meter, sources)
        """The sub-agents of the running turn."""
        self.queue = MessageQueue()
        """Messages for the running turn's next request, or for the next turn."""
        self._on_turn_end = on_turn_end
        self._waiting: list[wire.ToolCall] = []
        self._controller: AbortController | None = None

    @property
    def busy(self) -> bool:
        """Whether a turn is running."""
        return self._controller is not None

    @property
    def history(self) -> tuple[wire.Message, ...]:
        """The messages of the next request."""
        return tuple(self._rounds.history)

    @property
    def context(self) -> ContextKeeper:
        """How full the window is, and what gives way."""
        return self._rounds.context

    def restore(self, messages: Iterable[wire.Message], waiting: Iterable[wire.ToolCall] = ()) -> None:
        """Replace the conversation between two turns, by another session's or by nothing.

        `waiting` are calls of its last reply that have no result; `retry` must run next, which runs them.
        """
        self._rounds.history[1:] = messages
        self._waiting = list(waiting)
        self._attachments.restart()

    def use(self, provider: wire.Provider) -> None:
        """Go on with another model, between two turns; what was learned of the last one's window is forgotten."""
        self.provider = provider
        self._rounds.forget_window()

    async def run_turn(self, text: str) -> TurnStatus:
        """Answer the person; raise RuntimeError while a turn runs, every other error is an event."""
        self._begin()
        return await self._finish_turn(text)

    async def retry(self) -> TurnStatus:
        """Go on where the last turn failed; raise RuntimeError while one runs, LookupError before the first message."""
        history = self._rounds.history
        if not any(isinstance(message, wire.UserMessage) for message in history):
            raise LookupError("There is no message yet that could be sent again.")
        self._begin()
        while isinstance(last := history[-1], wire.AssistantMessage) and not last.tool_calls:
            history.pop()
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
        self._meter = TurnMeter(self._limits)
        self._rounds.calls.begin_turn()

    async def _say(self, text: str, signal: AbortSignal) -> None:
        """Add a message of the person, unless a hook refuses it. Raises MessageRefusedError."""
        text = well_formed(text)
        expanded = await self._commands.expand(text, signal) if self._commands is not None else None
        heard = await self._hooks.before_message(text, signal) if self._hooks is not None else HookTexts()
        if heard.blocked:
            raise MessageRefusedError(f"Your message was not sent: {heard.blocked}")
        event = self.stream.publish(UserMessageEvent(text=text))
        self._rounds.history.append(wire.UserMessage(text, event_id=event.id))
        self._attachments.unread = text
        if expanded is not None:
            self._attachments.attach(*expanded)
            self._attachments.unread = f"{text}\n{expanded[1]}"
        for context in heard.context:
            self._attachments.attach("hook", context)

    @contextmanager
    def _refusals_told(self) -> Generator[None]:
        try:
            yield
        except (MessageRefusedError, CommandFailedError) as refused:
            self.stream.publish(NoticeEvent(text=str(refused)))

    async def _finish_turn(self, text: str | None = None) -> TurnStatus:
        assert self._controller is not None, "a turn begins with _begin"
        status = TurnStatus.FAILED
        try:
            if text is not None:
                await self._say(text, self._controller.signal)
            status = await self._take_turn(self._controller.signal)
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

    async def _take_turn(self, signal: AbortSignal) -> TurnStatus:
        await self._attachments.before_turn(signal)
        calls, self._waiting = self._waiting, []
        while True:
            if not calls:
                calls = (await self._rounds.reply(self._meter, signal)).calls
                if not calls:
                    more = await self._hooks.after_answer(signal) if self._hooks is not None else ""
                    if not more:
                        return TurnStatus.COMPLETED
                    self._attachments.attach("hook", more)
                    continue
                self._rounds.calls.announce(calls)
            results = await self._rounds.answer(calls, self._meter, signal)
            touched = [call.arguments for call, result in zip(calls, results, strict=True) if result.ok]
            await self._attachments.instruct_about(touched, signal)
            calls = []
            for message in self.queue.take_all():
                with self._refusals_told():
                    await self._say(message.text, signal)
                await self._attachments.read_references(signal)

    async def compact(self, hint: str = "") -> bool:
        """Sum up the earlier conversation between two turns; return whether there was anything to sum up.

        Raises:
            RuntimeError: A turn is running.
        """
        self._begin()
        assert self._controller is not None, "it was just made"
        try:
            return await self._rounds.compact(self._controller.signal, hint)
        except OperationCancelled:
            return False
        finally:
            self._controller = None

    def context_items(self) -> list[ContextItem]:
        """Return the items of the context that can be dropped, the largest first."""
        return self._rounds.items()

    def drop(self, item: ContextItem) -> bool:
        """Leave an item out of all further requests; return whether it was there. RuntimeError while a turn runs."""
        if self.busy:
            raise RuntimeError("A turn is running: an item of the context is dropped between turns.")
        return self._rounds.drop(item)

    def context_parts(self) -> list[ContextPart]:
        """Return what the next request is made of, the largest first."""
        return self._rounds.parts()
