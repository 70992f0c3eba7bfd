"""ctrl+g: the draft in the person's own editor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.testing.dashboard_harness import wait_until
from tests.tui.pilot import Stage, stage


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A headless screen cannot be lent: what would be done to it."""
    done: list[str] = []

    @contextmanager
    def suspend(_: object) -> Iterator[None]:
        done.append("lent")
        yield
        done.append("back")

    monkeypatch.setattr("textual.app.App.suspend", suspend)
    return done


def editor(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = folder / "my editor"
    program.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    program.chmod(0o755)
    monkeypatch.setenv("EDITOR", "false")
    monkeypatch.setenv("VISUAL", f"'{program}' --wait")
    return program


async def told(here: Stage, said: str) -> None:
    """A toast breaks its lines, so its words are looked for in what it was given."""
    await wait_until(here.pilot, lambda: any(said in toast.message for toast in here.app._notifications))


def left_behind() -> list[Path]:
    return list((state_dir() / "prompts").glob("editor-*"))


async def test_the_draft_is_written_in_visual_and_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lent: list[str]
) -> None:
    script = f'[ "$1" = --wait ] && stat -c %a "$2" > {tmp_path}/mode && cp "$2" {tmp_path}/given'
    editor(tmp_path, f'{script} && printf "first\\nse\\033cond\\n" > "$2"', monkeypatch)
    async with stage() as here:
        prompt = here.app.dashboard.prompt
        prompt.insert("a draft: 日本")
        await here.press("ctrl+g")
        await wait_until(here.pilot, lambda: prompt.text == "first\nsecond")
        assert (tmp_path / "given").read_text(encoding="utf-8") == "a draft: 日本"
        assert (tmp_path / "mode").read_text().strip() == "600"
        assert prompt.cursor_location == (1, 6)
        await wait_until(here.pilot, lambda: not left_behind())
        assert lent == ["lent", "back"]
        await here.press("ctrl+z")
        assert prompt.text == "a draft: 日本"


async def test_what_was_pasted_and_folded_is_there_whole_and_stays_folded_when_nothing_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lent: list[str]
) -> None:
    editor(tmp_path, f'cp "$2" {tmp_path}/given', monkeypatch)
    pasted = "\n".join(f"line {number}" for number in range(40))
    async with stage() as here:
        prompt = here.app.dashboard.prompt
        prompt.insert(prompt._pastes.fold(pasted))
        folded = prompt.text
        assert "line 39" not in folded
        await here.press("ctrl+g")
        await wait_until(here.pilot, lambda: (tmp_path / "given").exists() and not left_behind())
        await here.settle()
        assert (tmp_path / "given").read_text().rstrip() == pasted
        assert prompt.text == folded


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('printf spoilt > "$2"; exit 3', "my editor ended with 3, so the draft stays as it was."),
        ('rm "$2"', "What the editor wrote cannot be read: No such file or directory."),
        ('head -c 1000002 /dev/zero > "$2"', "longer than 1,000,000 bytes"),
    ],
)
async def test_an_editor_that_fails_leaves_the_draft_and_is_told_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lent: list[str], script: str, said: str
) -> None:
    editor(tmp_path, script, monkeypatch)
    async with stage(size=(200, 40), notifications=True) as here:
        here.app.dashboard.prompt.insert("kept")
        await here.press("ctrl+g")
        await told(here, said)
        assert here.app.dashboard.prompt.text == "kept"
        assert lent == ["lent", "back"]
        await wait_until(here.pilot, lambda: not left_behind())


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("no-such-editor -f", "no-such-editor of $EDITOR is not there. Set $VISUAL or $EDITOR to one that is there."),
        ("'vi", "$EDITOR cannot be read as a command: No closing quotation."),
    ],
)
async def test_an_editor_that_is_not_there_is_told_of_before_the_screen_is_lent(
    monkeypatch: pytest.MonkeyPatch, lent: list[str], command: str, said: str
) -> None:
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv("EDITOR", command)
    async with stage(size=(200, 40), notifications=True) as here:
        here.app.dashboard.prompt.insert("kept")
        await here.press("ctrl+g")
        await told(here, said)
        assert here.app.dashboard.prompt.text == "kept"
        assert lent == [] and not left_behind()


async def test_a_program_that_cannot_run_gives_the_screen_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lent: list[str]
) -> None:
    editor(tmp_path, "", monkeypatch).write_bytes(b"\x7fELF")
    async with stage(size=(200, 40), notifications=True) as here:
        await here.press("ctrl+g")
        said = "could not be started: Exec format error"
        await told(here, said)
        assert lent == ["lent", "back"]


async def test_what_came_into_the_prompt_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lent: list[str]
) -> None:
    os.mkfifo(tmp_path / "go")
    editor(tmp_path, f'cat {tmp_path}/go > "$2"', monkeypatch)
    async with stage() as here:
        prompt = here.app.dashboard.prompt
        prompt.insert("old")
        await here.press("ctrl+g")
        await wait_until(here.pilot, lambda: here.app.editor.is_open)
        prompt.put_back("could not be sent")
        (tmp_path / "go").write_text("new")
        await wait_until(here.pilot, lambda: prompt.text == "new\ncould not be sent\nold")


async def test_without_a_terminal_of_its_own_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VISUAL", "true")
    async with stage(size=(200, 40), notifications=True) as here:
        await here.press("ctrl+g")
        await wait_until(here.pilot, lambda: "needs a terminal of its own" in here.text, what=lambda: here.text)
        await wait_until(here.pilot, lambda: not left_behind())


async def test_the_palette_has_it() -> None:
    async with stage() as here:
        await here.press("ctrl+p")
        await here.pilot.press(*"Editor")
        await wait_until(here.pilot, lambda: "Write the draft in $VISUAL" in here.text, what=lambda: here.text)
