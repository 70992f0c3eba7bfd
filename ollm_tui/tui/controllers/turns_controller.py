"""Turns of the agent one after the other, what the person typed meanwhile, and what the turn is doing."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ConfirmationSettledEvent,
    ErrorEvent,
    Event,
    ReasoningDeltaEvent,
    TextDeltaEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    TurnStatus,
    UserMessageEvent,
)
from ollm_tui.agent.loop import Agent
from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.tui.protocol import ActivityUpdate
from ollm_tui.tui.values import Activity

RATE_SECONDS = 1.0
CHARACTERS_A_TOKEN = 4
"""A rough measure, for the rate that is shown; exact counts come from the server when the answer is whole."""


class ActivityTracker:
    """Folds events into what the turn is doing, in a word and a detail."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._current = ActivityUpdate(Activity.IDLE)
        self._running: dict[str, str] = {}
        self._stream_began = 0.0
        self._said_rate_at = 0.0
        self._characters = 0
        self._fault = ""

    def fold(self, event: Event) -> ActivityUpdate | None:
        """The new activity; None when it is the same. What was approved only begins now, whatever else runs."""
        news = self._news(event)
        if news is None or (news == self._current and not isinstance(event, ConfirmationSettledEvent)):
            return None
        self._current = news
        return news

    def stopping(self) -> ActivityUpdate | None:
        """The person interrupted; None when nothing was going on."""
        if self._current.activity in (Activity.IDLE, Activity.FAILED):
            return None
        self._current = ActivityUpdate(Activity.STOPPING)
        return self._current

    def _news(self, event: Event) -> ActivityUpdate | None:
        stopping = self._current.activity is Activity.STOPPING and not isinstance(event, TurnFinishedEvent)
        match event:
            case UserMessageEvent():
                self._fault, self._running = "", {}
                return ActivityUpdate(Activity.THINKING)
            case _ if stopping:
                return None
            case ReasoningDeltaEvent():
                return ActivityUpdate(Activity.THINKING)
            case TextDeltaEvent(text=text):
                return self._streaming(text)
            case AssistantMessageEvent():
                return ActivityUpdate(Activity.THINKING)
            case ToolCallEvent():
                self._running[event.call_id] = event.name
                return self._tools()
            case ToolResultEvent():
                self._running.pop(event.call_id, None)
                return self._tools()
            case ConfirmationSettledEvent(outcome=ConfirmationState.APPROVED):
                return self._tools()
            case ErrorEvent():
                self._fault = event.error.message
                return None
            case TurnFinishedEvent():
                failed = event.status is TurnStatus.FAILED
                return ActivityUpdate(Activity.FAILED, fault=self._fault) if failed else ActivityUpdate(Activity.IDLE)
            case _:
                return None

    def _streaming(self, text: str) -> ActivityUpdate | None:
        now = self._now()
        if self._current.activity is not Activity.STREAMING:
            self._stream_began = self._said_rate_at = now
            self._characters = len(text)
            return ActivityUpdate(Activity.STREAMING)
        self._characters += len(text)
        if now - self._said_rate_at < RATE_SECONDS:
            return None
        self._said_rate_at = now
        rate = self._characters / CHARACTERS_A_TOKEN / (now - self._stream_began)
        return ActivityUpdate(Activity.STREAMING, f"{rate:.0f} t/s")

    def _tools(self) -> ActivityUpdate:
        names = list(self._running.values())
        if not names:
            return ActivityUpdate(Activity.THINKING)
        more = f" +{len(names) - 1}" if len(names) > 1 else ""
        return ActivityUpdate(Activity.RUNNING, f"{names[0]}{more}")


class TurnsController:
    """One turn at a time; messages that come meanwhile wait in order."""

    def __init__(self, agent: Agent, failed: Callable[[BaseException], object]) -> None:
        self._agent = agent
        self._failed = failed
        self._waiting: deque[str] = deque()
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        return self._task is not None

    @property
    def waiting(self) -> int:
        """Messages that will be sent when the running turn ends."""
        return len(self._waiting)

    def send(self, text: str) -> None:
        """Begin a turn with a message, or let it wait for the running one."""
        self._waiting.append(text)
        self._next()

    def retry(self) -> None:
        """Once more what failed."""
        if self._task is None:
            self._start(self._agent.retry())

    def interrupt(self) -> bool:
        """Stop the running turn; what waits is not sent any more."""
        self._waiting.clear()
        return self._agent.interrupt()

    async def close(self) -> None:
        """Stop what runs and wait for its end."""
        if self._task is not None:
            self.interrupt()
            await asyncio.wait([self._task], timeout=5)

    def _next(self) -> None:
        if self._task is None and self._waiting:
            self._start(self._agent.run_turn(self._waiting.popleft()))

    def _start(self, turn: Coroutine[None, None, TurnStatus]) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(turn))

    async def _run(self, turn: Coroutine[None, None, TurnStatus]) -> None:
        try:
            await turn
        except Exception as error:  # noqa: BLE001  # a defect of ours ends the turn, not the screen
            self._failed(error)
        finally:
            self._task = None
            self._next()
