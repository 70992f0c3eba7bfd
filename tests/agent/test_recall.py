"""Notes from memory: which go along, in which order, and what never does."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ollm_tui.agent.events import MemoryRecalledEvent, as_line
from ollm_tui.agent.recall import ENDING, HEADING, MemoryRecall
from ollm_tui.agent.token_estimate import estimated_tokens
from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.fence.secrets import mask
from ollm_tui.core.memory import Memory, MemoryScope
from ollm_tui.core.storage.store import Store
from ollm_tui.testing import FakeClock

USER, WORKSPACE = MemoryScope.USER, MemoryScope.WORKSPACE


class Kept:
    """A memory, and what would go along from it."""

    def __init__(self, store: Store, workspace: Path) -> None:
        self.memory = Memory(store, workspace, clock=FakeClock(step=1))
        self.refused: set[str] = set()

    async def notes(self, budget: int = 1_000) -> MemoryRecalledEvent | None:
        async def allowed(key: str) -> bool:
            return key not in self.refused

        return await MemoryRecall(self.memory, allowed, budget).notes(AbortController().signal)

    async def shown(self, budget: int = 1_000) -> MemoryRecalledEvent:
        recalled = await self.notes(budget)
        assert recalled is not None
        return recalled


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[Kept]:
    store = Store(tmp_path / "ollm.db")
    yield Kept(store, tmp_path)
    store.close()


async def test_the_workspaces_notes_come_before_the_users_and_the_last_changed_first(kept: Kept) -> None:
    for key, scope in (("old", WORKSPACE), ("mine", USER), ("new", WORKSPACE), ("last", USER)):
        kept.memory.set(key, f"text of {key}", scope)
    recalled = await kept.shown()
    assert [(note.key, note.scope) for note in recalled.notes] == [
        ("new", WORKSPACE), ("old", WORKSPACE), ("last", USER), ("mine", USER),
    ]  # fmt: skip
    assert recalled.text.split("\n") == [
        HEADING,
        "- workspace: new: text of new",
        "- workspace: old: text of old",
        "- user: last: text of last",
        "- user: mine: text of mine",
        ENDING,
    ]
    assert recalled == await kept.shown()


async def test_nothing_remembered_is_nothing_said(kept: Kept) -> None:
    assert await kept.notes() is None


async def test_a_workspaces_text_stands_for_the_users_of_the_same_key(kept: Kept) -> None:
    kept.memory.set("style", "tabs", USER)
    kept.memory.set("style", "blanks", WORKSPACE)
    recalled = await kept.shown()
    assert "blanks" in recalled.text and "tabs" not in recalled.text and recalled.left_out == 0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deploy", "use ghp_0123456789abcdefghij for it"),
        ("password", "hunter2hunter2"),
        ("note", "x " * 3_000 + "AKIAABCDEFGHIJKLMNOP"),  # far behind what would be shown
        ("sk-abcdefghijklmnop1234", "a key as a key"),
        ("api token", "abcdefghijkl is what it was"),  # only together
    ],
)
async def test_what_looks_like_a_secret_never_goes_along_and_is_counted(kept: Kept, key: str, value: str) -> None:
    kept.memory.set(key, value)
    kept.memory.set("plain", "words")
    recalled = await kept.shown()
    assert [note.key for note in recalled.notes] == ["plain"]
    assert (recalled.left_out, recalled.secrets) == (1, 1)
    assert value[:12] not in recalled.text and "(secret-looking: 1)" in recalled.text


async def test_what_the_policy_would_ask_about_stays_out(kept: Kept) -> None:
    kept.memory.set("private", "not for everybody")
    kept.memory.set("open", "for everybody")
    kept.refused.add("private")
    recalled = await kept.shown()
    assert [note.key for note in recalled.notes] == ["open"] and (recalled.left_out, recalled.asking) == (1, 1)


async def test_a_long_text_is_cut_and_says_so_and_leaves_room_for_others(kept: Kept) -> None:
    kept.memory.set("small", "a short one")
    kept.memory.set("log", "line of a log\n" * 80_000)
    recalled = await kept.shown()
    assert [note.key for note in recalled.notes] == ["log", "small"]
    assert "[cut; 1,120,000 characters in all, memory_get reads them]" in recalled.text
    assert estimated_tokens(recalled.text) < 500


async def test_what_does_not_fit_is_counted_and_a_smaller_one_still_goes(kept: Kept) -> None:
    kept.memory.set("short", "fits")
    for number in range(40):
        kept.memory.set(f"k{number:02}", "some words of a note " * 8)
    recalled = await kept.shown(380)
    assert 0 < len(recalled.notes) < 40 and recalled.left_out == 41 - len(recalled.notes)
    assert f"[{recalled.left_out} memories are not shown here" in recalled.text
    assert recalled.notes[-1].key == "short"


async def test_a_budget_too_small_for_anything_brings_nothing(kept: Kept) -> None:
    kept.memory.set("a", "b")
    assert await kept.notes(20) is None


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    entries=st.lists(st.tuples(st.text(max_size=40), st.text(max_size=400), st.sampled_from(MemoryScope)), max_size=12),
    budget=st.integers(150, 1_200),
)
def test_no_text_breaks_out_of_its_line_or_the_budget_and_the_log_says_what_was_sent(
    kept: Kept, entries: list[tuple[str, str, MemoryScope]], budget: int
) -> None:
    for scope in MemoryScope:
        for key in kept.memory.keys(scope):
            kept.memory.delete(key, scope)
    for key, value, scope in entries:
        kept.memory.set(key, value, scope)
    recalled = asyncio.run(kept.notes(budget))
    names = {(key, scope) for key, _, scope in entries}
    if recalled is None:
        assert not entries
        return
    assert estimated_tokens(recalled.text) <= budget
    first, *notes, last = recalled.text.split("\n") if recalled.notes else (HEADING, *recalled.text.split("\n"))
    assert (first, last) == (HEADING, ENDING)
    assert sum(one.startswith("- ") for one in notes) == len(recalled.notes)
    assert all(one.isprintable() for one in notes)
    shadowed = sum((key, WORKSPACE) in names for key, scope in names if scope is USER)
    assert len(recalled.notes) + recalled.left_out == len(names) - shadowed
    line = as_line(recalled)
    assert json.loads(mask(line))["text"] == recalled.text
