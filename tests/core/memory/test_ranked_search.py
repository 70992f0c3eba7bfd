"""Searching memory by words: what is found, in which order, and that the index follows every change."""

from __future__ import annotations

import asyncio
import itertools
import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import InvalidArguments
from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.memory import Memory, MemoryScope
from ollm_tui.core.memory.ranked_search import SNIPPET_CHARS
from ollm_tui.core.storage.store import Store
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.memory import MEMORY_SEARCH

fresh = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("search") / "ollm.db")
    yield store
    store.close()


@pytest.fixture
def memory(store: Store) -> Memory:
    return Memory(store, Path(f"/workspaces/{next(fresh)}"))


def keys(memory: Memory, query: str, limit: int = 10) -> list[str]:
    return [found.memory.key for found in memory.search(query, limit).found]


async def call(memory: Memory, **arguments: object) -> ToolResult:
    invocation = MEMORY_SEARCH.create_invocation(arguments, ToolContext(bus=MessageBus(), memory=memory))
    assert invocation.facts().effect is Effect.READS
    return await invocation.execute(AbortController().signal)


def test_the_best_fit_comes_first_and_all_words_before_some(memory: Memory) -> None:
    memory.set("lunch", "the deploy is after lunch")
    memory.set("deploy server", "ssh to blue-7")
    memory.set("server", "blue-7, behind the door")
    memory.set("unrelated", "nothing here")
    assert keys(memory, "deploy server") == ["deploy server", "server", "lunch"]
    assert keys(memory, "deploy server", 1) == ["deploy server"]


@pytest.mark.parametrize(
    "query", ["testing", "Tests", "CAFE", "café", "blue_7", "blue-7", 'say "tests"', "tests AND", "tests*"]
)
def test_words_are_found_in_other_forms_and_operators_are_plain_text(memory: Memory, query: str) -> None:
    memory.set("k", "how to run the test; Café is at blue_7, they say")
    assert keys(memory, query) == ["k"]


@pytest.mark.parametrize("query", ["日本", "ふる", "++", "c++ ", "%"])
def test_writing_without_blanks_and_signs_are_found_as_text(memory: Memory, query: str) -> None:
    memory.set("k", "これは日本のふるい話 c++ 100%")
    memory.set("other", "none of it")
    assert keys(memory, query) == ["k"]


