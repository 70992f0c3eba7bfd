"""The trash: what goes in comes out as it was, and nothing is lost on the way."""

from __future__ import annotations

import os
import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.errors import FileExists, FileNotFound, NotADirectory, OperationCancelled
from ollm_tui.core.files import trash as trash_module
from ollm_tui.core.files.trash import Trash, TrashEntry
from tests.core.tools.file_calls import Room, names, new_room


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture(params=["one file system", "across file systems"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "across file systems":
        pretend_other_file_system(monkeypatch)
    return request.param


def pretend_other_file_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renames into and out of the trash fail as they do between file systems."""
    rename, without_replacing = os.rename, trash_module.rename_without_replacing

    def refuse(*args: object, **directories: int) -> None:
        if "content" in args and "content.incoming" not in args:
            raise OSError(18, "Invalid cross-device link")
        rename(*args, **directories)  # type: ignore[arg-type]  # passed on as it came

    def refuse_too(source_directory: int, source: str, directory: int, name: str) -> None:
        if source == "content":
            raise OSError(18, "Invalid cross-device link")
        without_replacing(source_directory, source, directory, name)

    monkeypatch.setattr(trash_module.os, "rename", refuse)
    monkeypatch.setattr(trash_module, "rename_without_replacing", refuse_too)


def put(room: Room, place: Path, signal: AbortSignal | None = None) -> TrashEntry:
    directory = os.open(place.parent, os.O_RDONLY)
    try:
        return room.trash.put(directory, place.name, place, 1, signal or AbortSignal()).entry
    finally:
        os.close(directory)


@settings(max_examples=100, deadline=None)
@given(name=names, content=st.binary(max_size=100), mode=st.integers(0, 0o777))
def test_a_file_comes_back_with_bytes_mode_and_time(name: str, content: bytes, mode: int) -> None:
    with new_room() as room:
        place = room.folder / name
        place.write_bytes(content)
        os.utime(place, ns=(5, 1_000_000_007))
        place.chmod(mode)
        entry = put(room, place)
        assert not os.path.lexists(place)
        assert [each.id for each in room.trash.list()] == [entry.id]
        assert entry.path.isprintable() or entry.path == str(place)
        entry.model_dump_json()
        room.trash.restore(entry.id)
        status = place.stat()
        assert (stat.S_IMODE(status.st_mode), status.st_mtime_ns) == (mode, 1_000_000_007)
        place.chmod(0o600)
        assert place.read_bytes() == content
        assert room.trash.list() == []
        assert os.listdir(room.trash.folder) == []


def test_a_tree_comes_back_with_links_modes_and_times(room: Room, way: str) -> None:
    room.write("d/sub/script", "run").chmod(0o755)
    (room.folder / "d" / "link").symlink_to("/nowhere")
    (room.folder / "d" / "empty").mkdir(mode=0o711)
    os.mkfifo(room.folder / "d" / "pipe")
    os.utime(room.folder / "d" / "sub", ns=(3, 3_000_000_000))
    entry = put(room, room.folder / "d")
    assert room.all_names() == []
    assert room.trash.restore(entry.id).path == str(room.folder / "d")
    assert room.all_names() == ["d", "d/empty", "d/link", "d/pipe", "d/sub", "d/sub/script"]
    assert os.readlink(room.folder / "d" / "link") == "/nowhere"
    assert (room.folder / "d/sub/script").stat().st_mode & 0o777 == 0o755
    assert (room.folder / "d/sub").stat().st_mtime_ns == 3_000_000_000
    assert stat.S_ISFIFO((room.folder / "d/pipe").lstat().st_mode)


def test_restoring_never_overwrites(room: Room, way: str) -> None:
    entry = put(room, room.write("f", "old"))
    room.write("f", "new")
    with pytest.raises(FileExists, match="stays in the trash"):
        room.trash.restore(entry.id)
    assert room.read("f") == b"new"
    assert [each.id for each in room.trash.list()] == [entry.id]
    assert room.all_names() == ["f"]


def test_restoring_makes_the_directories_that_are_gone(room: Room) -> None:
    entry = put(room, room.write("a/b/f", "x"))
    (room.folder / "a/b").rmdir()
    (room.folder / "a").rmdir()
    room.trash.restore(entry.id)
    assert room.read("a/b/f") == b"x"


@pytest.mark.parametrize("missing", ["", "deeper"])
def test_restoring_follows_no_link_that_was_put_on_the_way(room: Room, way: str, tmp_path: Path, missing: str) -> None:
    name = f"d/{missing}/f" if missing else "d/f"
    entry = put(room, room.write(name, "x"))
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (room.folder / "d").rename(tmp_path / "gone")
    (room.folder / "d").symlink_to(outside)
    with pytest.raises(NotADirectory):
        room.trash.restore(entry.id)
    assert os.listdir(outside) == [] and [each.id for each in room.trash.list()] == [entry.id]
    (room.folder / "d").unlink()
    room.trash.restore(entry.id)
    assert room.read(name) == b"x"


@pytest.mark.parametrize("identifier", ["nothing", "..", "", "a/b", ".", "a\0b"])
def test_an_unknown_id_is_refused_naming_the_known_ones(room: Room, identifier: str) -> None:
    entry = put(room, room.write("f"))
    with pytest.raises(FileNotFound, match=entry.id):
        room.trash.restore(identifier)


def test_the_same_path_can_be_deleted_many_times(room: Room) -> None:
    entries = [put(room, room.write("f", str(number))) for number in range(5)]
    assert len({entry.id for entry in entries}) == 5
    assert sorted(entry.id for entry in room.trash.list()) == sorted(entry.id for entry in entries)
    room.trash.restore(entries[2].id)
    assert room.read("f") == b"2"


def test_the_list_is_in_order_of_deletion(tmp_path: Path) -> None:
    class Running:
        minute = 0

        def monotonic(self) -> float:
            return 0.0

        def now(self) -> datetime:
            self.minute += 1
            return datetime(2026, 1, 1, 0, self.minute, tzinfo=UTC)

    room = Room(tmp_path)
    room.trash = Trash(tmp_path / "state", clock=Running())
    ids = [put(room, room.write(name)).id for name in ("c", "a", "b")]
    assert [entry.id for entry in room.trash.list()] == ids


def test_a_deletion_cut_short_leaves_the_file_and_no_entry(room: Room) -> None:
    place = room.write("f", "x")
    controller = AbortController()
    controller.abort()
    with pytest.raises(OperationCancelled):
        put(room, place, controller.signal)
    assert room.read("f") == b"x"
    assert room.trash.list() == []
    assert os.listdir(room.trash.folder) == []


def test_an_entry_without_content_or_with_a_damaged_manifest_is_not_offered(room: Room) -> None:
    entry = put(room, room.write("f", "x"))
    (room.trash.folder / "20260101-000000-cut").mkdir()
    (room.trash.folder / entry.id / "manifest.json").write_text("{broken")
    assert room.trash.list() == []
    assert room.trash.damaged() == [room.trash.folder / entry.id]
    assert (room.trash.folder / entry.id / "content").read_text() == "x"


def test_a_missing_trash_is_an_empty_one(room: Room) -> None:
    assert room.trash.list() == []
    assert room.trash.damaged() == []


def test_others_cannot_look_into_the_trash(room: Room) -> None:
    entry = put(room, room.write("secret", "x"))
    assert (room.trash.folder / entry.id).stat().st_mode & 0o077 == 0


def test_an_entry_that_could_not_be_removed_after_copying_is_reported(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    pretend_other_file_system(monkeypatch)
    room.write("d/goes", "1")
    room.write("d/stays", "2")
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int | None = None) -> None:
        if name == "stays":
            raise PermissionError(13, "Permission denied")
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    directory = os.open(room.folder, os.O_RDONLY)
    taken = room.trash.put(directory, "d", room.folder / "d", 2, AbortSignal())
    os.close(directory)
    assert [failure.path for failure in taken.failures] == ["d/stays"]
    assert room.all_names() == ["d", "d/stays"]
    assert (room.trash.folder / taken.entry.id / "content" / "goes").read_text() == "1"
