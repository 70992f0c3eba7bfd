"""`/rewind`: conversation, files or both go back to before a message; over the real runtime."""

from __future__ import annotations

from pathlib import Path

import pytest

from ollm_tui.agent.session.catalogue import list_sessions
from ollm_tui.agent.session.log import sessions_folder
from ollm_tui.agent.session.reading import read_opening
from ollm_tui.options import Options
from ollm_tui.testing import tool_call
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.screens.rewind_screen import RewindScreen

YOLO = Options(mode="yolo")
MAKE_A = tool_call("write_file", path="a.txt", content="one\n")
MAKE_B = tool_call("write_file", path="b.txt", content="b\n")
CHANGE_A = tool_call("shell", command="echo two > a.txt; rm .cache")
SCRIPT = [MAKE_A, {"text": "First."}, CHANGE_A, MAKE_B, {"text": "Second."}]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / ".gitignore").write_text(".cache\n")
    (folder / ".cache").write_text("made by a build\n")
    return folder


def files(workspace: Path) -> dict[str, str]:
    return {path.name: path.read_text() for path in sorted(workspace.iterdir()) if path.name != ".gitignore"}


async def two_turns(here: DashboardHarness) -> None:
    for request, answer in (("first", "First."), ("second", "Second.")):
        await here.send(request)
        await here.wait_for(answer)
        await here.wait_for_idle()


async def rewinding(here: DashboardHarness) -> None:
    await here.send("/rewind")
    await here.wait_until(lambda: isinstance(here.app.screen, RewindScreen))
    await here.wait_for("Files: ")


async def test_both_go_back_after_the_diff_and_what_stays_were_shown(workspace: Path) -> None:
    async with open_dashboard(workspace, [*SCRIPT, {"text": "Another."}], options=YOLO) as here:
        await two_turns(here)
        await rewinding(here)
        await here.wait_for("- two")
        for words in (
            "+ one",
            "removed .cache",
            "ignore rules leave it out",
            "1 cannot be undone",
            "Nothing is deleted",
        ):
            assert words in here.text
        await here.decide("b")
        await here.wait_for("Your files went back")
        assert files(workspace) == {"a.txt": "one\n"}
        assert "Second." not in here.text and here.app.dashboard.prompt.text == "second"
        await here.press("enter")
        await here.wait_for("Another.")
    forks = [one for one in list_sessions(sessions_folder()) if read_opening(one.path).forked_from]
    (whole,) = [one for one in list_sessions(sessions_folder()) if one not in forks]
    assert len(forks) == 1 and "Second." in whole.path.read_text()


async def test_files_go_back_alone_and_an_undo_brings_them_again(workspace: Path) -> None:
    async with open_dashboard(workspace, SCRIPT, options=YOLO) as here:
        await two_turns(here)
        await rewinding(here)
        await here.press("k")
        await here.wait_for("created a.txt")
        await here.decide("f")
        await here.wait_for("Your files went back")
        assert files(workspace) == {} and "Second." in here.text
        assert len(list_sessions(sessions_folder())) == 1
        await here.send("/undo")
        await here.wait_for("Undoing u4")
        await here.decide("u")
        await here.wait_for("Undo u4")
        assert files(workspace) == {"a.txt": "two\n", "b.txt": "b\n"}


async def test_what_a_session_left_behind_by_a_fork_changed_goes_back_too(workspace: Path) -> None:
    script = [*SCRIPT, tool_call("write_file", path="c.txt", content="c\n"), {"text": "Third."}]
    async with open_dashboard(workspace, script, options=YOLO) as here:
        await two_turns(here)
        await rewinding(here)
        await here.press("enter")
        await here.wait_for("You go on with a fork of")
        await here.press("enter")
        await here.wait_for("Third.")
        await here.wait_for_idle()
        await rewinding(here)
        await here.wait_for("created c.txt")
        assert "created b.txt" not in here.text  # it was there when this message was sent
        await here.press("k")
        await here.wait_for("created b.txt")
        assert "created a.txt" in here.text and "created c.txt" in here.text
        await here.press("escape")
        assert files(workspace) == {"a.txt": "two\n", "b.txt": "b\n", "c.txt": "c\n"}
