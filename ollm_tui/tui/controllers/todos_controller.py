"""The todo list for the screen, and a person's changes to it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from ollm_tui.agent.events import TodosChangedEvent
from ollm_tui.core.storage.background import watch_changes
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import TodoList
from ollm_tui.tui.panes.todos_pane import TodoPane
from ollm_tui.tui.values import TodoRow, TodoState


class TodosController:
    """Changes go through the list and come back as events; an older revision than the last is dropped."""

    def __init__(self, todos: TodoList) -> None:
        self._todos = todos
        self._revision = -1

    async def load(self) -> tuple[TodoRow, ...]:
        """The list as it is now."""
        state = await asyncio.to_thread(self._todos.state)
        self._revision = max(self._revision, state.revision)
        return tuple(TodoRow(todo.id, todo.task, TodoState(todo.status.value)) for todo in state.todos)

    def rows_of(self, event: TodosChangedEvent) -> tuple[TodoRow, ...] | None:
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


class StoreWatcher:
    """`memory_changed` is awaited on the event loop; the todo list announces its change by itself."""

    def __init__(
        self, store: Store, todos: TodoList, memory_changed: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        self._store = store
        self._todos = todos
        self._memory_changed = memory_changed
        self.focused = True

    async def run(self) -> None:
        """Until cancelled."""
        loop = asyncio.get_running_loop()

        def on_change() -> None:
            self._todos.refresh()
            if not loop.is_closed():
                asyncio.run_coroutine_threadsafe(self._memory_changed(), loop)

        await watch_changes(self._store, on_change, wanted=lambda: self.focused)
