"""Atomic replacement: the old content or the new one, whole, at every moment and after every failure."""

from __future__ import annotations

import errno
import os
import platform
import random
import resource
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.files import atomic
from ollm_tui.core.files.atomic import rename_without_replacing, replace_file
from tests.core.tools.file_calls import open_room, unprivileged


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[int]:
    descriptor = os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY)
    yield descriptor
    os.close(descriptor)


@settings(max_examples=100, deadline=None)
@given(pieces=st.lists(st.binary(max_size=50), max_size=2000))
def test_pieces_of_any_number_are_written_one_after_the_other(
    tmp_path_factory: pytest.TempPathFactory, pieces: list[bytes]
) -> None:
    folder = tmp_path_factory.mktemp("pieces")
    descriptor = os.open(folder, os.O_RDONLY)
    status = replace_file(descriptor, "f", pieces)
    os.close(descriptor)
    assert (folder / "f").read_bytes() == b"".join(pieces)
    assert status.st_size == len(b"".join(pieces))
    assert os.listdir(folder) == ["f"]


def test_a_new_file_gets_what_the_umask_leaves(tmp_path: Path, directory: int) -> None:
    old = os.umask(0o027)
    try:
        replace_file(directory, "f", [b"x"])
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "f").stat().st_mode) == 0o640


def test_permissions_owner_and_attributes_of_a_replaced_file_stay(tmp_path: Path, directory: int) -> None:
    place = tmp_path / "f"
    place.write_text("old")
    place.chmod(0o751)
    if os.geteuid() == 0:
        os.chown(place, 1234, 4321)
    try:
        os.setxattr(place, "user.note", b"kept")
        has_attributes = True
    except OSError:
        has_attributes = False
    before = place.stat()
    replace_file(directory, "f", [b"new"], like=before)
    after = place.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert place.read_bytes() == b"new"
    if has_attributes:
        assert os.getxattr(place, "user.note") == b"kept"


def test_a_file_of_another_owner_in_a_shared_folder_is_still_replaced() -> None:
    with open_room() as room:
        place = room.write("f", "old")
        place.chmod(0o666)
        with unprivileged():
            descriptor = os.open(room.folder, os.O_RDONLY)
            replace_file(descriptor, "f", [b"new"], like=place.stat())
            os.close(descriptor)
        assert place.read_bytes() == b"new"
        assert stat.S_IMODE(place.stat().st_mode) == 0o666


def test_set_user_id_does_not_survive_a_change_of_content(tmp_path: Path, directory: int) -> None:
    place = tmp_path / "f"
    place.write_text("old")
    place.chmod(0o4755)
    replace_file(directory, "f", [b"new"], like=place.stat())
    assert stat.S_IMODE(place.stat().st_mode) == 0o755


def test_a_new_file_never_replaces_one_that_appeared(tmp_path: Path, directory: int) -> None:
    def appear() -> None:
        (tmp_path / "f").write_text("theirs")

    with pytest.raises(FileExistsError):
        replace_file(directory, "f", [b"ours"], before_commit=appear)
    assert (tmp_path / "f").read_text() == "theirs"
    assert os.listdir(tmp_path) == ["f"]


