"""Memories seen from afar: every one is found, in a fixed order, without its whole text being read."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ollm_tui.core.memory import Memory, MemoryScope
from ollm_tui.core.memory.overview import OPENING_CHARS, MemoryOrder, MemoryOverview
from ollm_tui.core.storage.store import Store


class HandClock:
    def __init__(self) -> None:
        self.at = datetime(2026, 1, 31, tzinfo=UTC)

    def now(self) -> datetime:
        self.at += timedelta(seconds=1)
        return self.at

    def monotonic(self) -> float:
        return self.at.timestamp()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "ollm.db")
    yield store
    store.close()


@pytest.fixture
def memory(store: Store, tmp_path: Path) -> Memory:
    return Memory(store, tmp_path, clock=HandClock())


@pytest.fixture
def overview(store: Store, tmp_path: Path) -> MemoryOverview:
    return MemoryOverview(store, tmp_path)


def test_the_workspaces_come_first_by_key_or_the_last_changed_first(memory: Memory, overview: MemoryOverview) -> None:
    for key, scope in (("b", MemoryScope.USER), ("c", MemoryScope.WORKSPACE), ("a", MemoryScope.WORKSPACE)):
        memory.set(key, "text", scope)
    memory.set("c", "changed")
    assert [glance.key for glance in overview.look().glances] == ["a", "c", "b"]
    assert [glance.key for glance in overview.look(order=MemoryOrder.NEWEST).glances] == ["c", "a", "b"]
    assert [glance.key for glance in overview.look(scope=MemoryScope.USER).glances] == ["b"]


def test_a_long_text_comes_with_its_opening_and_its_size(memory: Memory, overview: MemoryOverview) -> None:
    memory.set("long", "ä" * 1_000_000)
    memory.set("nul", "a\0b")
    memory.set("none", "")
    long, none, nul = overview.look().glances
    assert (len(long.opening), long.size, long.whole) == (OPENING_CHARS, 2_000_000, False)
    assert (none.opening, none.size, none.whole) == ("", 0, True)
    assert nul.size == 3  # and whatever SQLite makes of the opening, nobody takes it for the whole
    assert nul.whole == (nul.opening == "a\0b")


def test_more_than_the_limit_are_counted(memory: Memory, overview: MemoryOverview) -> None:
    for number in range(7):
        memory.set(f"k{number}", "x")
    seen = overview.look(limit=3)
    assert ([glance.key for glance in seen.glances], seen.total) == (["k0", "k1", "k2"], 7)


@pytest.mark.parametrize("words", ["MAKE", "make", "äpfel", "ÄPFEL", "Äpfel", "%", "_"])
def test_letters_of_either_case_find_and_nothing_is_a_pattern(
    memory: Memory, overview: MemoryOverview, words: str
) -> None:
    memory.set("build", "run Make, eat Äpfel, 100 %_")
    memory.set("other", "nothing of it")
    assert [glance.key for glance in overview.look(containing=words).glances] == ["build"]


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kept=st.dictionaries(st.text(max_size=12), st.text(max_size=30), max_size=6), words=st.text(min_size=1, max_size=3)
)
def test_whatever_contains_the_words_is_found(
    memory: Memory, overview: MemoryOverview, kept: dict[str, str], words: str
) -> None:
    for old in memory.entries():
        memory.delete(old.key)
    for key, value in kept.items():
        memory.set(key, value)
    found = {glance.key for glance in overview.look(containing=words).glances}
    assert found >= {key for key, value in kept.items() if words in key or words in value}
    folded = words.lower()
    assert all(
        folded in key.lower() or folded in kept[key].lower() or words.upper() in kept[key].upper() + key.upper()
        for key in found
    )
