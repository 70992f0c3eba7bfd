"""`--plain`: the agent line by line in a real terminal; a question is decided by a whole word that came after it."""

from __future__ import annotations

import re
from pathlib import Path

from tests.agent.providers.fake_server import FakeServer, json_reply
from tests.e2e.outer import QUIET, OuterTerminal
from tests.runtime.test_models import SHOW, TAGS


async def test_questions_are_answered_by_words_and_what_is_typed_too_soon_decides_nothing(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "file").write_text("x")
    terminal = OuterTerminal.start("--plain", "--provider", "offline", cwd=tmp_path, columns=100, lines=60)
    await terminal.sees("/quit leaves.")
    await terminal.type("run touch new", "enter", "yes", "enter")
    await terminal.sees("Type yes to approve once")
    await terminal.sees(lambda text: "Too soon to be an answer: yes" in text or "kept as a message: yes" in text)
    await terminal.rests(QUIET)
    assert not (tmp_path / "new").exists()
    await terminal.type("perhaps", "enter")
    await terminal.sees("That is no answer.")
    await terminal.type("no call it other", "enter")
    await terminal.sees("Failed: shell, call it other")
    await terminal.sees("The turn is completed.")
    await terminal.type("run rm -rf old", "enter")
    await terminal.sees("risk high")
    await terminal.rests(QUIET)
    await terminal.type("yes", "enter")
    await terminal.sees("type yes once more")
    assert (tmp_path / "old").exists()
    await terminal.rests(QUIET)
    await terminal.type("yes", "enter")
    await terminal.sees("Done: shell")
    assert not (tmp_path / "old").exists()
    await terminal.type("/quit", "enter")
    assert await terminal.ends() == 0


async def test_commands_answer_in_words_and_what_they_change_is_asked_first(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    terminal = OuterTerminal.start(
        "--plain", "--provider", "offline", "--mode", "auto-edit", cwd=tmp_path, columns=100, lines=120
    )
    await terminal.sees("/help lists the commands")
    await terminal.type("/help", "enter")
    await terminal.sees("Everything else is a message.")
    assert "/undo [NAME]" in terminal.text
    await terminal.type('replace "one" with "two" in a.txt', "enter")
    await terminal.sees("The turn is completed.")
    assert (tmp_path / "a.txt").read_text() == "two\n"
    await terminal.type("/undo", "enter")
    await terminal.sees("Type /undo and a name")
    (name,) = re.findall(r"^(\w+): .*1 path$", terminal.text, re.MULTILINE)
    await terminal.type(f"/undo {name}", "enter")
    await terminal.sees("Undo this? Type yes or no; then Enter.")
    await terminal.rests(QUIET)
    assert (tmp_path / "a.txt").read_text() == "two\n"
    await terminal.type("yes", "enter")
    await terminal.sees("Your files went back")
    assert (tmp_path / "a.txt").read_text() == "one\n"
    await terminal.type("/mode yolo", "enter")
    await terminal.sees(lambda text: "deletions ask. Type yes or no" in text.replace("\n", " "))
    await terminal.rests(QUIET)
    await terminal.type("no", "enter", "/mode", "enter")
    await terminal.sees("Policy: auto-edit.\n>")
    await terminal.type("/nothing", "enter")
    await terminal.sees("There is no /nothing.")
    await terminal.type("/quit", "enter")
    assert await terminal.ends() == 0


async def test_another_session_is_begun_and_the_first_one_gone_on_with(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\n")
    terminal = OuterTerminal.start("--plain", "--provider", "offline", cwd=tmp_path, columns=100, lines=120)
    await terminal.sees("/help lists the commands")
    await terminal.type("read a.txt", "enter")
    await terminal.sees("The turn is completed.")
    await terminal.type("/new", "enter")
    await terminal.sees(", new.")
    await terminal.type("/resume", "enter")
    await terminal.sees("1. read a.txt")
    await terminal.type("/resume 1", "enter")
    await terminal.sees("answers so far.")
    await terminal.type("/export told.md", "enter")
    await terminal.sees("Note: Written:")
    assert "read a.txt" in (tmp_path / "told.md").read_text()
    await terminal.type("/policy git push", "enter")
    await terminal.sees("ask: no approval covers 'git push'")
    await terminal.type("/copy", "enter")
    await terminal.sees("> /copy\nDone: the result of")
    await terminal.type("/quit", "enter")
    assert await terminal.ends() == 0


async def test_the_end_of_the_input_below_a_question_denies_and_leaves(tmp_path: Path) -> None:
    terminal = OuterTerminal.start("--plain", "--provider", "offline", cwd=tmp_path, columns=100, lines=60)
    await terminal.sees("/help lists the commands")
    await terminal.type("run touch new", "enter")
    await terminal.sees("Type yes to approve once")
    await terminal.rests(QUIET)
    terminal.send(b"\x04")
    assert await terminal.ends() == 0
    assert "Failed: shell" in terminal.text
    assert not (tmp_path / "new").exists()


async def test_ctrl_c_below_the_question_of_a_command_stops_it_and_the_end_of_the_input_leaves(tmp_path: Path) -> None:
    terminal = OuterTerminal.start("--plain", "--provider", "offline", cwd=tmp_path, columns=100, lines=60)
    await terminal.sees("/help lists the commands")
    await terminal.type("/mode yolo", "enter")
    await terminal.sees("then Enter.")
    terminal.send(b"\x03")
    await terminal.sees("Stopped.")
    await terminal.type("/mode yolo", "enter")
    await terminal.sees(lambda text: text.count("then Enter.") == 2)
    terminal.send(b"\x04")
    assert await terminal.ends() == 0


async def test_the_model_in_use_is_named_before_the_first_message(tmp_path: Path) -> None:
    async with FakeServer() as server:
        server.always("/api/tags", json_reply(TAGS))
        server.always("/api/show", json_reply(SHOW))
        given = ("--plain", "--provider", "ollama", "--base-url", server.url)
        terminal = OuterTerminal.start(*given, cwd=tmp_path, columns=100, lines=60)
        await terminal.sees("Model: qwen3:8b. ")
        assert "the first of 2 models" in terminal.text
        await terminal.type("/quit", "enter")
        assert await terminal.ends() == 0
