"""The todo list for the screen, with changes by other processes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from ollm_tui.agent.events import TodosChangedEvent
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.storage.background import watch_changes
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo import Todo, TodoStatus
from ollm_tui.core.todos.todo_list import TodoList, TodoListState
from ollm_tui.tui.protocol import PostUpdate, intents, updates


class TodosController:
    """Handler of todo intents; posts newer revisions only.

    The result of a change returns as an event.
    """

    def __init__(self, todos: TodoList, post: PostUpdate) -> None:
        self._todos = todos
        self._post = post
        self._state = TodoListState((), -1, "user")
        self._deleted: list[tuple[Todo, int]] = []
        """What the person deleted and could bring back, with its index; the last at the end."""

    async def load(self) -> None:
        """Post the list as it is now. Raises StorageFailed."""
        state = await asyncio.to_thread(self._todos.state)
        if state.revision >= self._state.revision:
            self._show(state)

    def changed(self, event: TodosChangedEvent) -> bool:
        """Post the list after an event, unless a newer one is shown; return False where it has to be loaded."""
        if event.revision <= self._state.revision:
            return True
        if event.since not in (None, self._state.revision):
            return False
        self._show(TodoListState(event.applied_to(self._state.todos), event.revision, event.by))
        return True

    def _show(self, state: TodoListState) -> None:
        self._state = state
        self._post(updates.TodosUpdate(state.todos))

    async def handle(self, intent: intents.TodoIntent) -> None:
        """Change the list; report a failure."""
        try:
            await asyncio.to_thread(self._change, intent)
        except ToolFailure as failure:
            self._post(updates.ToastUpdate(failure.message, failed=True))

    def _change(self, intent: intents.TodoIntent) -> None:
        match intent:
            case intents.AddTodo(task):
                self._todos.add(task, by="user")
            case intents.MarkTodo(todo_id, done):
                status = TodoStatus.COMPLETED if done else TodoStatus.PENDING
                self._todos.set_status(todo_id, status, by="user")
            case intents.RemoveTodo(todo_id):
                before = [todo.id for todo in self._todos.list()]
                removed = self._todos.remove(todo_id, by="user")
                self._deleted.append((removed, before.index(todo_id) if todo_id in before else len(before)))
            case intents.RestoreTodo():
                self._restore()
            case _:
                pass

    def _restore(self) -> None:
        if not self._deleted:
            self._post(updates.ToastUpdate("You have deleted no todo that could come back."))
            return
        todo, index = self._deleted[-1]
        self._todos.restore(todo, index, by="user")
        self._deleted.pop()


class StoreWatcher:
    """Watcher of changes by other processes while the dashboard has focus."""

    def __init__(
        self, store: Store, todos: TodoList, memory_changed: Callable[[], Coroutine[None, None, None]]
    ) -> None:
        self._store = store
        self._todos = todos
        self._memory_changed = memory_changed
        self.focused = True

    async def run(self) -> None:
        """Watch until cancelled."""
        loop = asyncio.get_running_loop()

        def on_change() -> None:
            self._todos.refresh()  # announces a change by itself
            if not loop.is_closed():
                asyncio.run_coroutine_threadsafe(self._memory_changed(), loop)

        await watch_changes(self._store, on_change, wanted=lambda: self.focused)