@pytest.mark.parametrize("known", [False, True], ids=["by link", "refused by the kernel"])
def test_renaming_without_replacing_works_where_the_kernel_has_no_call_for_it(
    tmp_path: Path, directory: int, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64" if known else "pdp11")
    monkeypatch.setattr(atomic, "system_call", lambda *arguments: (-1, errno.ENOSYS))
    (tmp_path / "a").write_text("a")
    (tmp_path / "d").mkdir()
    (tmp_path / "taken").write_text("t")
    for name in ("a", "d"):
        with pytest.raises(FileExistsError):
            rename_without_replacing(directory, name, directory, "taken")
        rename_without_replacing(directory, name, directory, f"{name}2")
    assert sorted(os.listdir(tmp_path)) == ["a2", "d2", "taken"]


def test_a_failure_before_the_commit_leaves_the_old_content_and_nothing_else(tmp_path: Path, directory: int) -> None:
    (tmp_path / "f").write_text("old")

    def fail() -> None:
        raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        replace_file(directory, "f", [b"new"], like=(tmp_path / "f").stat(), before_commit=fail)
    assert (tmp_path / "f").read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_a_full_disk_leaves_the_old_content_and_nothing_else(tmp_path: Path, directory: int) -> None:
    (tmp_path / "f").write_text("old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        with pytest.raises(OSError) as error:
            replace_file(directory, "f", [b"x" * 10_000], like=(tmp_path / "f").stat())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert error.value.errno == errno.EFBIG
    assert (tmp_path / "f").read_text() == "old"
    assert os.listdir(tmp_path) == ["f"]


def test_names_as_long_as_the_file_system_allows_can_be_written(tmp_path: Path, directory: int) -> None:
    replace_file(directory, "x" * 255, [b"x"])
    assert os.listdir(tmp_path) == ["x" * 255]


def test_what_a_killed_writer_left_is_removed_by_the_next_write(tmp_path: Path, directory: int) -> None:
    (tmp_path / ".f.ollm-new.tmp").write_text("half")
    replace_file(directory, "f", [b"whole"])
    assert os.listdir(tmp_path) == ["f"]


def test_what_another_process_is_writing_is_left_alone(tmp_path: Path, directory: int) -> None:
    ready = tmp_path / "ready"
    holder = subprocess.Popen([sys.executable, "-c", _HOLD, str(tmp_path / ".f.ollm-new.tmp"), str(ready)])
    try:
        _wait_for(ready)
        replace_file(directory, "f", [b"whole"])
        assert sorted(os.listdir(tmp_path)) == [".f.ollm-new.tmp", "f", "ready"]
    finally:
        holder.kill()
        holder.wait()


def test_a_writer_killed_at_any_moment_leaves_the_old_or_the_new_file(tmp_path: Path) -> None:
    """Contents are one letter repeated, so that a mixed file would show."""
    place = tmp_path / "f"
    place.write_bytes(b"A" * SIZE)
    chance = random.Random(7)
    seen: set[bytes] = set()
    nursery = subprocess.Popen(
        [sys.executable, "-c", _WRITERS, str(tmp_path), str(SIZE)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert nursery.stdin is not None
    assert nursery.stdout is not None
    for turn in range(600):
        if turn >= 60 and len(seen) > 1:
            break
        nursery.stdin.write(b"start\n")
        nursery.stdin.flush()
        writer = int(nursery.stdout.readline())
        time.sleep(chance.random() * 0.02 * (1 + turn // 60))  # a busy machine writes later
        os.kill(writer, signal.SIGKILL)
        assert nursery.stdout.readline() == b"reaped\n"
        content = place.read_bytes()
        assert content == content[:1] * SIZE
        seen.add(content[:1])
        assert all(name == "f" or name.startswith(".f.ollm-") for name in os.listdir(tmp_path))
    nursery.stdin.close()
    nursery.wait()
    nursery.stdout.close()
    assert len(seen) > 1
    descriptor = os.open(tmp_path, os.O_RDONLY)
    replace_file(descriptor, "f", [b"end"], like=place.stat())
    os.close(descriptor)
    assert os.listdir(tmp_path) == ["f"]


SIZE = 300_000

_WRITERS = """
import os, sys
from ollm_tui.core.files.atomic import replace_file
directory, size = os.open(sys.argv[1], os.O_RDONLY), int(sys.argv[2])
for _ in sys.stdin:
    writer = os.fork()
    if writer == 0:
        while True:
            for letter in b"BCDEFG":
                replace_file(directory, "f", [bytes([letter]) * size], like=os.stat("f", dir_fd=directory))
    print(writer, flush=True)
    os.waitpid(writer, 0)
    print("reaped", flush=True)
"""

_HOLD = """
import fcntl, pathlib, sys, time
held = open(sys.argv[1], "w")
fcntl.flock(held, fcntl.LOCK_EX)
pathlib.Path(sys.argv[2]).touch()
time.sleep(60)
"""


def _wait_for(place: Path) -> None:
    end = time.monotonic() + 10
    while not place.exists():
        assert time.monotonic() < end
        time.sleep(0.01)
