"""Changing memories on the screen, by keys: saved, undone, refused where somebody else was faster, never lost."""

from __future__ import annotations

from pathlib import Path

from textual.events import Key

from ollm_tui.core.memory import Memory, MemoryScope
from ollm_tui.tui.screens.memory_screen import MemoryScreen
from ollm_tui.tui.screens.question_screens import YesNoScreen
from tests.tui.memory_backend import editing, memory, opened, outside, workspace
from tests.tui.pilot import wait_until

__all__ = ["memory", "outside", "workspace"]


async def test_foreign_text_is_shown_and_not_obeyed(workspace: Path, memory: Memory) -> None:
    hostile = "[red]x[/red] [/] [@click=app.quit]go[/] \x1b]52;c;Zm9v\x07 \u202eright \0"
    memory.set(f"a {hostile}", hostile)
    async with opened(workspace) as here:
        await here.wait_for("[@click=app.quit]go[/] ␛]52;c;Zm9v")
        assert "\x1b" not in here.text and "\u202e" not in here.text
        await here.pilot.press("e")
        area = await editing(here)
        assert "\x1b" not in area.text and "⟨U+202E⟩" in area.text
        await here.pilot.press("escape", "d")
        await wait_until(here.pilot, lambda: isinstance(here.app.screen, YesNoScreen))
        assert "\x1b" not in here.text
        await here.decide("y")
        await here.wait_for("Deleted a [red]x[/red]")


async def test_a_text_is_edited_and_saved_by_keys_and_undone(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.wait_for("then ctest")
        await here.pilot.press("e")
        await editing(here)
        await here.pilot.press("ctrl+end", *", twice", "ctrl+s")
        await here.wait_for("Saved build.")
        assert (found := memory.get("build")) and found.value == "make all\nthen ctest, twice"
        await here.pilot.press("u")
        await here.wait_for("Undone: build is as it was.")
        assert (found := memory.get("build")) and found.value == "make all\nthen ctest"


async def test_what_is_typed_right_before_the_key_that_saves_is_saved(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.wait_for("then ctest")
        await here.pilot.press("e")
        await editing(here)
        for key in (Key("exclamation_mark", "!"), Key("ctrl+s", None)):
            here.app.post_message(key)  # both wait before the first is looked at
        await here.wait_for("Saved build.")
        assert (found := memory.get("build")) and found.value == "!make all\nthen ctest"


async def test_a_change_under_the_edit_is_said_and_nothing_of_either_is_lost(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.wait_for("then ctest")
        await here.pilot.press("e")
        await editing(here)
        await here.pilot.press(*"mine: ")
        memory.set("build", "theirs, from elsewhere")
        await here.wait_for("Changed elsewhere while you edit")
        assert "mine: make all" in here.text
        await here.pilot.press("ctrl+t")
        await here.wait_for("theirs, from elsewhere")
        await here.pilot.press("ctrl+t")
        await here.wait_for("mine: make all")
        assert (found := memory.get("build")) and found.value == "theirs, from elsewhere"
        await here.pilot.press("ctrl+s")
        await here.wait_for("Saved build.")
        assert (found := memory.get("build")) and found.value == "mine: make all\nthen ctest"
        await here.pilot.press("u")
        await here.wait_for("Undone")
        assert (found := memory.get("build")) and found.value == "theirs, from elsewhere"


async def test_a_memory_deleted_under_the_edit_can_be_saved_again(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.wait_for("then ctest")
        await here.pilot.press("e")
        await editing(here)
        memory.delete("build")
        await here.wait_for("Deleted elsewhere while you edit")
        await here.pilot.press("ctrl+s")
        await here.wait_for("Saved build.")
        assert (found := memory.get("build")) and found.value == "make all\nthen ctest"


async def test_deleting_asks_once_and_is_undone(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.wait_for("then ctest")
        await here.pilot.press("d")
        await wait_until(here.pilot, lambda: isinstance(here.app.screen, YesNoScreen))
        await here.pilot.press("enter", "n")
        await wait_until(here.pilot, lambda: isinstance(here.app.screen, MemoryScreen))
        assert memory.get("build") is not None
        await here.pilot.press("d")
        await here.decide("y")
        await here.wait_for("Deleted build. u brings it back.")
        await here.wait_for("2 remembered")
        assert memory.get("build") is None
        await here.pilot.press("u")
        await here.wait_for("3 remembered")
        assert (found := memory.get("build")) and found.value == "make all\nthen ctest"


async def test_a_new_memory_for_all_workspaces(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.pilot.press("N")
        await editing(here)
        await here.wait_for("New memory, for all your workspaces")
        await here.pilot.press("ctrl+s")
        await here.wait_for("Give it a key first")
        await here.pilot.press(*"name", "enter", *"Ada", "enter", *"Lovelace", "ctrl+s")
        await here.wait_for("Saved name.")
        await here.wait_for("4 remembered")
        await here.wait_for("name  user  12 B")
    assert (found := memory.get("name", MemoryScope.USER)) and found.value == "Ada\nLovelace"


async def test_a_new_memory_does_not_overwrite_one_of_the_same_key(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.pilot.press("n")
        await editing(here)
        await here.pilot.press(*"release", "enter", *"mine", "ctrl+s")
        await here.wait_for("Changed elsewhere")
        assert (found := memory.get("release")) and found.value == "tag and push"


async def test_leaving_an_edit_asks_before_it_is_dropped(workspace: Path, memory: Memory) -> None:
    async with opened(workspace) as here:
        await here.wait_for("then ctest")
        await here.pilot.press("e")
        await editing(here)
        await here.pilot.press("x", "escape")
        await wait_until(here.pilot, lambda: isinstance(here.app.screen, YesNoScreen))
        await here.pilot.press("escape")
        await here.wait_for("xmake all")
        await here.pilot.press("escape")
        await wait_until(here.pilot, lambda: isinstance(here.app.screen, YesNoScreen))
        await here.decide("y")
        await here.wait_for("e edit")
        assert (found := memory.get("build")) and found.value == "make all\nthen ctest"


async def test_a_text_of_a_megabyte_is_read_and_edited(workspace: Path, memory: Memory) -> None:
    value = "".join(f"line {number} of many\n" for number in range(50_000)) + "the last line"
    memory.set("aaa", value)
    async with opened(workspace) as here:
        await here.wait_for("line 0 of many")
        await here.pilot.press("enter", "end")
        await here.wait_for("the last line")
        await here.pilot.press("e")
        await editing(here)
        await here.wait_for("part 1 of")
        await here.pilot.press("ctrl+end", "!", "ctrl+home", "?", "ctrl+s")
        await here.wait_for("Saved aaa.")
    assert (found := memory.get("aaa")) and found.value == f"?{value}!"


async def test_at_80_columns_everything_is_done_by_keys(workspace: Path, memory: Memory) -> None:
    async with opened(workspace, (80, 24)) as here:
        await here.wait_for("then ctest")
        await here.pilot.press("e")
        await editing(here)
        await here.pilot.press(*"now ", "ctrl+s")
        await here.wait_for("Saved build.")
        await here.wait_for("now make all")
        await here.pilot.press("n")
        await editing(here)
        await here.pilot.press(*"zeta", "enter", *"last of all", "ctrl+s")
        await here.wait_for("Saved zeta.")
        await here.wait_for("last of all")
        await here.pilot.press("d")
        await here.decide("y")
        await here.wait_for("Deleted zeta.")
        await here.pilot.press("ctrl+n")
        await wait_until(here.pilot, lambda: here.app.screen is here.app.dashboard)
