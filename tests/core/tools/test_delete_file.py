"""`delete_file`: what goes, what is refused whatever anybody answers, and the way back."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import assume, given, settings

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import (
    FileNotFound,
    FileWriteFailed,
    InvalidPath,
    IsADirectory,
    NoPermission,
    OperationCancelled,
    ToolFailure,
)
from ollm_tui.core.bus.confirmation import DeletionPreview
from ollm_tui.core.fence.protected_paths import fold
from ollm_tui.core.fence.workspace import Access, Workspace
from ollm_tui.core.tools.delete_file import DELETE_FILE, DeleteFileData
from tests.core.files.test_trash import pretend_other_file_system
from tests.core.tools.file_calls import Room, names, new_room, open_room, preview_of, spelled, unprivileged


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def delete(room: Room, path: str, **more: object) -> DeleteFileData:
    data = room.call(DELETE_FILE, path=path, **more).data
    assert isinstance(data, DeleteFileData)
    return data


@settings(max_examples=100, deadline=None)
@given(name=names)
def test_a_file_of_any_name_goes_and_can_be_restored(name: str) -> None:
    with new_room() as room:
        (room.folder / name).write_bytes(b"here")
        shown = room.workspace.resolve(spelled(name)).shown
        assume(fold(name) != ".git")
        data = delete(room, spelled(name))
        assert data.deleted == (shown,)
        assert not (room.folder / name).exists()
        assert data.trash_id is not None
        room.trash.restore(data.trash_id)
        assert (room.folder / name).read_bytes() == b"here"


def test_a_directory_needs_recursive_and_then_goes_with_all_in_it(room: Room) -> None:
    room.write("d/a", "12")
    room.write("d/sub/b", "345")
    room.write("other")
    with pytest.raises(IsADirectory, match="recursive=true"):
        delete(room, "d")
    data = delete(room, "d", recursive=True)
    assert data.deleted == ("d", "d/a", "d/sub", "d/sub/b")
    assert data.size == 5
    assert room.all_names() == ["other"]


def test_a_link_goes_alone_wherever_it_leads(room: Room) -> None:
    (room.outside / "x").write_text("theirs")
    room.write("real/f", "mine")
    (room.folder / "out").symlink_to(room.outside)
    (room.folder / "in").symlink_to("real")
    (room.folder / "dangling").symlink_to("nowhere")
    for path in ("out/", "in", "dangling"):
        delete(room, path, recursive=True)
    assert room.all_names() == ["real", "real/f"]
    assert (room.outside / "x").read_text() == "theirs"


def test_links_in_a_deleted_directory_are_not_followed(room: Room) -> None:
    (room.outside / "x").write_text("theirs")
    (room.folder / "d").mkdir()
    (room.folder / "d" / "out").symlink_to(room.outside)
    assert delete(room, "d", recursive=True).deleted == ("d", "d/out")
    assert (room.outside / "x").read_text() == "theirs"


def test_what_is_precious_is_refused_before_anyone_is_asked(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.write(".git/HEAD")
    room.write("sub/.GIT/HEAD")
    room.write("home/me/f")
    room.write("added/f")
    monkeypatch.setenv("HOME", str(room.folder / "home" / "me"))
    room.context = type(room.context)(
        bus=room.context.bus, workspace=Workspace(room.folder, [room.folder / "added"]), trash=room.trash
    )
    before = room.all_names()
    paths = [".", "./", str(room.folder), "..", "/", "~", ".git", "sub/.GIT", "home/me", "home", "added", "../outside"]
    for path in paths:
        call = room.invocation(DELETE_FILE, path=path, recursive=True)
        with pytest.raises(InvalidPath):
            asyncio.run(call.check(AbortController().signal))
        with pytest.raises(InvalidPath):
            asyncio.run(call.execute(AbortController().signal))
    assert room.all_names() == before


def test_a_mount_point_is_refused(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    (room.folder / "disk").mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda place: str(place).endswith("/disk"))
    with pytest.raises(InvalidPath, match="mounted"):
        delete(room, "disk", recursive=True)


def test_a_real_mount_inside_a_directory_is_refused(room: Room) -> None:
    mounted = Path("/dev/shm")
    parent = Workspace("/dev")
    if not os.path.ismount(mounted) or os.stat(mounted).st_dev == os.stat("/dev").st_dev:
        pytest.skip("needs /dev/shm as a mount of its own")
    room.context = type(room.context)(bus=room.context.bus, workspace=parent, trash=room.trash)
    with pytest.raises(InvalidPath):
        asyncio.run(room.invocation(DELETE_FILE, path="shm", recursive=True).check(AbortController().signal))
    room.context = type(room.context)(bus=room.context.bus, workspace=Workspace("/"), trash=room.trash)
    with pytest.raises(ToolFailure):
        asyncio.run(room.invocation(DELETE_FILE, path="dev", recursive=True).check(AbortController().signal))


def test_what_is_missing_or_protected_says_so(room: Room) -> None:
    with pytest.raises(FileNotFound):
        delete(room, "missing")
    with open_room() as shared:
        shared.write("f").chmod(0o444)
        shared.write("closed/g").chmod(0o666)
        (shared.folder / "closed").chmod(0o555)
        with unprivileged():
            for path in ("f", "closed/g"):
                with pytest.raises(NoPermission):
                    delete(shared, path)
        (shared.folder / "closed").chmod(0o755)
        assert shared.all_names() == ["closed", "closed/g", "f"]


def test_every_deletion_asks_and_shows_what_goes(room: Room) -> None:
    room.write("d/a", "12")
    room.write("d/.env", "345")
    room.write("d/lib/.git/HEAD", "6")
    call = room.invocation(DELETE_FILE, path="d", recursive=True)
    assert asyncio.run(call.should_confirm_execute(AbortController().signal))
    preview = asyncio.run(preview_of(call))
    assert isinstance(preview, DeletionPreview)
    assert (preview.count, preview.total_size) == (3, 6)
    assert [(file.path, file.size) for file in preview.files] == [("d/.env", 3), ("d/a", 2), ("d/lib/.git/HEAD", 1)]
    assert any("git repository" in concern for concern in preview.warnings)
    assert any("credentials" in concern for concern in preview.warnings)
    assert room.read("d/a") == b"12"


def test_the_digest_changes_with_anything_in_the_directory(room: Room) -> None:
    room.write("d/a", "1")
    call = room.invocation(DELETE_FILE, path="d", recursive=True)
    digests = {asyncio.run(call.question()).state}
    room.write("d/b", "1")
    digests.add(asyncio.run(call.question()).state)
    room.write("d/a", "22")
    digests.add(asyncio.run(call.question()).state)
    assert len(digests) == 3


def test_a_partial_deletion_names_what_went_and_what_stayed(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend_other_file_system(monkeypatch)
    room.write("d/goes", "1")
    room.write("d/sub/stays", "2")
    unlink = os.unlink

    def refuse(name: str, *, dir_fd: int | None = None) -> None:
        if name == "stays":
            raise PermissionError(13, "Permission denied")
        unlink(name, dir_fd=dir_fd)

    monkeypatch.setattr(os, "unlink", refuse)
    with pytest.raises(FileWriteFailed) as failure:
        delete(room, "d", recursive=True)
    assert failure.value.details["deleted"] == ["d/goes"]
    assert failure.value.details["failed"] == ["d", "d/sub", "d/sub/stays"]
    assert room.all_names() == ["d", "d/sub", "d/sub/stays"]


def test_an_aborted_deletion_takes_nothing(room: Room) -> None:
    room.write("f", "x")
    controller = AbortController()
    controller.abort()
    with pytest.raises(OperationCancelled):
        asyncio.run(room.invocation(DELETE_FILE, path="f").execute(controller.signal))
    assert room.read("f") == b"x"
    assert room.trash.list() == []


def test_it_is_declared_as_dangerous_and_meant_by_its_own_place(room: Room) -> None:
    call = room.invocation(DELETE_FILE, path="a\nb")
    assert DELETE_FILE.dangerous
    assert [(touched.access, touched.follow) for touched in call.touched_paths()] == [(Access.WRITE, False)]
    assert call.get_description() == "Delete a⏎b"
