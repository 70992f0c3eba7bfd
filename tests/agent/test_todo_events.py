"""Todo events carry what changed: applied one after the other they give the list, and none grows with it."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from ollm_tui.agent.events import Event, TodosChangedEvent, as_line, read_event
from ollm_tui.agent.stream import EventStream
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.bus.notices import TodosChanged
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo import Todo, TodoStatus
from ollm_tui.core.todos.todo_list import TodoList
from ollm_tui.testing import FakeClock
from ollm_tui.tui.controllers.todos_controller import TodosController
from ollm_tui.tui.protocol import updates

TODOS = st.builds(
    Todo, st.sampled_from("abcdef"), st.sampled_from(["x", "y"]), st.sampled_from(TodoStatus), st.just("")
)
LISTS = st.lists(st.lists(TODOS, unique_by=lambda todo: todo.id, max_size=6).map(tuple), max_size=8)


def published(notices: list[TodosChanged]) -> list[TodosChangedEvent]:
    """Return what the stream makes of the notices, as it is read back from a log."""
    bus = MessageBus(FakeClock())
    events: list[Event] = []
    EventStream(bus, FakeClock()).subscribe(events.append)
    for notice in notices:
        bus.publish(notice)
    read = [read_event(as_line(event)) for event in events]
    return [event for event in read if isinstance(event, TodosChangedEvent)]


@given(LISTS)
def test_the_changes_one_after_the_other_give_every_list(lists: list[tuple[Todo, ...]]) -> None:
    todos: tuple[Todo, ...] = (Todo("z", "from an earlier session", TodoStatus.PENDING, ""),)
    events = published([TodosChanged(each, "model", revision) for revision, each in enumerate(lists)])
    assert len(events) == len(lists)
    for event, expected in zip(events, lists, strict=True):
        todos = event.applied_to(todos)
        assert todos == expected


def test_a_change_that_comes_behind_a_later_one_is_part_of_that() -> None:
    late, later = (Todo(each, "x", TodoStatus.PENDING, "") for each in "ab")
    events = published([TodosChanged((late, later), "user", 2), TodosChanged((late,), "user", 1)])
    assert [(event.revision, len(event.todos)) for event in events] == [(2, 2)]


def test_an_event_is_as_long_as_the_change_however_long_the_list(tmp_path: Path) -> None:
    store = Store(tmp_path / "ollm.db")
    notices: list[TodosChanged] = []
    todos = TodoList(store, tmp_path, on_change=lambda *change: notices.append(TodosChanged(*change)))
    for number in range(300):
        todos.add(f"step {number:03} of the work")
    todos.set_status("t7", TodoStatus.COMPLETED)
    todos.remove("t8")
    lengths = [len(as_line(event)) for event in published(notices)]
    assert max(lengths) < 400
    store.close()


async def test_the_screen_loads_the_list_where_it_missed_a_change(tmp_path: Path) -> None:
    store = Store(tmp_path / "ollm.db")
    posted: list[updates.Update] = []
    notices: list[TodosChanged] = []
    todos = TodoList(store, tmp_path, on_change=lambda *change: notices.append(TodosChanged(*change)))
    controller = TodosController(todos, posted.append)
    for task in ("one", "two", "three", "four"):
        todos.add(task)
    first, _, missing, last = published(notices)
    assert controller.changed(first) and not controller.changed(missing)
    await controller.load()
    assert controller.changed(last), "it is in the list that was loaded"
    shown = [update.todos for update in posted if isinstance(update, updates.TodosUpdate)]
    assert [[todo.task for todo in each] for each in shown] == [["one"], ["one", "two", "three", "four"]]
    store.close()
