"""A person's changes of memory never overwrite what they have not seen, whoever writes in between."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.clock import SystemClock
from ollm_tui.core.base.store import Store
from ollm_tui.core.memory import Memory, MemoryScope, Remembered
from ollm_tui.core.memory.overview import MemoryOverview
from ollm_tui.tui import memory_wishes as wishes
from ollm_tui.tui import news
from ollm_tui.tui.bridge.memory import MemoryKeeper
from ollm_tui.tui.memory_values import MemoryName, MemoryOutcome

NAME = MemoryName("plan", MemoryScope.WORKSPACE)


class Busy(Memory):
    """Somebody else writes before each of our steps, as long as they have something to write; None deletes."""

    def __init__(self, store: Store, workspace: Path) -> None:
        super().__init__(store, workspace)
        self.between: list[str | bool | None] = []

    def _meddle(self) -> None:
        change = self.between.pop(0) if self.between else False
        if change is None:
            super().delete(NAME.key)
        elif not isinstance(change, bool):
            super().set(NAME.key, change)

    def get(self, key: str, scope: MemoryScope | None = None) -> Remembered | None:
        self._meddle()
        return super().get(key, scope)

    def set(self, key: str, value: str, scope: MemoryScope = MemoryScope.WORKSPACE) -> str | None:
        self._meddle()
        return super().set(key, value, scope)

    @property
    def now(self) -> str | None:
        found = super().get(NAME.key)
        return None if found is None else found.value


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Busy]:
    store = Store(tmp_path / "ollm.db")
    yield Busy(store, tmp_path)
    store.close()


class Desk:
    def __init__(self, memory: Busy, workspace: Path) -> None:
        self.told: list[news.News] = []
        self.memory = memory
        self.keeper = MemoryKeeper(memory, MemoryOverview(memory._store, workspace), self.told.append, SystemClock())

    async def do(self, wish: wishes.MemoryWish) -> news.MemorySettled:
        await self.keeper.do(wish)
        return [message for message in self.told if isinstance(message, news.MemorySettled)][-1]


@pytest.fixture
def desk(memory: Busy, tmp_path: Path) -> Desk:
    return Desk(memory, tmp_path)


async def test_saving_over_what_was_read_can_be_undone(desk: Desk) -> None:
    desk.memory.set("plan", "old")
    assert (await desk.do(wishes.Saved(NAME, "old", "new"))).outcome is MemoryOutcome.SAVED
    assert desk.memory.now == "new"
    assert (await desk.do(wishes.Undone())).outcome is MemoryOutcome.RESTORED
    assert desk.memory.now == "old"
    settled = await desk.do(wishes.Undone())
    assert settled.outcome is MemoryOutcome.FAILED and "nothing to undo" in settled.words


@pytest.mark.parametrize(("stored", "expected"), [("other", "old"), ("other", None), (None, "old"), ("", "old")])
async def test_a_text_that_is_not_the_expected_one_stays(desk: Desk, stored: str | None, expected: str | None) -> None:
    if stored is not None:
        desk.memory.set("plan", stored)
    settled = await desk.do(wishes.Saved(NAME, expected, "mine"))
    assert (settled.outcome, settled.stored) == (MemoryOutcome.CONFLICT, stored)
    assert desk.memory.now == stored


async def test_undo_does_not_overwrite_what_came_since(desk: Desk) -> None:
    desk.memory.set("plan", "old")
    await desk.do(wishes.Deleted(NAME))
    assert desk.memory.now is None
    desk.memory.set("plan", "somebody else's")
    assert (await desk.do(wishes.Undone())).outcome is MemoryOutcome.CONFLICT
    assert desk.memory.now == "somebody else's"


async def test_a_deletion_is_undone_with_the_text_as_it_was_last(desk: Desk) -> None:
    desk.memory.set("plan", "seen on the screen")
    desk.memory.set("plan", "changed since")
    await desk.do(wishes.Deleted(NAME))
    await desk.do(wishes.Undone())
    assert desk.memory.now == "changed since"


async def test_a_text_that_cannot_be_kept_is_said(desk: Desk) -> None:
    settled = await desk.do(wishes.Saved(NAME, None, "x" * 10_000_001))
    assert settled.outcome is MemoryOutcome.FAILED and "10,000,000" in settled.words
    assert desk.memory.now is None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    before=st.none() | st.text(max_size=5),
    between=st.lists(st.none() | st.text(max_size=5) | st.just(value=False), max_size=6),
    mine=st.text(min_size=6, max_size=8),
)
def test_no_writing_in_between_is_lost(
    memory: Busy, desk: Desk, before: str | None, between: list[str | bool | None], mine: str
) -> None:
    """Ours stands at the end only if nobody else wrote after what we had read; else the last of theirs does."""
    memory.between = []
    memory.delete(NAME.key)
    if before is not None:
        memory.set(NAME.key, before)
    memory.between = [*between]
    done = desk.keeper._swap(NAME, before, mine)
    came = between[: len(between) - len(memory.between)]
    theirs = [change for change in came if change is not False]
    if done:
        assert memory.now == mine, "we were told that it is saved"
        assert not theirs or theirs[-1] == before
    else:
        assert theirs and memory.now == theirs[-1]
