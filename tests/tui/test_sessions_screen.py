"""The sessions in the dashboard: list, search, go on, fork, delete, go back, and what a crash left."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ollm_tui.agent.events import SessionStartedEvent, UserMessageEvent
from ollm_tui.agent.session.catalogue import list_sessions
from ollm_tui.agent.session.log import SessionLog, sessions_folder
from ollm_tui.agent.session.reading import read_opening
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import DeleteSession, ListSessions, OpenSession, PreviewSession
from ollm_tui.tui.screens.question_screens import YesNoScreen
from ollm_tui.tui.screens.rewind_screen import RewindScreen
from ollm_tui.tui.screens.sessions_screen import SessionsScreen
from ollm_tui.tui.values import SessionRow, SessionStatus
from tests.tui.pilot import Stage, stage

MOMENT = "2026-01-31T09:00:00.000Z"
ROWS = (
    SessionRow(
        "20260131-090000-aaaaaa", "Add JSON export", "/home/ann/app", "5m", 41_200, "2026-01-31 09:40  qwen3:8b"
    ),
    SessionRow("20260130-170000-bbbbbb", "Fix the \x1b[31mtests", "/w", "1d", 8_000, "2026-01-30 17:10  qwen3", "open"),
    SessionRow(
        "20260129-1", "Where is it?", "/srv/other", "2d", 900, "2026-01-29  s", excerpt="the port 8080", here=False
    ),
)


async def listed(here: Stage) -> None:
    await here.press("ctrl+s")
    assert isinstance(here.app.screen, SessionsScreen)
    await here.post(updates.SessionsUpdate("", ROWS))
    await here.post(updates.SessionPreviewUpdate(ROWS[0].id, "YOU\nAdd JSON export\n\n> edit_file cli/export.py"))


@pytest.mark.parametrize("size", [(120, 40), (80, 24)])
async def test_the_list_says_what_each_session_is_and_shows_the_marked_one(size: tuple[int, int]) -> None:
    async with stage(size) as here:
        await listed(here)
        for words in ("3 kept", "Add JSON export", "open  1d", "the port 8080", "> edit_file cli/export.py", "41.2 kB"):
            assert words in here.text
        assert "\x1b" not in here.text
        await here.press("down")
        assert [intent.session_id for intent in here.backend.of(PreviewSession)] == [ROWS[0].id, ROWS[1].id]


async def test_each_key_does_its_one_thing() -> None:
    async with stage() as here:
        await listed(here)
        await here.press("down", "enter")
        assert "It is open in another window" in here.text and not here.backend.of(OpenSession)
        await here.press("f")
        assert here.app.screen is here.app.dashboard
        await listed(here)
        await here.press("enter")
        await listed(here)
        await here.press("n")
        opened = [(intent.session_id, intent.fork) for intent in here.backend.of(OpenSession)]
        assert opened == [(ROWS[1].id, True), (ROWS[0].id, False), (None, False)]


async def test_deleting_asks_and_a_search_lists_anew() -> None:
    async with stage() as here:
        await listed(here)
        await here.press("d")
        assert isinstance(here.app.screen, YesNoScreen) and "Add JSON export" in here.text
        await here.arm()
        await here.press("y")
        assert [intent.session_id for intent in here.backend.of(DeleteSession)] == [ROWS[0].id]
        await here.press("slash", *"port")
        assert here.backend.of(ListSessions)[-1].containing == "port"
        await here.post(updates.SessionsUpdate("por", ROWS), updates.SessionsUpdate("port", ROWS[2:]))
        assert "1 found" in here.text and "Add JSON export" not in here.text
        await here.press("escape", "escape")
        assert here.app.screen is here.app.dashboard


async def test_going_on_after_a_crash_is_a_key_only_while_it_is_offered() -> None:
    async with stage() as here:
        assert "^S Sessions" in here.text and "F2" not in here.text
        await here.press("f2")
        await here.post(updates.StatusUpdate(SessionStatus(broken_off="20260131-090000-aaaaaa")))
        assert "F2 Go on" in here.text
        await here.press("f2")
        assert [intent.session_id for intent in here.backend.of(OpenSession)] == ["20260131-090000-aaaaaa"]


# -- over the real runtime


@asynccontextmanager
async def dashboard(tmp_path: Path, *replies: str) -> AsyncGenerator[DashboardHarness]:
    workspace = tmp_path / "ws"
    workspace.mkdir(exist_ok=True)
    async with open_dashboard(workspace, [{"text": text} for text in replies]) as here:
        yield here


async def test_one_key_goes_on_after_a_crash_and_the_offer_ends_with_the_next_request(tmp_path: Path) -> None:
    log = SessionLog(sessions_folder() / "20260131-090000-aaaaaa")
    started = SessionStartedEvent(
        id=1, time=MOMENT, session_id="x", workspace=str(tmp_path / "ws"), provider="p", model="m", version="1"
    )
    log.write(started)
    log.write(UserMessageEvent(id=2, time=MOMENT, text="paint it"))
    log.close(ended=False)
    async with dashboard(tmp_path, "Painted.") as here:
        await here.wait_for("The last session ended unexpectedly")
        await here.wait_for("F2 Go on")
        await here.press("f2")
        await here.wait_for("You go on with session 20260131-090000-aaaaaa")
        assert "paint it" in here.text and "F2 Go on" not in here.text
        await here.send("/retry")
        await here.wait_for("Painted.")
    kinds = [json.loads(line)["type"] for line in log.path.read_text().splitlines()]
    assert kinds[:5] == ["session_started", "user_message", "session_started", "turn_finished", "assistant_message"]


async def test_a_new_session_and_back_again(tmp_path: Path) -> None:
    async with dashboard(tmp_path, "First answer.", "Second answer.") as here:
        await here.send("the first request")
        await here.wait_for("First answer.")
        await here.wait_for_idle()
        await here.send("/new")
        await here.wait_for("No messages yet")
        await here.send("the second request")
        await here.wait_for("Second answer.")
        await here.wait_for_idle()
        await here.send("/resume first ans")
        await here.wait_for("1 found")
        await here.wait_for("the first request")
        await here.press("enter")
        await here.wait_for("You go on with session")
        assert "First answer." in here.text and "Second answer." not in here.text
        await here.press("ctrl+s")
        await here.wait_for("2 kept")
        await here.wait_for("this one")
        screen = here.app.screen
        await here.press("d")
        await here.wait_until(lambda: isinstance(here.app.screen, YesNoScreen))
        await here.press("escape")
        await here.wait_until(lambda: here.app.screen is screen)
    assert [one.title for one in list_sessions(sessions_folder())] == ["the first request", "the second request"]


async def test_going_back_makes_a_fork_and_gives_the_message_back(tmp_path: Path) -> None:
    async with dashboard(tmp_path, "One.", "Two.", "Another two.") as here:
        await here.send("first")
        await here.wait_for("One.")
        await here.wait_for_idle()
        await here.send("second")
        await here.wait_for("Two.")
        await here.wait_for_idle()
        await here.send("/rewind")
        await here.wait_until(lambda: isinstance(here.app.screen, RewindScreen))
        await here.wait_for("Nothing is deleted")
        await here.press("enter")
        await here.wait_for("You go on with a fork of")
        assert "One." in here.text and "Two." not in here.text
        assert here.app.dashboard.prompt.text == "second"
        await here.press("enter")
        await here.wait_for("Another two.")
    forks = [one for one in list_sessions(sessions_folder()) if read_opening(one.path).forked_from]
    (whole,) = [one for one in list_sessions(sessions_folder()) if one not in forks]
    assert len(forks) == 1 and "Two." in whole.path.read_text() and "Another two." in forks[0].path.read_text()
