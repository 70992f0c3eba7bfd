"""`write_file`: new files, overwriting, what of the old file is kept, and what never happens."""

from __future__ import annotations

import asyncio
import base64
import errno
import os
import resource
import signal
import stat
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import (
    EncodingFailure,
    FileChanged,
    FileExists,
    FileNotFound,
    FileWriteFailed,
    InvalidArguments,
    InvalidPath,
    IsADirectory,
    NoPermission,
    NoSpace,
    NotADirectory,
    OperationCancelled,
    from_os_error,
)
from ollm_tui.core.bus.confirmation import DiffPreview, TextPreview
from ollm_tui.core.files.text_files import decode
from ollm_tui.core.tools.file_changes import find_omission
from ollm_tui.core.tools.read_file import READ_FILE, ReadFileData
from ollm_tui.core.tools.write_file import WRITE_FILE, WriteFileData, WriteFileParameters
from tests.core.tools.file_calls import Room, names, new_room, open_room, preview_of, run, spelled, texts, unprivileged


@pytest.fixture
def room(tmp_path: Path) -> Room:
    return Room(tmp_path)


def write(room: Room, path: str, content: str, **more: object) -> WriteFileData:
    data = room.call(WRITE_FILE, path=path, content=content, **more).data
    assert isinstance(data, WriteFileData)
    return data


@settings(max_examples=100, deadline=None)
@given(name=names, content=texts)
def test_a_new_file_holds_exactly_the_content(name: str, content: str) -> None:
    with new_room() as room:
        data = write(room, spelled(name), content)
        assert (room.folder / name).read_bytes() == content.encode()
        assert data.created
        assert data.size == len(content.encode())


@settings(max_examples=100, deadline=None)
@given(old=st.binary(max_size=100), content=texts)
def test_property_10_without_overwrite_an_existing_file_is_an_error(old: bytes, content: str) -> None:
    with new_room() as room:
        room.write("f", old)
        with pytest.raises(FileExists, match="overwrite=true") as failure:
            write(room, "f", content)
        assert failure.value.type == "FileExistsError"
        assert room.read("f") == old


@settings(max_examples=100, deadline=None)
@given(
    old=st.one_of(st.binary(max_size=100), texts.map(lambda t: t.encode("utf-16")), texts.map(str.encode)),
    content=texts,
)
def test_property_11_overwriting_replaces_the_content_and_reading_gives_it_back(old: bytes, content: str) -> None:
    with new_room() as room:
        room.write("f", old)
        call = room.invocation(WRITE_FILE, path="f", content=content, overwrite=True)
        result = asyncio.run(run(call))
        read = decode(room.read("f"), "f", "")
        expected = content.removeprefix("\ufeff") if read.encoding.mark else content
        if any("CRLF" in note for note in result.notes):
            expected = expected.replace("\n", "\r\n")
        assert read.text == expected
        by_tool = room.call(READ_FILE, path="f").data
        assert isinstance(by_tool, ReadFileData)
        assert by_tool.content == expected
        assert isinstance(result.data, WriteFileData)
        assert not result.data.created


@settings(max_examples=100, deadline=None)
@given(parents=st.lists(names, min_size=1, max_size=4), content=texts)
def test_property_12_missing_parent_directories_are_created(parents: list[str], content: str) -> None:
    with new_room() as room:
        path = "/".join([*parents, "file"])
        write(room, spelled(path), content)
        assert (room.folder / path).read_bytes() == content.encode()


def test_the_result_counts_characters_and_names_the_file(room: Room) -> None:
    result = room.call(WRITE_FILE, path="a/b.txt", content="größe\n")
    assert result.llm_content == "Successfully wrote 6 characters to a/b.txt"
    assert isinstance(result.data, WriteFileData)
    assert (result.data.path, result.data.size, result.data.created) == ("a/b.txt", 8, True)
    assert result.data.diff is not None
    assert result.data.diff.added == 1


def test_an_empty_file_can_be_written(room: Room) -> None:
    assert write(room, "f", "").size == 0
    assert room.read("f") == b""


