"""`--plain`: the agent line by line in a real terminal; a question is decided by a whole word that came after it."""

from __future__ import annotations

from pathlib import Path

from tests.e2e.outer import QUIET, OuterTerminal


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
