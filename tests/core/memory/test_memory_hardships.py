"""Memory on a full disk, under kill -9, and beside other processes: typed failures, nothing lost, the index sound."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ollm_tui.core.base.errors import StorageFailed
from ollm_tui.core.memory import SCHEMA, Memory
from ollm_tui.core.storage.background import watch_changes
from ollm_tui.core.storage.store import Store
from tests.core.memory.concepts import Concepts

WRITER = """
import sys
from pathlib import Path
from ollm_tui.core.storage.store import Store
from ollm_tui.core.memory import Memory
memory = Memory(Store(Path(sys.argv[1])), Path("/w"))
for number in range(100_000):
    memory.set(f"{sys.argv[2]} {number}", f"値{number} word " + "x" * (number % 7 * 3_000))
    memory.set("common", f"{sys.argv[2]} common {number}")
    if number % 5 == 4:
        memory.delete(f"{sys.argv[2]} {number - 4}")
    print(number, flush=True)
"""


def writer(path: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(path), name]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def assert_sound(store: Store) -> None:
    assert store.open() is None
    with store.write(SCHEMA) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        # Raises where the index of words does not fit the texts.
        db.execute("INSERT INTO memory_index(memory_index, rank) VALUES('integrity-check', 1)")


def test_writers_killed_at_any_moment_leave_all_they_reported_and_a_sound_index(tmp_path: Path) -> None:
    path = tmp_path / "ollm.db"
    for lines in (1, 7, 30, 60):
        both = {f"{name}{lines}": writer(path, f"{name}{lines}") for name in "ab"}
        reported = {name: reports(process, lines) for name, process in both.items()}
        for process in both.values():
            process.send_signal(signal.SIGKILL)
        for name, process in both.items():
            reported[name] += reports(process)
            process.communicate(timeout=60)
        store = Store(path)
        assert_sound(store)
        memory = Memory(store, Path("/w"))
        kept = set(memory.keys())
        for name, numbers in reported.items():
            last = numbers[-1]
            # The round that was killed may have deleted one more.
            assert kept >= {f"{name} {number}" for number in numbers if number % 5 or number + 4 > last + 1}
            assert f"{name} {last}" in {hit.memory.key for hit in memory.search(f"{name} {last}", 100).found}
        store.close()


def reports(process: subprocess.Popen[str], lines: int | None = None) -> list[int]:
    assert process.stdout is not None
    said = process.stdout.read().split() if lines is None else [process.stdout.readline() for _ in range(lines)]
    return [int(line) for line in said]


def test_a_search_that_reads_beside_a_writing_process_loses_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ollm.db"
    process = writer(path, "w")
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    store = Store(path)
    memory = Memory(store, Path("/w"), embedder=Concepts())
    memory.set("mine", "the car")
    for _ in range(10):
        assert "mine" in {hit.memory.key for hit in memory.search("vehicle").found}
    process.kill()
    process.communicate(timeout=60)
    memory.search("vehicle")
    assert_sound(store)
    with store.read(SCHEMA) as db:
        stale = "SELECT count(*) FROM memory_vectors WHERE number NOT IN (SELECT number FROM memories)"
        assert db.execute(stale).fetchone() == (0,)
    store.close()


async def test_what_another_process_remembers_is_noticed_within_a_second(tmp_path: Path) -> None:
    store = Store(tmp_path / "ollm.db")
    memory = Memory(store, Path("/w"))
    memory.set("mine", "x")
    noticed, loop = asyncio.Event(), asyncio.get_running_loop()
    watching = asyncio.create_task(watch_changes(store, lambda: loop.call_soon_threadsafe(noticed.set)))
    script = WRITER.split("for number")[0] + "memory.set('theirs', 'y')\nimport time\nprint(time.monotonic())"
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, str(tmp_path / "ollm.db"), stdout=subprocess.PIPE
    )
    told, _ = await process.communicate()
    await asyncio.wait_for(noticed.wait(), 30)
    # The look itself comes each second; the rest is what a machine that does other things may take.
    assert time.monotonic() - float(told) < 1.0 + 2.0
    assert memory.get("theirs") is not None
    watching.cancel()
    await asyncio.gather(watching, return_exceptions=True)
    store.close()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "disk"
    place.mkdir()
    if os.geteuid() != 0:
        pytest.skip("needs root, to mount a small file system")
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=700k", "tmpfs", str(place)], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"mount of a tmpfs is refused here: {mounted.stderr.strip()}")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_up_keeps_what_was_remembered(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 200_000)
    store = Store(small_disk / "ollm.db")
    memory = Memory(store, Path("/w"), embedder=Concepts())
    stored = 0
    with pytest.raises(StorageFailed, match=r"full.*free some space"):
        while stored < 1_000:
            memory.set(f"k{stored:03}", f"car {stored} " + "x" * 2_000)
            stored += 1
    assert stored > 3
    assert memory.keys() == tuple(f"k{number:03}" for number in range(stored))
    assert [hit.memory.key for hit in memory.search("car 2", 1).found] == ["k002"]
    ballast.unlink()
    memory.set("more", "fits again")
    memory.search("vehicle")
    assert_sound(store)
    assert len(memory.keys()) == stored + 1
    store.close()