@pytest.mark.parametrize(
    ("value", "query"),
    [
        ("これは日本のふるい話です", "日本 話"),
        ("これは日本のふるい話です", "日本\u3000ふるい"),
        ("これは日本のふるい話です", "server 日本"),
        ("定例会議は毎週木曜日の十時です", "会議はいつですか"),
        ("ﾌﾟﾘﾝﾀｰ は三階", "プリンター"),
        ("回议室在三楼", "三楼"),
        ("회의는 목요일입니다", "회의"),
        ("การประชุมวันพฤหัสบดี", "วันพฤหัสบดี"),
        ("WIFI password", "ＷＩＦＩ"),
        ("the re\u0301sume\u0301 is here", "résumé"),
        ("the résumé is here", "re\u0301sume\u0301"),
        ("rockets 🚀 fly", "🚀"),
        ("rockets 🚀 fly", "🚀 rockets"),
        ("Datenbankpasswort", "passwort"),
        ("deploy_key", "_ deploy _"),
        ("nul\0inside it", "inside"),
        ("nul\0inside it", "nul\0inside"),
        ('she said "yes"', '"yes'),
        ("key: value", "key:value"),
        ("a (b) c", "(b"),
        ("NEAR the door", "NEAR(door"),
        ("x ^ y", "^ x"),
        ("alpha", "alpha OR"),
        ("alpha", "{alpha} : - + * ^ NOT AND"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("naïve", "naive"),
    ],
)
def test_what_a_person_would_expect_is_found(memory: Memory, value: str, query: str) -> None:
    memory.set("k", value)
    memory.set("other", "无关 nothing of it")
    assert keys(memory, query) == ["k"]


def test_mixed_writing_finds_those_with_all_of_it_first(memory: Memory) -> None:
    memory.set("one", "日本語のみ")
    memory.set("both", "the server 日本にある")
    memory.set("two", "a server elsewhere")
    assert keys(memory, "server 日本")[0] == "both"
    assert sorted(keys(memory, "server 日本")) == ["both", "one", "two"]
    assert keys(memory, "設定") == []


cjk = st.text(st.characters(min_codepoint=0x3041, max_codepoint=0x9FFF, categories=["Lo"]), min_size=1, max_size=12)


@settings(deadline=None)
@given(before=cjk, wanted=cjk, after=cjk)
def test_any_part_of_writing_without_blanks_is_found(store: Store, before: str, wanted: str, after: str) -> None:
    memory = Memory(store, Path(f"/cjk/{next(fresh)}"))
    memory.set("k", before + wanted + after)
    assert keys(memory, wanted) == ["k"]


@settings(deadline=None)
@given(query=st.text(min_size=1).filter(str.strip))
def test_the_tool_answers_any_query_that_says_something(store: Store, query: str) -> None:
    memory = Memory(store, Path("/queries"))
    memory.set("k", "some value")
    assert asyncio.run(call(memory, query=query)).ok


def test_the_index_follows_every_change(memory: Memory) -> None:
    memory.set("k", "apples")
    memory.set("k", "pears")
    assert keys(memory, "apples") == []
    assert keys(memory, "pears") == ["k"]
    memory.delete("k")
    assert keys(memory, "pears") == []


def test_other_workspaces_are_not_searched_and_the_user_is(store: Store, memory: Memory) -> None:
    other = Memory(store, Path("/elsewhere"))
    other.set("theirs", "zebra crossing")
    memory.set("mine", "zebra", MemoryScope.USER)
    assert keys(memory, "zebra") == ["mine"]
    assert sorted(keys(other, "zebra")) == ["mine", "theirs"]
    memory.delete("mine", MemoryScope.USER)


def test_a_long_value_is_shown_around_the_word_on_one_line(memory: Memory) -> None:
    memory.set("k", "x\n" * 5000 + "needle\nhere" + " y" * 5000)
    (found,) = memory.search("needle").found
    assert "needle here" in found.snippet
    assert len(found.snippet) <= SNIPPET_CHARS + 8
    assert found.snippet.startswith("... ")
    assert found.snippet.endswith(" ...")


async def test_the_answer_says_keyword_only_and_carries_the_exact_value(memory: Memory) -> None:
    memory.set("a\nb", "two\nlines of wisdom")
    result = await call(memory, query="wisdom")
    assert result.llm_content == '1 found (keyword only):\n"a\\nb": two lines of wisdom'
    hit = {"key": "a\nb", "value": "two\nlines of wisdom", "scope": "workspace", "snippet": "two lines of wisdom"}
    assert result.on_stdout()["data"] == {"results": [{**hit, "by": "keyword only"}], "ranking": "keyword only"}


async def test_nothing_found_is_no_error(memory: Memory) -> None:
    result = await call(memory, query="absent")
    assert result.ok
    assert result.llm_content == "No results"
    assert "keyword only" in result.for_model()


@pytest.mark.parametrize(
    "arguments", [{}, {"query": ""}, {"query": " \n"}, {"query": "x", "limit": 0}, {"query": "x", "limit": 101}]
)
def test_an_empty_query_and_odd_limits_are_refused(arguments: JsonObject) -> None:
    with pytest.raises(InvalidArguments):
        MEMORY_SEARCH.create_invocation(arguments, MessageBus())


@settings(deadline=None)
@given(value=st.text(min_size=1), query=st.text(min_size=1))
def test_any_query_is_answered_and_every_word_finds_its_memory(store: Store, value: str, query: str) -> None:
    memory = Memory(store, Path("/any"))
    memory.set("only", value)
    memory.search(query)
    if re.search(r"\S", value):
        assert keys(memory, value.strip()[:200]) == ["only"]


@pytest.mark.parametrize("then", ["search", "set", "delete"])
def test_a_damaged_index_is_made_anew_from_the_memories(tmp_path: Path, then: str) -> None:
    store = Store(tmp_path / "ollm.db")
    memory = Memory(store, tmp_path)
    for number in range(300):
        memory.set(f"k{number}", f"word{number} and more")
    store.close()
    with sqlite3.connect(tmp_path / "ollm.db") as raw:
        raw.execute("UPDATE memory_index_data SET block = x'ffffffff' WHERE id <> 10")
    raw.close()
    store = Store(tmp_path / "ollm.db")
    memory = Memory(store, tmp_path)
    match then:
        case "search":
            assert keys(memory, "word7") == ["k7"]
        case "set":
            memory.set("k7", "word7 again")
        case _:
            assert memory.delete("k8")
    assert keys(memory, "word7") == ["k7"]
    assert store.set_aside is None
    store.close()
