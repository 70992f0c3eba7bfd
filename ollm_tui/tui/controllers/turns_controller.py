"""Turns of the agent: queued messages, interrupts and current activity."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterator

from ollm_tui.agent.context_items import ContextItem
from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ConfirmationSettledEvent,
    ErrorEvent,
    Event,
    ModelLoadingEvent,
    NoticeEvent,
    ReasoningDeltaEvent,
    TextDeltaEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
)
from ollm_tui.agent.loop import Agent
from ollm_tui.core.base.log_file import unexpected
from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.tui.protocol import PostUpdate, intents
from ollm_tui.tui.protocol.updates import ActivityUpdate, DraftUpdate, MessagesUpdate, ToastUpdate
from ollm_tui.tui.terminal_references import with_references
from ollm_tui.tui.values import Activity

MAX_QUEUED = 100
"""Messages that may wait to be sent."""

RATE_SECONDS = 1.0
CHARACTERS_PER_TOKEN = 4
"""A rough measure, for the rate on the screen; exact counts come from the server with the whole answer."""

log = logging.getLogger(__name__)


class TurnsController:
    """Handler of turn intents: one turn runs, later messages go with its next request or begin the next turn."""

    def __init__(self, agent: Agent, post: PostUpdate, now: Callable[[], float]) -> None:
        self._agent = agent
        self._post = post
        self._activity = ActivityTracker(now)
        self._queue = agent.queue
        self._queue.watch(self._post_messages)
        self._task: asyncio.Task[None] | None = None
        self._items: list[ContextItem] = []
        """What `/context` listed last."""

    @property
    def busy(self) -> bool:
        """Whether a turn is running."""
        return self._task is not None

    def handle(self, intent: intents.TurnIntent) -> None:
        """Send, retry or interrupt."""
        match intent:
            case intents.SendMessage(text, references):
                if len(self._queue.messages) >= MAX_QUEUED:
                    self._post(DraftUpdate(text))
                    self._post(ToastUpdate(f"Not sent: {MAX_QUEUED} messages wait already.", failed=True))
                else:
                    self._queue.add(with_references(text, references), text)
                    self._send_queued()
            case intents.RetryTurn():
                if self._task is None:
                    self._run(self._retry())
            case intents.InterruptTurn():
                if self._interrupt():
                    self._post_activity(self._activity.stopping())
            case intents.StopTask(call_id):
                self._agent.tasks.stop(call_id)
            case intents.CompactConversation(hint):
                if self._task is None:
                    self._task = asyncio.get_running_loop().create_task(self._finish(self._compact(hint)))
                else:
                    self._post(ToastUpdate("A turn is running: /compact works between turns.", failed=True))
            case intents.ShowContext(words) if words:
                self._drop_from_context(words)
            case intents.ShowContext():
                self._items = self._agent.context_items()
                self._agent.stream.publish(NoticeEvent(text="\n".join(self._context_lines())))
            case _:
                self._change_queue(intent)

    async def _retry(self) -> None:
        try:
            await self._agent.retry()
        except LookupError as error:
            self._post(ToastUpdate(str(error), failed=True))

    def _change_queue(self, intent: intents.TurnIntent) -> None:
        match intent:
            case intents.EditQueued(message_id):
                if (message := self._queue.take(message_id)) is not None:
                    self._post(DraftUpdate(message.typed))
            case intents.DropQueued(message_id):
                self._queue.take(message_id)
            case intents.MoveQueued(message_id, step):
                self._queue.move(message_id, step)
            case intents.ReleaseQueued():
                self._send_queued()
            case _:
                pass

    async def _compact(self, hint: str) -> None:
        self._post(ActivityUpdate(Activity.THINKING, detail="summing up"))
        try:
            if not await self._agent.compact(hint):
                self._post(ToastUpdate("There is nothing to sum up yet."))
        finally:
            self._post(ActivityUpdate(Activity.IDLE))

    def _context_lines(self) -> Iterator[str]:
        parts, limit = self._agent.context_parts(), self._agent.context.limit
        whole = sum(part.tokens for part in parts)
        window = f" of {limit:,} ({100 * whole // limit}%)" if limit else ""
        yield f"The next request takes about {whole:,}{window} tokens:"
        yield from (f"{part.tokens:>8,}  {part.name}" for part in parts)
        if self._items:
            yield "The largest items; /context drop N leaves one out:"
        yield from (f"{item.tokens:>8,}  {number}. {item.name}" for number, item in enumerate(self._items, 1))

    def _drop_from_context(self, words: str) -> None:
        """Drop the item of that number in the list that was shown last, which is shown anew for the next one."""
        verb, _, number = words.partition(" ")
        at = int(number) if number.isdecimal() else 0
        if verb != "drop" or not 0 < at <= len(self._items):
            there = f"N from 1 to {len(self._items)}" if self._items else "N from the list that /context shows first"
            self._post(ToastUpdate(f"Write /context drop N, {there}.", failed=True))
            return
        try:
            if not self._agent.drop(self._items[at - 1]):
                self._post(ToastUpdate("That is in the context no more.", failed=True))
        except RuntimeError as error:
            self._post(ToastUpdate(str(error), failed=True))

    def follow(self, event: Event) -> None:
        """Post the activity when an event changes it."""
        self._post_activity(self._activity.fold(event))

    async def close(self) -> None:
        """Stop the running turn and wait for its end."""
        if self._task is not None:
            self._interrupt()
            await asyncio.wait([self._task], timeout=5)

    def _interrupt(self) -> bool:
        self._queue.hold()
        return self._agent.interrupt()

    def _send_queued(self) -> None:
        self._queue.release()
        self._next()

    def _next(self) -> None:
        if self._task is None and (message := self._queue.take_first()) is not None:
            self._run(self._agent.run_turn(message.text))

    def _post_messages(self) -> None:
        self._post(MessagesUpdate(self._queue.messages, self._queue.held))

    def _run(self, turn: Coroutine[None, None, object]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._finish(turn))

    async def _finish(self, turn: Coroutine[None, None, object]) -> None:
        try:
            await turn
        except Exception as error:  # a bug of ours ends the turn, not the screen
            log.exception("a turn failed")
            self._post(ActivityUpdate(Activity.FAILED, error=unexpected(error)))
        finally:
            self._task = None
            self._next()

    def _post_activity(self, activity: ActivityUpdate | None) -> None:
        if activity is not None:
            self._post(activity)


class ActivityTracker:
    """Tracker of what the turn is doing, from its events."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._current = ActivityUpdate(Activity.IDLE)
        self._running: dict[str, str] = {}
        self._stream_began = 0.0
        self._rate_posted_at = 0.0
        self._characters = 0
        self._error = ""

    def fold(self, event: Event) -> ActivityUpdate | None:
        """Return the new activity; None when it is the same.

        An approved call begins to run, so it counts as new.
        """
        activity = self._next(event)
        if activity is None or (activity == self._current and not isinstance(event, ConfirmationSettledEvent)):
            return None
        self._current = activity
        return activity

    def stopping(self) -> ActivityUpdate | None:
        """Return the activity after an interrupt; None when nothing was going on."""
        if self._current.activity in (Activity.IDLE, Activity.FAILED):
            return None
        self._current = ActivityUpdate(Activity.STOPPING)
        return self._current

    def _next(self, event: Event) -> ActivityUpdate | None:
        stopping = self._current.activity is Activity.STOPPING and not isinstance(event, TurnFinishedEvent)
        match event:
            case UserMessageEvent():
                self._error, self._running = "", {}
                return ActivityUpdate(Activity.THINKING)
            case _ if stopping:
                return None
            case ReasoningDeltaEvent() | AssistantMessageEvent(task=None):
                return ActivityUpdate(Activity.THINKING)
            case ModelLoadingEvent(model=model, loaded=loaded):
                return ActivityUpdate(Activity.THINKING, "" if loaded else f"loading {model},")
            case TextDeltaEvent(text=text):
                return self._streaming(text)
            case ToolCallEvent():
                self._running[event.call_id] = event.name
                return self._tools()
            case ToolResultEvent():
                self._running.pop(event.call_id, None)
                return self._tools()
            case ConfirmationSettledEvent(outcome=ConfirmationState.APPROVED):
                return self._tools()
            case ErrorEvent():
                self._error = event.error.message
                return None
            case TurnFinishedEvent():
                failed = event.status is TurnStatus.FAILED
                return ActivityUpdate(Activity.FAILED, error=self._error) if failed else ActivityUpdate(Activity.IDLE)
            case _:
                return None

    def _streaming(self, text: str) -> ActivityUpdate | None:
        now = self._now()
        if self._current.activity is not Activity.STREAMING:
            self._stream_began = self._rate_posted_at = now
            self._characters = len(text)
            return ActivityUpdate(Activity.STREAMING)
        self._characters += len(text)
        if now - self._rate_posted_at < RATE_SECONDS:
            return None
        self._rate_posted_at = now
        rate = self._characters / CHARACTERS_PER_TOKEN / (now - self._stream_began)
        return ActivityUpdate(Activity.STREAMING, f"{rate:.0f} t/s")

    def _tools(self) -> ActivityUpdate:
        names = list(self._running.values())
        if not names:
            return ActivityUpdate(Activity.THINKING)
        more = f" +{len(names) - 1}" if len(names) > 1 else ""
        return ActivityUpdate(Activity.RUNNING, f"{names[0]}{more}")
