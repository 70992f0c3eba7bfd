"""Jobs that are left running when their program ends, and what the next one is told of them (001 R5.5)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from signal import Signals

import pytest

from ollm_tui.core.shell import detached_jobs
from ollm_tui.core.shell.detached_jobs import SECRET_COMMAND, JobRecord, JobRecords
from ollm_tui.core.shell.hub import CannotDetachError, CommandHub, CommandRequest
from tests import ROOT
from tests.core.shell.conftest import Bench, alive, bench_in, data_of, in_session, until

PROGRAM = """
import asyncio, json, os, sys
from pathlib import Path
from ollm_tui.core.shell.hub import CommandHub, CommandRequest
from ollm_tui.core.shell.detached_jobs import JobRecords

async def main(root, how, *lines):
    book = JobRecords(root / "jobs", root)
    hub = CommandHub(root / "logs", records=book)
    for line in lines:
        await hub.start(CommandRequest(line, root, attended=how != "alone", background=how != "killed at once"))
    while not (root / "go").exists():
        await asyncio.sleep(0.02)
    print(json.dumps([state.pid for state in hub.list()]), flush=True)
    if how.startswith("killed"):
        os.kill(os.getpid(), 9)
    for state in hub.list():
        await hub.detach(state.id)
    survivors = await hub.close()
    assert survivors == (), survivors

