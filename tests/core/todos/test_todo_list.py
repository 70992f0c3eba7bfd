"""The todo list: what it keeps, what a reference means, and how several writers share it."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from ollm_tui.core.base.errors import StorageFailed, TodoFailed
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import Todo, TodoDraft, TodoList, TodoStatus

tasks = st.text(min_size=1, max_size=40)
fresh = itertools.count()


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    store = Store(tmp_path_factory.mktemp("todos") / "ollm.db")
    yield store
    store.close()


@pytest.fixture
def todos(store: Store) -> TodoList:
    return new_list(store)


def new_list(store: Store) -> TodoList:
    return TodoList(store, Path(f"/workspaces/{next(fresh)}"))


def lines(todos: TodoList) -> list[tuple[str, str, str]]:
    return [(todo.id, todo.task, todo.status.value) for todo in todos.list()]


# -- Properties 53 to 56


@settings(deadline=None)
@given(st.lists(tasks, max_size=8), tasks)
def test_property_53_an_added_task_stands_in_the_list_under_an_id_of_its_own(
    store: Store, before: list[str], task: str
) -> None:
    todos = new_list(store)
    for text in before:
        todos.add(text)
    added = todos.add(task)
    listed = todos.list()
    assert listed[-1] == added
    assert (added.task, added.completed) == (task, False)
    assert [todo.id for todo in listed].count(added.id) == 1
    assert [todo.task for todo in listed] == [*before, task]


@settings(deadline=None)
@given(st.lists(tasks, min_size=1, max_size=8), st.data())
def test_property_54_completing_by_id_completes_that_item_alone(
    store: Store, texts: list[str], data: st.DataObject
) -> None:
    todos = new_list(store)
    ids = [todos.add(text).id for text in texts]
    chosen = data.draw(st.sampled_from(ids))
    todos.set_status(chosen, TodoStatus.COMPLETED)
    assert [todo.id for todo in todos.list() if todo.completed] == [chosen]
    revision = todos.state().revision
    todos.set_status(chosen, TodoStatus.COMPLETED)  # doing so twice changes nothing
    assert todos.state().revision == revision


@settings(deadline=None)
@given(st.lists(tasks, min_size=1, max_size=8), st.data())
def test_property_55_a_removed_item_is_gone_and_its_id_never_used_again(
    store: Store, texts: list[str], data: st.DataObject
) -> None:
    todos = new_list(store)
    ids = [todos.add(text).id for text in texts]
    chosen = data.draw(st.sampled_from(ids))
    todos.remove(chosen)
    assert [todo.id for todo in todos.list()] == [todo_id for todo_id in ids if todo_id != chosen]
    assert todos.add("one more").id not in ids


class AnyListOfTodos(RuleBasedStateMachine):
    """Property 56: whatever was done to a list, listing it shows exactly what a plain model of it holds."""

    store: Store

    def __init__(self) -> None:
        super().__init__()
        self.todos = new_list(self.store)
        self.model: list[list[str]] = []
        self.used = 0

    def pick(self, number: int) -> list[str] | None:
        return self.model[number % len(self.model)] if self.model else None

    @rule(task=tasks)
    def add(self, task: str) -> None:
        self.used += 1
        self.model.append([f"t{self.used}", task, "pending"])
        assert self.todos.add(task).id == f"t{self.used}"

    @rule(number=st.integers(0, 20))
    def start(self, number: int) -> None:
        if item := self.pick(number):
            if item[2] != "in_progress":
                for other in self.model:
                    other[2] = "pending" if other[2] == "in_progress" else other[2]
            item[2] = "in_progress"
            self.todos.set_status(item[0], TodoStatus.IN_PROGRESS)

    @rule(number=st.integers(0, 20))
    def complete(self, number: int) -> None:
        if item := self.pick(number):
            item[2] = "completed"
            self.todos.set_status(item[0], TodoStatus.COMPLETED)

    @rule(number=st.integers(0, 20))
    def cancel(self, number: int) -> None:
        if item := self.pick(number):
            item[2] = "cancelled"
            self.todos.set_status(item[0], TodoStatus.CANCELLED)

    @rule(number=st.integers(0, 20))
    def remove(self, number: int) -> None:
        if item := self.pick(number):
            self.model.remove(item)
            self.todos.remove(item[0])

    @rule(number=st.integers(0, 20), place=st.integers(1, 30))
    def move(self, number: int, place: int) -> None:
        if item := self.pick(number):
            self.model.remove(item)
            self.model.insert(place - 1, item)
            self.todos.move(item[0], place)

    @rule()
    def clear(self) -> None:
        self.model = [item for item in self.model if item[2] not in ("completed", "cancelled")]
        self.todos.clear()

    @invariant()
    def shows_what_is_there(self) -> None:
        assert lines(self.todos) == [(item[0], item[1], item[2]) for item in self.model]


def test_property_56_listing_shows_every_item_with_its_status(store: Store) -> None:
    machine = type("BoundList", (AnyListOfTodos,), {"store": store})
    run_state_machine_as_test(machine, settings=settings(max_examples=100, stateful_step_count=15, deadline=None))


# -- what a reference means


@pytest.fixture
def three(todos: TodoList) -> TodoList:
    for task in ("write the tests", "Write the docs", "ship it"):
        todos.add(task)
    return todos


@pytest.mark.parametrize(
    ("reference", "meant"),
    [
        ("t2", "t2"),
        (" T2 ", "t2"),
        ("3", "t3"),
        ("ship it", "t3"),
        ("SHIP IT", "t3"),
        ("ship", "t3"),
        ("the docs", "t2"),
    ],
)
def test_an_item_is_found_by_id_place_or_unique_text(three: TodoList, reference: str, meant: str) -> None:
    assert three.set_status(reference, TodoStatus.COMPLETED).id == meant


def test_a_place_counts_in_the_list_as_it_is_now(three: TodoList) -> None:
    three.remove("t1")
    assert three.set_status("1", TodoStatus.COMPLETED).id == "t2"


@pytest.mark.parametrize("reference", ["t9", "0", "4", "-1", "sleep", "", " ", "²", "9" * 400])
def test_an_unknown_item_is_refused_with_the_valid_ids(three: TodoList, reference: str) -> None:
    before = lines(three)
    with pytest.raises(TodoFailed, match=r"The ids are: t1, t2, t3\.") as caught:
        three.set_status(reference, TodoStatus.COMPLETED)
    assert caught.value.details["validIds"] == ["t1", "t2", "t3"]
    assert lines(three) == before


def test_a_text_that_fits_several_items_is_refused_with_their_ids(three: TodoList) -> None:
    with pytest.raises(TodoFailed, match="fits several todos: t1, t2"):
        three.remove("write the")


def test_an_exact_text_wins_over_others_that_begin_like_it(todos: TodoList) -> None:
    todos.add("test more")
    todos.add("test")
    assert todos.set_status("test", TodoStatus.COMPLETED).id == "t2"


def test_an_empty_list_says_so(todos: TodoList) -> None:
    assert todos.list() == ()
    with pytest.raises(TodoFailed, match="The list is empty"):
        todos.set_status("t1", TodoStatus.COMPLETED)


# -- statuses, archive


def test_starting_an_item_halts_the_one_in_progress(three: TodoList) -> None:
    three.set_status("t1", TodoStatus.IN_PROGRESS)
    three.set_status("t3", TodoStatus.IN_PROGRESS)
    assert [todo.status for todo in three.list()] == [TodoStatus.PENDING, TodoStatus.PENDING, TodoStatus.IN_PROGRESS]


def test_a_reworded_item_keeps_id_place_and_time(three: TodoList) -> None:
    before = three.find("t2")
    three.reword("t2", "write more docs", by="user")
    assert three.list()[1] == Todo("t2", "write more docs", TodoStatus.PENDING, before.created_at)
    with pytest.raises(TodoFailed):
        three.reword("t2", "")


def test_a_removed_item_comes_back_where_it_was_and_can_be_removed_again(three: TodoList) -> None:
    before = three.list()
    removed = three.remove(before[1].id)
    three.restore(removed, 1)
    assert three.list() == before and three.archived() == ()
    three.restore(removed, 1)
    assert three.list() == before, "twice changes nothing"
    assert three.remove(before[1].id) == removed and three.archived() == (removed,)


def test_a_removed_item_that_was_in_progress_waits_for_the_one_that_is(three: TodoList) -> None:
    first, second, _ = three.list()
    three.set_status(first.id, TodoStatus.IN_PROGRESS)
    removed = three.remove(first.id)
    three.set_status(second.id, TodoStatus.IN_PROGRESS)
    three.restore(removed, 0)
    assert [todo.status for todo in three.list()][:2] == [TodoStatus.PENDING, TodoStatus.IN_PROGRESS]


def test_clear_takes_the_finished_items_and_the_archive_keeps_them(three: TodoList) -> None:
    three.set_status("t1", TodoStatus.COMPLETED)
    three.set_status("t2", TodoStatus.CANCELLED)
    assert [todo.id for todo in three.clear()] == ["t1", "t2"]
    assert [todo.id for todo in three.list()] == ["t3"]
    assert [todo.id for todo in three.clear_all()] == ["t3"]
    assert three.list() == ()
    assert [(todo.id, todo.status.value) for todo in three.archived()] == [
        ("t3", "pending"),
        ("t2", "cancelled"),
        ("t1", "completed"),
    ]
    assert three.add("again").id == "t4"


def test_a_finished_list_is_archived_as_a_whole_and_an_open_one_is_not(three: TodoList) -> None:
    three.set_status("t1", TodoStatus.COMPLETED)
    assert not three.archive_when_done()
    three.set_status("t2", TodoStatus.COMPLETED)
    three.set_status("t3", TodoStatus.CANCELLED)
    assert three.archive_when_done()
    assert three.list() == ()
    assert not three.archive_when_done()


# -- the whole list


def test_a_whole_list_names_items_by_id_or_text_and_sets_order_and_status(three: TodoList) -> None:
    outcome = three.replace(
        [
            TodoDraft("ship it", TodoStatus.IN_PROGRESS),
            TodoDraft("write the tests", TodoStatus.COMPLETED, "t1"),
            TodoDraft("rest"),
            TodoDraft("Write the docs"),
        ]
    )
    assert lines(three) == [
        ("t3", "ship it", "in_progress"),
        ("t1", "write the tests", "completed"),
        ("t4", "rest", "pending"),
        ("t2", "Write the docs", "pending"),
    ]
    assert (outcome.kept, outcome.reworded, outcome.archived) == ((), (), ())


def test_a_whole_list_never_loses_unfinished_items(three: TodoList) -> None:
    three.set_status("t1", TodoStatus.COMPLETED)
    three.set_status("t2", TodoStatus.IN_PROGRESS)
    outcome = three.replace([TodoDraft("new work", TodoStatus.IN_PROGRESS)])
    assert lines(three) == [
        ("t4", "new work", "in_progress"),
        ("t2", "Write the docs", "pending"),  # only one can be in progress
        ("t3", "ship it", "pending"),
    ]
    assert [todo.id for todo in outcome.kept] == ["t2", "t3"]
    assert [todo.id for todo in outcome.archived] == ["t1"]
    assert [todo.id for todo in three.archived()] == ["t1"]


def test_an_item_named_by_id_with_another_text_is_reworded_and_that_is_said(three: TodoList) -> None:
    outcome = three.replace([TodoDraft("write good tests", None, "T1")])
    assert [(old.task, new.task) for old, new in outcome.reworded] == [("write the tests", "write good tests")]
    assert lines(three)[0] == ("t1", "write good tests", "pending")


def test_a_text_cannot_take_an_item_that_another_entry_names_by_id(todos: TodoList) -> None:
    todos.add("a")
    todos.add("b")
    todos.replace([TodoDraft("b"), TodoDraft("a", None, "t2")])
    assert [(todo.id, todo.task) for todo in todos.list()] == [("t3", "b"), ("t2", "a"), ("t1", "a")]


@pytest.mark.parametrize(
    ("drafts", "said"),
    [
        ([TodoDraft("x", None, "t9")], "No todo t9"),
        ([TodoDraft("x", None, "t1"), TodoDraft("y", None, "t1")], "t1 is in the list twice"),
        ([TodoDraft("x"), TodoDraft("")], "Todo 2 of the list has no text"),
        ([TodoDraft("x", TodoStatus.IN_PROGRESS), TodoDraft("y", TodoStatus.IN_PROGRESS)], "Only one todo"),
    ],
)
def test_a_faulty_whole_list_changes_nothing(three: TodoList, drafts: list[TodoDraft], said: str) -> None:
    before = three.state()
    for attempt in (three.replace, three.would_replace):
        with pytest.raises(TodoFailed, match=said):
            attempt(drafts)
    assert three.state() == before
    assert three.add("next").id == "t4"  # no number was used up


@settings(deadline=None)
@given(
    st.lists(st.tuples(tasks, st.booleans()), max_size=6),
    st.lists(st.tuples(tasks, st.sampled_from([None, *TodoStatus])), max_size=6),
)
def test_no_whole_list_drops_an_unfinished_item(
    store: Store, before: list[tuple[str, bool]], written: list[tuple[str, TodoStatus | None]]
) -> None:
    todos = new_list(store)
    for task, done in before:
        added = todos.add(task)
        if done:
            todos.set_status(added.id, TodoStatus.COMPLETED)
    open_before = {todo.id for todo in todos.list() if not todo.status.finished}
    drafts = [TodoDraft(task, status) for task, status in written]
    try:
        todos.replace(drafts)
    except TodoFailed:
        assert sum(draft.status is TodoStatus.IN_PROGRESS for draft in drafts) > 1
    after = todos.list()
    assert open_before <= {todo.id for todo in after}
    assert len({todo.id for todo in after}) == len(after)


# -- sharing


def test_each_change_is_announced_once_with_its_author_and_a_growing_revision(store: Store) -> None:
    told: list[tuple[tuple[Todo, ...], str, int]] = []
    todos = TodoList(store, Path("/announced"), on_change=lambda *change: told.append(change))
    todos.add("x")
    todos.set_status("t1", TodoStatus.COMPLETED, by="user")
    todos.set_status("t1", TodoStatus.COMPLETED, by="user")
    with pytest.raises(TodoFailed):
        todos.set_status("t7", TodoStatus.COMPLETED)
    assert [(by, revision, [todo.completed for todo in items]) for items, by, revision in told] == [
        ("model", 1, [False]),
        ("user", 2, [True]),
    ]


def test_a_change_made_elsewhere_is_announced_when_refreshed_and_an_own_one_is_not(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []
    here = TodoList(Store(tmp_path / "x.db"), Path("/w"), on_change=lambda _, by, revision: told.append((by, revision)))
    there = TodoList(Store(tmp_path / "x.db"), Path("/w"))
    here.add("mine")
    assert not here.refresh()
    there.add("theirs", by="user")
    assert here.refresh()
    assert not here.refresh()
    assert told == [("model", 1), ("user", 2)]


def test_what_was_read_first_is_not_announced_as_a_change(tmp_path: Path) -> None:
    told: list[int] = []
    TodoList(Store(tmp_path / "x.db"), Path("/w")).add("before")
    here = TodoList(Store(tmp_path / "x.db"), Path("/w"), on_change=lambda _, __, revision: told.append(revision))
    assert here.state().revision == 1
    assert not here.refresh()
    TodoList(Store(tmp_path / "x.db"), Path("/w")).add("after")
    assert here.state().revision == 2
    assert here.refresh()
    assert told == [2]


def test_a_listener_may_use_the_list(store: Store) -> None:
    seen: list[int] = []
    todos = TodoList(store, Path("/listening"), on_change=lambda *_: seen.append(len(todos.list())))
    todos.add("x")
    todos.add("y")
    assert seen == [1, 2]


def test_workspaces_have_lists_and_ids_of_their_own(store: Store) -> None:
    one, other = new_list(store), new_list(store)
    assert one.add("x").id == other.add("y").id == "t1"
    assert [todo.task for todo in other.list()] == ["y"]


def test_the_model_and_the_person_lose_nothing_to_each_other(todos: TodoList) -> None:
    with ThreadPoolExecutor(4) as pool:
        added = list(pool.map(lambda number: todos.add(f"task {number}"), range(60)))
    assert sorted(todo.id for todo in todos.list()) == sorted(todo.id for todo in added)
    assert len({todo.id for todo in added}) == 60


def test_two_processes_share_one_list_and_its_numbers(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import TodoList, TodoStatus
todos = TodoList(Store(Path(sys.argv[1])), Path("/shared"))
for number in range(50):
    todos.set_status(todos.add(f"{sys.argv[2]} {number}").id, TodoStatus.COMPLETED)
"""
    path = tmp_path / "ollm.db"
    started = [
        subprocess.Popen([sys.executable, "-c", script, str(path), name], stderr=subprocess.PIPE, text=True)
        for name in ("a", "b")
    ]
    for process in started:
        _, complaint = process.communicate(timeout=60)
        assert process.returncode == 0, complaint
    todos = TodoList(Store(path), Path("/shared"))
    assert {todo.task for todo in todos.list()} == {f"{name} {number}" for name in "ab" for number in range(50)}
    assert [todo.id for todo in todos.list()] == [f"t{number}" for number in range(1, 101)]
    assert all(todo.completed for todo in todos.list())
    assert todos.state().revision == 200


def test_a_list_outlives_its_process_and_times_come_from_the_clock(tmp_path: Path) -> None:
    class Noon:
        def monotonic(self) -> float:
            return 0.0

        def now(self) -> datetime:
            return datetime(2026, 1, 31, 12, 0, tzinfo=UTC)

    first = Store(tmp_path / "ollm.db")
    TodoList(first, Path("/w"), clock=Noon()).add("x")
    first.close()
    assert TodoList(Store(tmp_path / "ollm.db"), Path("/w")).list() == (
        Todo("t1", "x", TodoStatus.PENDING, "2026-01-31T12:00:00.000Z"),
    )


def test_an_empty_text_and_half_a_surrogate_pair_are_refused(todos: TodoList) -> None:
    with pytest.raises(TodoFailed, match="needs a text"):
        todos.add("")
    with pytest.raises(StorageFailed, match="surrogate"):
        todos.add("\udc80")
    assert todos.list() == ()
    assert todos.add("x").id == "t1"
