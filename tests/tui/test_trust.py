"""The dashboard's question about a folder's own config file, with the real house behind it."""

from __future__ import annotations

from pathlib import Path

import pytest

from ollm_tui.core.policy.repository_trust import REPOSITORY_CONFIG, TrustState, TrustStore
from ollm_tui.testing import Reply, tool_call
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.screens.question_screens import TrustScreen
from ollm_tui.tui.widgets.line_view import LineView
from tests.tui.pilot import wait_until
from tests.tui.test_whole import EDIT

NO_EDITS = '[[policy.rules]]\ntool = "edit_file"\naction = "deny"\nmessage = "hands off"\n'
NO_WRITES = '[[policy.rules]]\ntool = "write_file"\naction = "deny"\n'
DENIED_THEN_DONE: list[Reply] = [EDIT, {"expect": {"lastToolResultContains": "hands off"}, "text": "Understood."}]


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    (folder / ".ollm").mkdir(parents=True)
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / REPOSITORY_CONFIG).write_text(NO_EDITS)
    return folder


async def look(here: DashboardHarness) -> TrustScreen:
    await here.send("/trust")
    await wait_until(here.pilot, lambda: isinstance(here.app.screen, TrustScreen))
    screen = here.app.screen
    assert isinstance(screen, TrustScreen)
    return screen


async def test_a_file_that_is_not_trusted_does_not_count_and_the_conversation_says_so(workspace: Path) -> None:
    async with open_dashboard(workspace, [EDIT, {"text": "Done."}]) as here:
        await here.wait_for("It does not count yet")
        await here.send("go")
        await here.wait_for_confirmation()
        await here.pilot.press("n")
        await here.wait_for("Done.")
    assert TrustStore.of_user().check(workspace).trust is TrustState.UNTRUSTED


async def test_a_trusted_file_counts_at_once(workspace: Path) -> None:
    async with open_dashboard(workspace, DENIED_THEN_DONE) as here:
        await look(here)
        assert 'message = "hands off"' in here.text and "only tighten" in here.text
        await here.decide("y")
        await here.wait_for("counts from now on")
        await here.send("go")
        await here.wait_for("Understood.")
    assert TrustStore.of_user().check(workspace).trust is TrustState.TRUSTED
    assert (workspace / "a.txt").read_text() == "one\ntwo\n"


@pytest.mark.parametrize("keys", [("enter", "n"), ("space", "q", "escape")])
async def test_nothing_but_y_says_yes(workspace: Path, keys: tuple[str, ...]) -> None:
    async with open_dashboard(workspace) as here:
        await look(here)
        await here.pilot.press(*keys)
        await wait_until(here.pilot, lambda: here.app.screen is here.app.dashboard)
    assert TrustStore.of_user().check(workspace).trust is TrustState.UNTRUSTED


async def test_a_yes_typed_before_the_text_could_be_read_does_not_count(workspace: Path) -> None:
    async with open_dashboard(workspace) as here:
        screen = await look(here)
        await here.wait_for("trust it   ")
        screen.guard.shown_at = here.app.clock.monotonic() + 60  # so that a slow machine cannot let it count
        await here.pilot.press("y", "y")
        await here.pilot.pause(0.1)
        assert here.app.screen is screen
    assert TrustStore.of_user().check(workspace).trust is TrustState.UNTRUSTED


async def test_a_long_file_is_trusted_only_after_its_end_was_in_sight(workspace: Path) -> None:
    (workspace / REPOSITORY_CONFIG).write_text("# many\n" * 200 + "# the [red]last[/red] \u202eline\n")
    async with open_dashboard(workspace) as here:
        screen = await look(here)
        await here.wait_for("once you have read to its end")
        await here.pilot.press("y")
        await here.pilot.pause(0.1)
        assert here.app.screen is screen
        assert screen.query_one("#trust-text", LineView).has_focus
        await here.pilot.press("end")
        await here.wait_for("# the [red]last[/red] ")
        assert "\u202e" not in here.text
        await here.decide("y")
        await here.wait_for("counts from now on")
    assert TrustStore.of_user().check(workspace).trust is TrustState.TRUSTED


