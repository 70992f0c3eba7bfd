"""Several processes change one file: every acknowledged change is in it, and no other."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.errors import FileWriteFailed, OperationCancelled
from ollm_tui.core.files import atomic
from ollm_tui.core.files.atomic import exclusive

WRITERS = 4
EDITS = int(os.environ.get("OLLM_TEST_EDITS", "15"))
ROUNDS = int(os.environ.get("OLLM_TEST_ROUNDS", "1"))
"""With 200 and 20 it takes minutes."""

_WRITER = """
import asyncio, sys
from pathlib import Path
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.bus.message_bus import MessageBus
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.tools.context import ToolContext
from ollm_tui.core.tools.edit_file import EDIT_FILE

async def edit(folder, line):
    context = ToolContext(bus=MessageBus(), workspace=Workspace(folder))
    edits = [{"target": "end", "replacement": f"{line}\\nend"}]
    call = EDIT_FILE.create_invocation({"path": "f", "edits": edits}, context)
    await call.check(AbortSignal())
    await call.execute(AbortSignal())

for number in range(int(sys.argv[3])):
    line = f"{sys.argv[2]}-{number}"
    print("begun", line, flush=True)
    try:
        asyncio.run(edit(Path(sys.argv[1]), line))
    except Exception as error:
        print("failed", line, type(error).__name__, error, flush=True)
    else:
        print("done", line, flush=True)
"""


def _start(folder: Path, name: str, count: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-c", _WRITER, str(folder), name, str(count)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


def _reported(writers: list[subprocess.Popen[str]]) -> dict[str, set[str]]:
    said: dict[str, set[str]] = {"begun": set(), "done": set(), "failed": set()}
    for writer in writers:
        output, _ = writer.communicate(timeout=600)
        for line in output.splitlines():
            kind, _, rest = line.partition(" ")
            said[kind].add(rest)
    return said


@pytest.mark.parametrize("number", range(ROUNDS))
def test_all_edits_of_several_processes_are_in_the_file(tmp_path: Path, number: int) -> None:
    file = tmp_path / "f"
    file.write_text("end\n")
    said = _reported([_start(tmp_path, f"w{name}", EDITS) for name in range(WRITERS)])
    assert said["failed"] == set()
    assert file.read_text().splitlines() == [*dict.fromkeys(file.read_text().splitlines())], "an edit is there twice"
    assert set(file.read_text().splitlines()) == {*said["done"], "end"}
    assert len(said["done"]) == WRITERS * EDITS
    assert os.listdir(tmp_path) == ["f"]


def test_what_killed_writers_acknowledged_is_in_the_file_and_of_the_rest_one_edit_each_at_most(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("end\n")
    chance = random.Random(5)
    lasting = [_start(tmp_path, f"w{name}", EDITS) for name in range(2)]
    doomed = [_start(tmp_path, f"k{name}", 10_000) for name in range(4)]
    killed: dict[str, set[str]] = {"begun": set(), "done": set(), "failed": set()}
    for writer in doomed:
        assert writer.stdout is not None
        lines = [writer.stdout.readline() for _ in range(chance.randrange(2, 12))]
        writer.send_signal(signal.SIGKILL)
        lines += writer.stdout.readlines()
        writer.wait()
        writer.stdout.close()
        for line in lines:
            if line.endswith("\n"):
                killed[line.split()[0]].add(line.split(maxsplit=1)[1].strip())
    said = _reported(lasting)
    assert said["failed"] == set() == killed["failed"]
    lines = file.read_text().splitlines()
    assert len(lines) == len(set(lines))
    acknowledged = said["done"] | killed["done"] | {"end"}
    assert acknowledged <= set(lines) <= acknowledged | killed["begun"]
    assert len(set(lines) - acknowledged) <= len(doomed)
    final = _reported([_start(tmp_path, "z", 1)])
    assert final["done"] == {"z-0"}
    assert os.listdir(tmp_path) == ["f"], "temporary files of killed writers stay"


_HOLDER = """
import fcntl, sys
held = open(sys.argv[1])
fcntl.flock(held, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[tuple[Path, subprocess.Popen[bytes]]]:
    """A file that another process has locked until its standard input ends."""
    file = tmp_path / "f"
    file.write_text("x")
    arguments = [sys.executable, "-c", _HOLDER, str(file)]
    holder = subprocess.Popen(arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert holder.stdout is not None and holder.stdin is not None
    assert holder.stdout.readline() == b"held\n"
    yield file, holder
    holder.stdin.close()
    holder.wait()
    holder.stdout.close()


async def test_a_file_that_stays_locked_is_refused_with_the_remedy(
    held: tuple[Path, subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(atomic, "LOCK_SECONDS", 0.1)
    with pytest.raises(FileWriteFailed, match=r"locked by another program for 0\.1 s\. Nothing was changed; try again"):
        async with exclusive(AbortSignal(), held[0]):
            raise AssertionError("it was held")


async def test_waiting_for_another_process_can_be_given_up_and_ends_with_it(
    held: tuple[Path, subprocess.Popen[bytes]],
) -> None:
    file, holder = held
    controller = AbortController()
    waiting = asyncio.ensure_future(_enter(controller.signal, file))
    await asyncio.sleep(0)
    controller.abort("enough")
    with pytest.raises(OperationCancelled, match="enough"):
        await waiting
    assert holder.stdin is not None
    holder.stdin.close()
    holder.wait()
    async with asyncio.timeout(10), exclusive(AbortSignal(), file):
        pass


async def _enter(signal: AbortSignal, *files: Path) -> None:
    async with exclusive(signal, *files):
        pass


async def test_two_names_of_one_file_are_locked_once(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("x")
    os.link(tmp_path / "a", tmp_path / "b")
    async with asyncio.timeout(5), exclusive(AbortSignal(), tmp_path / "a", tmp_path / "b"):
        pass


async def test_a_cancelled_task_leaves_the_file_unlocked(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("x")
    for _ in range(50):
        task = asyncio.ensure_future(_enter(AbortSignal(), file))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
    async with asyncio.timeout(10), exclusive(AbortSignal(), file):
        pass
