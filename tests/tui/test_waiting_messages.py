"""Messages that wait for the model: above the prompt, edited, reordered, dropped, and kept when a turn is stopped."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ollm_tui.agent.message_queue import MessageQueue, QueuedMessage
from ollm_tui.core.base.clock import SystemClock
from ollm_tui.options import Options
from ollm_tui.tui.controllers.runtime_controller import RuntimeController, open_backend
from ollm_tui.tui.controllers.turns_controller import MAX_QUEUED
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import (
    DropQueued,
    EditQueued,
    InterruptTurn,
    MoveQueued,
    ReleaseQueued,
    SendMessage,
)
from ollm_tui.tui.values import EntriesChanged, UserEntry
from tests.tui.pilot import stage

TWO = (QueuedMessage(1, "first [red]one[/]", "first [red]one[/]"), QueuedMessage(2, "second", "second"))


async def test_waiting_messages_stand_above_the_prompt_and_can_be_changed() -> None:
    async with stage() as here:
        assert not here.app.dashboard.messages.display
        await here.post(updates.MessagesUpdate(TWO))
        assert "2 messages for the next request" in here.text and "> first [red]one[/]" in here.text
        await here.press("f2", "K", "J", "d", "down", "e")
        assert [(move.message_id, move.step) for move in here.backend.of(MoveQueued)] == [(1, -1), (1, 1)]
        assert [drop.message_id for drop in here.backend.of(DropQueued)] == [1]
        assert [edit.message_id for edit in here.backend.of(EditQueued)] == [2]
        here.app.dashboard.prompt.insert("draft")
        await here.post(updates.MessagesUpdate(TWO[:1]), updates.DraftUpdate("second"))
        assert here.app.dashboard.prompt.text == "second\ndraft" and here.app.dashboard.prompt.has_focus
        await here.press("f2")
        await here.post(updates.MessagesUpdate(()))
        assert not here.app.dashboard.messages.display and here.app.dashboard.prompt.has_focus


async def test_enter_sends_messages_that_were_kept_and_edits_others() -> None:
    async with stage((80, 24)) as here:
        await here.post(updates.MessagesUpdate(TWO))
        await here.press("f2", "enter")
        assert len(here.backend.of(EditQueued)) == 1 and not here.backend.of(ReleaseQueued)
        await here.post(updates.MessagesUpdate(TWO, held=True))
        assert "kept when you stopped" in here.text
        await here.press("f2", "enter")
        assert len(here.backend.of(ReleaseQueued)) == 1


def test_a_queue_moves_within_its_ends_and_holds_until_released() -> None:
    queue = MessageQueue()
    for text in "abc":
        queue.add(text)
    queue.move(3, -5)
    queue.move(1, 9)
    assert [message.text for message in queue.messages] == ["c", "b", "a"]
    queue.hold()
    assert queue.take_all() == () and queue.take_first() is None
    taken = queue.take(2)
    assert taken is not None and taken.text == "b" and queue.take(2) is None
    queue.release()
    assert [message.text for message in queue.take_all()] == ["c", "a"]
    queue.hold()
    assert not queue.held, "nothing to hold"


@asynccontextmanager
async def backend(tmp_path: Path) -> AsyncGenerator[tuple[RuntimeController, list[updates.Update]]]:
    (tmp_path / "ws").mkdir()
    script = [
        {"text": "one two three four five six seven eight", "pieceDelayMs": 100},
        {"text": "The second."},
        {"text": "The third."},
    ]
    (tmp_path / "script.json").write_text(json.dumps(script))
    posted: list[updates.Update] = []

    def take(update: updates.Update) -> bool:
        posted.append(update)
        return True

    options = Options(workspace=tmp_path / "ws", provider="scripted", script=tmp_path / "script.json")
    async with open_backend(options, take, SystemClock()) as opened:
        assert isinstance(opened, RuntimeController)
        yield opened, posted


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


async def test_stopping_a_turn_keeps_what_waits_until_the_person_sends_again(tmp_path: Path) -> None:
    async with backend(tmp_path) as (opened, posted):

        def queues() -> list[updates.MessagesUpdate]:
            return [update for update in posted if isinstance(update, updates.MessagesUpdate)]

        def said() -> list[str]:
            changes = [update.change for update in posted if isinstance(update, updates.ConversationUpdate)]
            entries = [entry for change in changes if isinstance(change, EntriesChanged) for entry in change.entries]
            return [entry.text for entry in entries if isinstance(entry, UserEntry)]

        opened.handle(SendMessage("go"))
        await until(lambda: said() == ["go"])
        opened.handle(SendMessage("kept"))
        opened.handle(InterruptTurn())
        await until(lambda: not opened.unfinished().facts)
        assert queues()[-1].held and [message.typed for message in queues()[-1].messages] == ["kept"]
        opened.handle(SendMessage("last"))
        await until(lambda: said() == ["go", "kept", "last"] and not opened.unfinished().facts)
        assert queues()[-1].messages == ()


async def test_a_message_too_many_goes_back_into_the_prompt(tmp_path: Path) -> None:
    async with backend(tmp_path) as (opened, posted):
        for number in range(MAX_QUEUED + 2):
            opened.handle(SendMessage(f"message {number}"))
        drafts = [update.text for update in posted if isinstance(update, updates.DraftUpdate)]
        assert drafts == [f"message {MAX_QUEUED + 1}"]
        assert any(isinstance(update, updates.ToastUpdate) and "Not sent" in update.text for update in posted)
