"""The installed program in a terminal of its own: what becomes of jobs when it goes, and when the terminal does."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.shell.detached_jobs import JobRecords
from tests.core.shell.conftest import alive, until
from tests.e2e.outer import QUIET, OuterTerminal

JOB = "echo up; until [ -e stop ]; do echo tick; sleep 0.05; done; echo last words"


@pytest.fixture
async def folder(tmp_path: Path) -> AsyncIterator[Path]:
    """A workspace with a script that starts one job; nothing of it is left in the end."""
    folder = tmp_path / "ws"
    folder.mkdir()
    script = [
        {"toolCalls": [{"name": "shell", "arguments": {"command": JOB, "background": True}}]},
        {"text": "It is up."},
    ]
    (tmp_path / "script.json").write_text(json.dumps(script))
    yield folder
    book = JobRecords(state_dir() / "jobs", folder.resolve())
    for job in await asyncio.to_thread(book.detached):
        await asyncio.to_thread(book.end, job.record, 0.3)


async def with_a_job(folder: Path, columns: int = 80, lines: int = 24) -> tuple[OuterTerminal, int]:
    """The dashboard with its job running, and the job's pid."""
    arguments = ("--provider", "scripted", "--script", str(folder.parent / "script.json"), "--mode", "yolo", "go")
    terminal = OuterTerminal.start(*arguments, cwd=folder, columns=columns, lines=lines)
    await terminal.sees("It is up.")
    [record] = (state_dir() / "jobs").glob("*.json")
    return terminal, int(json.loads(record.read_text())["pid"])


async def test_a_job_that_is_left_outlives_program_and_terminal_and_is_named_where_the_person_comes_back_to(
    folder: Path,
) -> None:
    terminal, pid = await with_a_job(folder)
    await terminal.type("^q")
    await terminal.sees("l quit, leave running")
    await asyncio.sleep(QUIET)
    await terminal.type("l")
    assert await terminal.ends() == 0
    await terminal.sees(f"still running: j1 (pid {pid})")
    await terminal.close()
    assert alive(pid)
    again = OuterTerminal.start("--provider", "offline", cwd=folder)
    await again.sees("Still running since you left: j1")
    (folder / "stop").touch()
    await until(lambda: not alive(pid))
    [log] = [Path(found) for found in re.findall(r'"log": "(.*)"', _record())]
    await until(lambda: log.read_text().endswith("last words\n"))
    assert log.read_text().startswith("up\ntick\n") and "rror" not in log.read_text()
    await again.type("^q")
    assert await again.ends() == 0
    await again.close()


def _record() -> str:
    [record] = (state_dir() / "jobs").glob("*.json")
    return record.read_text()


@pytest.mark.parametrize("how", ["closed", signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1])
async def test_a_terminal_that_closes_and_signals_end_program_and_jobs(folder: Path, how: str | signal.Signals) -> None:
    terminal, job = await with_a_job(folder)
    program = terminal.pid
    if isinstance(how, signal.Signals):
        os.kill(program, how)
        assert await terminal.ends() == 130
        await terminal.sees(f"ended with this process: j1 (pid {job})")
    else:
        terminal.vanish()
        assert await terminal.ends() == 130
    assert not alive(job)
    assert list((state_dir() / "jobs").iterdir()) == []
    assert not [*(state_dir() / "sessions").glob("*/running")]
    if isinstance(how, signal.Signals):
        await terminal.close()


async def test_a_program_that_was_stopped_and_continued_takes_every_key_once(folder: Path) -> None:
    terminal, job = await with_a_job(folder)
    for _ in range(2):
        os.kill(terminal.pid, signal.SIGSTOP)
        entered = terminal.entered
        os.kill(terminal.pid, signal.SIGCONT)
        await until(lambda before=entered: terminal.entered > before)
    await terminal.type(*"typed again")
    await terminal.sees("typed again")
    await asyncio.sleep(QUIET)
    await terminal.type("^q")
    await terminal.sees("quit and end all")
    await asyncio.sleep(QUIET)
    await terminal.type("y")
    assert await terminal.ends() == 0
    assert not alive(job)


@pytest.mark.parametrize(("columns", "lines"), [(120, 40), (80, 24)])
async def test_the_list_of_jobs_by_keys(folder: Path, columns: int, lines: int) -> None:
    terminal, job = await with_a_job(folder, columns, lines)
    await terminal.type("f3")
    await terminal.sees(f"pid {job}, 2 processes")
    await terminal.type("x")
    await terminal.sees("End j1?")
    await terminal.decide("y", "KILLED")
    assert not alive(job)
    await terminal.type("esc", "^q")
    assert await terminal.ends() == 0
    await terminal.close()


async def test_after_kill_9_with_a_question_open_the_next_start_says_so_once_and_goes_on(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    call = {"name": "shell", "arguments": {"command": "touch made"}}
    script.write_text(json.dumps([{"toolCalls": [call]}]))
    folder = tmp_path / "ws"
    folder.mkdir()
    terminal = OuterTerminal.start("--provider", "scripted", "--script", str(script), "go", cwd=folder)
    await terminal.sees("WAITING")
    os.kill(terminal.pid, signal.SIGKILL)
    await terminal.close()
    second = OuterTerminal.start("--provider", "offline", cwd=folder, columns=200)
    await second.sees("The last session ended unexpectedly at 20")
    await second.sees(lambda text: "shell waited for your answer and did not run" in " ".join(text.split()))
    await second.type("f2")
    await second.sees("WAITING")
    assert not (folder / "made").exists()
    third = OuterTerminal.start("--provider", "offline", cwd=folder, columns=200)
    await third.sees("OFFLINE")
    await third.type("^q")
    assert await third.ends() == 0
    assert "unexpectedly" not in third.text
    await second.type("^q")
    await second.sees("quitting denies")
    await asyncio.sleep(QUIET)
    await second.type("y")
    assert await second.ends() == 0
    assert not [*(state_dir() / "sessions").glob("*/running")]
    for terminal in (second, third):
        await terminal.close()
