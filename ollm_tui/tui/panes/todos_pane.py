"""The todo pane: the workspace's todo list, which the person can change."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.core.base.escape import visible
from ollm_tui.core.todos.todo import Todo, TodoStatus
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import DecisionGuard, KeyPresses, Readiness
from ollm_tui.tui.protocol.intents import AddTodo, MarkTodo, RemoveTodo, RestoreTodo
from ollm_tui.tui.styled_text import StyledLine, TextRole, line, set_rule
from ollm_tui.tui.widgets.row_list import ListRow, RowList

if TYPE_CHECKING:
    from textual.widgets import Input

EMPTY = "No todos yet. The model keeps its plan here; press a to add one."
STATE_ROLES = {
    TodoStatus.PENDING: TextRole.PLAIN,
    TodoStatus.IN_PROGRESS: TextRole.STRONG,
    TodoStatus.COMPLETED: TextRole.MUTED,
    TodoStatus.CANCELLED: TextRole.MUTED,
}


@register_keys(KeyGroup.LISTS, 2)
class TodoPane(Vertical):
    """List of todos; changes are posted as intents."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("space", "toggle_done", "Done", "todo.toggle", "Mark the todo as done, or open"),
        ("a", "add", "Add", "todo.add", "Add a todo"),
        ("d", "remove", "Delete", "todo.delete", "Delete the marked todo"),
        ("u", "restore", "Undo", "todo.undo", "Bring back the todo you deleted last"),
        show=False,
    )

    todos: reactive[tuple[Todo, ...]] = reactive(())

    def __init__(self, presses: KeyPresses) -> None:
        super().__init__(id="todo", classes="pane")
        self._rows = RowList("todo-rows")
        self._empty = Static(EMPTY, markup=False, id="todo-empty")
        self._input: Input | None = None
        self.guard = DecisionGuard(presses)
        set_rule(self, self.title)

    def compose(self) -> ComposeResult:
        """Yield the empty text and the rows."""
        yield self._empty
        yield self._rows

    def on_mount(self) -> None:
        """Show the list as it is."""
        self.watch_todos(self.todos)

    @property
    def title(self) -> str:
        """The pane's name, with how much is done."""
        done = sum(todo.status is TodoStatus.COMPLETED for todo in self.todos)
        return f"Todo {done}/{len(self.todos)}" if self.todos else "Todo"

    @property
    def focus_target(self) -> Widget:
        """The widget to focus when the person comes here."""
        return self._rows

    def watch_todos(self, todos: tuple[Todo, ...]) -> None:
        """Show another list."""
        set_rule(self, self.title)
        self._empty.display = not todos
        lines = [_todo_line(number, todo) for number, todo in enumerate(todos, 1)]
        self.call_after_refresh(self.guard.show, self.guard.hide())
        self._rows.show_rows([ListRow(todo.id, (one,), wrap=True) for todo, one in zip(todos, lines, strict=True)])

    def action_toggle_done(self) -> None:
        """Mark the todo as done, or as open again."""
        todo = self._chosen
        if todo is not None:
            self.post_message(MarkTodo(todo.id, todo.status is not TodoStatus.COMPLETED))

    def action_remove(self) -> None:
        """Delete the marked todo; `u` brings it back."""
        todo = self._chosen
        if todo is not None and self.guard.press(f"delete {todo.id}") is Readiness.READY:
            self.post_message(RemoveTodo(todo.id))

    def action_restore(self) -> None:
        """Bring back the todo that was deleted last."""
        self.post_message(RestoreTodo())

    def action_add(self) -> None:
        """Open the input for a new todo."""
        if self._input is None:
            from textual.widgets import Input  # needs time and memory that a start without it saves

            self._input = Input(placeholder="New todo, Enter adds, Esc leaves", id="todo-input", compact=True)
            self.mount(self._input)
        self._input.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Add the todo that was typed."""
        event.stop()
        task = event.value.strip()
        if task:
            self.post_message(AddTodo(task))
        self._leave_input()

    @on(RowList.Opened)
    def _opened(self, event: RowList.Opened) -> None:
        event.stop()

    def on_key(self, event: events.Key) -> None:
        """Close the input with Esc."""
        if event.key == "escape" and self._input is not None:
            event.stop()
            self._leave_input()

    @property
    def _chosen(self) -> Todo | None:
        return next((todo for todo in self.todos if todo.id == self._rows.chosen_id), None)

    def _leave_input(self) -> None:
        if self._input is not None:
            self._rows.focus()
            self._input.remove()
            self._input = None


def _todo_line(number: int, todo: Todo) -> StyledLine:
    mark_role = TextRole.ACCENT if todo.status is TodoStatus.IN_PROGRESS else STATE_ROLES[todo.status]
    before = f" {number} "
    role = STATE_ROLES[todo.status]
    hang = len(todo.status.mark + before)
    return line((todo.status.mark, mark_role), (before, role), (visible(todo.task), role), hang=hang, prose=True)
