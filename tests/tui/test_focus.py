"""Where keys go: Esc leads back to the prompt, Tab completes there, and letters that mean nothing are typed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.todos.todo import TodoStatus
from ollm_tui.options import Options
from ollm_tui.testing.dashboard_harness import wait_until
from ollm_tui.tui.layout import Pane
from ollm_tui.tui.protocol import updates
from ollm_tui.tui.protocol.intents import (
    Connect,
    DenyConfirmations,
    InterruptTurn,
    RemoveTodo,
    RestoreTodo,
    SendMessage,
)
from ollm_tui.tui.slash_commands import SlashCommand
from ollm_tui.tui.values import Activity, EntriesChanged, NoteEntry, NoteKind
from ollm_tui.tui.widgets.prompt_completion import DraftCompleter
from tests.tui.pilot import Stage, question, stage, todo

SIZES = pytest.mark.parametrize("size", [(120, 40), (80, 24)], ids=["wide", "narrow"])


async def fill(here: Stage) -> None:
    said = updates.ConversationUpdate(EntriesChanged((NoteEntry("n1", "Hello.", NoteKind.NOTICE),)))
    await here.post(said, updates.TodosUpdate((todo("t1", "Read it", TodoStatus.PENDING),)))
    await here.show_queue(question())
    await here.press("escape")  # the question opened by itself


@SIZES
@pytest.mark.parametrize("pane", [Pane.CHAT, Pane.QUEUE, Pane.TODO])
async def test_escape_leads_from_every_pane_to_the_prompt_and_stops_nothing(size: tuple[int, int], pane: Pane) -> None:
    async with stage(size) as here:
        await fill(here)
        await here.post(updates.ActivityUpdate(Activity.RUNNING, "shell"))
        here.app.dashboard.go_to(pane)
        await here.settle()
        assert not here.app.dashboard.prompt.has_focus
        await here.press("escape")
        assert here.app.dashboard.prompt.has_focus
        assert here.backend.of(InterruptTurn) == []


async def test_escape_leads_back_from_a_terminal_whose_program_has_ended() -> None:
    async with stage() as here:
        here.app.dashboard.term.focus_target.focus()
        await here.settle()
        await here.press("escape")
        assert here.app.dashboard.prompt.has_focus


async def test_the_turn_is_stopped_by_escape_twice_and_the_first_says_what_that_stops() -> None:
    async with stage(notifications=True) as here:
        await here.post(updates.ActivityUpdate(Activity.RUNNING, "shell"))
        await here.press("escape")
        assert here.backend.of(InterruptTurn) == []
        assert "Esc again stops the turn and shell." in here.text
        await here.press("escape")
        assert len(here.backend.of(InterruptTurn)) == 1


async def test_escapes_that_are_far_apart_or_have_a_key_between_them_stop_nothing() -> None:
    async with stage() as here:
        await here.post(updates.ActivityUpdate(Activity.RUNNING, "shell"))
        await here.press("escape")
        here.clock.seconds += 1.6
        await here.press("escape", "x", "escape")
        assert here.backend.of(InterruptTurn) == []


async def test_putting_a_question_off_is_no_first_escape() -> None:
    async with stage() as here:
        await here.post(updates.ActivityUpdate(Activity.RUNNING, "shell"))
        await here.show_queue(question())
        await here.press("f8")
        assert here.modal is not None
        await here.press("escape", "escape")
        assert here.modal is None
        assert here.backend.of(InterruptTurn) == []


@SIZES
async def test_a_letter_that_is_no_key_of_the_pane_is_typed_into_the_prompt(size: tuple[int, int]) -> None:
    async with stage(size) as here:
        await fill(here)
        for pane, letters in ((Pane.CHAT, "What"), (Pane.TODO, "what"), (Pane.QUEUE, "yes")):
            here.app.dashboard.prompt.text = ""
            here.app.dashboard.go_to(pane)
            await here.settle()
            await here.burst(*letters)
            assert here.app.dashboard.prompt.text == letters, pane
            assert here.app.dashboard.prompt.has_focus
        assert here.backend.of(DenyConfirmations) == here.backend.of(RemoveTodo) == []


async def test_a_deleted_todo_comes_back_with_one_key() -> None:
    async with stage() as here:
        await fill(here)
        here.app.dashboard.go_to(Pane.TODO)
        await here.settle()
        await here.press("u")
        assert len(here.backend.of(RestoreTodo)) == 1


async def test_tab_completes_in_the_prompt_and_never_leaves_it(tmp_path: Path) -> None:
    (tmp_path / "README.md").touch()
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "read.py").touch()
    (tmp_path / "src" / "real.py").touch()
    async with stage(options=Options(workspace=tmp_path)) as here:
        prompt = here.app.dashboard.prompt

        async def tab(typed: str, completed: str) -> None:
            prompt.text = ""
            await here.press(*typed, "tab")
            await wait_until(here.pilot, lambda: prompt.text == completed, what=lambda: f"{prompt.text!r}")
            assert prompt.has_focus

        await tab("/me", "/memory ")
        await tab("/mode pl", "/mode plan ")
        await tab("see @READ", "see @README.md ")
        await tab("see @src/rd", "see @src/read.py ")
        await tab("see @rel", "see @src/real.py ")
        await tab("!cat src/read", "!cat src/read.py ")
        await tab("nothing", "nothing")
        await here.press("shift+tab", "x")
        assert prompt.text == "nothingx"


@pytest.mark.parametrize(
    ("typed", "choices"),
    [
        ("/", ("/help", "/mode")),
        ("/hp", ("/help",)),
        ("/x", ()),
        ("/mode a", ("ask", "auto-edit", "plan")),
        ("/mode ask a", ()),
        ("/etc @.h", ("@.hidden",)),
        ("a\n@b", ("@bin/", "@bold", '@"bin/x y"')),
        ("@", ("@bin/", "@bold", '@"bin/x y"')),
        ("@bxy", ('@"bin/x y"',)),
        ("@bin/x", ('@"bin/x y"',)),
        ("@./b", ("@./bin/", "@./bold")),
        ("@none/", ()),
        ("!b", ("bin/", "bold")),
        ("! ls bo", ("bold",)),
        ("b", ()),
        ("", ()),
    ],
)
def test_what_can_be_completed(tmp_path: Path, typed: str, choices: tuple[str, ...]) -> None:
    (tmp_path / "bin").mkdir()
    for name in ("bold", ".hidden", "bin/x y", "b\x1b[2J"):
        (tmp_path / name).touch()
    completer = DraftCompleter()
    completer.folder = tmp_path
    completer.commands = [
        SlashCommand("help", "Help", print),
        SlashCommand("mode", "Mode", print, words=lambda: ("ask", "auto-edit", "plan")),
    ]
    assert tuple(choice.text for choice in completer.complete(typed).choices) == choices


def test_files_that_git_ignores_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / ".gitignore").write_text("built/\n")
    for folder in ("built", "src"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "main.py").touch()
    completer = DraftCompleter()
    completer.folder = tmp_path
    assert [choice.text for choice in completer.complete("@main").choices] == ["@src/main.py"]


async def test_the_menu_of_commands_opens_moves_completes_and_closes() -> None:
    async with stage() as here:
        prompt = here.app.dashboard.prompt
        await here.press("/")
        assert prompt.menu.display and "/compact [WORDS]" in here.text
        await here.press("c", "o", "down", "enter")
        assert prompt.text == "/connect " and not here.backend.of(Connect)
        await here.press("enter")
        assert here.backend.of(Connect) and not prompt.menu.display
        await here.press("/", "t", "escape")
        assert not prompt.menu.display and prompt.text == "/t" and prompt.has_focus
        await here.press("h")
        assert not prompt.menu.display
        await here.press("ctrl+a", "ctrl+k", "/")
        assert prompt.menu.display


async def test_what_was_sent_and_the_draft_are_there_in_the_next_session(tmp_path: Path) -> None:
    options = Options(workspace=tmp_path)
    async with stage(options=options) as here:
        for text in ("run the tests", "explain main.py"):
            await here.press(*text, "enter")
        await here.press(*"half a thought")
        drafts = state_dir() / "prompts"
        await wait_until(
            here.pilot, lambda: any(file.read_text() == "half a thought" for file in drafts.glob("*.draft"))
        )
    async with stage(options=options) as here:
        prompt = here.app.dashboard.prompt
        await wait_until(here.pilot, lambda: prompt.text == "half a thought")
        await here.press("ctrl+a", "ctrl+k", "up", "up")
        assert prompt.text == "run the tests"
        await here.press("ctrl+a", "ctrl+k", *"main", "ctrl+r")
        assert prompt.menu.display and "explain main.py" in here.text
        await here.press("enter")
        assert prompt.text == "explain main.py" and not here.backend.of(SendMessage)
        await here.press("ctrl+r", *"zzz", "enter")
        await here.press("enter")
        assert not here.backend.of(SendMessage)  # words to search by are no message
        assert "Esc back" in here.text and "Sent before" in here.text
        await here.press("escape")
        assert prompt.text == "explain main.py" and "Esc back" not in here.text and "/cmd" in here.text
        await here.press("ctrl+a", "ctrl+k", "ctrl+r", "ctrl+r", "enter")
        assert prompt.text == "run the tests", "the one before the newest"
