"""Pages of memories: every one is found, in a fixed order, without its whole text being read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.memory import OPENING_CHARS, Memory, MemoryOrder, MemoryScope
from ollm_tui.core.storage.store import Store
from ollm_tui.testing import FakeClock
from tests.core.memory.concepts import Concepts


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "ollm.db")
    yield store
    store.close()


@pytest.fixture
def memory(store: Store, tmp_path: Path) -> Memory:
    return Memory(store, tmp_path, clock=FakeClock(step=1))


def test_the_workspaces_come_first_by_key_or_the_last_changed_first(memory: Memory) -> None:
    for key, scope in (("b", MemoryScope.USER), ("c", MemoryScope.WORKSPACE), ("a", MemoryScope.WORKSPACE)):
        memory.set(key, "text", scope)
    memory.set("c", "changed")
    assert [entry.key for entry in memory.page().entries] == ["a", "c", "b"]
    assert [entry.key for entry in memory.page(order=MemoryOrder.NEWEST).entries] == ["c", "a", "b"]
    assert [entry.key for entry in memory.page(scope=MemoryScope.USER).entries] == ["b"]


def test_a_long_text_comes_with_its_opening_and_its_size(memory: Memory) -> None:
    memory.set("long", "ä" * 1_000_000)
    memory.set("nul", "a\0b")
    memory.set("none", "")
    long, none, nul = memory.page().entries
    assert (len(long.opening), long.size, long.whole) == (OPENING_CHARS, 2_000_000, False)
    assert (none.opening, none.size, none.whole) == ("", 0, True)
    assert nul.size == 3  # and whatever SQLite makes of the opening, nobody takes it for the whole
    assert nul.whole == (nul.opening == "a\0b")


def test_more_than_the_limit_are_counted(memory: Memory) -> None:
    for number in range(7):
        memory.set(f"k{number}", "x")
    seen = memory.page(limit=3)
    assert ([entry.key for entry in seen.entries], seen.total) == (["k0", "k1", "k2"], 7)


@pytest.mark.parametrize("words", ["MAKE", "make", "äpfel", "ÄPFEL", "Äpfel", "%", "_"])
def test_letters_of_either_case_find_and_nothing_is_a_pattern(memory: Memory, words: str) -> None:
    memory.set("build", "run Make, eat Äpfel, 100 %_")
    memory.set("other", "nothing of it")
    assert [entry.key for entry in memory.page(words).entries] == ["build"]


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kept=st.dictionaries(st.text(max_size=12), st.text(max_size=30), max_size=6), words=st.text(min_size=1, max_size=3)
)
def test_the_page_finds_what_the_tool_finds(memory: Memory, kept: dict[str, str], words: str) -> None:
    for old in memory.entries():
        memory.delete(old.key)
    for key, value in kept.items():
        memory.set(key, value)
    page = memory.page(words)
    tool = [match.memory.key for match in memory.search(words, 1_000).found]
    assert sorted(entry.key for entry in page.entries) == sorted(tool)
    assert page.total == len(tool)
    if words.strip():
        assert [entry.key for entry in page.entries] == tool
    containing = {key for key, value in kept.items() if words.strip() in key or words.strip() in value}
    assert tool or not containing, "whatever contains the words is found, where no word is"


def test_a_page_of_hits_goes_on_where_the_last_one_ended(memory: Memory) -> None:
    for number in range(7):
        memory.set(f"k{number}", "one needle")
    pages = [memory.page("needle", offset=offset, limit=3) for offset in (0, 3, 6)]
    assert [page.total for page in pages] == [7, 7, 7]
    keys = [entry.key for page in pages for entry in page.entries]
    assert keys == [match.memory.key for match in memory.search("needle", 7).found]


def test_an_aborted_search_ends(store: Store, tmp_path: Path) -> None:
    memory = Memory(store, tmp_path, embedder=Concepts())
    memory.set("car", "an automobile")
    stopped = AbortController()
    stopped.abort()
    with pytest.raises(OperationCancelled):
        memory.page("vehicle", signal=stopped.signal)
