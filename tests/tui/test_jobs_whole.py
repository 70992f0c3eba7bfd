"""Jobs in the dashboard with the real house behind it: listed, ended, left running, told of again (001 R5.5)."""

from __future__ import annotations

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.shell.detached_jobs import JobRecords
from ollm_tui.options import Options
from ollm_tui.testing import Reply, tool_call
from ollm_tui.testing.dashboard_harness import DashboardHarness, open_dashboard
from ollm_tui.tui.screens.jobs_screen import JobsScreen
from ollm_tui.tui.screens.question_screens import QuitScreen
from tests.core.shell.conftest import alive
from tests.tui.pilot import wait_until

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
    for job in await asyncio.to_thread(book.detached):
        await asyncio.to_thread(book.end, job.record, 0.3)


def job(command: str) -> list[Reply]:
    return [tool_call("shell", command=command, background=True), {"text": "It is up."}]


def pid_shown(here: DashboardHarness) -> int:
    found = re.search(r"pid (\d+)", here.text)
    assert found is not None
    return int(found[1])


async def test_a_job_is_listed_with_its_port_and_ended_from_the_list(workspace: Path) -> None:
    async with open_dashboard(workspace, job(SERVER), options=Options(mode="yolo")) as here:
        await here.send("go")
        await here.wait_for("It is up.")
        await here.pilot.press("f3")
        await here.wait_for("listens on 127.0.0.1:")
        await here.wait_for(" % ")
        pid = pid_shown(here)
        await here.pilot.press("x")
        await here.wait_for("End j1?")
        await here.decide("y")
        await wait_until(here.pilot, lambda: not alive(pid))
        await here.wait_for("KILLED")
        assert isinstance(here.app.screen, JobsScreen)


async def test_ctrl_c_reaches_a_job_and_its_tab_opens(workspace: Path) -> None:
    command = "trap 'echo caught' INT; echo up; while :; do sleep 0.05; done"
    async with open_dashboard(workspace, job(command), options=Options(mode="yolo")) as here:
        await here.send("go")
        await here.wait_for("It is up.")
        await here.pilot.press("f3")
        await here.wait_for("RUN")
        await here.pilot.press("i", "enter")
        await here.wait_for("caught")
        assert here.app.dashboard.term.captures_keys


def watching() -> list[str]:
    """Tasks that look at the jobs again and again."""
    return [repr(task) for task in asyncio.all_tasks() if "JobsController._watch" in repr(task)]


async def test_nothing_is_looked_at_once_the_list_is_closed(workspace: Path) -> None:
    async with open_dashboard(workspace, job("sleep 60"), options=Options(mode="yolo")) as here:
        await here.send("go")
        await here.wait_for("It is up.")
        await here.pilot.press("f3")
        await here.wait_for("pid ")
        assert watching()
        await here.pilot.press("escape")
        await wait_until(here.pilot, lambda: not watching())


async def test_a_job_that_is_left_runs_on_and_the_next_dashboard_tells_of_it(workspace: Path) -> None:
    async with open_dashboard(workspace, job(SERVER), options=Options(mode="yolo")) as here:
        await here.send("go")
        await here.wait_for("It is up.")
        await here.pilot.press("ctrl+q")
        await wait_until(here.pilot, lambda: isinstance(here.app.screen, QuitScreen))
        await here.decide("l")
        await wait_until(here.pilot, lambda: bool(here.app.holder.closing_lines))
    words = here.app.holder.closing_lines
    named = re.fullmatch(r"still running: j1 \(pid (\d+)\): .*", words[0])
    assert named is not None
    pid, log = int(named[1]), Path(words[1].partition(" goes on in ")[2])
    assert alive(pid)
    size = log.stat().st_size

    async with open_dashboard(workspace) as here:
        await here.wait_for("Still running since you left: j1")
        assert log.stat().st_size > size
        await here.pilot.press("f3")
        await here.wait_for("LEFT RUNNING")
        await here.wait_for("listens on 127.0.0.1:")
        assert pid_shown(here) == pid
        await here.pilot.press("enter")
        await here.wait_for("[j1 ")
        await here.wait_for("tick")
        size = log.stat().st_size
        await wait_until(here.pilot, lambda: log.stat().st_size > size)
        assert not here.app.dashboard.term.captures_keys
        await here.pilot.press("ctrl+q")
        await wait_until(here.pilot, lambda: bool(here.app.holder.closing_lines))
    assert here.app.holder.closing_lines[0].startswith(f"still running: j1 (pid {pid})"), (
        "without being asked again, but named"
    )

    async with open_dashboard(workspace) as here:
        await here.wait_for("Still running since you left")
        await here.pilot.press("f3")
        await here.wait_for("LEFT RUNNING")
        await here.pilot.press("x")
        await here.decide("y")
        await wait_until(here.pilot, lambda: not alive(pid))
        await here.wait_for("No jobs.")
        await here.wait_for("j1 is ended.")  # its record is gone only then
    async with open_dashboard(workspace) as here:
        await here.pilot.pause(0.2)
        assert "since you left" not in here.text
    assert here.app.holder.closing_lines == ()


async def test_a_left_job_that_ended_meanwhile_is_told_of_once(workspace: Path) -> None:
    async with open_dashboard(
        workspace, job("until [ -e stop ]; do sleep 0.05; done; echo bye"), options=Options(mode="yolo")
    ) as here:
        await here.send("go")
        await here.wait_for("It is up.")
        await here.pilot.press("ctrl+q")
        await here.decide("l")
        await wait_until(here.pilot, lambda: bool(here.app.holder.closing_lines))
    log = Path(here.app.holder.closing_lines[1].partition(" goes on in ")[2])
    (workspace / "stop").touch()
    async with asyncio.timeout(5):
        while not log.read_text().endswith("bye\n"):
            await asyncio.sleep(0.02)
    async with open_dashboard(workspace) as here:
        await here.wait_for("Ended since you left: j1 until")
    async with open_dashboard(workspace) as here:
        await here.pilot.pause(0.2)
        assert "since you left" not in here.text


async def test_quitting_that_ends_jobs_ends_and_names_them_all(workspace: Path) -> None:
    mine, left = f"95.{os.getpid()}", f"96.{os.getpid()}"  # no other run's of these tests
    script: list[Reply] = [
        tool_call("shell", command=f"trap '' TERM; setsid sleep {mine} & wait; wait", background=True),
        tool_call("shell", command=f"setsid sleep {left} >/dev/null 2>&1 &"),
        {"text": "Both up."},
    ]
    async with open_dashboard(workspace, script, options=Options(mode="yolo")) as here:
        await here.send("go")
        await here.wait_for("Both up.")
        await here.pilot.press("ctrl+q")
        await here.wait_for(f"setsid sleep {left}")
        await here.decide("y")
        await wait_until(here.pilot, lambda: bool(here.app.holder.closing_lines))
    assert len(here.app.holder.closing_lines) == 2, here.app.closing_lines
    first, second = here.app.holder.closing_lines
    assert first.startswith("ended with this process: j1 (pid ") and second.startswith("ended with this process: c1")
    assert not [
        path
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if _read(path) in [f"sleep\0{seconds}\0".encode() for seconds in (mine, left)]
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
