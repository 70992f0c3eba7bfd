"""Todos changed on the screen: what is deleted there comes back, the last deleted first."""

from __future__ import annotations

from pathlib import Path

from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import TodoList
from ollm_tui.tui.controllers.todos_controller import TodosController
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import RemoveTodo, RestoreTodo


async def test_deleted_todos_come_back_in_their_places(tmp_path: Path) -> None:
    store = Store(tmp_path / "ollm.db")
    todos = TodoList(store, tmp_path)
    posted: list[updates.Update] = []

    def post(update: updates.Update) -> bool:
        posted.append(update)
        return True

    controller = TodosController(todos, post)
    one, two, three = (todos.add(task).id for task in ("one", "two", "three"))
    for gone in (one, three):
        await controller.handle(RemoveTodo(gone))
    await controller.handle(RestoreTodo())
    assert [todo.id for todo in todos.list()] == [two, three]
    await controller.handle(RestoreTodo())
    assert [todo.id for todo in todos.list()] == [one, two, three]
    await controller.handle(RestoreTodo())
    assert [update.text for update in posted if isinstance(update, updates.ToastUpdate)] == [
        "You have deleted no todo that could come back."
    ]
    store.close()
