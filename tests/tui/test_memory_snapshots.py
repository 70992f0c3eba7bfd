"""Pictures of the memory screen and of long todos, each with words that say what must be seen in it."""

from __future__ import annotations

import pytest

from ollm_tui.core.memory import MemoryScope
from ollm_tui.core.todos.todo import TodoStatus
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.screens.memory_screen import MemoryScreen
from ollm_tui.tui.values import (
    EntriesChanged,
    MemoryListing,
    MemoryName,
    MemoryQuery,
    MemoryRow,
    MemoryText,
    NoteEntry,
    UserEntry,
)
from tests.tui.pilot import Stage, todo, wait_until
from tests.tui.test_snapshots import BOTH, Camera, Size, camera, pytestmark

__all__ = ["camera", "pytestmark"]

STEPS = MemoryName("release steps", MemoryScope.WORKSPACE)
TEXT = """\
1. Bump the version in `__init__.py`; the changelog moves from Unreleased to it.
2. Run the whole suite, then build the wheel and install it into a fresh environment.
3. Tag and push. [bold]Never[/bold] on Fridays. \x1b[31m漢字\x1b[0m
"""
ROWS = (
    MemoryRow(MemoryName("build", MemoryScope.WORKSPACE), "make -C build all", 32, "9m"),
    MemoryRow(MemoryName("deploy", MemoryScope.WORKSPACE), "x", 24, "2h", "a GitHub token"),
    MemoryRow(STEPS, "1. Bump the version in `__init__.py`; the changelog", 243, "3d"),
    MemoryRow(
        MemoryName("what the importer does with broken rows", MemoryScope.WORKSPACE), "It", 1_240_000, "2025-11-02"
    ),
    MemoryRow(MemoryName("editor", MemoryScope.USER), "prefers tabs", 12, "now"),
)


async def read(here: Stage) -> MemoryScreen:
    await here.press("ctrl+n")
    screen = here.app.screen
    assert isinstance(screen, MemoryScreen)
    await here.post(updates.MemoryListUpdate(MemoryListing(MemoryQuery(), ROWS, 5)))
    await here.press("j", "j")
    await here.post(updates.MemoryTextUpdate(MemoryText(STEPS, TEXT)))
    return screen


@BOTH
def test_the_memory_is_read(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        await read(here)

    alike = camera.take(size, play)
    assert camera.shows("Memory  5 remembered", "release steps  workspace  243 B", "[bold]Never[/bold]", "␛[31m漢字")
    assert camera.shows("looks like a GitHub token", "e edit", "Esc close")
    assert alike


@BOTH
def test_a_change_under_an_edit_is_said(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        screen = await read(here)
        await here.press("e")
        await wait_until(here.pilot, lambda: bool(screen.query("#memory-area:focus")))
        await here.press(*"Mine: ")
        await here.post(updates.MemoryTextUpdate(MemoryText(STEPS, "theirs")))

    alike = camera.take(size, play)
    assert camera.shows("Edit release steps", "Mine: 1. Bump", "⟨U+001B⟩[31m", "Changed elsewhere", "^T the other text")
    assert alike


@BOTH
@pytest.mark.parametrize("theme", ["ollm-light"])
def test_an_empty_memory_says_how_it_fills(camera: Camera, size: Size, theme: str) -> None:
    async def play(here: Stage) -> None:
        await here.press("ctrl+n")
        await here.post(updates.MemoryListUpdate(MemoryListing(MemoryQuery(), (), 0)))

    alike = camera.take(size, play, theme)
    assert camera.shows("0 remembered", "Nothing is remembered yet.")
    assert alike


@BOTH
def test_the_first_message_says_what_goes_along_and_long_todos_wrap(camera: Camera, size: Size) -> None:
    async def play(here: Stage) -> None:
        note = NoteEntry(
            "n1", "2 notes from memory, 1 left out (^N to read)", body="[Notes from memory ...]\n- user: editor: tabs"
        )
        long = "Rewrite the importer so that a broken row names its file and line, then tell the others"
        await here.post(
            updates.ConversationUpdate(EntriesChanged((UserEntry("u1", "Go on with the importer.", "10:41"), note))),
            updates.TodosUpdate(
                (
                    todo("t1", "Read the importer", TodoStatus.COMPLETED),
                    todo("t2", long, TodoStatus.IN_PROGRESS),
                    todo("t3", "src/" + "deeply/nested/" * 4 + "file.py", TodoStatus.PENDING),
                    todo("t4", "Ask about the old format", TodoStatus.CANCELLED),
                )
            ),
        )
        if size[0] < 100:
            await here.press("f6", "f6", "f6")
            await wait_until(here.pilot, lambda: here.app.dashboard.todo.has_focus_within)
        else:
            await here.press("ctrl+o")

    alike = camera.take(size, play)
    if size[0] >= 100:
        assert camera.shows("v 2 notes from memory, 1 left out (^N to read)", "- user: editor: tabs")
    assert camera.shows("[>] 2 Rewrite the importer so", "others", "file.py", "[-] 4 Ask about")
    assert alike
