"""Far more of everything than a screen holds: questions, memories, todos, jobs; and every size of a terminal."""

from __future__ import annotations

from pathlib import Path

import pytest

from ollm_tui.core.memory.memories import Memory
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo import TodoStatus
from ollm_tui.tui.layout import Pane
from ollm_tui.tui.protocol import updates
from tests.tui.memory_backend import opened, outside, workspace
from tests.tui.pilot import job, question, stage, todo, wait_until

__all__ = ["outside", "workspace"]

SIZES = [(120, 40), (80, 24)]


@pytest.mark.parametrize("size", SIZES)
async def test_of_500_questions_each_is_decided_by_a_press_of_its_own(size: tuple[int, int]) -> None:
    asked = [question(number, description=f"Edit file {number}") for number in range(1, 501)]
    async with stage(size) as here:
        await here.show_queue(*asked)
        assert "1 of 500" in here.text
        await here.press("[")
        assert "500 of 500" in here.text
        await here.arm()
        await here.press("n")
        assert [one.item_id for one in here.decisions] == ["confirm-500"]


@pytest.mark.parametrize("size", SIZES)
async def test_the_last_of_2000_todos_is_reached(size: tuple[int, int]) -> None:
    todos = tuple(todo(f"t{number}", f"task {number}", TodoStatus.PENDING) for number in range(1, 2_001))
    async with stage(size) as here:
        await here.post(updates.TodosUpdate(todos))
        here.app.dashboard.go_to(Pane.TODO)
        await here.settle()
        await here.press("end")
        await wait_until(here.pilot, lambda: "task 2000" in here.text)


@pytest.mark.parametrize("size", SIZES)
async def test_the_last_of_50_jobs_is_reached(size: tuple[int, int]) -> None:
    jobs = tuple(job(f"j{number}", f"serve {number}", 4_000 + number) for number in range(1, 51))
    async with stage(size) as here:
        await here.press("f3")
        await here.post(updates.JobsUpdate(jobs))
        await here.press("end")
        await wait_until(here.pilot, lambda: "serve 50" in here.text)


async def test_5000_memories_are_counted_and_one_is_found(outside: Store, workspace: Path) -> None:
    memory = Memory(outside, workspace)
    for number in range(5_000):
        memory.set(f"key-{number}", f"value {number}")
    async with opened(workspace) as here:
        await here.wait_for("5000 remembered, the first 500 shown")
        await here.pilot.press("slash", *"key-4321")
        await here.wait_for("value 4321")


async def test_a_question_and_a_draft_outlive_every_size_of_the_terminal() -> None:
    async with stage((120, 40)) as here:
        await here.show_queue(question())
        for size in ((1, 1), (2, 300), (300, 1), (10, 3), (300, 80), (39, 9), (1, 80), (120, 40)):
            await here.pilot.resize_terminal(*size)
            await here.settle()
        assert here.modal is not None
        assert "edit_file" in here.text
        await here.press("escape", *"a draft")
        for size in ((1, 1), (300, 80), (3, 2), (120, 40)):
            await here.pilot.resize_terminal(*size)
            await here.settle()
        assert here.app.dashboard.prompt.text == "a draft"
        assert "a draft" in here.text
