"""`ls`: entries, order, depth, ignored and hidden ones (001 R4.9-R4.12, 000 Properties 22-24)."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.errors import FileNotFound, InvalidArguments, InvalidPath, NotADirectory
from ollm_tui.core.base.escape import quote_name
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.tools.context import Limits
from ollm_tui.core.tools.ls import LS, LsData, LsEntry
from tests.core.tools.file_reads import call, called, write

NAMES = st.text(st.characters(codec="utf-8", blacklist_characters="/\0"), min_size=1, max_size=6).filter(
    lambda name: name not in (".", "..", ".git", ".gitignore") and len(name.encode()) < 200
)
TREES = st.sets(st.lists(NAMES, min_size=1, max_size=4).map(tuple), min_size=1, max_size=10)


def entries_of(result: ToolResult) -> tuple[LsEntry, ...]:
    assert isinstance(result.data, LsData)
    return result.data.entries


def made(root: Path, tree: set[tuple[str, ...]]) -> None:
    for parts in sorted(tree):
        try:
            root.joinpath(*parts).parent.mkdir(parents=True, exist_ok=True)
            root.joinpath(*parts).write_text("x")
        except OSError:
            continue


@given(TREES, st.booleans())
@settings(max_examples=100, deadline=None)
def test_property_22_lists_every_entry_that_is_not_hidden(tree: set[tuple[str, ...]], hidden: bool) -> None:
    """Property 22: all of them with includeHidden."""
    with tempfile.TemporaryDirectory() as folder:
        made(Path(folder), tree)
        expected = {name for name in os.listdir(folder) if hidden or not name.startswith(".")}
        directories = {name for name in expected if os.path.isdir(os.path.join(folder, name))}
        result = called(LS, folder, {"path": ".", "includeHidden": hidden})
    assert {entry["name"] for entry in entries_of(result)} == {quote_name(name) for name in expected}
    assert {entry["name"] for entry in entries_of(result) if entry["type"] == "directory"} == {
        quote_name(name) for name in directories
    }
    lines = [f"d {quote_name(name)}" for name in sorted(directories, key=os.fsencode)]
    lines += [f"- {quote_name(name)}" for name in sorted(expected - directories, key=os.fsencode)]
    assert result.llm_content == ("\n".join(lines) or "Directory is empty")


@given(TREES, st.one_of(st.none(), st.integers(0, 4)))
@settings(max_examples=100, deadline=None)
def test_property_23_descends_as_far_as_asked_and_no_further(tree: set[tuple[str, ...]], depth: int | None) -> None:
    """Property 23: three levels when nothing is said."""
    limit = 3 if depth is None else depth
    with tempfile.TemporaryDirectory() as folder:
        made(Path(folder), tree)
        expected = {
            path.relative_to(folder).as_posix()
            for path in Path(folder).rglob("*")
            if len(path.relative_to(folder).parts) <= limit + 1
        }
        arguments = {"recursive": True, "includeHidden": True} | ({} if depth is None else {"maxDepth": depth})
        result = called(LS, folder, {"path": ".", **arguments})
        deeper = any(len(path.relative_to(folder).parts) > limit + 1 for path in Path(folder).rglob("*"))
    assert {entry["path"] for entry in entries_of(result)} == {quote_name(path) for path in expected}
    assert all(entry["depth"] <= limit for entry in entries_of(result))
    said = any(note.startswith(f"stopped {limit} level") for note in result.notes)
    assert said or not deeper or limit == 0


async def test_shows_directories_first_with_their_content_below(tmp_path: Path) -> None:
    write(tmp_path, {"z/y/deep": "", "z/a": "12345", "b": "", "e/": ""})
    (tmp_path / "link").symlink_to("z")
    (tmp_path / "gone").symlink_to("no where")
    os.mkfifo(tmp_path / "pipe")
    result = await call(LS, tmp_path, {"recursive": True})
    assert result.llm_content.split("\n") == [
        "d e",
        "d z",
        "  d y",
        "    - deep",
        "  - a",
        "- b",
        "- gone -> no where",
        "- link -> z",
    ]
    found = {entry["path"]: entry for entry in entries_of(result)}
    assert (found["z/a"]["size"], found["z/a"]["type"], found["z/a"]["depth"]) == (5, "file", 1)
    assert found["link"]["type"] == "symlink"
    modified = found["z/a"]["modified"]
    assert modified is not None
    assert modified.endswith("Z")


async def test_property_24_ignored_entries_are_left_out(tmp_path: Path) -> None:
    """Property 24."""
    write(tmp_path, {".gitignore": "*.log\nout/\n!keep.log\n", "a.log": "", "keep.log": "", "out/x": "", "s/b.log": ""})
    result = await call(LS, tmp_path, {"path": ".", "recursive": True, "includeHidden": True})
    assert result.llm_content == "d s\n- .gitignore\n- keep.log"
    asked_for = await call(LS, tmp_path, {"path": "out"})
    assert asked_for.llm_content == "- x"
    assert asked_for.notes == ("out is ignored by git; it was searched because it was asked for",)


async def test_git_itself_is_never_shown(tmp_path: Path) -> None:
    write(tmp_path, {".git/HEAD": "ref", "a": ""})
    assert (await call(LS, tmp_path, {"includeHidden": True, "recursive": True})).llm_content == "- a"


async def test_stops_at_the_limit_and_says_so(tmp_path: Path) -> None:
    write(tmp_path, {f"d{number}/f": "" for number in range(3)})
    result = await call(LS, tmp_path, {"recursive": True}, limits=Limits(entries=3))
    assert result.llm_content == "d d0\n  - f\nd d1\n[stopped at 3 results; there are more]"
    exact = await call(LS, tmp_path, {"recursive": True}, limits=Limits(entries=6))
    assert "stopped at" not in exact.llm_content


async def test_paths_of_entries_are_relative_to_the_workspace(tmp_path: Path) -> None:
    write(tmp_path, {"ä\tb/c": ""})
    result = await call(LS, tmp_path, {"path": "ä\tb"})
    assert [(entry["name"], entry["path"]) for entry in entries_of(result)] == [("c", '"ä\\tb/c"')]


@pytest.mark.parametrize(
    ("arguments", "failure", "said"),
    [
        ({"path": "gone"}, FileNotFound, "gone"),
        ({"path": "f"}, NotADirectory, "read_file"),
        ({"path": "../"}, InvalidPath, "--add-dir"),
        ({"path": ".", "maxDepth": -1}, InvalidArguments, "maxDepth"),
    ],
)
async def test_refuses_what_is_no_directory(
    tmp_path: Path, arguments: dict[str, str | int], failure: type[Exception], said: str
) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(failure, match=said):
        await call(LS, tmp_path, dict(arguments))


async def test_an_empty_directory_says_so(tmp_path: Path) -> None:
    (tmp_path / ".hidden").touch()
    result = await call(LS, tmp_path, {})
    assert (result.llm_content, entries_of(result)) == ("Directory is empty", ())
