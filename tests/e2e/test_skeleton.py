"""The first picture: there before the toolkit is, and no key typed into it is lost or decides anything."""

from __future__ import annotations

import asyncio
import os
import signal
import termios
from pathlib import Path

import pytest

from ollm_tui.tui.skeleton import picture
from tests.e2e.outer import OuterTerminal


@pytest.mark.parametrize(("columns", "lines"), [(120, 40), (80, 24)])
async def test_keys_typed_before_the_dashboard_is_there_arrive_in_their_order(
    tmp_path: Path, columns: int, lines: int
) -> None:
    terminal = OuterTerminal.start("--provider", "offline", cwd=tmp_path, columns=columns, lines=lines)
    try:
        await terminal.sees("STARTING")
        top = next(at for at, row in enumerate(terminal.text.splitlines()) if "Prompt" in row)
        terminal.send("hello wörld".encode())
        terminal.send(b" zq")
        await terminal.sees(lambda text: "hello wörld zq" in text and "STARTING" not in text)
        rows = terminal.text.splitlines()
        assert "hello wörld zq" in rows[top + 1] and "Prompt" in rows[top], "it stands where the picture said"
    finally:
        await terminal.close()


@pytest.mark.parametrize("entered", [1, 2], ids=["before the toolkit", "as the toolkit begins"])
async def test_a_start_that_is_stopped_leaves_the_terminal_as_it_was(tmp_path: Path, entered: int) -> None:
    terminal = OuterTerminal.start("--provider", "offline", cwd=tmp_path)
    try:
        async with asyncio.timeout(20):
            while terminal.entered < entered:
                await asyncio.sleep(0)
        os.kill(terminal.pid, signal.SIGTERM)
        assert await terminal.ends() in (0, 130, 143)
        after = termios.tcgetattr(terminal.descriptor)
        assert after[3] & termios.ECHO and after[3] & termios.ICANON and after[0] & termios.ICRNL
    finally:
        await terminal.close()


@pytest.mark.parametrize(("columns", "rows"), [(200, 60), (120, 40), (99, 30), (40, 10)])
def test_the_picture_has_the_size_of_the_window(columns: int, rows: int) -> None:
    lines = picture(columns, rows).split("\r\n")
    assert len(lines) == rows and max(map(len, lines)) == columns
    assert lines[0] == " STARTING"
