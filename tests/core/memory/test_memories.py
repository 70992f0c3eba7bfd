"""Memory and its tools `memory` and `memory_get`: round trips, scopes, odd keys, secrets, several processes."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import InvalidArguments, MemoryFailed, StorageFailed
from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.core.bus.confirmation import ConfirmationDetails, TextPreview
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.memory import MAX_VALUE_CHARS, Memory, MemoryScope
from ollm_tui.core.storage.store import Store
from ollm_tui.core.tools.base import Effect, Tool
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.memory import MEMORY, MEMORY_GET

USER, WORKSPACE = MemoryScope.USER, MemoryScope.WORKSPACE
fresh = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("memory") / "ollm.db")
    yield store
    store.close()


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    store = Store(tmp_path / "ollm.db")
    yield Memory(store, tmp_path)
    store.close()


def new_workspace(store: Store) -> Memory:
    return Memory(store, Path(f"/workspaces/{next(fresh)}"))


async def call(memory: Memory, arguments: JsonObject, tool: Tool = MEMORY) -> ToolResult:
    invocation = tool.create_invocation(arguments, ToolContext(bus=MessageBus(), memory=memory))
    assert invocation.get_description()
    return await invocation.execute(AbortController().signal)


def run_now(memory: Memory, arguments: JsonObject, tool: Tool = MEMORY) -> JsonObject:
    result = asyncio.run(call(memory, arguments, tool)).on_stdout()
    assert result["ok"]
    return result


# -- Properties 50 to 52


@settings(deadline=None)
@given(key=st.text(), value=st.text())
def test_property_50_what_is_stored_comes_back_exactly(store: Store, key: str, value: str) -> None:
    memory = new_workspace(store)
    run_now(memory, {"action": "set", "key": key, "value": value})
    for arguments, tool in (({"action": "get", "key": key}, MEMORY), ({"key": key}, MEMORY_GET)):
        result = run_now(memory, arguments, tool)
        assert result["data"] == {"key": key, "value": value, "scope": "workspace"}
        assert result["llmContent"] == (value or "(value is empty)")


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.text(), min_size=1, max_size=6), st.data())
def test_property_51_a_deleted_key_is_not_found_and_the_others_are(
    store: Store, entries: dict[str, str], data: st.DataObject
) -> None:
    memory = new_workspace(store)
    for key, value in entries.items():
        memory.set(key, value)
    gone = data.draw(st.sampled_from(sorted(entries)))
    run_now(memory, {"action": "delete", "key": gone})
    result = run_now(memory, {"action": "get", "key": gone})
    assert result["llmContent"] == "Key not found"
    assert "error" not in result
    assert {key: found.value for key in entries if (found := memory.get(key))} == {
        key: value for key, value in entries.items() if key != gone
    }


@settings(deadline=None)
@given(st.dictionaries(st.text(), st.text(), max_size=8))
def test_property_52_listing_shows_exactly_the_stored_keys(store: Store, entries: dict[str, str]) -> None:
    memory = new_workspace(store)
    for key, value in entries.items():
        memory.set(key, value)
    result = run_now(memory, {"action": "list"})
    assert result["data"] == {"keys": sorted(entries)}
    lines = str(result["llmContent"]).split("\n")
    read = [json.loads(line) if line.startswith('"') else line for line in lines]
    assert read == (sorted(entries) or ["No keys"])


# -- replacing what is still there


@settings(deadline=None, max_examples=100)
@given(st.none() | st.text(max_size=2), st.none() | st.text(max_size=2), st.none() | st.text(max_size=2))
def test_only_what_was_expected_is_replaced(
    store: Store, stored: str | None, expected: str | None, value: str | None
) -> None:
    memory = new_workspace(store)
    if stored is not None:
        memory.set("key", stored)
    assert memory.replace("key", expected, value) == (stored == expected)
    found = memory.get("key")
    assert (found.value if found else None) == (value if stored == expected else stored)


def test_no_replacing_is_lost_where_several_replace_at_once(tmp_path: Path) -> None:
    def count_up(times: int) -> None:
        store = Store(tmp_path / "ollm.db")
        memory = Memory(store, tmp_path)
        while times:
            found = memory.get("count")
            before = found.value if found else None
            times -= memory.replace("count", before, str(int(before or 0) + 1))
        store.close()

    with ThreadPoolExecutor() as threads:
        for done in [threads.submit(count_up, 100) for _ in range(3)]:
            done.result()
    store = Store(tmp_path / "ollm.db")
    last = Memory(store, tmp_path).get("count")
    store.close()
    assert last is not None and last.value == "300"


# -- values and keys


@pytest.mark.parametrize(
    "key",
    ["__proto__", "toString", "a\nb", "nul\0in it", "", " ", "'; DROP TABLE memories; --", "%", "ключ", "👩‍🚀", "ﬁ"],
)
def test_no_key_is_special(memory: Memory, key: str) -> None:
    memory.set(key, "mine")
    memory.set(key + "x", "other")
    found = memory.get(key)
    assert found is not None
    assert found.value == "mine"
    assert memory.keys() == tuple(sorted([key, key + "x"]))
    assert memory.delete(key)
    assert memory.get(key) is None
    assert memory.get(key + "x") is not None


def test_a_megabyte_survives_restart(tmp_path: Path) -> None:
    value = "".join(chr(0x20 + number % 0x5000) for number in range(1_000_000))
    first = Store(tmp_path / "ollm.db")
    Memory(first, tmp_path).set("big", value)
    first.close()
    second = Store(tmp_path / "ollm.db")
    found = Memory(second, tmp_path).get("big")
    assert found is not None
    assert found.value == value
    second.close()


def test_what_is_too_long_is_refused_with_the_limit(memory: Memory) -> None:
    with pytest.raises(MemoryFailed, match=r"10,000,001 characters is over the limit of 10,000,000"):
        memory.set("k", "x" * (MAX_VALUE_CHARS + 1))
    with pytest.raises(MemoryFailed, match="key of 10,001"):
        memory.set("k" * 10_001, "x")
    with pytest.raises(StorageFailed, match="surrogate"):
        memory.set("k", "\ud800")
    assert memory.keys() == ()


# -- scopes


def test_get_looks_in_the_workspace_then_at_the_user(store: Store) -> None:
    here, there = new_workspace(store), new_workspace(store)
    here.set("editor", "vim", USER)
    there.set("editor", "ed")
    assert [(found.value, found.scope) for m in (here, there) if (found := m.get("editor"))] == [
        ("vim", USER),
        ("ed", WORKSPACE),
    ]
    assert here.get("editor", WORKSPACE) is None
    here.delete("editor", USER)


async def test_set_and_delete_keep_to_the_workspace_unless_told(memory: Memory) -> None:
    await call(memory, {"action": "set", "key": "k", "value": "everywhere", "scope": "user"})
    await call(memory, {"action": "set", "key": "k", "value": "here"})
    result = await call(memory, {"action": "delete", "key": "k"})
    assert result.llm_content == "Deleted k"
    assert "scope user" in result.notes[0]
    assert (await call(memory, {"action": "get", "key": "k"})).llm_content == "everywhere"
    assert (await call(memory, {"action": "get", "key": "k", "scope": "workspace"})).llm_content == "Key not found"
    assert (await call(memory, {"action": "delete", "key": "k"})).llm_content == "Key not found"
    assert (await call(memory, {"action": "delete", "key": "k", "scope": "user"})).llm_content == "Deleted k"
    assert (await call(memory, {"action": "list"})).llm_content == "No keys"


async def test_a_key_in_both_scopes_is_listed_once(memory: Memory) -> None:
    memory.set("k", "1")
    memory.set("k", "2", USER)
    memory.set("a", "3", USER)
    assert (await call(memory, {"action": "list"})).llm_content == "a\nk"
    assert (await call(memory, {"action": "list", "scope": "workspace"})).llm_content == "k"
    assert [(entry.key, entry.value, entry.scope) for entry in memory.entries()] == [
        ("k", "1", WORKSPACE),
        ("a", "3", USER),
        ("k", "2", USER),
    ]


# -- what the tool says


async def test_overwriting_tells_the_old_value(memory: Memory) -> None:
    first = await call(memory, {"action": "set", "key": "k", "value": "one\ntwo"})
    assert (first.llm_content, first.notes) == ("Stored k", ())
    again = await call(memory, {"action": "set", "key": "k", "value": "three"})
    assert again.notes == ('replaced the value: "one\\ntwo"',)
    assert (await call(memory, {"action": "set", "key": "k", "value": "three"})).notes == ()


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("save", "set"),
        ("store", "set"),
        ("SET", "set"),
        ("recall", "get"),
        ("read", "get"),
        ("remove", "delete"),
        ("forget", "delete"),
        ("keys", "list"),
    ],
)
def test_other_words_for_an_action_are_understood_and_never_listed(said: str, meant: str) -> None:
    invocation = MEMORY.create_invocation({"action": said, "key": "k", "value": "v"}, MessageBus())
    assert invocation.params.action == meant
    assert f'"{said}"' not in json.dumps(MEMORY.parameters.model_json_schema())


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "action"),
        ({"action": "set"}, "set needs a key; set needs a value"),
        ({"action": "set", "key": "k"}, "set needs a value"),
        ({"action": "get"}, "get needs a key"),
        ({"action": "delete"}, "delete needs a key"),
        ({"action": "explode", "key": "k"}, "'set', 'get', 'delete' or 'list'"),
        ({"action": "get", "key": 5}, "key"),
        ({"action": "get", "key": "k", "scope": "world"}, "scope"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: JsonObject, said: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        MEMORY.create_invocation(arguments, MessageBus())
    assert said in caught.value.message


async def test_memory_get_names_the_keys_when_it_misses(memory: Memory) -> None:
    for number in range(25):
        memory.set(f"k{number:02}", "x")
    result = await call(memory, {"key": "other"}, MEMORY_GET)
    assert result.ok
    assert result.llm_content == "Key not found"
    assert result.notes[0].startswith("the keys are: k00, k01")
    assert result.notes[0].endswith("k19 and 5 more")


def test_only_set_and_delete_change_what_later_sessions_read() -> None:
    def effect(action: str) -> Effect:
        return MEMORY.create_invocation({"action": action, "key": "k", "value": "v"}, MessageBus()).facts().effect

    assert [effect(action) for action in ("set", "delete", "get", "list")] == [
        Effect.REMEMBERS,
        Effect.REMEMBERS,
        Effect.READS,
        Effect.READS,
    ]


# -- secrets


@pytest.mark.parametrize(
    ("key", "value", "kind"),
    [
        ("notes", "use ghp_" + "a1" * 18 + " for git", "a GitHub token"),
        ("db password", "hunter2!", "by its name"),
        ("url", "postgres://me:pw@host/db", "an address with a password"),
    ],
)
async def test_what_looks_like_a_secret_is_asked_about_and_stored_unchanged(
    memory: Memory, key: str, value: str, kind: str
) -> None:
    invocation = MEMORY.create_invocation(
        {"action": "set", "key": key, "value": value}, ToolContext(bus=MessageBus(), memory=memory)
    )
    signal = AbortController().signal
    asked = await invocation.should_confirm_execute(signal)
    assert isinstance(asked, ConfirmationDetails)
    assert asked.risk is Risk.MEDIUM
    assert isinstance(asked.preview, TextPreview)
    assert kind in asked.preview.warnings[0]
    assert memory.get(key) is None
    await invocation.execute(signal)
    found = memory.get(key)
    assert found is not None
    assert found.value == value


async def test_ordinary_values_and_reading_secrets_are_not_asked_about(memory: Memory) -> None:
    token = "ghp_" + "a1" * 18
    for arguments in (
        {"action": "set", "key": "style", "value": "tabs, and keep the API key docs short"},
        {"action": "get", "key": token},
        {"action": "delete", "key": token},
    ):
        invocation = MEMORY.create_invocation(arguments, ToolContext(bus=MessageBus(), memory=memory))
        assert await invocation.should_confirm_execute(AbortController().signal) is False


# -- several processes


def test_two_processes_setting_different_keys_lose_none(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from ollm_tui.core.storage.store import Store
from ollm_tui.core.memory import Memory
memory = Memory(Store(Path(sys.argv[1])), Path("/shared"))
for number in range(100):
    memory.set(f"{sys.argv[2]} {number}", str(number))
    memory.set("common", f"{sys.argv[2]} {number}")
"""
    path = tmp_path / "ollm.db"
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name], stderr=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]
    for process in started:
        _, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
    store = Store(path)
    memory = Memory(store, Path("/shared"))
    assert set(memory.keys()) == {f"{name} {number}" for name in "ab" for number in range(100)} | {"common"}
    common = memory.get("common")
    assert common is not None
    assert common.value in ("a 99", "b 99")
    assert len(memory.search("common").found) == 1
    store.close()
