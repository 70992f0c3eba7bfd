"""What the program keeps on disk is bounded, and the oldest goes first."""

from __future__ import annotations

import os
from pathlib import Path

from ollm_tui.agent.session.log import SessionLog
from ollm_tui.core.shell.detached_jobs import JobRecords
from ollm_tui.core.shell.hub import CommandHub, CommandRequest, awaitable_of
from ollm_tui.runtime.disk_bounds import OUTPUT, OutputBound, bound_sessions

KILOBYTES = 64


def output(folder: Path, name: str, age: int) -> Path:
    """Make an output of KILOBYTES that was changed `age` seconds ago."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_bytes(b"x" * KILOBYTES * 1024)
    os.utime(path, (changed := 1_700_000_000 - age, changed))
    return path


def test_the_oldest_outputs_of_all_sessions_go_first_and_those_in_use_stay(tmp_path: Path) -> None:
    old = output(tmp_path / "sessions" / "a" / OUTPUT, "old", 900)
    used = output(tmp_path / "sessions" / "b" / OUTPUT, "used", 950)
    loose = output(tmp_path / "outputs", "loose", 800)
    new = output(tmp_path / "sessions" / "b" / OUTPUT, "new", 1)
    log = tmp_path / "sessions" / "a" / "events.jsonl"
    log.write_text("{}\n")
    bound = OutputBound(tmp_path, JobRecords(tmp_path / "jobs", tmp_path), most=4 * KILOBYTES * 1024)
    bound.make_room(0, [used])
    assert all(path.exists() for path in (old, used, loose, new))
    bound.make_room(2 * KILOBYTES * 1024, [used])
    assert [path.exists() for path in (old, used, loose, new, log)] == [False, True, False, True, True]


async def test_a_long_output_makes_room_for_itself(tmp_path: Path) -> None:
    old = output(tmp_path / "outputs", "old", 900)
    bound = OutputBound(tmp_path, JobRecords(tmp_path / "jobs", tmp_path), most=KILOBYTES * 1024)
    hub = CommandHub(tmp_path / "outputs", make_room=bound.make_room)
    command = await hub.start(CommandRequest("seq 1 90000", tmp_path))
    await awaitable_of(command.done)
    assert not old.exists()
    assert command.output.path is not None
    assert command.output.path.stat().st_size > 300_000
    await hub.close()


def test_of_too_many_sessions_the_oldest_go_but_none_that_is_open(tmp_path: Path) -> None:
    for number in range(6):
        log = SessionLog(tmp_path / f"s{number}")
        log.path.write_text("{}\n" * 10)
        os.utime(log.path, (changed := 1_700_000_000 + number, changed))
        if number:
            log.close()
    assert bound_sessions(tmp_path, 6) == ""
    assert bound_sessions(tmp_path, 3).startswith("The 2 oldest sessions were deleted: 3 sessions and")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s0", "s3", "s4", "s5"]
    assert bound_sessions(tmp_path, 9, 65).startswith("The oldest session was deleted")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["s0", "s4", "s5"]
