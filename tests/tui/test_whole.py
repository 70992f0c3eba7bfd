"""The dashboard with the real house behind it: bus, policy, executor, hub, store; only the model is a script."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from textual.widgets import TextArea

from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.bus.states import Risk
from ollm_tui.options import Options
from ollm_tui.testing import Reply, tool_call
from ollm_tui.testing.dashboard_harness import open_dashboard
from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
from tests.core.tools.git_repositories import make_repository
from tests.tui.pilot import wait_until


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    (folder / "a.txt").write_text("one\ntwo\n")
    return folder


EDIT = tool_call("edit_file", path="a.txt", edits=[{"target": "two", "replacement": "zwei"}])


async def test_an_approved_edit_is_made_and_the_answer_shown(workspace: Path) -> None:
    async with open_dashboard(workspace, [EDIT, {"text": "That is **done**."}]) as here:
        await here.send("go")
        await here.wait_for_confirmation()
        assert "+ zwei" in here.text
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"
        await here.pilot.press("y")
        await here.wait_for("That is done.")
        assert (workspace / "a.txt").read_text() == "one\nzwei\n"
        assert not isinstance(here.app.screen, ConfirmationScreen)


async def test_the_reason_of_a_denial_reaches_the_model(workspace: Path) -> None:
    script: list[Reply] = [EDIT, {"expect": {"lastToolResultContains": "write it in French"}, "text": "Understood."}]
    async with open_dashboard(workspace, script) as here:
        await here.send("go")
        await here.wait_for_confirmation()
        await here.pilot.press("r", *"write it in French")
        await here.decide("enter")
        await here.wait_for("Understood.")
        assert "DENIED" in here.text
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"


async def test_changed_arguments_take_one_fresh_yes_and_are_what_runs(workspace: Path) -> None:
    async with open_dashboard(workspace, [EDIT, {"text": "Done."}]) as here:
        await here.send("go")
        await here.wait_for_confirmation()
        await here.pilot.press("e")
        area = here.app.screen.query_one("#confirm-area", TextArea)
        area.text = json.dumps({"path": "a.txt", "edits": [{"target": "one", "replacement": "eins"}]})
        await here.pilot.press("ctrl+s")
        await here.wait_for("EDITED")
        assert "+ eins" in here.text
        await here.wait_for_confirmation()
        await here.pilot.press("y")
        await here.wait_for("Done.")
        assert (workspace / "a.txt").read_text() == "eins\ntwo\n"


async def test_arguments_that_cannot_run_are_refused_in_the_form(workspace: Path) -> None:
    async with open_dashboard(workspace, [EDIT, {"text": "Done."}]) as here:
        await here.send("go")
        await here.wait_for_confirmation()
        await here.pilot.press("e")
        area = here.app.screen.query_one("#confirm-area", TextArea)
        area.text = json.dumps({"path": "/etc/passwd", "edits": [{"target": "root", "replacement": "x"}]})
        await here.pilot.press("ctrl+s")
        await here.wait_for("! ")
        await wait_until(here.pilot, lambda: "/etc/passwd" in here.text and "outside" in here.text.lower())
        await here.pilot.press("escape")
        await here.decide("n")
        await here.wait_for("Done.")


async def test_a_question_that_expires_denies_and_says_so(workspace: Path, own_folders: Path) -> None:
    config = own_folders / ".config" / "ollm-tui" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[confirm]\ntimeout = 0.3\n[ui]\nauto_open = "never"\n')
    async with open_dashboard(workspace, [EDIT, {"text": "Done."}]) as here:
        await here.send("go")
        await here.wait_for("EXPIRED")
        await here.wait_for("Done.")
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"


async def test_looking_at_a_question_holds_its_clock(workspace: Path, own_folders: Path) -> None:
    config = own_folders / ".config" / "ollm-tui" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text("[confirm]\ntimeout = 3\n")
    async with open_dashboard(workspace, [EDIT, {"text": "Done."}]) as here:
        await here.send("go")
        await here.wait_for_confirmation()
        await here.wait_for("HELD")
        await here.pilot.pause(3.2)
        await here.pilot.press("y")
        await here.wait_for("Done.")
        assert (workspace / "a.txt").read_text() == "one\nzwei\n"


async def test_a_person_types_into_the_terminal_of_the_agents_command(workspace: Path) -> None:
    command = "read x; echo got-$x > out.txt; cat out.txt"
    script = [
        tool_call("shell", command=command),
        {"expect": {"lastToolResultContains": 'terminal: "bread"'}, "text": "Thanks."},
    ]
    async with open_dashboard(workspace, script) as here:
        await here.send("go")
        screen = await here.wait_for_confirmation()
        assert command in here.text
        await here.decide("y")
        if screen.case.risk is Risk.HIGH:
            await here.decide("y")
        await here.wait_for("agent: read x")
        await here.pilot.press("ctrl+t")
        await wait_until(here.pilot, lambda: here.app.dashboard.term.captures_keys)
        await here.pilot.press(*"bread", "enter")
        await here.wait_for("got-bread")
        await here.wait_for("Thanks.")
        assert (workspace / "out.txt").read_text() == "got-bread\n"


async def test_a_selection_of_the_shells_output_reaches_the_model(workspace: Path) -> None:
    script: list[Reply] = [{"expect": {"lastUserMessageContains": "| sum-23\n[end of @term1]"}, "text": "I see it."}]
    async with open_dashboard(workspace, script) as here:
        await here.send("!echo sum-$((20+3))")
        # The prompt that follows marks the end of the output.
        await wait_until(here.pilot, lambda: bool(re.search("\n *sum-23 *\n *[^ \n]", here.text)))
        await here.pilot.press("f5")
        view = here.app.dashboard.term.view
        assert view is not None
        await wait_until(here.pilot, lambda: view.reader is not None)
        await here.pilot.press("left_square_bracket", "o", "s")
        await wait_until(here.pilot, lambda: "@term1 (1 line)" in here.app.dashboard.prompt.text)
        await here.send("what is that?")
        await here.wait_for("I see it.")


async def test_a_command_taken_over_outlives_the_interrupted_turn(workspace: Path) -> None:
    command = "read x; echo got-$x > out.txt"
    async with open_dashboard(workspace, [tool_call("shell", command=command), {"text": "Never said."}]) as here:
        await here.send("go")
        screen = await here.wait_for_confirmation()
        await here.decide("y")
        if screen.case.risk is Risk.HIGH:
            await here.decide("y")
        await here.wait_for("agent: read x")
        await here.pilot.press("f5")
        await wait_until(here.pilot, lambda: here.app.dashboard.term.has_focus_within)
        await here.pilot.press("t")
        await here.wait_for("YOURS")
        await here.pilot.press("ctrl+right_square_bracket", "escape", "escape")
        await here.wait_for("Esc again stops the turn")
        await here.pilot.press("escape")
        await here.wait_for("Interrupted.")
        await here.pilot.press("ctrl+t")
        await wait_until(here.pilot, lambda: here.app.dashboard.term.captures_keys)
        await here.pilot.press(*"late", "enter")
        await wait_until(here.pilot, lambda: (workspace / "out.txt").exists() and "\n" in _text(workspace))
        assert _text(workspace) == "got-late\n"


def _text(workspace: Path) -> str:
    return (workspace / "out.txt").read_text()


async def test_the_persons_shell_starts_on_first_focus_and_runs_what_the_prompt_sends(workspace: Path) -> None:
    async with open_dashboard(workspace) as here:
        await here.wait_for("Terminal: ^T your shell")
        await here.send("!echo sum-$((20+3))")
        await here.wait_for("sum-23")
        await here.pilot.press("ctrl+t")
        await wait_until(here.pilot, lambda: here.app.dashboard.term.captures_keys)
        await here.pilot.press(*"pwd", "enter")
        await here.wait_for("ws")
        await here.pilot.press("f1", "f6")
        assert here.app.screen is here.app.dashboard, "a program has the keyboard"
        await here.pilot.press("ctrl+right_square_bracket")
        await wait_until(here.pilot, lambda: here.app.dashboard.prompt.has_focus)


async def test_the_todo_list_follows_the_model_and_the_person(workspace: Path) -> None:
    script = [tool_call("write_todos", todos=[{"task": "read it"}, {"task": "write it"}]), {"text": "Planned."}]
    async with open_dashboard(workspace, script) as here:
        await here.send("plan")
        await here.wait_for("[ ] 2 write it")
        await here.wait_for_idle()
        await here.pilot.press("f6", "f6", "f6")
        await wait_until(here.pilot, lambda: here.app.dashboard.todo.has_focus_within)
        await here.pilot.press("space")
        await here.wait_for("[x] 1 read it")
        await here.pilot.press("a", *"rest", "enter")
        await here.wait_for("[ ] 3 rest")
        await here.pilot.press("k", "k")
        pane = here.app.dashboard.todo
        await here.decide("d", pane.guard)
        await wait_until(here.pilot, lambda: [todo.task for todo in pane.todos] == ["write it", "rest"])


async def test_modes_go_round_and_auto_edit_asks_no_more(workspace: Path) -> None:
    async with open_dashboard(workspace, [EDIT, {"text": "Done."}]) as here:
        await here.pilot.press("f4")
        await here.wait_for("policy: auto-edit")
        await here.send("go")
        await here.wait_for("Done.")
        assert (workspace / "a.txt").read_text() == "one\nzwei\n"


async def test_yolo_is_only_had_by_name_and_after_a_question(workspace: Path) -> None:
    async with open_dashboard(workspace) as here:
        await here.pilot.press("f4", "f4", "f4")
        await here.wait_for("policy: ask")
        await here.send("/mode yolo")
        await here.wait_for("runs without a question")
        await here.pilot.press("enter")
        assert "policy: ask" in here.text
        await here.decide("y")
        await here.wait_for("policy: yolo")


async def test_a_faulty_policy_denies_everything_and_says_why_and_where(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    policy = Path("policy.toml")  # a long path would be broken between two lines of the screen
    policy.write_text('preset = "balanced"\nsurprise = 1\n')
    script = [tool_call("read_file", path="a.txt"), {"text": "I could not."}]
    async with open_dashboard(workspace, script, options=Options(policy_file=policy)) as here:
        await here.wait_for("DENIES ALL")
        await here.wait_for("policy.toml")
        await here.send("go")
        await here.wait_for("DENIED")


async def test_faults_of_config_and_theme_files_are_on_the_screen(workspace: Path, own_folders: Path) -> None:
    folder = own_folders / ".config" / "ollm-tui"
    (folder / "themes").mkdir(parents=True)
    (folder / "themes" / "bad.toml").write_text('name = "bad"\n[colors]\nprimary = "nocolour"\n')
    (folder / "config.toml").write_text('[keys]\n"queue.revew" = "f9"\n')
    async with open_dashboard(workspace) as here:
        await here.pilot.resize_terminal(200, 40)  # the folder's name alone is longer than a line otherwise
        await here.wait_for("bad.toml:3")
        await here.wait_for("queue.revew")
        assert here.app.is_running


async def test_a_server_that_is_down_is_named_and_r_tries_again(workspace: Path) -> None:
    async with open_dashboard(
        workspace, options=Options(provider="openai", base_url="http://127.0.0.1:9/v1", model="m")
    ) as here:
        await here.send("hello there")
        await here.wait_for("127.0.0.1:9")
        await here.wait_for_idle()
        assert here.text.splitlines()[0].startswith(" ERROR")
        assert "hello there" in here.text
        await here.pilot.press("f6")
        await wait_until(here.pilot, lambda: here.app.dashboard.chat.transcript.has_focus)
        await here.pilot.press("r")
        await wait_until(here.pilot, lambda: here.text.count("! ProviderError") >= 2)


async def test_escape_stops_the_turn_and_its_question_goes(workspace: Path, own_folders: Path) -> None:
    config = own_folders / ".config" / "ollm-tui" / "config.toml"
    config.parent.mkdir(parents=True)
    config.write_text('[ui]\nauto_open = "never"\n')
    async with open_dashboard(workspace, [EDIT, {"text": "Done."}]) as here:
        await here.send("go")
        await here.wait_for("WAITING 1")
        await here.pilot.press("escape")
        await here.wait_for("Esc again stops the turn")
        await here.pilot.press("escape")
        await here.wait_for("Interrupted.")
        assert "WAITING" not in here.text.splitlines()[0]
        assert (workspace / "a.txt").read_text() == "one\ntwo\n"


async def test_without_a_model_it_says_so_in_the_status_and_in_a_first_message(workspace: Path) -> None:
    async with open_dashboard(workspace) as here:
        await here.wait_for("No AI model is connected")
        assert here.text.splitlines()[0].startswith(" OFFLINE")


@pytest.mark.parametrize("allowed", [False, True])
async def test_a_program_writes_the_clipboard_only_where_the_settings_allow_it(
    workspace: Path, own_folders: Path, allowed: bool
) -> None:
    config = own_folders / ".config" / "ollm-tui" / "config.toml"
    config.parent.mkdir(parents=True, exist_ok=True)
    config.write_text(f"[terminal]\nclipboard = {str(allowed).lower()}\n")
    command = r"printf '\033]52;c;?\007\033]52;c;%s\007' $(printf 'from afar' | base64); echo drawn; read x"
    async with open_dashboard(
        workspace, [tool_call("shell", command=command), {"text": "Done."}], options=Options(mode="yolo")
    ) as here:
        await here.send("go")
        await here.wait_for("drawn")
        if allowed:
            await wait_until(here.pilot, lambda: here.app.clipboard == "from afar")
            await here.wait_for("put 9 characters on the clipboard")
        await here.pilot.pause(0.1)
        assert here.app.clipboard == ("from afar" if allowed else "")


async def test_a_session_that_cannot_be_recorded_says_so_until_it_can(workspace: Path) -> None:
    sessions = state_dir() / "sessions"
    sessions.parent.mkdir(parents=True, exist_ok=True)
    sessions.write_text("a file where the folder should be")
    async with open_dashboard(workspace, [{"text": "Hello."}, {"text": "Hello again."}]) as here:
        await here.wait_for("NOT RECORDED")
        await here.wait_for("The session is not recorded")
        sessions.unlink()
        await here.send("go")
        await here.wait_for("The session is recorded again")
        await here.wait_until(lambda: "NOT RECORDED" not in here.text)


async def test_the_log_of_a_dashboard_begins_with_the_session(workspace: Path) -> None:
    async with open_dashboard(workspace, [{"text": "Hello."}]) as here:
        await here.send("go")
        await here.wait_for("Hello.")
    [log] = (state_dir() / "sessions").glob("*/events.jsonl")
    first = json.loads(log.read_text().splitlines()[0])
    assert (first["type"], first["id"], first["workspace"]) == ("session_started", 1, str(workspace.resolve()))


async def test_the_branch_and_whether_anything_is_changed_stand_in_the_status_line(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "ws", {"base": "base\n"})
    async with open_dashboard(root, [tool_call("write_todos", action="add", task="t"), {"text": "Done."}]) as here:
        await here.wait_for("| main |")
        (root / "base").write_text("other\n")
        await here.send("go")
        await here.wait_for("| main* |")


async def test_the_installation_and_the_session_are_told_by_commands(workspace: Path) -> None:
    async with open_dashboard(workspace, [{"text": "Forty-two."}]) as here:
        await here.send("what is it?")
        await here.wait_for("Forty-two.")
        await here.send("/doctor")
        await here.wait_for("ok     workspace:")
        await here.send("/export talk.md")
        await here.wait_for("Written:")
        assert (
            "what is it?" in (workspace / "talk.md").read_text() and "Forty-two." in (workspace / "talk.md").read_text()
        )
        await here.send("/export talk.md")
        await here.wait_for("is there already")


async def test_a_real_shells_commands_have_dots_and_are_typed_again_by_a_key(workspace: Path) -> None:
    async with open_dashboard(workspace, []) as here:
        await here.send("!(echo once >> ran; exit 3)")
        await here.wait_for("●")
        await here.press("ctrl+t", "ctrl+right_square_bracket", "f5", "left_square_bracket")
        await here.wait_for("READING  exit 3, ")
        # The end of a command and the next prompt may come in two pieces: before the second nothing is typed.
        view = here.app.dashboard.term.view
        await here.wait_until(lambda: view is not None and view.marks.at_prompt)
        await here.press("r")
        await here.wait_until(lambda: here.text.count("(echo once >> ran; exit 3)") == 2)
        assert (workspace / "ran").read_text() == "once\n"
        await here.press("enter")
        await here.wait_until(lambda: here.text.count("●") == 2)
        assert (workspace / "ran").read_text() == "once\nonce\n"


async def test_retry_before_the_first_message_asks_the_model_nothing(workspace: Path) -> None:
    async with open_dashboard(workspace, [{"text": "Hello."}]) as here:
        await here.send("/retry")
        await here.wait_for("There is no message yet")
        await here.send("go")
        await here.wait_for("Hello.")
