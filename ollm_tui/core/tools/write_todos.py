"""`write_todos`: keep the todo list that the person sees (001 R11.5-R11.8, 000 Properties 53-56)."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.escape import quoted_unless_plain
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.todos.todo_list import Replacement, Todo, TodoDraft, TodoStatus
from ollm_tui.core.tools.base import CallFacts, Effect, Parameters, Tool, ToolGroup, ToolInvocation

EVERYTHING = "all"
"""The `id` with which `clear` removes unfinished items, too."""


def _as_reference(given: object) -> object:
    """Return a number as text: models send an index as a number."""
    return str(given) if isinstance(given, int) and not isinstance(given, bool) else given


Reference = Annotated[str, BeforeValidator(_as_reference)]


class TodoAction(StrEnum):
    """The actions on the list."""

    ADD = "add"
    START = "start"
    COMPLETE = "complete"
    REMOVE = "remove"
    LIST = "list"
    CLEAR = "clear"


_ON_ONE_ITEM = frozenset({TodoAction.START, TodoAction.COMPLETE, TodoAction.REMOVE})


class TodoItem(Parameters):
    """One item of a whole list."""

    task: str = Field(min_length=1)
    status: TodoStatus | None = None
    id: Reference | None = None


class WriteTodosParameters(Parameters):
    """One action, or the whole list."""

    action: TodoAction | None = None
    task: str | None = None
    id: Reference | None = Field(None, description="Item by id, place or text; with clear, all")
    todos: list[TodoItem] | None = Field(None, description="The whole list, instead of an action")

    @model_validator(mode="after")
    def _says_one_thing(self) -> WriteTodosParameters:
        errors: list[str] = []
        if (self.action is None) == (self.todos is None):
            errors.append("give either action or todos")
        if self.action is TodoAction.ADD and not self.task:
            errors.append("add needs the text of the item as task")
        if self.action in _ON_ONE_ITEM and not self.reference:
            errors.append(f"{self.action} needs the item as id")
        if self.action is TodoAction.CLEAR and self.id not in (None, EVERYTHING):
            errors.append("clear takes no id but 'all'; to take one item off the list use remove")
        working = [item for item in self.todos or () if item.status is TodoStatus.IN_PROGRESS]
        if len(working) > 1:
            errors.append(f"only one todo can be in_progress; {quoted_unless_plain(working[1].task)} is the second")
        if errors:
            raise ValueError("; ".join(errors))
        return self

    @property
    def reference(self) -> str:
        """Return the item's reference; models often put it under `task`."""
        return self.id or self.task or ""


class TodosData(ToolData):
    """The whole list."""

    todos: tuple[Todo, ...]


class WriteTodosInvocation(ToolInvocation[WriteTodosParameters]):
    """Changes or lists the todos."""

    def get_description(self) -> str:
        match self.params.action:
            case None:
                return f"Write the todo list: {_counted(len(self.params.todos or ()))}"
            case TodoAction.ADD:
                return f"Add todo: {quoted_unless_plain(self.params.task or '')}"
            case TodoAction.LIST:
                return "List the todos"
            case TodoAction.CLEAR:
                return "Clear all todos" if self.params.id else "Clear the finished todos"
            case TodoAction.START | TodoAction.COMPLETE | TodoAction.REMOVE:
                return f"{self.params.action.capitalize()} todo {quoted_unless_plain(self.params.reference)}"

    def facts(self) -> CallFacts:
        """Return whether the call changes the list."""
        return CallFacts(Effect.READS if self.params.action is TodoAction.LIST else Effect.PLANS)

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Check that the items exist. Raises TodoFailed."""
        if self.params.action in _ON_ONE_ITEM:
            await signal.in_thread(self.context.todo_list.find, self.params.reference)
        elif self.params.todos is not None:
            await signal.in_thread(self.context.todo_list.would_replace, self._drafts)
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Change the list and return all of it. Raises TodoFailed naming valid ids, StorageFailed."""
        signal.throw_if_aborted()
        todos, notes = await signal.in_thread(self._run)
        return ToolResult.of_text(
            todos_for_model(todos),
            _progress(todos),
            data=TodosData(todos=todos),
            notes=(*notes, *_state_notes(todos)),
        )

    @property
    def _drafts(self) -> list[TodoDraft]:
        return [TodoDraft(item.task, item.status, item.id) for item in self.params.todos or ()]

    def _run(self) -> tuple[tuple[Todo, ...], list[str]]:
        todos = self.context.todo_list
        notes: list[str] = []
        match self.params.action:
            case None:
                notes = _beyond_the_list(todos.replace(self._drafts))
            case TodoAction.ADD:
                todos.add(self.params.task or "")
            case TodoAction.START:
                todos.set_status(self.params.reference, TodoStatus.IN_PROGRESS)
            case TodoAction.COMPLETE:
                todos.set_status(self.params.reference, TodoStatus.COMPLETED)
            case TodoAction.REMOVE:
                todos.remove(self.params.reference)
            case TodoAction.CLEAR:
                removed = todos.clear_all() if self.params.id else todos.clear()
                notes = [f"cleared {_counted(len(removed))}"]
            case TodoAction.LIST:
                pass
        return todos.list(), notes


def todos_for_model(todos: Sequence[Todo]) -> str:
    """Return a line for each todo: `[x] t1: task`; what is not plain text on one line as JSON."""
    lines = [f"[{'x' if todo.completed else ' '}] {todo.id}: {quoted_unless_plain(todo.task)}" for todo in todos]
    return "\n".join(lines) or "No todos"


def _beyond_the_list(outcome: Replacement) -> list[str]:
    notes: list[str] = []
    if outcome.kept:
        notes.append(
            f"kept at the end: {_ids(outcome.kept)}, unfinished and not in your list; "
            "to drop one use action remove or status cancelled"
        )
    for before, after in outcome.reworded:
        notes.append(f"{after.id} said before: {quoted_unless_plain(before.task)}")
    return notes


def _state_notes(todos: Sequence[Todo]) -> list[str]:
    """Return notes on states that `[x]` and `[ ]` cannot show."""
    return [
        f"{word}: {_ids(found)}"
        for word, status in (("in progress", TodoStatus.IN_PROGRESS), ("cancelled", TodoStatus.CANCELLED))
        if (found := [todo for todo in todos if todo.status is status])
    ]


def _ids(todos: Sequence[Todo]) -> str:
    return ", ".join(todo.id for todo in todos)


def _counted(number: int) -> str:
    return f"{number} todo" if number == 1 else f"{number} todos"


def _progress(todos: Sequence[Todo]) -> str:
    return f"{sum(todo.completed for todo in todos)} of {_counted(len(todos))} done" if todos else "No todos"


WRITE_TODOS = Tool(
    name="write_todos",
    display_name="Todo List",
    description="Keep a todo list that the person sees.",
    group=ToolGroup.MEMORY,
    effect=Effect.PLANS,
    parameters=WriteTodosParameters,
    invocation=WriteTodosInvocation,
    risk=Risk.LOW,
    returns=TodosData,
)
