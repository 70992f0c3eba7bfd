"""`glob`: patterns, limits, hidden and ignored files (001 R4.1-R4.4, 000 Properties 16-18, 24)."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ollm_tui.core.base.errors import FileNotFound, InvalidArguments, InvalidPath, NotADirectory
from ollm_tui.core.base.escape import unquote_name
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.fence import protected_paths
from ollm_tui.core.search.glob_pattern import GlobPattern, InvalidGlobError
from ollm_tui.core.tools.context import Limits
from ollm_tui.core.tools.glob import GLOB, GlobData
from tests.core.tools.file_reads import call, called, write

NAMES = st.text(st.characters(codec="utf-8", categories=["L", "N", "P", "S"]), min_size=1, max_size=5).filter(
    lambda name: "/" not in name and name not in (".", "..") and not name.startswith(".")
)
SHORT = st.text("ab.x", min_size=1, max_size=3).filter(lambda name: not name.startswith("."))
TREES = st.sets(st.lists(st.one_of(NAMES, SHORT), min_size=1, max_size=3).map(tuple), min_size=1, max_size=12)
PATTERNS = st.lists(
    st.one_of(NAMES, SHORT, st.sampled_from(["*", "**", "?", "a*", "*.x", "[ab]", "[!a]*", "{a,b}", "*a*", "\\a"])),
    min_size=1,
    max_size=3,
).map("/".join)


def paths_of(result: ToolResult) -> list[str]:
    assert isinstance(result.data, GlobData)
    assert result.data.total == len(result.data.paths)
    return list(result.data.paths)


def names_of(result: ToolResult) -> list[str]:
    """The paths as the file system knows them."""
    return [unquote_name(path) if path.startswith('"') and path.endswith('"') else path for path in paths_of(result)]


def made(root: Path, tree: set[tuple[str, ...]]) -> set[str]:
    """The files of a tree that can stand side by side."""
    for parts in sorted(tree):
        if protected_paths.judge_reading(parts) is not None:
            continue
        path = root.joinpath(*parts)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        except OSError:
            continue
    return {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()}


def matches(pattern: str, path: str) -> bool:
    """A slow and simple reading of the pattern, one character after the other."""
    return any(_matches(each, path) for each in _choices(pattern))


def _choices(pattern: str) -> Iterator[str]:
    start, end = pattern.find("{"), pattern.find("}")
    comma = pattern.find(",", start, end)
    if start < 0 or end < start or comma < 0:
        yield pattern
        return
    for choice in pattern[start + 1 : end].split(","):
        yield from _choices(pattern[:start] + choice + pattern[end + 1 :])


def _matches(pattern: str, path: str) -> bool:
    names, parts = pattern.split("/"), path.split("/")
    return _names_match(names, parts)


def _names_match(names: list[str], parts: list[str]) -> bool:
    if not names:
        return not parts
    if names[0] == "**":
        if len(names) == 1:
            return bool(parts)
        return any(_names_match(names[1:], parts[skip:]) for skip in range(len(parts) + 1))
    return bool(parts) and _name_matches(names[0], parts[0]) and _names_match(names[1:], parts[1:])


def _name_matches(pattern: str, name: str) -> bool:
    if not pattern:
        return not name
    head, rest = pattern[0], pattern[1:]
    if head == "*":
        return any(_name_matches(rest, name[skip:]) for skip in range(len(name) + 1))
    if head == "\\" and rest:
        return name[:1] == rest[0] and _name_matches(rest[1:], name[1:])
    if head == "[" and "]" in rest[1:] and rest[0] != "]":
        end = rest.index("]", 1)
        body = rest[:end]
        negated = body[0] in "!^"
        return bool(name) and ((name[0] in body[negated:]) != negated) and _name_matches(rest[end + 1 :], name[1:])
    return bool(name) and (head == "?" or head == name[0]) and _name_matches(rest, name[1:])


ODD = set("[]{}\\!^-,")


@given(TREES, st.lists(PATTERNS, min_size=1, max_size=5))
@settings(max_examples=100, deadline=None)
def test_property_16_finds_all_files_that_match_and_no_others(tree: set[tuple[str, ...]], patterns: list[str]) -> None:
    """Property 16."""
    tree = {parts for parts in tree if not ODD & set("".join(parts))}
    with tempfile.TemporaryDirectory() as folder:
        files = made(Path(folder), tree)
        for pattern in patterns:
            plain = pattern
            for known in ("[ab]", "[!a]", "{a,b}", "\\a"):
                plain = plain.replace(known, "")
            if ODD & set(plain) or ".." in pattern.split("/"):
                continue
            found = names_of(called(GLOB, folder, {"pattern": pattern}))
            assert found == sorted(path for path in files if matches(pattern, path)), pattern


@given(TREES, st.integers(1, 14))
@settings(max_examples=100, deadline=None)
def test_property_17_never_gives_more_than_asked_for(tree: set[tuple[str, ...]], limit: int) -> None:
    """Property 17: the first ones in order, and the last line says when there are more."""
    with tempfile.TemporaryDirectory() as folder:
        files = sorted(made(Path(folder), tree))
        result = called(GLOB, folder, {"pattern": "**/*", "maxResults": limit})
        everything = paths_of(called(GLOB, folder, {"pattern": "**/*"}))
    assert len(everything) == len(files)
    assert paths_of(result) == everything[:limit]
    said = f"[stopped at {limit} results; there are more]"
    assert (result.llm_content.split("\n")[-1] == said) == (len(files) > limit)


HIDDEN = st.builds(lambda name, hide: "." + name if hide else name, NAMES, st.booleans())


@given(st.sets(st.lists(HIDDEN, min_size=1, max_size=3).map(tuple), min_size=1, max_size=10))
@settings(max_examples=100, deadline=None)
def test_property_18_hidden_paths_are_found_only_when_asked_for(tree: set[tuple[str, ...]]) -> None:
    """Property 18: a dotted folder hides all that lies in it."""
    tree = {parts for parts in tree if not ({".git", ".ollm", ".gitignore"} & set(parts)) and ".." not in parts}
    with tempfile.TemporaryDirectory() as folder:
        files = made(Path(folder), tree)
        plain = set(names_of(called(GLOB, folder, {"pattern": "**"})))
        result = called(GLOB, folder, {"pattern": "**", "includeHidden": True})
    visible = {path for path in files if not any(name.startswith(".") for name in path.split("/"))}
    assert plain == visible
    assert set(names_of(result)) == files


async def test_property_24_ignored_files_are_found_only_when_asked_for(tmp_path: Path) -> None:
    """Property 24."""
    write(tmp_path, {".gitignore": "*.log\nout/\n", "a.log": "", "a.py": "", "out/b.py": "", "s/c.log": ""})
    assert paths_of(await call(GLOB, tmp_path, {"pattern": "**/*"})) == ["a.py"]
    found = paths_of(await call(GLOB, tmp_path, {"pattern": "**/*", "includeIgnored": True}))
    assert found == ["a.log", "a.py", "out/b.py", "s/c.log"]


async def test_paths_are_relative_to_the_workspace_and_patterns_to_the_directory(tmp_path: Path) -> None:
    write(tmp_path, {"s/t/a.py": "", "s/b.py": "", "a.py": "", "s/.x/c.py": ""})
    assert paths_of(await call(GLOB, tmp_path, {"pattern": "*.py", "directory": "s"})) == ["s/b.py"]
    assert paths_of(await call(GLOB, tmp_path, {"pattern": "t/*.py", "directory": "s"})) == ["s/t/a.py"]
    assert paths_of(await call(GLOB, tmp_path, {"pattern": "*.py", "directory": "s/.x"})) == ["s/.x/c.py"]
    assert paths_of(await call(GLOB, tmp_path, {"pattern": f"{tmp_path.resolve()}/s/*.py"})) == ["s/b.py"]
    assert paths_of(await call(GLOB, tmp_path, {"pattern": "./s/**/*.py"})) == ["s/b.py", "s/t/a.py"]


async def test_links_are_listed_and_never_followed(tmp_path: Path) -> None:
    write(tmp_path, {"d/f.py": ""})
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "l.py").symlink_to("d/f.py")
    os.mkfifo(tmp_path / "pipe.py")
    assert paths_of(await call(GLOB, tmp_path, {"pattern": "**/*"})) == ["d/f.py", "l.py", "loop"]


async def test_odd_names_are_found_and_shown_quoted(tmp_path: Path) -> None:
    write(tmp_path, {"a\nb.py": "", "file[1].txt": "", "file1.txt": "", 'q".py': ""})
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/c\xff.py")).touch()
    found = paths_of(await call(GLOB, tmp_path, {"pattern": "*.py"}))
    assert sorted(found) == sorted(['"a\\nb.py"', '"c\\377.py"', '"q\\".py"'])
    assert paths_of(await call(GLOB, tmp_path, {"pattern": "?" + "?.py"})) == ['"c\\377.py"', '"q\\".py"']
    assert paths_of(await call(GLOB, tmp_path, {"pattern": "file[1].txt"})) == ["file1.txt"]
    (tmp_path / "file1.txt").unlink()
    assert paths_of(await call(GLOB, tmp_path, {"pattern": "file[1].txt"})) == ["file[1].txt"]


async def test_credentials_are_left_out_with_a_note(tmp_path: Path) -> None:
    write(
        tmp_path,
        {".env": "", ".env.example": "", "id_rsa": "", "a.py": "", ".aws/config": "", ".docker/config.json": ""},
    )
    result = await call(GLOB, tmp_path, {"pattern": "**", "includeHidden": True})
    assert paths_of(result) == [".env.example", "a.py"]
    assert result.notes == ("4 entries that hold credentials or settings left out; read_file asks a person",)


async def test_other_names_of_credentials_are_left_out_too(tmp_path: Path) -> None:
    write(tmp_path, {".env": "", "a": ""})
    os.link(tmp_path / ".env", tmp_path / "notes.txt")
    result = await call(GLOB, tmp_path, {"pattern": "*"})
    assert paths_of(result) == ["a"]
    assert result.notes == ("1 entry that holds credentials or settings left out; read_file asks a person",)


async def test_other_names_are_left_out_also_where_the_credentials_are_met_later(tmp_path: Path) -> None:
    write(tmp_path, {"z/id_rsa": "", "b": ""})
    os.link(tmp_path / "z/id_rsa", tmp_path / "a")
    result = await call(GLOB, tmp_path, {"pattern": "**"})
    assert paths_of(result) == ["b"]
    assert result.notes == ("2 entries that hold credentials or settings left out; read_file asks a person",)


@pytest.mark.parametrize("pattern", ["s", "s/", "s/t"])
async def test_a_folder_is_no_file_and_that_is_said(tmp_path: Path, pattern: str) -> None:
    write(tmp_path, {"s/t/a.py": ""})
    result = await call(GLOB, tmp_path, {"pattern": pattern})
    assert result.llm_content == "No files found"
    assert result.notes == (f"{pattern} is a directory; ls lists it, {pattern.rstrip('/')}/** finds its files",)


async def test_says_when_nothing_is_found_and_where_the_limit_is(tmp_path: Path) -> None:
    write(tmp_path, dict.fromkeys("abc", ""))
    nothing = await call(GLOB, tmp_path, {"pattern": "*.none"})
    assert (nothing.llm_content, nothing.ok) == ("No files found", True)
    limited = await call(GLOB, tmp_path, {"pattern": "*"}, limits=Limits(entries=2))
    assert limited.llm_content == "a\nb\n[stopped at 2 results; there are more]"
    exact = await call(GLOB, tmp_path, {"pattern": "*", "maxResults": 3})
    assert exact.llm_content == "a\nb\nc"


@pytest.mark.parametrize(
    ("arguments", "failure"),
    [
        ({"pattern": ""}, InvalidArguments),
        ({"pattern": " "}, InvalidArguments),
        ({"pattern": "a\0"}, InvalidArguments),
        ({"pattern": "*", "maxResults": 0}, InvalidArguments),
        ({"pattern": "{" + "{a,b}" * 12 + "}"}, InvalidArguments),
        ({"pattern": "../*"}, InvalidPath),
        ({"pattern": "/etc/*"}, InvalidPath),
        ({"pattern": "*", "directory": ".."}, InvalidPath),
        ({"pattern": "*", "directory": "gone"}, FileNotFound),
        ({"pattern": "*", "directory": "f"}, NotADirectory),
    ],
)
async def test_refuses_what_cannot_be_searched(
    tmp_path: Path, arguments: dict[str, str | int], failure: type[Exception]
) -> None:
    (tmp_path / "f").touch()
    with pytest.raises(failure):
        await call(GLOB, tmp_path, dict(arguments))


@given(st.text(min_size=1, max_size=30), st.text(st.characters(codec="utf-8", blacklist_characters="\0"), min_size=1))
@settings(max_examples=100)
def test_any_text_is_a_pattern_or_says_why_not(pattern: str, path: str) -> None:
    try:
        compiled = GlobPattern(pattern)
    except InvalidGlobError:
        return
    assert set(compiled.matching([path.encode()])) <= {path.encode()}


def test_a_hostile_pattern_takes_no_longer_than_a_plain_one() -> None:
    started = time.perf_counter()
    assert list(GlobPattern("*a" * 60 + "b").matching([b"a" * 250] * 50)) == []
    assert time.perf_counter() - started < 20
