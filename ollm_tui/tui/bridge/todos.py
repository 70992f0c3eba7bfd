"""The todo list for the screen, and a person's changes to it."""

from __future__ import annotations

import asyncio

from ollm_tui.agent.events import TodosReplaced
from ollm_tui.core.todos.todo_list import TodoList
from ollm_tui.tui.panes.todos import TodoPane
from ollm_tui.tui.values import TodoRow, TodoState


class TodoKeeper:
    """Changes go through the list and come back as events; an older revision than the last is dropped."""

    def __init__(self, todos: TodoList) -> None:
        self._todos = todos
        self._revision = -1

    async def load(self) -> tuple[TodoRow, ...]:
        """The list as it is now."""
        state = await asyncio.to_thread(self._todos.state)
        self._revision = max(self._revision, state.revision)
        return tuple(TodoRow(todo.id, todo.task, TodoState(todo.status.value)) for todo in state.todos)

    def rows_of(self, event: TodosReplaced) -> tuple[TodoRow, ...] | None:
        """The rows of an event; None when something newer is shown already."""
        if event.revision < self._revision:
            return None
        self._revision = event.revision
        return tuple(TodoRow(todo.id, todo.task, TodoState(todo.status)) for todo in event.todos)

    async def change(self, wish: TodoPane.Added | TodoPane.Toggled | TodoPane.Removed) -> None:
        """Do what the person wishes. Raises TodoFailed and StorageFailed."""
        match wish:
            case TodoPane.Added(task):
                await asyncio.to_thread(self._todos.add, task, by="user")
            case TodoPane.Toggled(todo_id, done):
                change = self._todos.complete if done else self._todos.reopen
                await asyncio.to_thread(change, todo_id, by="user")
            case TodoPane.Removed(todo_id):
                await asyncio.to_thread(self._todos.remove, todo_id, by="user")
