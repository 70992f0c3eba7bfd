"""`/policy`: what holds, what was decided, what would happen; with the real runtime behind the screen."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from textual.app import App

from ollm_tui.options import Options
from ollm_tui.testing import tool_call
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.protocol.policy import PolicyRow, PolicyRowsUpdate, PolicySection
from ollm_tui.tui.screens.policy_screen import PolicyScreen

CONFIG = """
[policy]
preset = "balanced"
[policy.exec]
approvals = [{ pattern = "make test *" }]
[[policy.rules]]
tool = "write_file"
action = "deny"
message = "ask me first"
[[policy.rules]]
tool = "no_such_tool"
action = "ask"
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    config = Path.home() / ".config/ollm-tui/config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(CONFIG)
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("one\n")
    return folder


async def opened(here: DashboardHarness) -> PolicyScreen:
    await here.send("/policy")
    await here.wait_until(lambda: isinstance(here.app.screen, PolicyScreen))
    screen = here.app.screen
    assert isinstance(screen, PolicyScreen)
    await here.wait_for("Policy  mode ask")
    return screen


async def test_every_part_is_listed_with_where_it_stands(workspace: Path) -> None:
    async with open_dashboard(workspace, [tool_call("ls"), {"text": "Done."}]) as here:
        await here.send("go")
        await here.wait_for("Done.")
        await opened(here)
        assert "Findings" in here.text and "no_such_tool" in here.text
        await here.press("s")
        await here.wait_for("What holds beside the rules")
        await here.press("j")
        await here.wait_for("preset = balanced")
        await here.press("s")
        await here.wait_for("own rules come before")
        await here.press("j")
        await here.wait_for('message = "ask me first"')
        assert "config.toml" in here.text  # the file, and the line
        await here.press("s", "j")
        await here.wait_for("not used so far")
        await here.press("s", "j")
        await here.wait_for("origin: model")
        assert "ls" in here.text
        await here.press("s")
        await here.wait_for("policy lint")


async def test_what_would_happen_is_told_while_it_is_typed_and_runs_nothing(workspace: Path) -> None:
    async with open_dashboard(workspace, [], options=Options()) as here:
        screen = await opened(here)
        await here.press("slash", *"touch", "space", *"made")
        await here.wait_for("ASK  touch made")
        assert "on this machine" in here.text
        screen._call.value = "make test all"
        await here.wait_for("ALLOW  make test all")
        screen._call.value = 'write_file {"path": "b", "content": "x"}'
        await here.wait_for("DENY  write_file")
        assert "ask me first" in here.text
        screen._call.value = "write_file {"
        await here.wait_for("write_file {")
        screen._call.value = 'read_file {"path": 3, "x": 1}'
        await here.wait_for("It could not run")
        assert sorted(path.name for path in workspace.iterdir()) == ["a.txt"]
        await here.press("escape")  # leaves the line, then the screen
        assert here.app.screen is screen and not screen._call.value
        await here.press("tab", "tab", "q")
        await here.wait_until(lambda: here.app.screen is not screen)


async def test_hostile_names_are_made_visible(workspace: Path) -> None:
    async with open_dashboard(workspace, []) as here:
        screen = await opened(here)
        hostile = "[bold]x[/] \x1b]0;t\x07 \u202eabc"
        row = PolicyRow("r1", PolicySection.RULES, hostile, hostile, hostile, "deny", hostile * 3)
        screen.take(PolicyRowsUpdate(hostile, (row,)))
        await here.press("j")
        await here.wait_for("[bold]x[/]")
        assert "\x1b" not in here.text and "\u202e" not in here.text


async def test_a_narrow_window_has_the_text_below(workspace: Path) -> None:
    async with open_dashboard(workspace, [], size=(80, 24)) as here:
        screen = await opened(here)
        assert screen.has_class("-narrow") and "Esc close" in here.text
        await here.press("escape")
        await here.wait_until(lambda: here.app.screen is not screen)


async def test_a_rule_is_edited_in_its_file_and_counts_at_once(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "vi"
    editor.write_text('#!/bin/sh\necho "$@" > "$0.said"\nsed -i s/deny/allow/ "$2"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(App, "suspend", lambda self: nullcontext())  # a pilot's screen cannot be lent
    async with open_dashboard(workspace, []) as here:
        screen = await opened(here)
        await here.press("s", "s", "j")
        await here.wait_for('message = "ask me first"')
        await here.press("e")
        await here.wait_for("What your files say counts from now on")
        config = Path.home() / ".config/ollm-tui/config.toml"
        assert (tmp_path / "vi.said").read_text() == f"+6 {config}\n"
        screen._call.value = 'write_file {"path": "b", "content": "x"}'
        await here.wait_for("ALLOW  write_file")
        screen._call.value = ""
        await here.press("j", "j", "j", "e")
        await here.wait_for("no part of a file of yours")


async def test_a_file_that_an_edit_broke_denies_everything_and_says_so(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor = tmp_path / "vi"
    editor.write_text('#!/bin/sh\nsed -i s/deny/never/ "$2"\n')
    editor.chmod(0o755)
    monkeypatch.setenv("VISUAL", str(editor))
    monkeypatch.setattr(App, "suspend", lambda self: nullcontext())
    async with open_dashboard(workspace, []) as here:
        screen = await opened(here)
        await here.press("s", "s", "j")
        await here.wait_for('message = "ask me first"')
        await here.press("e")
        await here.wait_for("Everything is denied now")
        screen._call.value = "ls"
        await here.wait_for("DENY  ls")
