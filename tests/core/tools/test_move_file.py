"""`move_file`: what arrives, what is refused, and that a link stays a link."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import (
    FileChanged,
    FileExists,
    FileNotFound,
    InvalidArguments,
    InvalidPath,
    IsADirectory,
    NoPermission,
    NotADirectory,
    OperationCancelled,
)
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.confirmation import TextPreview
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.files import atomic
from ollm_tui.core.tools import move_file as move_module
from ollm_tui.core.tools.move_file import MOVE_FILE, MovePlan
from tests.core.tools.file_calls import Room, names, new_room, open_room, preview_of, spelled, unprivileged


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


@pytest.fixture(params=["one file system", "across file systems"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "across file systems":

        def refuse(*_: object) -> None:
            raise OSError(18, "Invalid cross-device link")

        monkeypatch.setattr(MovePlan, "rename", refuse)
    return request.param


def move(room: Room, source: str, target: str, **more: object) -> ToolResult:
    return room.call(MOVE_FILE, **{"from": source, "to": target, **more})


@settings(max_examples=100, deadline=None)
@given(source=names, target=names, content=st.binary(max_size=50))
def test_a_file_of_any_name_is_gone_there_and_here_under_the_new_name(source: str, target: str, content: bytes) -> None:
    assume(source != target)
    with new_room() as room:
        (room.folder / source).write_bytes(content)
        result = move(room, spelled(source), spelled(target))
        assert not (room.folder / source).exists()
        assert (room.folder / target).read_bytes() == content
        assert result.data is not None
        shown = result.data.model_dump(by_alias=True)
        assert room.workspace.resolve(str(shown["to"])).real == room.folder / target


def test_the_result_names_both_ends_on_the_wire(room: Room) -> None:
    room.write("a", "x")
    result = move(room, "a", "new/b")
    assert result.on_stdout()["data"] == {"from": "a", "to": "new/b"}
    assert result.llm_content == "Moved a to new/b"


def test_directories_links_modes_and_times_arrive(room: Room, way: str) -> None:
    room.write("d/sub/script", "run").chmod(0o751)
    (room.folder / "d" / "link").symlink_to("sub/script")
    os.utime(room.folder / "d/sub/script", ns=(1, 2_000_000_000))
    move(room, "d", "far/away/e")
    assert room.all_names() == [
        "far",
        "far/away",
        "far/away/e",
        *(f"far/away/e/{n}" for n in ("link", "sub", "sub/script")),
    ]
    status = (room.folder / "far/away/e/sub/script").stat()
    assert (status.st_mode & 0o777, status.st_mtime_ns) == (0o751, 2_000_000_000)
    assert os.readlink(room.folder / "far/away/e/link") == "sub/script"


def test_a_link_is_moved_and_not_what_it_points_to(room: Room, way: str) -> None:
    room.write("real", "x")
    (room.folder / "link").symlink_to("real")
    (room.folder / "out").symlink_to(room.outside)
    move(room, "link", "moved")
    move(room, "out/", "out2")
    assert os.readlink(room.folder / "moved") == "real"
    assert os.readlink(room.folder / "out2") == str(room.outside)
    assert room.all_names() == ["moved", "out2", "real"]


def test_an_existing_file_is_replaced_only_with_overwrite(room: Room, way: str) -> None:
    room.write("a", "new")
    room.write("b", "old")
    with pytest.raises(FileExists, match="overwrite=true"):
        move(room, "a", "b")
    assert room.read("b") == b"old"
    move(room, "a", "b", overwrite=True)
    assert room.read("b") == b"new"
    assert room.all_names() == ["b"]


def test_a_link_in_the_place_is_replaced_and_not_written_through(room: Room) -> None:
    room.write("a", "new")
    (room.outside / "x").write_text("theirs")
    (room.folder / "b").symlink_to(room.outside / "x")
    move(room, "a", "b", overwrite=True)
    assert not (room.folder / "b").is_symlink()
    assert (room.outside / "x").read_text() == "theirs"


def test_a_directory_as_target_is_an_error_with_the_path_to_send(room: Room) -> None:
    room.write("a")
    (room.folder / "d").mkdir()
    (room.folder / "to_d").symlink_to("d")
    for target in ("d", "d/", "to_d"):
        with pytest.raises(IsADirectory, match="/a"):
            move(room, "a", target, overwrite=True)
    with pytest.raises(IsADirectory):
        move(room, "a", "new/")
    assert "a" in room.all_names()


def test_what_cannot_be_moved_is_refused(room: Room) -> None:
    room.write("file")
    room.write("d/inner")
    before = room.all_names()
    for source, target, failure in [
        ("missing", "x", FileNotFound),
        ("d", "d/inner2", InvalidArguments),
        ("d", "d/new/deep", InvalidArguments),
        (".", "x", InvalidPath),
        ("..", "x", InvalidPath),
        ("../outside", "x", InvalidPath),
        ("file", "../x", InvalidPath),
        ("file", "/tmp/x", InvalidPath),
        ("d", "file", NotADirectory),
        ("file", "file/x", NotADirectory),
    ]:
        with pytest.raises(failure):
            move(room, source, target, overwrite=True)
    assert room.all_names() == before


def test_an_added_directory_is_not_moved_away(room: Room) -> None:
    room.write("added/sub/f")
    room.context = type(room.context)(
        bus=room.context.bus, workspace=Workspace(room.folder, [room.folder / "added" / "sub"]), trash=room.trash
    )
    for source in ("added", "added/sub"):
        with pytest.raises(InvalidPath):
            move(room, source, "elsewhere")


def test_moving_to_the_same_place_changes_nothing(room: Room) -> None:
    room.write("d/a", "x")
    assert move(room, "d/a", "d/../d/a").llm_content.startswith("No change")
    assert room.read("d/a") == b"x"


def test_two_names_of_one_file_become_one(room: Room) -> None:
    os.link(room.write("a", "x"), room.folder / "b")
    move(room, "a", "b", overwrite=True)
    assert room.all_names() == ["b"]
    assert room.read("b") == b"x"


def test_a_move_to_a_closed_directory_is_refused_and_nothing_is_lost(way: str) -> None:
    with open_room() as room:
        room.write("a", "x").chmod(0o666)
        (room.folder / "closed").mkdir(mode=0o555)
        with unprivileged(), pytest.raises(NoPermission):
            move(room, "a", "closed/deep/a")
        assert room.all_names() == ["a", "closed"]


def test_a_real_move_between_file_systems_keeps_all(tmp_path: Path) -> None:
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK) or memory.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("needs /dev/shm on a file system of its own")
    with new_room() as there:
        room = Room(tmp_path)
        workspace = Workspace(room.folder, [there.folder])
        room.context = type(room.context)(bus=room.context.bus, workspace=workspace, trash=room.trash)
        room.write("d/f", "x").chmod(0o640)
        (room.folder / "d/link").symlink_to("f")
        move(room, "d", f"{there.folder}/e")
        assert room.all_names() == []
        assert there.all_names() == ["e", "e/f", "e/link"]
        assert (there.folder / "e/f").stat().st_mode & 0o777 == 0o640


def test_rules_can_ask_whether_something_is_replaced(room: Room) -> None:
    room.write("a")
    call = room.invocation(MOVE_FILE, **{"from": "a", "to": "b"})
    assert call.facts().virtual == {"$exists": False}
    (room.folder / "b").symlink_to("nowhere")
    assert call.facts().virtual == {"$exists": True}


def test_a_file_that_appeared_after_the_policy_was_asked_is_not_replaced(room: Room) -> None:
    room.write("a", "ours")
    call = room.invocation(MOVE_FILE, **{"from": "a", "to": "b", "overwrite": True})
    call.facts()
    room.write("b", "theirs")
    with pytest.raises(FileChanged):
        asyncio.run(call.execute(AbortController().signal))
    assert (room.read("a"), room.read("b")) == (b"ours", b"theirs")


def test_a_file_that_appears_at_the_last_moment_is_not_replaced(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    room.write("a", "ours")
    rename = atomic.rename_without_replacing

    def appear_first(*args: object) -> None:
        room.write("b", "theirs")
        rename(*args)  # type: ignore[arg-type]  # passed on as it came

    monkeypatch.setattr(move_module, "rename_without_replacing", appear_first)
    with pytest.raises(FileExists):
        move(room, "a", "b")
    assert (room.read("a"), room.read("b")) == (b"ours", b"theirs")


def test_the_preview_names_both_ends_and_what_is_replaced(room: Room) -> None:
    room.write("a", "new")
    room.write("b", "older")
    preview = asyncio.run(preview_of(room.invocation(MOVE_FILE, **{"from": "a", "to": "b", "overwrite": True})))
    assert isinstance(preview, TextPreview)
    assert preview.text == "a → b"
    assert "5 bytes" in preview.warnings[0]


def test_an_aborted_move_changes_nothing(room: Room) -> None:
    room.write("a", "x")
    controller = AbortController()
    controller.abort()
    with pytest.raises(OperationCancelled):
        asyncio.run(room.invocation(MOVE_FILE, **{"from": "a", "to": "n/b"}).execute(controller.signal))
    assert room.all_names() == ["a"]
