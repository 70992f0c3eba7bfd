"""The memory screen with the real house behind it: what is listed, read, found, and changed by others meanwhile."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from ollm_tui.core.memory import Memory
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import TodoList
from ollm_tui.testing import tool_call
from ollm_tui.testing.dashboard_harness import open_dashboard
from ollm_tui.tui.widgets.row_list import RowList
from tests.tui.memory_backend import editing, memory, opened, outside, workspace
from tests.tui.pilot import wait_until

__all__ = ["memory", "outside", "workspace"]


async def test_everything_remembered_is_listed_and_the_marked_text_is_read(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.wait_for("3 remembered")
        await here.wait_for("then ctest")
        assert here.text.index("build") < here.text.index("release") < here.text.index("editor")
        await here.pilot.press("j")
        await here.wait_for("tag and push")
        await here.wait_for("release  workspace  12 B")
        await here.pilot.press("escape")
        await wait_until(here.pilot, lambda: here.app.screen is here.app.dashboard)


async def test_searching_and_scopes_narrow_the_list(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.pilot.press("slash", *"TABS")
        await here.wait_for("1 found")
        await here.wait_for("prefers tabs")
        await here.pilot.press("enter")
        assert "release" not in here.text
        await here.pilot.press("escape")
        await here.wait_for("3 remembered")
        await here.pilot.press("s")
        await here.wait_for("2 remembered of workspace")
        await here.pilot.press("s")
        await here.wait_for("1 remembered of user")
        await here.pilot.press("slash", *"zzz")
        await here.wait_for("No memory has that")


async def test_the_prompt_opens_it_narrowed_and_the_palette_opens_it_too(workspace: Path, memory: Memory) -> None:
    async with open_dashboard(workspace) as here:
        await here.send("/memory push")
        await here.wait_for("1 found")
        await here.wait_for("tag and push")
        await here.pilot.press("escape", "escape")
        await wait_until(here.pilot, lambda: here.app.screen is here.app.dashboard)
        await here.pilot.press("ctrl+p")
        await wait_until(here.pilot, lambda: here.app.screen is not here.app.dashboard)
        await here.pilot.press(*"memory")
        await here.wait_for("Read, edit and delete")
        await here.pilot.press("enter")
        await here.wait_for("3 remembered")


async def test_what_another_process_writes_appears_and_the_mark_stays(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.pilot.press("j")
        await here.wait_for("tag and push")
        memory.set("aaa first", "new above all")
        memory.set("release", "never on Fridays")
        await here.wait_for("4 remembered")
        await here.wait_for("aaa first")
        await here.wait_for("release  workspace  16 B")
        await here.wait_for("never on Fridays")


async def test_what_the_model_writes_meanwhile_appears(workspace: Path, memory: Memory) -> None:
    write = tool_call("memory", action="set", key="aaa", value="by the model")
    write["pieceDelayMs"] = 200
    write["text"] = "Some words before it is written down."
    async with open_dashboard(workspace, [write, {"text": "Noted."}]) as here:
        await here.send("go")
        await here.pilot.press("ctrl+n")
        await here.wait_for("4 remembered")
        await here.wait_for("by the model")


async def test_by_mouse_a_row_is_read_and_the_words_below_are_keys(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.wait_for("then ctest")
        await here.pilot.click("#list-rows", offset=(3, 2))
        await here.wait_for("tag and push")
        words = here.text.split("\n")
        row = next(place for place, one in enumerate(words) if "e edit   n new" in one)
        await here.pilot.click(offset=(words[row].index("e edit") + 2, row))
        area = await editing(here)
        assert area.text == "tag and push"
        words = here.text.split("\n")
        row = next(place for place, one in enumerate(words) if "^S save" in one)
        await here.pilot.click(offset=(words[row].index("Esc back") + 2, row))
        await here.wait_for("e edit")


async def test_a_secret_is_named_and_its_line_is_not_in_the_list(workspace: Path, memory: Memory) -> None:
    memory.set("aaa", "ghp_0123456789abcdefghij")
    async with opened(workspace) as here:
        await here.wait_for("looks like a GitHub token: it does not go along")
        assert here.text.count("ghp_0123456789abcdefghij") == 1, "in the text itself, where it is asked for"


async def test_the_first_message_says_what_goes_along_and_unfolds_to_it(workspace: Path, memory: Memory) -> None:
    async with open_dashboard(
        workspace, [{"expect": {"lastUserMessageContains": "prefers tabs"}, "text": "Hello."}]
    ) as here:
        await here.send("hi")
        await here.wait_for("> 3 notes from memory (^N to read)")
        await here.wait_for("Hello.")
        assert "prefers tabs" not in here.text
        await here.pilot.press("ctrl+o")
        await here.wait_for("- user: editor: prefers tabs")


async def test_todos_of_another_process_appear_and_long_ones_wrap(workspace: Path, outside: Store) -> None:
    async with open_dashboard(workspace) as here:
        await here.wait_for("Todo: none yet")
        task = "Rewrite the importer so that a broken row names its file and line, then tell the others"
        TodoList(outside, workspace).add(task)
        TodoList(outside, workspace).add("Second")

        def pane() -> list[str]:
            return [one[83:119].strip() for one in here.text.split("\n")]

        # Below its title, where the words of the empty pane have made room, and with both items in it.
        await here.wait_for("Todo 0/2")
        await wait_until(
            here.pilot,
            lambda: (
                any("Todo 0/2" in head and one.startswith("[ ] 1") for head, one in pairwise(pane()))
                and any("[ ] 2" in one for one in pane())
            ),
        )
        shown = pane()
        first = next(place for place, one in enumerate(shown) if one.startswith("[ ] 1"))
        last = next(place for place, one in enumerate(shown) if one.startswith("[ ] 2"))
        assert last - first > 1
        assert " ".join(shown[first:last]) == f"[ ] 1 {task}"
        await here.pilot.click("#todo-rows", offset=(8, last - first))
        rows = here.app.dashboard.todo.focus_target
        await wait_until(here.pilot, lambda: isinstance(rows, RowList) and rows.has_focus and rows.chosen_id == "t2")
        await here.pilot.press("space")
        await here.wait_for("[x] 2 Second")