def test_new_files_honour_the_umask_and_old_ones_keep_their_permissions(room: Room) -> None:
    old = os.umask(0o022)
    try:
        write(room, "f", "a")
    finally:
        os.umask(old)
    assert stat.S_IMODE((room.folder / "f").stat().st_mode) == 0o644
    (room.folder / "f").chmod(0o755)
    write(room, "f", "b", overwrite=True)
    assert stat.S_IMODE((room.folder / "f").stat().st_mode) == 0o755


def test_a_link_is_written_through_and_stays(room: Room) -> None:
    room.write("real", "old")
    (room.folder / "link").symlink_to("real")
    (room.folder / "dangling").symlink_to("later")
    result = room.call(WRITE_FILE, path="link", content="new", overwrite=True)
    assert (room.folder / "link").is_symlink()
    assert room.read("real") == b"new"
    assert any("leads to real" in note for note in result.notes)
    assert write(room, "dangling", "x").path == "later"
    assert (room.folder / "dangling").is_symlink()


# -- what of the old file is kept ----------------------------------------------------------------------------------


def test_uniform_crlf_is_carried_over_to_bare_line_ends_with_a_note(room: Room) -> None:
    room.write("f", "a\r\nb\r\n")
    result = room.call(WRITE_FILE, path="f", content="c\nd\n", overwrite=True)
    assert room.read("f") == b"c\r\nd\r\n"
    assert any("CRLF" in note for note in result.notes)


@pytest.mark.parametrize(
    ("old", "content"),
    [("a\r\nb\n", "c\nd\n"), ("a\r\nb\r\n", "c\r\nd\n"), ("a\nb\n", "c\r\nd\r\n"), ("a\r\n", "no line end")],
)
def test_otherwise_line_ends_are_written_as_given(room: Room, old: str, content: str) -> None:
    room.write("f", old)
    write(room, "f", content, overwrite=True)
    assert room.read("f") == content.encode()


@pytest.mark.parametrize("codec", ["utf-16", "latin-1", "utf-32"])
def test_the_old_encoding_is_kept_where_it_can_hold_the_content(room: Room, codec: str) -> None:
    room.write("f", "Grüße, größer".encode(codec))
    result = room.call(WRITE_FILE, path="f", content="Hüte", overwrite=True)
    assert room.read("f") == "Hüte".encode(codec)
    assert any("encoding" in note for note in result.notes)


def test_where_the_old_encoding_cannot_hold_it_the_file_becomes_utf_8_with_a_note(room: Room) -> None:
    room.write("f", "Grüße".encode("latin-1"))
    result = room.call(WRITE_FILE, path="f", content="日本", overwrite=True)
    assert room.read("f").decode() == "日本"
    assert any("UTF-8 now" in note for note in result.notes)


def test_a_utf_8_mark_is_written_only_if_given(room: Room) -> None:
    room.write("f", b"\xef\xbb\xbfa")
    write(room, "f", "b", overwrite=True)
    assert room.read("f") == b"b"
    write(room, "f", "\ufeffc", overwrite=True)
    assert room.read("f") == b"\xef\xbb\xbfc"


def test_equal_content_is_no_change_and_nothing_is_written(room: Room) -> None:
    place = room.write("f", "a\r\nb\r\n")
    before = place.stat()
    call = room.invocation(WRITE_FILE, path="f", content="a\nb\n", overwrite=True)
    done = asyncio.run(call.check(AbortController().signal))
    assert done is not None
    assert done.llm_content.startswith("No change")
    assert place.stat().st_ino == before.st_ino


# -- refusals ------------------------------------------------------------------------------------------------------


def test_places_that_cannot_hold_the_file_are_refused_and_nothing_is_created(room: Room) -> None:
    room.write("file", "x")
    (room.folder / "d").mkdir()
    before = room.all_names()
    for path, more, failure in [
        ("file/x", {}, NotADirectory),
        ("file/x/y", {}, NotADirectory),
        ("d", {"overwrite": True}, IsADirectory),
        ("new/", {}, IsADirectory),
        ("no/x", {"createDirs": False}, FileNotFound),
        ("../x", {}, InvalidPath),
        ("a\0b", {}, InvalidPath),
    ]:
        with pytest.raises(failure):
            write(room, path, "content", **more)
    assert room.all_names() == before


