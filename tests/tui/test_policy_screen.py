"""`/policy`: what holds, what was decided, what would happen; with the real runtime behind the screen."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from textual.app import App

from ollm_tui.core.policy.policy_file import read_policy_file
from ollm_tui.core.policy.saved_rules import set_value
from ollm_tui.options import Options
from ollm_tui.runtime.configuration import workspace_policy_path
from ollm_tui.testing import tool_call
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.controllers.policy_controller import SETTINGS, _value_in
from ollm_tui.tui.decisions import Readiness
from ollm_tui.tui.protocol.policy import ChangeSetting, PolicyRow, PolicyRowsUpdate, PolicySection
from ollm_tui.tui.screens.policy_screen import PolicyScreen
from ollm_tui.tui.screens.question_screens import ChoiceScreen

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


EditBy = Callable[[str], None]


@pytest.fixture
def edit_by(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> EditBy:
    """Let the person's editor be a script; what it was given stands in `vi.said`."""

    def set_up(script: str) -> None:
        editor = tmp_path / "vi"
        editor.write_text(script)
        editor.chmod(0o755)
        monkeypatch.setenv("VISUAL", str(editor))
        monkeypatch.setattr(App, "suspend", lambda self: nullcontext())  # a pilot's screen cannot be lent

    return set_up


async def opened(here: DashboardHarness) -> PolicyScreen:
    await here.send("/policy")
    await here.wait_until(lambda: isinstance(here.app.screen, PolicyScreen))
    screen = here.app.screen
    assert isinstance(screen, PolicyScreen)
    await here.wait_for("Policy  mode ask")
    return screen


async def asked(here: DashboardHarness) -> None:
    await here.send("go")
    await here.wait_for_confirmation()


async def test_every_part_is_listed_with_where_it_stands(workspace: Path) -> None:
    async with open_dashboard(workspace, [tool_call("ls"), {"text": "Done."}]) as here:
        await here.send("go")
        await here.wait_for("Done.")
        screen = await opened(here)
        assert "Findings" in here.text and "no_such_tool" in here.text
        await here.press("s")
        await here.wait_for("What holds beside the rules")
        await here.press("j")
        await here.wait_for("preset = balanced")
        await here.press("s")
        await here.wait_for("own rules come before")
        await here.press("j")
        await here.wait_for('message = "ask me first"')
        assert screen._marked is not None and "config.toml:6" in screen._marked.facts
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
        await here.press("w", *"touch", "space", *"made")
        await here.wait_for("ASK  touch made")
        await here.wait_for("It would run on this machine")
        screen._call.value = "make test all"
        await here.wait_for("ALLOW  make test all")
        screen._call.value = "ls"
        await here.wait_for("ALLOW  ls")
        await here.wait_for("Judged as a command")
        screen._call.value = 'ls {"path": "."}'
        await here.wait_for('ALLOW  ls {"path"')
        await here.wait_until(lambda: "Judged as a command" not in here.text)
        screen._call.value = 'write_file {"path": "b", "content": "x"}'
        await here.wait_for("DENY  write_file")
        assert "ask me first" in here.text
        screen._call.value = 'write_file {"path'
        await here.wait_for("The arguments of write_file are not valid JSON yet")
        screen._call.value = 'read_file {"path": 3, "x": 1}'
        await here.wait_for("It could not run")
        assert sorted(path.name for path in workspace.iterdir()) == ["a.txt"]
        await here.press("escape")  # leaves the line, then the screen
        assert here.app.screen is screen and not screen._call.value
        await here.press("tab", "tab", "q")
        await here.wait_until(lambda: here.app.screen is not screen)


async def test_entries_are_found_by_their_words(workspace: Path) -> None:
    async with open_dashboard(workspace, []) as here:
        screen = await opened(here)
        await here.press("slash", *"deny", "space", *"first")
        await here.wait_until(lambda: [row.title for row in screen._found] == ["write_file"])
        await here.press("enter", "j")
        await here.wait_for('message = "ask me first"')
        await here.press("slash", *"zzz")
        await here.wait_for("Nothing here contains that")
        await here.press("escape")
        await here.wait_for("no_such_tool")
        await here.press("escape")
        await here.wait_until(lambda: here.app.screen is not screen)


