"""The todo list of a workspace, shared by model, person and other processes (001 R11.5-R11.9)."""

from __future__ import annotations

import builtins
import sqlite3
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path
from typing import Literal, TypeAlias

from ollm_tui.core.base.clock import Clock, SystemClock, iso_time
from ollm_tui.core.base.errors import TodoFailed
from ollm_tui.core.storage.store import Schema, Store, workspace_key
from ollm_tui.core.todos.todo import (
    Replacement,
    Todo,
    TodoDraft,
    TodoListState,
    TodoStatus,
    find_todo,
    halted,
    merged,
)

__all__ = ["Author", "OnTodosChanged", "Replacement", "Todo", "TodoDraft", "TodoList", "TodoListState", "TodoStatus"]

Author: TypeAlias = Literal["model", "user"]
"""Who changed the list."""

OnTodosChanged: TypeAlias = Callable[[tuple[Todo, ...], str, int], None]
"""Takes the list after a change, who made it, and the revision; may come from any thread and out of order."""

SCHEMA = Schema(
    "todos",
    (
        (
            """CREATE TABLE todo_lists(
                workspace NOT NULL PRIMARY KEY, revision INTEGER NOT NULL, changed_by TEXT NOT NULL,
                last_number INTEGER NOT NULL)""",
            """CREATE TABLE todos(
                workspace NOT NULL, number INTEGER NOT NULL, position INTEGER NOT NULL,
                task TEXT NOT NULL, status TEXT NOT NULL, created_at TEXT NOT NULL,
                PRIMARY KEY(workspace, number)) WITHOUT ROWID""",
            """CREATE TABLE todo_archive(
                workspace NOT NULL, number INTEGER NOT NULL, task TEXT NOT NULL, status TEXT NOT NULL,
                created_at TEXT NOT NULL, archived_at TEXT NOT NULL, archived_by TEXT NOT NULL,
                PRIMARY KEY(workspace, number)) WITHOUT ROWID""",
        ),
    ),
    salvaged=("todo_lists", "todos", "todo_archive"),
)


