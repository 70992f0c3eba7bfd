"""A person's changes of memory never overwrite what they have not seen, whoever writes in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ollm_tui.core.base.clock import SystemClock
from ollm_tui.core.memory import Memory, MemoryScope
from ollm_tui.core.storage.store import Store
from ollm_tui.tui import protocol
from ollm_tui.tui import protocol as wishes
from ollm_tui.tui.controllers.memory_controller import MemoryController
from ollm_tui.tui.memory_values import MemoryName, MemoryOutcome

NAME = MemoryName("plan", MemoryScope.WORKSPACE)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    store = Store(tmp_path / "ollm.db")
    yield Memory(store, tmp_path)
    store.close()


class Desk:
    def __init__(self, memory: Memory, workspace: Path) -> None:
        self.told: list[protocol.Update] = []
        self.memory = memory
        self.keeper = MemoryController(memory, self.told.append, SystemClock())

    @property
    def now(self) -> str | None:
        found = self.memory.get(NAME.key)
        return None if found is None else found.value

    async def do(self, wish: wishes.MemoryIntent) -> protocol.MemoryChangeUpdate:
        await self.keeper.do(wish)
        return [message for message in self.told if isinstance(message, protocol.MemoryChangeUpdate)][-1]


@pytest.fixture
def desk(memory: Memory, tmp_path: Path) -> Desk:
    return Desk(memory, tmp_path)


async def test_saving_over_what_was_read_can_be_undone(desk: Desk) -> None:
    desk.memory.set("plan", "old")
    assert (await desk.do(wishes.SaveMemory(NAME, "old", "new"))).outcome is MemoryOutcome.SAVED
    assert desk.now == "new"
    assert (await desk.do(wishes.UndoMemoryChange())).outcome is MemoryOutcome.RESTORED
    assert desk.now == "old"
    settled = await desk.do(wishes.UndoMemoryChange())
    assert settled.outcome is MemoryOutcome.FAILED and "nothing to undo" in settled.words


@pytest.mark.parametrize(("stored", "expected"), [("other", "old"), ("other", None), (None, "old"), ("", "old")])
async def test_a_text_that_is_not_the_expected_one_stays(desk: Desk, stored: str | None, expected: str | None) -> None:
    if stored is not None:
        desk.memory.set("plan", stored)
    settled = await desk.do(wishes.SaveMemory(NAME, expected, "mine"))
    assert (settled.outcome, settled.stored) == (MemoryOutcome.CONFLICT, stored)
    assert desk.now == stored


async def test_undo_does_not_overwrite_what_came_since(desk: Desk) -> None:
    desk.memory.set("plan", "old")
    await desk.do(wishes.DeleteMemory(NAME))
    assert desk.now is None
    desk.memory.set("plan", "somebody else's")
    assert (await desk.do(wishes.UndoMemoryChange())).outcome is MemoryOutcome.CONFLICT
    assert desk.now == "somebody else's"


async def test_a_deletion_is_undone_with_the_text_as_it_was_last(desk: Desk) -> None:
    desk.memory.set("plan", "seen on the screen")
    desk.memory.set("plan", "changed since")
    await desk.do(wishes.DeleteMemory(NAME))
    await desk.do(wishes.UndoMemoryChange())
    assert desk.now == "changed since"


async def test_a_text_that_cannot_be_kept_is_said(desk: Desk) -> None:
    settled = await desk.do(wishes.SaveMemory(NAME, None, "x" * 10_000_001))
    assert settled.outcome is MemoryOutcome.FAILED and "10,000,000" in settled.words
    assert desk.now is None
