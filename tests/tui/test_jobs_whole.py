"""Jobs in the dashboard with the real house behind it: listed, ended, left running, told of again (001 R5.5)."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.shell.detached_jobs import JobRecords
from ollm_tui.tui.screens.jobs_screen import JobsScreen
from ollm_tui.tui.screens.quit_screen import QuitScreen
from tests.core.shell.conftest import alive
from tests.tui.pilot import wait_until
from tests.tui.test_whole import Life, Script, calls, life

LISTEN = (
    "import socket, sys, time; s = socket.create_server(('127.0.0.1', 0)); print(s.getsockname()[1], flush=True);"
    " [(print('tick', flush=True), time.sleep(0.05)) for _ in range(2000)]"
)
SERVER = f'{sys.executable} -c "{LISTEN}"'


@pytest.fixture
async def workspace(tmp_path: Path) -> AsyncIterator[Path]:
    """A folder in which nothing of a job is left in the end."""
    folder = tmp_path / "ws"
    folder.mkdir()
    yield folder
    book = JobRecords(state_dir() / "jobs", folder.resolve())
    for job in await asyncio.to_thread(book.earlier):
        await asyncio.to_thread(book.end, job.record, 0.3)


def job(command: str) -> Script:
    return [calls("shell", command=command, background=True), {"text": "It is up."}]


def pid_shown(here: Life) -> int:
    found = re.search(r"pid (\d+)", here.text)
    assert found is not None
    return int(found[1])


async def test_a_job_is_listed_with_its_port_and_ended_from_the_list(workspace: Path) -> None:
    async with life(workspace, job(SERVER), mode="yolo") as here:
        await here.say("go")
        await here.see("It is up.")
        await here.pilot.press("f3")
        await here.see("listens on 127.0.0.1:")
        await here.see(" % ")
        pid = pid_shown(here)
        await here.pilot.press("x")
        await here.see("End j1?")
        await here.pilot.press("y")
        await wait_until(here.pilot, lambda: not alive(pid))
        await here.see("KILLED")
        assert isinstance(here.app.screen, JobsScreen)


async def test_ctrl_c_reaches_a_job_and_its_tab_opens(workspace: Path) -> None:
    command = "trap 'echo caught' INT; echo up; while :; do sleep 0.05; done"
    async with life(workspace, job(command), mode="yolo") as here:
        await here.say("go")
        await here.see("It is up.")
        await here.pilot.press("f3")
        await here.see("RUN")
        await here.pilot.press("i", "enter")
        await here.see("caught")
        assert here.app.dashboard.term.captures_keys


def watching() -> list[str]:
    """Tasks that look at the jobs again and again."""
    return [repr(task) for task in asyncio.all_tasks() if "JobsController._watch" in repr(task)]


async def test_nothing_is_looked_at_once_the_list_is_closed(workspace: Path) -> None:
    async with life(workspace, job("sleep 60"), mode="yolo") as here:
        await here.say("go")
        await here.see("It is up.")
        await here.pilot.press("f3")
        await here.see("pid ")
        assert watching()
        await here.pilot.press("escape")
        await wait_until(here.pilot, lambda: not watching())


async def test_a_job_that_is_left_runs_on_and_the_next_dashboard_tells_of_it(workspace: Path) -> None:
    async with life(workspace, job(SERVER), mode="yolo") as here:
        await here.say("go")
        await here.see("It is up.")
        await here.pilot.press("ctrl+q")
        await wait_until(here.pilot, lambda: isinstance(here.app.screen, QuitScreen))
        await here.pilot.press("l")
        await wait_until(here.pilot, lambda: bool(here.app.closing_lines))
    words = here.app.closing_lines
    named = re.fullmatch(r"still running: j1 \(pid (\d+)\): .*", words[0])
    assert named is not None
    pid, log = int(named[1]), Path(words[1].partition(" goes on in ")[2])
    assert alive(pid)
    size = log.stat().st_size

    async with life(workspace) as here:
        await here.see("Still running since you left: j1")
        assert log.stat().st_size > size
        await here.pilot.press("f3")
        await here.see("LEFT RUNNING")
        await here.see("listens on 127.0.0.1:")
        assert pid_shown(here) == pid
        await here.pilot.press("enter")
        await here.see("[j1 ")
        await here.see("tick")
        size = log.stat().st_size
        await wait_until(here.pilot, lambda: log.stat().st_size > size)
        assert not here.app.dashboard.term.captures_keys
        await here.pilot.press("ctrl+q")
        await wait_until(here.pilot, lambda: bool(here.app.closing_lines))
    assert here.app.closing_lines[0].startswith(f"still running: j1 (pid {pid})"), (
        "without being asked again, but named"
    )

    async with life(workspace) as here:
        await here.see("Still running since you left")
        await here.pilot.press("f3")
        await here.see("LEFT RUNNING")
        await here.pilot.press("x", "y")
        await wait_until(here.pilot, lambda: not alive(pid))
        await here.see("No jobs.")
    async with life(workspace) as here:
        await here.pilot.pause(0.2)
        assert "since you left" not in here.text
    assert here.app.closing_lines == ()


async def test_a_left_job_that_ended_meanwhile_is_told_of_once(workspace: Path) -> None:
    async with life(workspace, job("until [ -e stop ]; do sleep 0.05; done; echo bye"), mode="yolo") as here:
        await here.say("go")
        await here.see("It is up.")
        await here.pilot.press("ctrl+q", "l")
        await wait_until(here.pilot, lambda: bool(here.app.closing_lines))
    log = Path(here.app.closing_lines[1].partition(" goes on in ")[2])
    (workspace / "stop").touch()
    async with asyncio.timeout(5):
        while not log.read_text().endswith("bye\n"):
            await asyncio.sleep(0.02)
    async with life(workspace) as here:
        await here.see("Ended since you left: j1 until")
    async with life(workspace) as here:
        await here.pilot.pause(0.2)
        assert "since you left" not in here.text


async def test_quitting_that_ends_jobs_ends_and_names_them_all(workspace: Path) -> None:
    script: Script = [
        calls("shell", command="trap '' TERM; setsid sleep 95 & wait; wait", background=True),
        calls("shell", command="setsid sleep 96 >/dev/null 2>&1 &"),
        {"text": "Both up."},
    ]
    async with life(workspace, script, mode="yolo") as here:
        await here.say("go")
        await here.see("Both up.")
        await here.pilot.press("ctrl+q")
        await here.see("setsid sleep 96")
        await here.pilot.press("y")
        await wait_until(here.pilot, lambda: bool(here.app.closing_lines))
    assert len(here.app.closing_lines) == 2, here.app.closing_lines
    first, second = here.app.closing_lines
    assert first.startswith("ended with this process: j1 (pid ") and second.startswith("ended with this process: c1")
    assert not [
        path
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if _read(path) in (b"sleep\0" + b"95\0", b"sleep\0" + b"96\0")
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
