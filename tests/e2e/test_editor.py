"""ctrl+g in a real terminal: the editor gets the screen and its keys, and gives both back."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ollm_tui.core.base.app_dirs import state_dir
from tests.e2e.outer import QUIET, OuterTerminal

EDITOR = r"""#!/bin/sh
# An editor of one line: it shows the draft, lives through ctrl+c as vi does, and writes what is typed.
trap 'echo interrupted' INT
clear
echo "editing: $(cat "$1")"
while ! IFS= read -r line; do :; done
[ "$line" = fail ] && exit 7
printf '%s\n' "$line" "and a second line" > "$1"
"""


@pytest.fixture
async def terminal(tmp_path: Path) -> AsyncIterator[OuterTerminal]:
    program = tmp_path / "editor"
    program.write_text(EDITOR, encoding="utf-8")
    program.chmod(0o755)
    workspace = tmp_path / "workspace"
    workspace.mkdir()
    made = OuterTerminal.start(cwd=workspace, environment={"VISUAL": str(program), "OLLM_PROVIDER": "offline"})
    await made.sees("Ask for something")
    yield made
    await made.close()


async def opened(terminal: OuterTerminal) -> None:
    await terminal.type(*"a draft", "\x07")
    await terminal.sees("editing: a draft")
    assert "Ask for something" not in terminal.text and "IDLE" not in terminal.text


async def test_the_editor_has_the_terminal_until_it_ends(terminal: OuterTerminal) -> None:
    await opened(terminal)
    await terminal.type("\x03")
    await terminal.sees("interrupted")
    await terminal.type("written outside\r")
    await terminal.sees(lambda text: "written outside" in text and "and a second line" in text and "OFFLINE" in text)
    assert "interrupted" not in terminal.text
    await terminal.type(*" and typed here")
    await terminal.sees("and a second line and typed here")
    assert not [*(state_dir() / "prompts").glob("editor-*")]


async def test_an_editor_that_fails_leaves_the_draft(terminal: OuterTerminal) -> None:
    await opened(terminal)
    await terminal.type("fail\r")
    await terminal.sees("editor ended with 7, so the draft stays")
    await terminal.sees("a draft")


async def test_stopped_and_continued_the_editor_still_has_the_terminal(terminal: OuterTerminal) -> None:
    await opened(terminal)
    os.kill(terminal.pid, signal.SIGSTOP)
    os.kill(terminal.pid, signal.SIGCONT)
    await terminal.rests(QUIET)
    assert "editing: a draft" in terminal.text
    await terminal.type("afterwards\r")
    await terminal.sees("and a second line")


async def test_a_signal_meanwhile_ends_the_program_and_the_editor(terminal: OuterTerminal) -> None:
    await opened(terminal)
    os.kill(terminal.pid, signal.SIGTERM)
    assert await terminal.ends() == 130
    await asyncio.sleep(0)
    assert not [*(state_dir() / "prompts").glob("editor-*")]