asyncio.run(main(Path(sys.argv[1]), *sys.argv[2:]))
"""


def run_program(root: Path, how: str, *lines: str) -> list[int]:
    """A program that starts jobs, leaves them running, and ends; the pids of their leaders."""
    (root / "go").touch()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(root), how, *lines],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == (-Signals.SIGKILL if how.startswith("killed") else 0), done.stderr
    pids = json.loads(done.stdout)
    assert isinstance(pids, list)
    return pids


@pytest.fixture
async def book(tmp_path: Path) -> AsyncIterator[JobRecords]:
    """What the next program in `tmp_path` knows; at the end nothing of the jobs is left."""
    book = JobRecords(tmp_path / "jobs", tmp_path)
    yield book
    for job in await asyncio.to_thread(book.detached):
        assert await asyncio.to_thread(book.end, job.record, 0.5) == ()


def log_of(record: JobRecord) -> Path:
    assert record.log is not None
    return Path(record.log)


TICKING = "echo first; until [ -e stop ]; do echo tick; sleep 0.05; done; echo last"


@pytest.mark.parametrize("how", ["attended", "alone"])
async def test_a_job_that_is_left_outlives_its_program_and_goes_on_writing_its_log(
    tmp_path: Path, book: JobRecords, how: str
) -> None:
    [pid] = run_program(tmp_path, how, TICKING)
    [job] = book.detached()
    assert (job.record.id, job.record.command, job.record.pid) == ("j1", TICKING, pid)
    assert job.running and job.record.detached
    log = log_of(job.record)
    size = log.stat().st_size
    await until(lambda: log.stat().st_size > size + 20)
    (tmp_path / "stop").touch()
    await until(lambda: not book.detached()[0].running)
    await until(lambda: log.read_bytes().split()[-1] == b"last")
    words = log.read_bytes().split()
    assert words[0] == b"first" and set(words[1:-1]) == {b"tick"}
    # Nothing of the keeper is left either.
    await until(lambda: not _keepers(log))


def _keepers(log: Path) -> list[str]:
    """Processes that have the log open."""
    found: list[str] = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found += [process.name for one in (process / "fd").iterdir() if os.readlink(one) == str(log)]
        except OSError:
            continue
    return found


async def test_a_program_that_would_die_of_a_closed_terminal_lives_on_when_it_is_left(
    tmp_path: Path, book: JobRecords
) -> None:
    # It has its own handler for the hang-up, so the ignored one it inherits does not save it.
    program = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGHUP, lambda *a: (print('hung up', flush=True), sys.exit(1)))\n"
        "while not os.path.exists('stop'):\n"
        "    print('up', os.isatty(0), flush=True); time.sleep(0.05)\n"
        "print('orderly', flush=True)\n"
    )
    (tmp_path / "server.py").write_text(program)
    [pid] = run_program(tmp_path, "attended", f"exec {sys.executable} server.py")
    log = log_of(book.detached()[0].record)
    said = len(log.read_text().splitlines())
    await until(lambda: len(log.read_text().splitlines()) > said + 3)  # lines of its life after the program's
    assert alive(pid)
    (tmp_path / "stop").touch()
    await until(lambda: not alive(pid))
    [job] = book.detached()
    assert log_of(job.record).read_text().split()[-1] == "orderly"
    assert "hung up" not in log_of(job.record).read_text()


async def test_the_next_program_can_end_a_job_that_was_left_with_all_it_started(
    tmp_path: Path, book: JobRecords
) -> None:
    [pid] = run_program(tmp_path, "attended", "trap '' TERM; setsid sleep 81 & sleep 82 & wait; wait")
    [job] = book.detached()
    assert len(job.members) == 3
    assert book.end(job.record, 0.3) == ()
    assert in_session(pid) == []
    assert not any(alive(member.pid) for member in job.members)
    assert book.detached() == []


@pytest.mark.parametrize("how", ["killed", "killed at once"])
async def test_what_ran_when_its_program_was_killed_is_found_by_the_next_one(
    tmp_path: Path, book: JobRecords, how: str
) -> None:
    [pid] = run_program(tmp_path, how, "sleep 83")
    [job] = book.detached()
    assert (job.record.pid, job.running, job.record.detached) == (pid, True, False)
    assert JobRecords(tmp_path / "jobs", tmp_path / "elsewhere").detached() == []


async def test_a_pid_that_was_given_to_somebody_else_is_not_taken_for_the_job(tmp_path: Path, book: JobRecords) -> None:
    run_program(tmp_path, "attended", "until [ -e stop ]; do sleep 0.02; done")
    (tmp_path / "stop").touch()
    stranger = await asyncio.create_subprocess_exec("sleep", "84", start_new_session=True)
    try:
        await until(lambda: not book.detached()[0].running)
        [job] = book.detached()
        taken = job.record.model_copy(update={"pid": stranger.pid})
        (tmp_path / "jobs" / f"{taken.mark}.json").write_text(taken.model_dump_json())
        [job] = book.detached()
        assert not job.running
        assert book.end(job.record, 0.1) == ()
        assert stranger.returncode is None
    finally:
        stranger.kill()
        await stranger.wait()


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Bench]:
    """A bench whose jobs are written down."""
    hub = CommandHub(tmp_path / "logs", grace=0.5, records=JobRecords(tmp_path / "jobs", tmp_path))
    yield bench_in(tmp_path, hub)
    await hub.close()


def written(bench: Bench) -> list[JobRecord]:
    return [JobRecord.model_validate_json(path.read_bytes()) for path in (bench.root / "jobs").glob("*.json")]


async def test_a_job_is_written_down_as_long_as_it_runs(kept: Bench) -> None:
    await kept.shell("true")
    assert written(kept) == []
    started = await kept.shell("sleep 85", background=True)
    [record] = written(kept)
    assert (record.pid, record.id, record.detached) == (data_of(started).pid, "j1", False)
    assert [path.stat().st_mode & 0o777 for path in (kept.root / "jobs").iterdir()] == [0o600]
    await kept.call("shell_kill", {"id": "j1"})
    assert written(kept) == []


async def test_what_a_command_leaves_behind_is_written_down_and_can_be_left(kept: Bench) -> None:
    await kept.shell("echo said; setsid sleep 86 >/dev/null 2>&1 &")
    [record] = written(kept)
    [leftover] = kept.hub.find("c1").status.leftovers
    left = await kept.hub.detach("c1")
    assert left.mark == record.mark
    assert log_of(left).read_text() == "said\n"
    assert await kept.hub.close() == ()
    assert alive(leftover.pid)
    book = JobRecords(kept.root / "jobs", kept.root)
    assert [job.members for job in book.detached()] == [(leftover,)]
    assert book.end(left, 0.3) == ()
    assert not alive(leftover.pid)


async def test_a_secret_in_a_command_is_not_written_down(kept: Bench) -> None:
    await kept.shell("sleep 87 # ghp_0123456789abcdefghijklmnopqrstuvwxyz", background=True)
    assert [record.command for record in written(kept)] == [SECRET_COMMAND]


async def test_a_job_that_cannot_be_handed_over_stays_as_it_was(kept: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    await kept.attended().shell("echo up; read x; echo got $x; sleep 88", background=True)
    monkeypatch.setattr(detached_jobs.detached_job_host, "__file__", "/nowhere/host.py")
    with pytest.raises(CannotDetachError, match="could not be started"):
        await kept.hub.detach("j1")
    assert [record.detached for record in written(kept)] == [False]
    kept.hub.find("j1").write(b"me\n")
    await until(lambda: b"got me" in b"".join(kept.hub.find("j1").output.pieces(0)))


async def test_a_sandboxed_command_and_one_that_is_over_cannot_be_left(kept: Bench) -> None:
    await kept.hub.start(CommandRequest("sleep 89", kept.root, background=True, argv=["sleep", "89"]))
    assert not kept.hub.find("j1").status.can_detach
    with pytest.raises(CannotDetachError):
        await kept.hub.detach("j1")
    await kept.shell("sleep 0.9", background=True)
    await until(lambda: not kept.hub.find("j2").status.running)
    with pytest.raises(CannotDetachError):
        await kept.hub.detach("j2")


async def test_no_byte_is_lost_between_the_two_readers(tmp_path: Path, book: JobRecords) -> None:
    run_program(tmp_path, "attended", "seq 1 400000; sleep 2")
    [job] = book.detached()
    log = log_of(job.record)
    await until(lambda: not book.detached()[0].running and not _keepers(log), 20)
    assert log.read_bytes() == b"".join(b"%d\r\n" % number for number in range(1, 400_001))
