"""Keeps an eye on the store while the window has the focus: what other processes change is shown within a second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from ollm_tui.core.storage.change_watch import watch_changes
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import TodoList


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