async def test_a_file_swapped_behind_the_question_is_not_trusted(workspace: Path) -> None:
    async with open_dashboard(workspace) as here:
        await look(here)
        (workspace / REPOSITORY_CONFIG).write_text("# other\n")
        await here.decide("y")
        await here.wait_for("has changed since it was shown")
    assert TrustStore.of_user().check(workspace).trust is TrustState.UNTRUSTED


async def test_a_file_that_changed_since_it_was_trusted_is_told_at_the_start(workspace: Path) -> None:
    TrustStore.of_user().trust(workspace)
    (workspace / REPOSITORY_CONFIG).write_text("# other\n")
    async with open_dashboard(workspace) as here:
        await here.wait_for("has changed since you trusted it")


async def test_a_fault_in_a_trusted_file_denies_everything_and_is_told_until_it_is_corrected(workspace: Path) -> None:
    file = workspace / REPOSITORY_CONFIG
    file.write_text("[[policy.rules]\n")
    ls = tool_call("ls", path=".")
    script: list[Reply] = [ls, {"expect": {"lastToolResultContains": "could not be read"}, "text": "Refused."}]
    script += [ls, {"expect": {"lastToolResultContains": "a.txt"}, "text": "Listed."}]
    async with open_dashboard(workspace, script) as here:
        await look(here)
        await here.decide("y")
        await here.wait_for("everything is denied")
        await here.wait_for("config.toml:1")
        await here.send("go")
        await here.wait_for("Refused.")
        file.write_text(NO_EDITS)
        await look(here)
        await here.decide("y")
        await here.wait_for("counts from now on")
        await here.send("go")
        await here.wait_for("Listed.")


async def test_what_was_approved_for_the_session_stays_approved(workspace: Path) -> None:
    (workspace / REPOSITORY_CONFIG).write_text(NO_WRITES)
    back = tool_call("edit_file", path="a.txt", edits=[{"target": "zwei", "replacement": "drei"}])
    async with open_dashboard(workspace, [EDIT, {"text": "First."}, back, {"text": "Second."}]) as here:
        await here.send("go")
        await here.wait_for_confirmation()
        await here.decide("a")
        await here.decide("a")
        await here.wait_for("First.")
        await look(here)
        await here.decide("y")
        await here.wait_for("counts from now on")
        await here.send("go")
        await here.wait_for("Second.")
    assert (workspace / "a.txt").read_text() == "one\ndrei\n"


async def test_files_that_a_trusted_file_protects_are_asked_about_at_once(workspace: Path) -> None:
    (workspace / REPOSITORY_CONFIG).write_text('[tools]\nprotected = ["a.txt"]\n')
    async with open_dashboard(workspace, [tool_call("read_file", path="a.txt"), {"text": "Done."}]) as here:
        await here.pilot.resize_terminal(40, 10)
        await look(here)
        await here.decide("y")
        await wait_until(here.pilot, lambda: here.app.screen is here.app.dashboard)
        await here.pilot.resize_terminal(120, 40)
        await here.wait_for("counts from now on")
        await here.send("go")
        await here.wait_for_confirmation()
        await here.pilot.press("n")
        await here.wait_for("Done.")


async def test_the_palette_looks_too_and_without_a_file_there_is_nothing_to_trust(workspace: Path) -> None:
    (workspace / REPOSITORY_CONFIG).unlink()
    async with open_dashboard(workspace) as here:
        await here.pilot.press("ctrl+p")
        await wait_until(here.pilot, lambda: here.app.screen is not here.app.dashboard)
        await here.pilot.press(*"trust")
        await here.wait_for("Look at this folder's own config file")
        await here.pilot.press("enter")
        await here.wait_for("there is nothing to trust")
        assert here.app.screen is here.app.dashboard


async def test_instructions_are_shown_with_the_config_file_and_go_along_once_trusted(workspace: Path) -> None:
    (workspace / "AGENTS.md").write_text("Use [red]tabs[/red].")
    async with open_dashboard(workspace, [{"text": "Done."}]) as here:
        await look(here)
        assert "Trust .ollm/config.toml and 1 more?" in here.text and "=== AGENTS.md ===" in here.text
        assert "Use [red]tabs[/red]." in here.text and "They allow nothing" in here.text
        await here.decide("y")
        await here.wait_for("AGENTS.md counts from your next message")
        await here.send("go")
        await here.wait_for("Instructions: AGENTS.md")