async def test_an_approval_is_taken_back_after_a_question(workspace: Path) -> None:
    config = Path.home() / ".config/ollm-tui/config.toml"
    async with open_dashboard(workspace, []) as here:
        screen = await opened(here)
        await here.press("s", "d")  # no approval is marked
        await here.wait_for("d takes an approved command back")
        await here.press("s", "s", "j")
        await here.wait_for("not used so far")
        await here.press("d")
        await here.wait_for("Take this approval back?")
        await here.press("escape")
        await here.wait_until(lambda: here.app.screen is screen)
        assert "make test" in config.read_text()
        await here.press("d")
        await here.wait_for("Take this approval back?")
        await here.decide("y")
        await here.wait_until(lambda: "make test" not in config.read_text())
        screen._call.value = "make test all"
        await here.wait_for("ASK  make test all")
        assert 'message = "ask me first"' in config.read_text()


async def test_the_sessions_approvals_are_taken_back_too(workspace: Path) -> None:
    async with open_dashboard(workspace, [tool_call("shell", command="touch made"), {"text": "Done."}]) as here:
        await asked(here)
        await here.decide("a")
        await here.decide("a")
        await here.wait_for("Done.")
        screen = await opened(here)
        screen._call.value = "touch made"
        await here.wait_for("ALLOW  touch made")
        screen._call.value = ""
        await here.press("slash", *"session", "space", *"touch", "enter", "j")
        await here.wait_for("this session alone")
        await here.press("d")
        await here.wait_for("Take this approval back?")
        await here.decide("y")
        await here.wait_for("is not approved any more")
        screen._call.value = "touch made"
        await here.wait_for("ASK  touch made")


async def test_what_a_file_says_of_the_sandbox_counts_for_the_next_call(
    workspace: Path, tmp_path: Path, edit_by: EditBy
) -> None:
    # An engine of another system: it never works here, so that every machine shows the same.
    edit_by('#!/bin/sh\nprintf "[policy.sandbox]\\nmode = \\"sandbox-exec\\"\\n" >> "$2"\n')
    async with open_dashboard(workspace, [tool_call("shell", command="make test all"), {"text": "Done."}]) as here:
        screen = await opened(here)
        await here.press("s", "s", "j")
        await here.wait_for('message = "ask me first"')
        await here.press("e")
        await here.wait_for("What your files say counts from now on")
        screen._call.value = "make test all"
        await here.wait_for("It would not run: no sandbox works here")
        await here.press("escape", "escape")
        await here.wait_until(lambda: here.app.screen is not screen)
        await here.send("go")
        await here.wait_for("No sandbox works here")


async def test_an_approval_that_was_taken_out_of_its_file_does_not_count(
    workspace: Path, tmp_path: Path, edit_by: EditBy
) -> None:
    config = Path.home() / ".config/ollm-tui/config.toml"
    (tmp_path / "before").write_text(CONFIG)
    edit_by(f'#!/bin/sh\ncp {tmp_path}/before "$2"\n')
    async with open_dashboard(workspace, [tool_call("shell", command="touch made"), {"text": "Done."}]) as here:
        await asked(here)
        await here.decide("A")
        await here.press("tab")
        await here.wait_for("in every workspace")
        await here.decide("ctrl+s")
        await here.wait_for("Done.")
        assert "touch" in config.read_text()
        screen = await opened(here)
        screen._call.value = "touch made"
        await here.wait_for("ALLOW  touch made")
        screen._call.value = ""
        await here.press("s", "s", "j")
        await here.wait_for('message = "ask me first"')
        await here.press("e")
        await here.wait_for("What your files say counts from now on")
        screen._call.value = "touch made"
        await here.wait_for("ASK  touch made")


async def test_a_setting_is_changed_in_its_file_after_a_question(workspace: Path) -> None:
    config = Path.home() / ".config/ollm-tui/config.toml"
    async with open_dashboard(workspace, []) as here:
        screen = await opened(here)
        screen._call.value = "touch made"
        await here.wait_for("ASK  touch made")
        screen._call.value = ""
        await here.press("slash", *"on_miss", "enter", "j", "enter")
        await here.wait_for("exec.on_miss?")
        await here.wait_for("1 ask  (now)")
        await here.press("escape")
        await here.wait_until(lambda: here.app.screen is screen)
        await here.press("enter")
        await here.wait_for("exec.on_miss?")
        await here.decide("2")
        await here.wait_for("exec.on_miss = deny counts from now on")
        written = tomllib.loads(config.read_text())["policy"]
        assert written["exec"] == {"approvals": [{"pattern": "make test *"}], "on_miss": "deny"}
        assert [rule["tool"] for rule in written["rules"]] == ["write_file", "no_such_tool"]
        screen._call.value = "touch made"
        await here.wait_for("DENY  touch made")


