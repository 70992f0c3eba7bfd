"""The `write_todos` tool: what a model may send and what it reads back."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import InvalidArguments, OperationCancelled, TodoFailed
from ollm_tui.core.base.results import JsonObject, ToolResult
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import TodoList
from ollm_tui.core.tools.base import Effect
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.write_todos import WRITE_TODOS, TodosData


@pytest.fixture
def todos(tmp_path: Path) -> Iterator[TodoList]:
    store = Store(tmp_path / "ollm.db")
    yield TodoList(store, tmp_path)
    store.close()


async def call(todos: TodoList, /, **arguments: object) -> ToolResult:
    invocation = WRITE_TODOS.create_invocation(arguments, ToolContext(bus=MessageBus(), todos=todos))
    signal = AbortController().signal
    assert invocation.get_description()
    assert await invocation.should_confirm_execute(signal) is False
    assert await invocation.check(signal) is None
    return await invocation.execute(signal)


async def test_every_result_shows_the_whole_list(todos: TodoList) -> None:
    result = await call(todos, action="add", task="write tests")
    assert result.llm_content == "[ ] t1: write tests"
    await call(todos, action="add", task="ship it")
    result = await call(todos, action="complete", id="t1")
    assert result.llm_content == "[x] t1: write tests\n[ ] t2: ship it"
    assert result.return_display == "1 of 2 todos done"
    assert (await call(todos, action="list")).llm_content == result.llm_content
    result = await call(todos, action="remove", id="t1")
    assert result.llm_content == "[ ] t2: ship it"


async def test_an_empty_list_says_no_todos(todos: TodoList) -> None:
    result = await call(todos, action="list")
    assert result.llm_content == "No todos"
    assert result.on_stdout()["data"] == {"todos": []}


async def test_programs_get_every_field_in_camel_case(todos: TodoList) -> None:
    await call(todos, action="add", task="a\nb")
    result = await call(todos, action="start", id="1")
    assert isinstance(result.data, TodosData)
    assert result.on_stdout()["data"] == {
        "todos": [
            {
                "id": "t1",
                "task": "a\nb",
                "status": "in_progress",
                "completed": False,
                "createdAt": result.data.todos[0].created_at,
            }
        ]
    }
    assert result.llm_content == '[ ] t1: "a\\nb"'
    assert result.notes == ("in progress: t1",)


async def test_a_place_may_come_as_a_number_and_an_item_by_its_text(todos: TodoList) -> None:
    for task in ("one", "two", "three"):
        await call(todos, action="add", task=task)
    await call(todos, action="complete", id=2)
    await call(todos, action="complete", task="three")
    assert [todo.id for todo in todos.list() if todo.completed] == ["t2", "t3"]


async def test_clear_takes_finished_items_and_all_takes_everything(todos: TodoList) -> None:
    await call(todos, todos=[{"task": "a", "status": "completed"}, {"task": "b", "status": "cancelled"}, {"task": "c"}])
    result = await call(todos, action="clear")
    assert result.llm_content == "[ ] t3: c"
    assert "cleared 2 todos" in result.notes
    result = await call(todos, action="clear", id="all")
    assert result.llm_content == "No todos"
    assert "cleared 1 todo" in result.notes


async def test_a_whole_list_keeps_unfinished_items_it_does_not_name_with_a_note(todos: TodoList) -> None:
    await call(todos, action="add", task="old")
    result = await call(todos, todos=[{"task": "new", "status": "in_progress"}, {"task": "later"}])
    assert result.llm_content == "[ ] t2: new\n[ ] t3: later\n[ ] t1: old"
    assert any(note.startswith("kept at the end: t1, unfinished") for note in result.notes)
    assert "in progress: t2" in result.notes
    result = await call(todos, todos=[{"task": "renamed", "id": "t1", "status": "cancelled"}])
    assert "t1 said before: old" in result.notes
    assert "cancelled: t1" in result.notes


@pytest.mark.parametrize("action", ["complete", "start", "remove"])
async def test_an_unknown_item_fails_before_anyone_is_asked(todos: TodoList, action: str) -> None:
    todos.add("only")
    invocation = WRITE_TODOS.create_invocation(
        {"action": action, "id": "t5"}, ToolContext(bus=MessageBus(), todos=todos)
    )
    for attempt in (invocation.check, invocation.execute):
        with pytest.raises(TodoFailed, match="The ids are: t1"):
            await attempt(AbortController().signal)


async def test_a_whole_list_with_an_unknown_id_fails_and_changes_nothing(todos: TodoList) -> None:
    todos.add("only")
    with pytest.raises(TodoFailed, match="No todo 7"):
        await call(todos, todos=[{"task": "x", "id": 7}])
    assert [todo.task for todo in todos.list()] == ["only"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({}, "either action or todos"),
        ({"action": "add", "task": "x", "todos": []}, "either action or todos"),
        ({"action": "add"}, "add needs the text"),
        ({"action": "add", "task": ""}, "add needs the text"),
        ({"action": "complete"}, "complete needs the item"),
        ({"action": "start"}, "start needs the item"),
        ({"action": "remove", "id": ""}, "remove needs the item"),
        ({"action": "clear", "id": "t1"}, "use remove"),
        ({"action": "finish", "id": "t1"}, "'add', 'start', 'complete'"),
        ({"action": "list", "id": True}, "id"),
        ({"todos": [{"status": "pending"}]}, "todos.0.task"),
        ({"todos": [{"task": "a", "status": "done"}]}, "todos.0.status"),
        (
            {"todos": [{"task": "a", "status": "in_progress"}, {"task": "b", "status": "in_progress"}]},
            "b is the second",
        ),
        ({"action": "list", "more": 1}, "more"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments: JsonObject, said: str) -> None:
    with pytest.raises(InvalidArguments) as caught:
        WRITE_TODOS.create_invocation(arguments, MessageBus())
    assert said in caught.value.message


def test_listing_reads_and_everything_else_plans() -> None:
    def effect(arguments: JsonObject) -> Effect:
        return WRITE_TODOS.create_invocation(arguments, MessageBus()).facts().effect

    assert effect({"action": "list"}) is Effect.READS
    assert effect({"action": "clear"}) is Effect.PLANS
    assert effect({"todos": []}) is Effect.PLANS


async def test_a_cancelled_call_changes_nothing(todos: TodoList) -> None:
    controller = AbortController()
    controller.abort("stop")
    invocation = WRITE_TODOS.create_invocation(
        {"action": "add", "task": "x"}, ToolContext(bus=MessageBus(), todos=todos)
    )
    with pytest.raises(OperationCancelled):
        await invocation.execute(controller.signal)
    assert todos.list() == ()


def run_now(todos: TodoList, arguments: JsonObject) -> ToolResult:
    return asyncio.run(call(todos, **arguments))


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TodoList]:
    store = Store(tmp_path_factory.mktemp("shared") / "ollm.db")
    yield TodoList(store, Path("/shared"))
    store.close()


@settings(deadline=None)
@given(task=st.text(min_size=1))
def test_any_task_comes_back_exactly_and_on_one_line(shared: TodoList, task: str) -> None:
    """Properties 53 and 56 through the tool."""
    shared.clear_all()
    result = run_now(shared, {"action": "add", "task": task})
    assert isinstance(result.data, TodosData)
    assert [entry.task for entry in result.data.todos] == [task]
    assert len(result.llm_content.splitlines()) == 1
    assert result.llm_content.isprintable()
