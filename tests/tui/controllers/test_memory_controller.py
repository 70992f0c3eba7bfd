"""A person's changes of memory never overwrite what they have not seen, whoever writes in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from ollm_tui.core.base.clock import SystemClock
from ollm_tui.core.memory import Memory, MemoryScope
from ollm_tui.core.storage.store import Store
from ollm_tui.tui.controllers.memory_controller import MemoryController
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import DeleteMemory, MemoryIntent, SaveMemory, UndoMemoryChange
from ollm_tui.tui.values import MemoryName, MemoryOutcome

NAME = MemoryName("plan", MemoryScope.WORKSPACE)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    store = Store(tmp_path / "ollm.db")
    yield Memory(store, tmp_path)
    store.close()


class Setup:
    def __init__(self, memory: Memory, workspace: Path) -> None:
        self.posted: list[updates.Update] = []
        self.memory = memory
        self.controller = MemoryController(memory, self.posted.append, SystemClock())

    @property
    def now(self) -> str | None:
        found = self.memory.get(NAME.key)
        return None if found is None else found.value

    async def do(self, intent: MemoryIntent) -> updates.MemoryChangeUpdate:
        await self.controller.handle(intent)
        return [message for message in self.posted if isinstance(message, updates.MemoryChangeUpdate)][-1]


@pytest.fixture
def setup(memory: Memory, tmp_path: Path) -> Setup:
    return Setup(memory, tmp_path)


async def test_saving_over_what_was_read_can_be_undone(setup: Setup) -> None:
    setup.memory.set("plan", "old")
    assert (await setup.do(SaveMemory(NAME, "old", "new"))).outcome is MemoryOutcome.SAVED
    assert setup.now == "new"
    assert (await setup.do(UndoMemoryChange())).outcome is MemoryOutcome.RESTORED
    assert setup.now == "old"
    settled = await setup.do(UndoMemoryChange())
    assert settled.outcome is MemoryOutcome.FAILED and "nothing to undo" in settled.message


@pytest.mark.parametrize(("stored", "expected"), [("other", "old"), ("other", None), (None, "old"), ("", "old")])
async def test_a_text_that_is_not_the_expected_one_stays(
    setup: Setup, stored: str | None, expected: str | None
) -> None:
    if stored is not None:
        setup.memory.set("plan", stored)
    settled = await setup.do(SaveMemory(NAME, expected, "mine"))
    assert (settled.outcome, settled.stored) == (MemoryOutcome.CONFLICT, stored)
    assert setup.now == stored


async def test_undo_does_not_overwrite_what_came_since(setup: Setup) -> None:
    setup.memory.set("plan", "old")
    await setup.do(DeleteMemory(NAME))
    assert setup.now is None
    setup.memory.set("plan", "somebody else's")
    assert (await setup.do(UndoMemoryChange())).outcome is MemoryOutcome.CONFLICT
    assert setup.now == "somebody else's"


async def test_a_deletion_is_undone_with_the_text_as_it_was_last(setup: Setup) -> None:
    setup.memory.set("plan", "seen on the screen")
    setup.memory.set("plan", "changed since")
    await setup.do(DeleteMemory(NAME))
    await setup.do(UndoMemoryChange())
    assert setup.now == "changed since"


async def test_a_text_that_cannot_be_kept_is_said(setup: Setup) -> None:
    settled = await setup.do(SaveMemory(NAME, None, "x" * 10_000_001))
    assert settled.outcome is MemoryOutcome.FAILED and "10,000,000" in settled.message
    assert setup.now is None
