"""`/undo` and `u` in the chat: the diff first, then a deliberate key; with the real runtime behind the screen."""

from __future__ import annotations

from pathlib import Path

import pytest

from ollm_tui.options import Options
from ollm_tui.testing import tool_call
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.screens.undo_screen import NOT_RECORDED, UndoScreen
from tests.tui.test_whole import EDIT


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    return folder


CREATE = tool_call("write_file", path="b.txt", content="new\n")
YOLO = Options(mode="yolo")


async def opened(here: DashboardHarness) -> UndoScreen:
    await here.wait_until(lambda: isinstance(here.app.screen, UndoScreen))
    screen = here.app.screen
    assert isinstance(screen, UndoScreen)
    return screen


async def test_a_call_is_shown_and_undone_and_redone(workspace: Path) -> None:
    async with open_dashboard(workspace, [CREATE, EDIT, {"text": "Done."}], options=YOLO) as here:
        await here.send("go")
        await here.wait_for("Done.")
        await here.send("/undo")
        await opened(here)
        await here.wait_for("+ two")
        assert "- zwei" in here.text
        await here.decide("u")
        await here.wait_for("Undo u2")
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"
        await here.press("k", "k")
        await here.wait_for("Undoing u3")
        await here.decide("u")
        await here.wait_for("Undo u3")
        assert (workspace / "a.txt").read_text() == "one\nzwei\n"
        await here.press("escape")
        await here.wait_for("went back: Undo u3")


async def test_a_whole_turn_is_undone(workspace: Path) -> None:
    async with open_dashboard(workspace, [CREATE, EDIT, {"text": "Done."}], options=YOLO) as here:
        await here.send("go")
        await here.wait_for("Done.")
        await here.send("/undo")
        await opened(here)
        await here.wait_for("Undoing u2")
        await here.press("t")
        await here.wait_for("created b.txt")
        await here.decide("u")
        await here.wait_for("Undo u2, u1")
        assert [path.name for path in workspace.iterdir()] == ["a.txt"]
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"


async def test_a_key_too_early_undoes_nothing(workspace: Path) -> None:
    async with open_dashboard(workspace, [EDIT, {"text": "Done."}], options=YOLO) as here:
        await here.send("go")
        await here.wait_for("Done.")
        await here.send("/undo")
        screen = await opened(here)
        await here.wait_for("Undoing u1")
        screen.guard.shown_at = here.app.clock.monotonic() + 60  # so that a slow machine cannot let it count
        await here.press("u")
        await here.wait_for("Wait a moment")
        assert (workspace / "a.txt").read_text() == "one\nzwei\n"


async def test_u_on_a_finished_call_shows_that_call(workspace: Path) -> None:
    look = tool_call("read_file", path="a.txt")
    async with open_dashboard(workspace, [EDIT, CREATE, look, {"text": "Done."}], options=YOLO) as here:
        await here.send("go")
        await here.wait_for("Done.")
        transcript = here.app.dashboard.chat.transcript
        transcript.focus()
        await here.press("g", "j")
        assert "u Undo" not in here.text
        await here.press("j")
        await here.wait_for("u Undo")
        await here.press("u")
        await opened(here)
        await here.wait_for("Undoing u1")
        await here.press("escape")
        await here.press("j", "j", "u")
        await here.wait_for(NOT_RECORDED)