class TodoList:
    """The open list of one workspace, for any thread; at most one item is in progress. Raises TodoFailed."""

    def __init__(
        self,
        store: Store,
        workspace: Path,
        *,
        clock: Clock | None = None,
        on_change: OnTodosChanged | None = None,
    ) -> None:
        self._store = store
        self._workspace = workspace_key(workspace)
        self._clock = clock or SystemClock()
        self._on_change = on_change
        self._announced = -1

    def state(self) -> TodoListState:
        """Return the list with its revision. What was read first needs no announcement."""
        state = self._read()
        if self._announced < 0:
            self._announced = state.revision
        return state

    def list(self) -> tuple[Todo, ...]:
        """Return all items in their order (000 Property 56)."""
        return self.state().todos

    def add(self, task: str, *, by: Author = "model", status: TodoStatus = TodoStatus.PENDING) -> Todo:
        """Append one item (000 Property 53). The same text may stand twice, under two ids."""
        if not task:
            raise TodoFailed("A todo needs a text. Give it as task.")
        with self._changing(by) as change:
            todo = Todo(change.rows.new_id(), task, status, iso_time(self._clock.now()))
            if status is TodoStatus.IN_PROGRESS:
                change.todos = halted(change.todos)
            change.todos.append(todo)
        return todo

    def set_status(self, reference: str, status: TodoStatus, *, by: Author = "model") -> Todo:
        """Change how far an item is (000 Property 54); where one is started, that in progress becomes pending."""
        with self._changing(by) as change:
            index = find_todo(change.todos, reference)
            if status is TodoStatus.IN_PROGRESS and change.todos[index].status is not status:
                change.todos = halted(change.todos)
            change.todos[index] = replace(change.todos[index], status=status)
            return change.todos[index]

    def reword(self, reference: str, task: str, *, by: Author = "model") -> Todo:
        """Give an item another text; its id stays."""
        if not task:
            raise TodoFailed("A todo needs a text. Remove it instead of emptying it.")
        with self._changing(by) as change:
            index = find_todo(change.todos, reference)
            change.todos[index] = replace(change.todos[index], task=task)
            return change.todos[index]

    def move(self, reference: str, place: int, *, by: Author = "model") -> Todo:
        """Put an item at `place` (1 is the top; beyond the ends is the end)."""
        with self._changing(by) as change:
            todo = change.todos.pop(find_todo(change.todos, reference))
            change.todos.insert(max(place - 1, 0), todo)
            return todo

    def remove(self, reference: str, *, by: Author = "model") -> Todo:
        """Take an item off the list (000 Property 55); the archive keeps it."""
        with self._changing(by) as change:
            return change.todos.pop(find_todo(change.todos, reference))

    def restore(self, todo: Todo, index: int, *, by: Author = "model") -> None:
        """Put an item that was removed back at its index; one in progress waits where another is by now."""
        with self._changing(by) as change:
            if any(other.id == todo.id for other in change.todos):
                return
            change.rows.take_from_archive(todo)
            started = any(other.status is TodoStatus.IN_PROGRESS for other in change.todos)
            waits = started and todo.status is TodoStatus.IN_PROGRESS
            change.todos.insert(index, replace(todo, status=TodoStatus.PENDING) if waits else todo)

    def clear(self, *, by: Author = "model") -> tuple[Todo, ...]:
        """Take all finished items off the list and return them."""
        with self._changing(by) as change:
            gone = tuple(todo for todo in change.todos if todo.status.finished)
            change.todos = [todo for todo in change.todos if not todo.status.finished]
        return gone

    def clear_all(self, *, by: Author = "model") -> tuple[Todo, ...]:
        """Take everything off the list, finished or not, and return it."""
        with self._changing(by) as change:
            gone, change.todos = tuple(change.todos), []
        return gone

    def archive_when_done(self, *, by: Author = "user") -> bool:
        """Archive the list if every item is finished, so that a new task starts with an empty one."""
        if not _all_done(self._read().todos):
            return False  # without waiting for a lock, or failing on a file that may not be written
        with self._changing(by) as change:
            done = _all_done(change.todos)
            if done:
                change.todos = []
        return done

    def replace(self, drafts: Sequence[TodoDraft], *, by: Author = "model") -> Replacement:
        """Write the whole list; unfinished items that it does not name stay at its end. Raises TodoFailed."""
        with self._changing(by) as change:
            outcome = merged(change.todos, drafts, change.rows.new_id, iso_time(self._clock.now()))
            change.todos = [*outcome.todos]
        return outcome

    def would_replace(self, drafts: Sequence[TodoDraft]) -> Replacement:
        """Return what `replace` would do, or raise what it would; new items have made-up ids."""
        numbers = count(1)
        return merged(self.list(), drafts, lambda: f"new{next(numbers)}", iso_time(self._clock.now()))

    def find(self, reference: str) -> Todo:
        """Return the item that an id, a 1-based index or a unique text means."""
        todos = self.list()
        return todos[find_todo(todos, reference)]

    def archived(self, limit: int = 100) -> tuple[Todo, ...]:
        """Return the items that left the list last, newest first."""
        with self._store.read(SCHEMA) as db:
            rows = db.execute(
                "SELECT number, task, status, created_at FROM todo_archive WHERE workspace = ? "
                "ORDER BY archived_at DESC, number DESC LIMIT ?",
                (self._workspace, limit),
            )
            return tuple(_todo(*row) for row in rows)

    def refresh(self) -> bool:
        """Announce a change that another process made; return whether there was one."""
        state = self._read()
        if state.revision == self._announced:
            return False
        self._announce(state)
        return True

    def _read(self) -> TodoListState:
        with self._store.read(SCHEMA) as db:
            return _Rows(db, self._workspace).state()

    @contextmanager
    def _changing(self, by: Author) -> Generator[_Change]:
        """Yield the list to be changed in place; write and announce the difference, if any."""
        with self._store.write(SCHEMA) as db:
            rows = _Rows(db, self._workspace)
            before = rows.state()
            change = _Change(rows, [*before.todos])
            yield change
            after = before
            if tuple(change.todos) != before.todos:
                rows.write(before.todos, change.todos, by, iso_time(self._clock.now()))
                after = TodoListState(tuple(change.todos), before.revision + 1, by)
        if after is not before:
            self._announce(after)

    def _announce(self, state: TodoListState) -> None:
        self._announced = max(self._announced, state.revision)
        if self._on_change is not None:
            self._on_change(state.todos, state.changed_by, state.revision)