async def test_a_choice_longer_than_the_window_is_read_to_its_end_before_a_number_counts(workspace: Path) -> None:
    async with open_dashboard(workspace, [], size=(60, 14)) as here:
        screen = await opened(here)
        await here.press("slash", *"sandbox.mode", "enter", "j", "enter")
        await here.wait_for("sandbox.mode?")
        choice = here.app.screen
        assert isinstance(choice, ChoiceScreen) and choice._choices[-1].value not in here.text
        await here.wait_until(lambda: choice.guard.readiness(whole=False) is Readiness.READY)
        await here.press("1")
        told = "Read it to its end, then press the key."
        await here.wait_until(lambda: any(told in toast.message for toast in here.app._notifications))
        assert here.app.screen is choice
        await here.press("end")
        await here.wait_for(f"{len(choice._choices)} {choice._choices[-1].value}")
        await here.decide("escape", choice.guard)
        await here.wait_until(lambda: here.app.screen is screen)
        await here.press("slash", *["backspace"] * 12, *"write_file", "enter", "j", "enter")
        told = "Enter changes a setting"
        await here.wait_until(lambda: any(told in toast.message for toast in here.app._notifications))


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in SETTINGS.items() for value in values])
def test_every_value_that_is_offered_is_one(tmp_path: Path, name: str, value: str) -> None:
    file = tmp_path / "policy.toml"
    file.write_text('# mine\n[[rules]]\ntool = "ls"\naction = "ask"\n')
    set_value(file, name.split("."), value == "true" if value in ("true", "false") else value)
    read = read_policy_file(file, "user").document
    assert _value_in(read, name) == value
    assert [rule.tool for rule in read.rules] == ["ls"] and file.read_text().startswith("# mine\n")


def test_a_file_in_which_a_value_cannot_be_set_stays_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "policy.toml"
    for text in ('exec = { on_miss = "ask" }\n', "[exec\n", '[exec]\non_miss = "never"\n'):
        file.write_text(text)
        with pytest.raises(ValueError, match=r"policy\.toml|on_miss|exec"):
            set_value(file, ("exec", "mode"), "full")
        assert file.read_text() == text


async def test_a_value_that_another_file_overrules_is_told(workspace: Path) -> None:
    own = workspace_policy_path(workspace.resolve())
    own.parent.mkdir(parents=True, exist_ok=True)
    own.write_text('[exec]\non_miss = "deny"\n')
    async with open_dashboard(workspace, []) as here:
        screen = await opened(here)
        screen.post_message(ChangeSetting("exec.on_miss", "ask", str(Path.home() / ".config/ollm-tui/config.toml")))
        told = "but deny holds: another file is stronger."
        await here.wait_until(lambda: any(told in toast.message for toast in here.app._notifications))


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
    workspace: Path, tmp_path: Path, edit_by: EditBy
) -> None:
    edit_by('#!/bin/sh\necho "$@" > "$0.said"\nsed -i s/deny/allow/ "$2"\n')
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
    workspace: Path, tmp_path: Path, edit_by: EditBy
) -> None:
    edit_by('#!/bin/sh\nsed -i s/deny/never/ "$2"\n')
    async with open_dashboard(workspace, []) as here:
        screen = await opened(here)
        await here.press("s", "s", "j")
        await here.wait_for('message = "ask me first"')
        await here.press("e")
        await here.wait_for("Everything is denied now")
        screen._call.value = "ls"
        await here.wait_for("DENY  ls")
        screen._call.value = ""
        await here.wait_for("Everything is denied until that is corrected")
        await here.press("j")
        await here.wait_until(lambda: screen._marked is not None)
        assert screen._marked is not None and screen._marked.file.endswith("config.toml") and screen._marked.line == 6
