"""Todos as values: items, references to them, and writing a whole list over another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar

from ollm_tui.core.base.errors import TodoFailed
from ollm_tui.core.base.escape import quoted_unless_plain


class TodoStatus(StrEnum):
    """The state of a todo."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"

    @property
    def finished(self) -> bool:
        """Whether nothing is left to do about it."""
        return self in (TodoStatus.COMPLETED, TodoStatus.CANCELLED)

    @property
    def mark(self) -> str:
        """Three characters for the beginning of a line."""
        return {"pending": "[ ]", "in_progress": "[>]", "completed": "[x]", "cancelled": "[-]"}[self.value]


def _camel_case(name: str) -> str:
    from pydantic.alias_generators import to_camel  # the screen's first frame needs todos, but no pydantic

    return to_camel(name)


@dataclass(frozen=True)
class Todo:
    """One item of the list, for tools, events and screen; JSON names are in camelCase.

    `id` is `t1`, `t2`, ... and never used again in its workspace; `created_at` is UTC in ISO 8601.
    """

    __pydantic_config__: ClassVar[dict[str, Any]] = {"alias_generator": _camel_case, "populate_by_name": True}

    id: str
    task: str
    status: TodoStatus
    completed: bool = field(init=False, default=False)
    created_at: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "completed", self.status is TodoStatus.COMPLETED)


@dataclass(frozen=True)
class TodoDraft:
    """An item of a whole list as somebody wrote it: without `id` the task's text says which item is meant."""

    task: str
    status: TodoStatus | None = None
    """None keeps the status of an item that is there already; a new one is pending."""
    id: str | None = None


@dataclass(frozen=True)
class TodoListState:
    """The list at one moment."""

    todos: tuple[Todo, ...]
    revision: int
    """Grows by one with each change, whoever makes it."""
    changed_by: str


@dataclass(frozen=True)
class Replacement:
    """What writing a whole list did besides."""

    todos: tuple[Todo, ...]
    kept: tuple[Todo, ...] = ()
    """Unfinished items that the new list did not name; they stay, at its end."""
    reworded: tuple[tuple[Todo, Todo], ...] = ()
    """Items named by id whose text changed: before, after."""
    archived: tuple[Todo, ...] = ()
    """Finished items that the new list did not name."""


def halted(todos: Sequence[Todo]) -> list[Todo]:
    """Return the list with nothing in progress."""
    return [
        replace(todo, status=TodoStatus.PENDING) if todo.status is TodoStatus.IN_PROGRESS else todo for todo in todos
    ]


def find_todo(todos: Sequence[Todo], reference: str) -> int:
    """Return an item's index by id, 1-based index, exact text, unique beginning, or part."""
    asked = reference.strip()
    folded = asked.casefold()
    for index, todo in enumerate(todos):
        if todo.id == folded:
            return index
    if asked.isascii() and asked.isdigit() and 1 <= int(asked[:9]) <= len(todos):
        return int(asked[:9]) - 1
    for matches in (
        [i for i, todo in enumerate(todos) if todo.task == reference],
        [i for i, todo in enumerate(todos) if folded and todo.task.strip().casefold() == folded],
        [i for i, todo in enumerate(todos) if folded and todo.task.strip().casefold().startswith(folded)],
        [i for i, todo in enumerate(todos) if folded and folded in todo.task.casefold()],
    ):
        if len(matches) == 1:
            return matches[0]
        if matches:
            ids = ", ".join(todos[index].id for index in matches)
            raise TodoFailed(f"{quoted_unless_plain(reference)} fits several todos: {ids}. Name one of them by its id.")
    raise unknown_todo(reference, todos)


def unknown_todo(reference: str, todos: Sequence[Todo]) -> TodoFailed:
    """Return the error of a reference that fits no item; it lists the ids."""
    known = ", ".join(todo.id for todo in todos)
    remedy = f"The ids are: {known}." if known else "The list is empty; add a todo first."
    return TodoFailed(f"No todo {quoted_unless_plain(reference)}. {remedy}", {"validIds": [todo.id for todo in todos]})


def merged(todos: Sequence[Todo], drafts: Sequence[TodoDraft], new_id: Callable[[], str], moment: str) -> Replacement:
    """Return the list after writing `drafts` over `todos`. Raises TodoFailed."""
    meant = _meant(todos, drafts)
    written: list[Todo] = []
    reworded: list[tuple[Todo, Todo]] = []
    for draft, old in zip(drafts, meant, strict=True):
        if old is None:
            new = Todo(new_id(), draft.task, draft.status or TodoStatus.PENDING, moment)
        else:
            new = replace(old, task=draft.task, status=draft.status or old.status)
            if new.task != old.task:
                reworded.append((old, new))
        written.append(new)
    named = {old.id for old in meant if old is not None}
    left = [todo for todo in todos if todo.id not in named]
    kept = [todo for todo in left if not todo.status.finished]
    if any(todo.status is TodoStatus.IN_PROGRESS for todo in written):
        kept = halted(kept)
    working = [todo.id for todo in written if todo.status is TodoStatus.IN_PROGRESS]
    if len(working) > 1:
        raise TodoFailed(
            f"Only one todo can be in progress, not {len(working)}. Leave one in_progress and make the others pending.",
        )
    return Replacement(
        todos=(*written, *kept),
        kept=tuple(kept),
        reworded=tuple(reworded),
        archived=tuple(todo for todo in left if todo.status.finished),
    )


def _meant(todos: Sequence[Todo], drafts: Sequence[TodoDraft]) -> list[Todo | None]:
    """Find the item that each draft names, if any; ids first, so that a text cannot take a named item."""
    by_id = {todo.id: todo for todo in todos}
    taken: set[str] = set()
    meant: list[Todo | None] = []
    for position, draft in enumerate(drafts, 1):
        if not draft.task:
            raise TodoFailed(f"Todo {position} of the list has no text. Give it as task.")
        todo = None
        if draft.id is not None:
            todo = by_id.get(draft.id.strip().casefold())
            if todo is None:
                raise unknown_todo(draft.id, todos)
            if todo.id in taken:
                raise TodoFailed(f"{todo.id} is in the list twice. Name each id once; leave id out for new todos.")
            taken.add(todo.id)
        meant.append(todo)
    for index, draft in enumerate(drafts):
        if draft.id is None:
            alike = [todo for todo in todos if todo.task == draft.task and todo.id not in taken]
            alike.sort(key=lambda todo: todo.status.finished)
            if alike:
                meant[index] = alike[0]
                taken.add(alike[0].id)
    return meant