@dataclass
class _Change:
    rows: _Rows
    todos: builtins.list[Todo] = field(default_factory=builtins.list[Todo])


class _Rows:
    """The tables of one workspace inside one transaction."""

    def __init__(self, db: sqlite3.Connection, workspace: str | bytes) -> None:
        self._db = db
        self._workspace = workspace

    def state(self) -> TodoListState:
        head = self._db.execute(
            "SELECT revision, changed_by FROM todo_lists WHERE workspace = ?", (self._workspace,)
        ).fetchone()
        rows = self._db.execute(
            "SELECT number, task, status, created_at FROM todos WHERE workspace = ? ORDER BY position",
            (self._workspace,),
        )
        todos = tuple(_todo(*row) for row in rows)
        return TodoListState(todos, head[0], head[1]) if head else TodoListState(todos, 0, "user")

    def new_id(self) -> str:
        row = self._db.execute(
            "INSERT INTO todo_lists(workspace, revision, changed_by, last_number) VALUES(?, 0, 'user', 1) "
            "ON CONFLICT(workspace) DO UPDATE SET last_number = last_number + 1 RETURNING last_number",
            (self._workspace,),
        ).fetchone()
        return f"t{row[0]}"

    def write(self, before: Sequence[Todo], after: Sequence[Todo], by: Author, moment: str) -> None:
        old = {todo.id: (place, todo) for place, todo in enumerate(before)}
        new = {todo.id for todo in after}
        for todo in before:
            if todo.id not in new:
                self._archive(todo, by, moment)
        changed = [(place, todo) for place, todo in enumerate(after) if old.get(todo.id) != (place, todo)]
        self._db.executemany(
            "INSERT INTO todos(workspace, number, position, task, status, created_at) VALUES(?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET position = excluded.position, task = excluded.task, status = excluded.status",
            [(self._workspace, _number(t.id), place, t.task, t.status.value, t.created_at) for place, t in changed],
        )
        self._db.execute(
            "UPDATE todo_lists SET revision = revision + 1, changed_by = ? WHERE workspace = ?", (by, self._workspace)
        )

    def take_from_archive(self, todo: Todo) -> None:
        self._db.execute(
            "DELETE FROM todo_archive WHERE workspace = ? AND number = ?", (self._workspace, _number(todo.id))
        )

    def _archive(self, todo: Todo, by: Author, moment: str) -> None:
        number = _number(todo.id)
        self._db.execute("DELETE FROM todos WHERE workspace = ? AND number = ?", (self._workspace, number))
        self._db.execute(
            "INSERT INTO todo_archive VALUES(?, ?, ?, ?, ?, ?, ?)",
            (self._workspace, number, todo.task, todo.status.value, todo.created_at, moment, by),
        )


_STATUSES = {status.value: status for status in TodoStatus}
"""Looked up for every row: calling the enum takes four times as long."""


def _todo(number: int, task: str, status: str, created_at: str) -> Todo:
    return Todo(f"t{number}", task, _STATUSES[status], created_at)


def _all_done(todos: Sequence[Todo]) -> bool:
    return bool(todos) and all(todo.status.finished for todo in todos)


def _number(todo_id: str) -> int:
    return int(todo_id[1:])
