"""What the person does with the agent's questions, and what the screen is told of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from ollm_tui.agent.events import ConfirmationAnswered
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.execution.executor import ToolExecutor
from ollm_tui.tui import news
from ollm_tui.tui.bridge.queue import LINGER_SECONDS, QueueKeeper, review_value
from ollm_tui.tui.intents import Tell
from ollm_tui.tui.screens.confirm import ConfirmScreen

TELL_INTERVAL = 0.1
"""Seconds between two snapshots, at least: all panes are drawn anew for each."""


class QuestionDesk:
    """Puts answers to the queue, and tells the queue whenever it has changed."""

    def __init__(self, queue: QueueKeeper, executor: ToolExecutor, tell: Tell) -> None:
        self._queue = queue
        self._executor = executor
        self._tell = tell
        self._telling = False
        self._told_at = float("-inf")
        self._over: list[str] = []
        """Answered; they leave the queue once a snapshot has told how they ended."""

    def tell(self) -> None:
        """Soon, and once for all that changes until then: a thousand questions may come at once, or be denied."""
        if not self._telling:
            self._telling = True
            loop = asyncio.get_running_loop()
            loop.call_at(max(loop.time(), self._told_at + TELL_INTERVAL), self._tell_now)

    def _tell_now(self) -> None:
        self._telling, self._told_at = False, asyncio.get_running_loop().time()
        self._tell(news.QueueChanged(self._queue.snapshot()))
        over, self._over = self._over, []
        self._forget(*over)

    def settled(self, event: ConfirmationAnswered) -> None:
        """A question ended; it leaves the queue, and where nobody answered it, only after a while."""
        if self._queue.answered(event):
            asyncio.get_running_loop().call_later(LINGER_SECONDS, self._forget, event.request_id)
        else:
            self._over.append(event.request_id)

    def decide(self, decision: ConfirmScreen.Decided) -> None:
        won = self._queue.answer(
            decision.item_id,
            approved=decision.approved,
            reason=decision.reason,
            modified=decision.modified,
            reach=decision.reach,
            rule=decision.rule,
        )
        if not won:
            self._tell(news.Said("That question was settled before your answer.", failed=True))
            self.tell()

    def deny(self, item_ids: Iterable[str]) -> None:
        for item_id in item_ids:
            self._queue.answer(item_id, approved=False)

    def hold(self, item_id: str, *, held: bool) -> None:
        """Its clock stands while the person looks at it."""
        self._queue.hold(item_id, held=held)
        self.tell()

    async def review(self, item_id: str, arguments: JsonObject | None) -> None:
        """Judge a question's call, or the same call with these arguments, and tell what came out."""
        item = self._queue.find(item_id)
        if item is not None:
            judged = item.arguments if arguments is None else arguments
            review = await self._executor.review(item.tool, judged)
            self._tell(news.Reviewed(item_id, review_value(review), arguments))

    def _forget(self, *item_ids: str) -> None:
        for item_id in item_ids:
            self._queue.forget(item_id)
        if item_ids:
            self.tell()
