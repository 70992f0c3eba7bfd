"""A session's first message: the notes before it reach the model once, are logged as sent, and can be switched off."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ollm_tui.agent.events import Event, MemoryRecalledEvent, NoticeEvent, TurnStatus, read_event
from ollm_tui.agent.providers.provider import UserMessage
from ollm_tui.agent.recall import ENDING, HEADING
from ollm_tui.core.memory import MemoryScope
from ollm_tui.core.todos.todo_list import TodoStatus
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, Runtime, open_runtime
from tests.agent.providers.fake_server import FakeServer, json_reply, sse

CHAT = "/v1/chat/completions"
HELLO = sse({"choices": [{"index": 0, "delta": {"content": "Hello"}, "finish_reason": "stop"}]}, "[DONE]")
TWO = [{"text": "First."}, {"text": "Second."}]


@pytest.fixture
def config(own_folders: Path) -> Path:
    path = own_folders / ".config" / "ollm-tui" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


@asynccontextmanager
async def session(tmp_path: Path, **options: object) -> AsyncGenerator[tuple[Runtime, list[Event]]]:
    workspace = tmp_path / "ws"
    workspace.mkdir(exist_ok=True)
    if not options:
        script = tmp_path / "script.json"
        script.write_text(json.dumps(TWO))
        options = {"provider": "scripted", "script": script}
    async with open_runtime(Options(workspace=workspace, **options), Attendance.NOBODY) as runtime:  # type: ignore[arg-type]  # options by name
        events: list[Event] = []
        runtime.stream.subscribe(events.append)
        runtime.begin()
        yield runtime, events


def asked(runtime: Runtime) -> list[str]:
    return [message.whole for message in runtime.agent.history if isinstance(message, UserMessage)]


def recalled(events: list[Event]) -> list[MemoryRecalledEvent]:
    return [event for event in events if isinstance(event, MemoryRecalledEvent)]


async def test_the_notes_stand_before_the_first_message_alone(tmp_path: Path) -> None:
    async with session(tmp_path) as (runtime, events):
        runtime.core.memory.set("build", "make all")
        runtime.core.memory.set("editor", "tabs", MemoryScope.USER)
        await runtime.agent.run_turn("hello")
        runtime.core.memory.set("later", "told in the second turn")
        await runtime.agent.run_turn("again")
        notes = f"{HEADING}\n- workspace: build: make all\n- user: editor: tabs\n{ENDING}"
        assert asked(runtime) == [f"{notes}\n\nhello", "again"]
        kinds = [event.type for event in events]
        assert kinds[:3] == ["session_started", "user_message", "memory_recalled"]
        assert [event.summary for event in recalled(events)] == ["2 notes from memory"]


async def test_a_model_server_reads_them_and_the_log_has_the_same_bytes(tmp_path: Path) -> None:
    async with FakeServer() as server:
        server.always("/v1/models", json_reply({"data": [{"id": "demo"}]}))
        server.always(CHAT, HELLO)
        async with session(tmp_path, provider="openai", base_url=server.url, model="demo") as (runtime, _):
            runtime.core.memory.set("odd", "two\nlines, \u202eturned and \x1b[31mred")
            runtime.core.memory.set("deploy", "ghp_0123456789abcdefghij")
            await runtime.agent.run_turn("hello")
            assert runtime.log is not None
            logged = [read_event(line) for line in runtime.log.path.read_text().splitlines()]
        sent = json.dumps(server.bodies(CHAT)[0], ensure_ascii=False)
        (event,) = recalled(logged)
        said = next(event.text for event in logged if event.type == "user_message")
        messages = server.bodies(CHAT)[0]["messages"]
        assert isinstance(messages, list) and messages[1] == {"role": "user", "content": f"{event.text}\n\n{said}"}
        assert "ghp_" not in sent and "\x1b" not in event.text and "\u202e" not in event.text
        assert (event.left_out, event.secrets) == (1, 1)
        assert event.summary == "1 note from memory, 1 left out (secret-looking: 1)"


@pytest.mark.parametrize(
    "settings",
    [
        "[memory]\ninject = false\n",
        '[policy.tools]\ngroups = { deny = ["memory"] }\n',
        '[policy.tools]\ndeny = ["memory_get"]\n',
    ],
)
async def test_the_settings_and_the_policy_can_keep_them_back(tmp_path: Path, config: Path, settings: str) -> None:
    config.write_text(settings)
    async with session(tmp_path) as (runtime, _):
        runtime.core.memory.set("build", "make all")
        await runtime.agent.run_turn("hello")
        assert "make all" not in asked(runtime)[0]


async def test_a_key_that_a_rule_asks_about_is_not_given_away(tmp_path: Path, config: Path) -> None:
    rule = '[[policy.rules]]\ntool = "memory_get"\naction = "ask"\nconditions = [{ param = "key", operator = "startsWith", value = "private" }]\n'
    config.write_text(rule)
    async with session(tmp_path) as (runtime, _):
        runtime.core.memory.set("private plan", "nobody knows")
        runtime.core.memory.set("build", "make all")
        await runtime.agent.run_turn("hello")
        assert "make all" in asked(runtime)[0] and "nobody knows" not in asked(runtime)[0]
        assert "1 memory is not shown here (needing approval: 1)" in asked(runtime)[0]


async def test_the_budget_is_set_and_a_repository_may_not_set_it(tmp_path: Path, config: Path) -> None:
    config.write_text("[memory]\ninject_tokens = 160\n")
    async with session(tmp_path) as (runtime, _):
        for number in range(30):
            runtime.core.memory.set(f"k{number}", "a few words to keep in mind")
        await runtime.agent.run_turn("hello")
        text = asked(runtime)[0]
        assert 0 < text.count("\n- workspace: ") < 10


async def test_without_a_model_nothing_goes_along(tmp_path: Path) -> None:
    async with session(tmp_path, provider="offline") as (runtime, events):
        runtime.core.memory.set("build", "make all")
        await runtime.agent.run_turn("ls")
        assert not recalled(events) and asked(runtime) == ["ls"]


async def test_a_store_that_fails_is_said_and_the_turn_goes_on(tmp_path: Path) -> None:
    async with session(tmp_path) as (runtime, events):
        runtime.core.store.path.unlink()
        assert await runtime.agent.run_turn("hello") is TurnStatus.COMPLETED
        assert any("Nothing from memory goes along" in event.text for event in events if isinstance(event, NoticeEvent))


async def test_a_finished_todo_list_is_archived_when_a_new_session_begins_its_work(tmp_path: Path) -> None:
    async with session(tmp_path) as (runtime, _):
        runtime.core.todos.add("done before", status=TodoStatus.COMPLETED)
        await runtime.agent.run_turn("hello")
        assert runtime.core.todos.list() == ()
        assert [todo.task for todo in runtime.core.todos.archived()] == ["done before"]
        runtime.core.todos.add("done now", status=TodoStatus.COMPLETED)
        await runtime.agent.run_turn("again")
        assert [todo.task for todo in runtime.core.todos.list()] == ["done now"]


async def test_an_unfinished_list_goes_on_in_the_next_session(tmp_path: Path) -> None:
    async with session(tmp_path) as (runtime, _):
        runtime.core.todos.add("done", status=TodoStatus.COMPLETED)
        runtime.core.todos.add("open")
        await runtime.agent.run_turn("hello")
        assert [todo.task for todo in runtime.core.todos.list()] == ["done", "open"]