def test_a_link_that_leads_out_is_refused(room: Room) -> None:
    (room.folder / "out").symlink_to(room.outside / "x")
    with pytest.raises(InvalidPath):
        write(room, "out", "content", overwrite=True)
    assert not (room.outside / "x").exists()


def test_what_is_write_protected_is_refused() -> None:
    with open_room() as room:
        room.write("f", "old").chmod(0o444)
        (room.folder / "d").mkdir(mode=0o555)
        with unprivileged():
            for path in ("f", "d/new", "d/deep/new"):
                with pytest.raises(NoPermission):
                    write(room, path, "new", overwrite=True)
        assert room.all_names() == ["d", "f"]


def test_half_a_surrogate_pair_is_an_encoding_error(room: Room) -> None:
    with pytest.raises(EncodingFailure, match=r"U\+D83D"):
        call = WRITE_FILE.create_invocation(WriteFileParameters(path="f", content="smile \ud83d"), room.context)
        asyncio.run(run(call))
    assert room.all_names() == []


def test_a_limit_on_the_size_of_files_is_told_from_a_full_disk_and_leaves_what_was_there(room: Room) -> None:
    full = from_os_error(OSError(errno.ENOSPC, "No space left on device"), "f", FileWriteFailed)
    assert isinstance(full, NoSpace) and "free some space first" in full.message
    room.write("f", "old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (4096, limits[1]))
    try:
        for path in ("f", "new/deep/g"):
            with pytest.raises(NoSpace, match=r"files may not get this large here \(ulimit -f\)"):
                write(room, path, "x" * 10_000, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert room.read("f") == b"old"
    assert room.all_names() == ["f"]


def test_a_file_that_vanished_after_it_was_shown_is_not_made_anew(room: Room) -> None:
    place = room.write("f", "old")
    call = room.invocation(WRITE_FILE, path="f", content="new", overwrite=True)
    asyncio.run(preview_of(call))
    place.unlink()
    with pytest.raises(FileChanged):
        asyncio.run(call.execute(AbortController().signal))
    assert room.all_names() == []


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=100))
def test_base64_writes_the_bytes(raw: bytes) -> None:
    with new_room() as room:
        content = base64.encodebytes(raw).decode()
        result = room.call(WRITE_FILE, path="f", content=content, encoding="base64")
        assert room.read("f") == raw
        assert f"wrote {len(raw)} bytes" in result.llm_content


@pytest.mark.parametrize("content", ["a", "a===", "ä", "YWJj!"])
def test_what_is_no_base64_is_refused(room: Room, content: str) -> None:
    with pytest.raises(InvalidArguments, match="base64"):
        write(room, "f", content, encoding="base64")
    assert room.all_names() == []


# -- questions -----------------------------------------------------------------------------------------------------

PLACEHOLDERS = [
    "// ... rest of code ...",
    "# ... rest of the code ...",
    "    // ... existing code ...",
    "# ... existing implementation ...",
    "/* ... rest of file unchanged ... */",
    "<!-- rest of the content remains the same -->",
    "// (rest of the file unchanged)",
    "// rest of the methods...",
    "-- ... other functions ...",
    "[... rest of file ...]",
    "... rest of the code ...",
    "{/* ... existing code ... */}",
    "# … previous code …",
    "// unchanged",
    "# code omitted for brevity",
    "// ... remaining methods stay the same ...",
]
ORDINARY = [
    'print("// ... rest of code ...")',
    "the rest of the code is in b.py",
    "# The rest of the arguments are passed on to the parent.",
    "# TODO: remove existing code paths",
    "...",
    "def f(): ...",
    "# ...",
    "x = [...]",
    "// more tests follow below in the next file",
    "# unchanged lines are counted too",
    "* other",
    "# Other",
    "# existing code",
]


@pytest.mark.parametrize("line", PLACEHOLDERS)
def test_a_line_that_stands_for_left_out_text_makes_the_call_ask(room: Room, line: str) -> None:
    call = room.invocation(WRITE_FILE, path="f", content=f"def a():\n    pass\n{line}\n")
    assert find_omission(f"a\n{line}") is not None
    details = asyncio.run(call.should_confirm_execute(AbortController().signal))
    assert details
    preview = asyncio.run(preview_of(call))
    assert isinstance(preview, DiffPreview)
    assert "Line 3 looks like a placeholder" in preview.warnings[0]
    asyncio.run(run(call))
    assert line in room.read("f").decode()


