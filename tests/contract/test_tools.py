"""Sentences of contract section 1, "Per tool", that no other test reads word for word."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest

from ollm_tui.core.tools.registry import LATER_TOOLS
from ollm_tui.runtime import Attendance
from tests.contract.contract_calls import open_desk


async def test_an_edit_of_a_file_that_changed_since_it_was_read_says_so(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        place = desk.write("a.txt", "one\ntwo\n")
        edit = {"target": "one", "replacement": "1"}
        for reader, sent in (("read_file", {"path": "a.txt"}), ("read_many_files", {"paths": ["a.txt"]})):
            place.write_text("one\ntwo\n")
            await desk.raw(reader, sent)  # type: ignore[arg-type]  # dict of str is JSON
            place.write_text("zero\none\ntwo\n")
            result = await desk.call("edit_file", path="a.txt", edits=[edit])
            assert result.ok and any("changed since it was read" in note for note in result.notes)
            again = await desk.call("edit_file", path="a.txt", edits=[{"target": "two", "replacement": "2"}])
            assert again.ok and not again.notes
            assert place.read_text() == "zero\n1\n2\n"


async def test_touching_a_file_or_writing_it_oneself_is_no_change_since_it_was_read(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        place = desk.write("a.txt", "one\n")
        await desk.text("read_file", path="a.txt", startLine=1, endLine=1)
        os.utime(place, (1, 1))
        assert not (await desk.call("edit_file", path="a.txt", edits=[{"target": "one", "replacement": "1"}])).notes
        await desk.text("write_file", path="a.txt", content="uno\n", overwrite=True)
        assert not (await desk.call("edit_file", path="a.txt", edits=[{"target": "uno", "replacement": "1"}])).notes


async def test_the_sentences_of_success_are_the_seeds(tmp_path: Path) -> None:
    """000: always in the plural."""
    async with open_desk(tmp_path) as desk:
        assert await desk.text("write_file", path="a.txt", content="x") == "Successfully wrote 1 characters to a.txt"
        edited = await desk.text("edit_file", path="a.txt", edits=[{"target": "x", "replacement": "y"}])
        assert edited == "Successfully applied 1 edits to a.txt"
        assert await desk.text("read_file", path="a.txt", startLine=5) == "(file has 1 lines)"
        assert await desk.text("memory", action="set", key="k", value="v") == "Stored k"
        assert await desk.text("memory", action="delete", key="k") == "Deleted k"


@pytest.mark.parametrize(
    ("name", "sent"),
    [
        ("read_file", {"path": "../x"}),
        ("read_many_files", {"paths": ["../x"]}),
        ("write_file", {"path": "../x", "content": ""}),
        ("edit_file", {"path": "../x", "edits": [{"target": "a", "replacement": "b"}]}),
        ("delete_file", {"path": "../x"}),
        ("move_file", {"from": "a.txt", "to": "../x"}),
        ("move_file", {"from": "../x", "to": "a.txt"}),
        ("glob", {"pattern": "*", "directory": ".."}),
        ("glob", {"pattern": "../*"}),
        ("glob", {"pattern": "/etc/*"}),
        ("grep", {"pattern": "x", "directory": ".."}),
        ("grep", {"pattern": "x", "filePattern": "../*"}),
        ("ls", {"path": ".."}),
        ("shell", {"command": "ls", "cwd": ".."}),
    ],
)
async def test_what_lies_outside_is_refused_and_the_way_in_is_named(tmp_path: Path, name: str, sent: object) -> None:
    async with open_desk(tmp_path, policy='preset = "none"\ndefault_action = "allow"\n[exec]\nmode = "full"\n') as desk:
        desk.write("a.txt", "x")
        result = await desk.raw(name, sent)  # type: ignore[arg-type]  # the cases are JSON
        assert result.error is not None
        assert (result.error.type, result.error.slug) == ("InvalidPathError", "security")
        assert "--add-dir" in result.error.message


async def test_an_added_directory_is_reached_by_every_tool(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as added:
        async with open_desk(tmp_path, add_dirs=(Path(added),)) as desk:
            desk.write("a.txt", "needle\n")
            await desk.text(
                "move_file", **{"from": "a.txt", "to": f"{added}/b.txt"}
            )  # across devices, where there are two
            assert await desk.text("read_file", path=f"{added}/b.txt") == "needle\n"
            assert "b.txt" in await desk.text("ls", path=added)
            assert f"{added}/b.txt:1: needle" in await desk.text("grep", pattern="needle", directory=added)
            await desk.text("delete_file", path=f"{added}/b.txt")
            assert os.listdir(added) == [] and not (desk.folder / "a.txt").exists()


@pytest.mark.parametrize("name", LATER_TOOLS)
async def test_a_tool_of_a_later_version_is_called_just_that(tmp_path: Path, name: str) -> None:
    async with open_desk(tmp_path) as desk:
        if desk.core.registry.get(name) is not None:
            return
        result = await desk.call(name)
        assert result.error is not None
        assert (result.error.type, "not available in this version" in result.error.message) == (
            "ToolNotFoundError",
            True,
        )


async def test_equal_content_asks_nobody(tmp_path: Path) -> None:
    async with open_desk(tmp_path, Attendance.NOBODY) as desk:
        desk.write("a.txt", "same")
        sent = {"path": "a.txt", "content": "same", "overwrite": True}
        assert (await desk.raw("write_file", sent)).llm_content.startswith("No change")  # type: ignore[arg-type]  # JSON
        assert await desk.decision("write_file", path="a.txt", content="same", overwrite=True) == "ask"
        assert await desk.fault("write_file", path="a.txt", content="other", overwrite=True) == "PolicyDeniedError"


async def test_a_pattern_reads_files_and_no_links_to_folders(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        desk.write("sub/in.txt", "x")
        desk.write("a.txt", "a")
        (desk.folder / "link").symlink_to("sub")
        assert await desk.text("read_many_files", paths=["*"]) == "=== a.txt ===\na"


@pytest.mark.parametrize(("lines", "cut"), [(1_999, False), (2_000, False), (2_001, True)])
async def test_a_result_is_cut_beyond_2000_lines_and_not_before(tmp_path: Path, lines: int, cut: bool) -> None:
    async with open_desk(tmp_path) as desk:
        text = "".join(f"{number}\n" for number in range(lines))
        desk.write("a.txt", text)
        for name, sent in (("read_file", {"path": "a.txt"}), ("shell", {"command": "cat a.txt"})):
            result = await desk.raw(name, sent)  # type: ignore[arg-type]  # dict of str is JSON
            assert (result.truncated, "1 lines omitted" in result.llm_content) == (cut, cut), name


async def test_sorting_is_by_code_points_of_the_whole_path(tmp_path: Path) -> None:
    async with open_desk(tmp_path) as desk:
        names = ["sub/f", "sub-x/f", "sub.y/f", "Z", "a", "é", "🙂", "ﬀ", "_"]
        for name in names:
            desk.write(name, "needle\n")
        assert (await desk.text("glob", pattern="**")).splitlines() == sorted(names)
        found = await desk.text("grep", pattern="needle")
        assert [line.split(":")[0] for line in found.splitlines()] == sorted(names)