@pytest.mark.parametrize("line", ORDINARY)
def test_ordinary_lines_are_no_placeholders(line: str) -> None:
    assert find_omission(f"a\n{line}\nb") is None


def test_looking_for_placeholders_takes_no_time_on_long_and_odd_texts() -> None:
    for content in ("the rest of " * 20_000, "\n".join(["# " + "the of " * 25] * 3_000), "#" * 200_000):
        assert find_omission(content) is None


def test_rules_can_ask_whether_the_file_exists(room: Room) -> None:
    call = room.invocation(WRITE_FILE, path="f", content="a")
    assert call.facts().virtual == {"$exists": False}
    room.write("f")
    assert call.facts().virtual == {"$exists": True}
    assert not asyncio.run(call.should_confirm_execute(AbortController().signal))


def test_the_preview_is_a_diff_of_text_and_words_for_bytes(room: Room) -> None:
    room.write("f", "a\nb\n")
    preview = asyncio.run(preview_of(room.invocation(WRITE_FILE, path="f", content="a\nc\n", overwrite=True)))
    assert isinstance(preview, DiffPreview)
    assert (preview.created, preview.diff.hunks[0].lines) == (False, (" a", "-b", "+c"))
    preview = asyncio.run(preview_of(room.invocation(WRITE_FILE, path="g", content="AAAA", encoding="base64")))
    assert isinstance(preview, TextPreview)
    assert preview.text == "Write 3 bytes to g"


def test_a_file_that_appeared_after_the_policy_was_asked_is_not_overwritten(room: Room) -> None:
    call = room.invocation(WRITE_FILE, path="f", content="ours", overwrite=True)
    assert call.facts().virtual == {"$exists": False}
    room.write("f", "theirs")
    with pytest.raises(FileChanged):
        asyncio.run(call.execute(AbortController().signal))
    assert room.read("f") == b"theirs"


def test_a_file_that_changed_after_the_diff_was_shown_is_not_overwritten(room: Room) -> None:
    room.write("f", "old")
    call = room.invocation(WRITE_FILE, path="f", content="new", overwrite=True)
    asyncio.run(preview_of(call))
    digest = asyncio.run(call.question()).state
    room.write("f", "newer")
    assert asyncio.run(call.question()).state != digest
    with pytest.raises(FileChanged):
        asyncio.run(call.execute(AbortController().signal))
    assert room.read("f") == b"newer"


def test_two_writes_of_one_path_are_ordered_and_the_second_sees_the_first(room: Room) -> None:
    async def both() -> list[object]:
        signal = AbortController().signal
        calls = [room.invocation(WRITE_FILE, path="f", content=text) for text in ("first", "second")]
        return await asyncio.gather(*(call.execute(signal) for call in calls), return_exceptions=True)

    first, second = asyncio.run(both())
    assert not isinstance(first, BaseException)
    assert isinstance(second, FileExists)
    assert room.read("f") == b"first"


def test_an_aborted_call_writes_nothing_and_creates_no_directory(room: Room) -> None:
    controller = AbortController()
    controller.abort()
    call = room.invocation(WRITE_FILE, path="a/b/f", content="x")
    with pytest.raises(OperationCancelled):
        asyncio.run(call.execute(controller.signal))
    assert room.all_names() == []


def test_a_call_aborted_on_its_way_is_either_done_or_not(room: Room) -> None:
    async def race(number: int, delay: float) -> bool:
        controller = AbortController()
        call = room.invocation(WRITE_FILE, path=f"d{number}/f", content="x" * 100_000)
        task = asyncio.ensure_future(call.execute(controller.signal))
        await asyncio.sleep(delay)
        controller.abort()
        try:
            await task
        except OperationCancelled:
            return False
        return True

    for number in range(40):
        done = asyncio.run(race(number, number * 0.0001))
        assert (room.folder / f"d{number}").exists() == done
        assert not done or len(room.read(f"d{number}/f")) == 100_000
