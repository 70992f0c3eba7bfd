"""`grep`: lines, limits, encodings, and two engines that agree (001 R4.5-R4.8, 000 Properties 19-21, 24)."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import time
import tracemalloc
import unicodedata
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import FileNotFound, InvalidArguments, InvalidPath, OperationCancelled
from ollm_tui.core.base.regex import compile_bytes
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.fence import dir_handle
from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.search import file_search, python_search
from ollm_tui.core.search.line_query import CUT_MARK, MAX_LINE_CHARS, LineQuery
from ollm_tui.core.search.ripgrep import Ripgrep, find_ripgrep
from ollm_tui.core.tools import grep
from ollm_tui.core.tools.context import Limits
from ollm_tui.core.tools.grep import GREP, GrepData, GrepMatch
from tests.core.tools.file_reads import call, called, git, write
from tests.processes import children_that

ENGINES = ["ripgrep", "ripgrep, settled", "here"]
"""In folders that have just changed nothing is taken from ripgrep's output unless the files say the same."""


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each test runs with ripgrep and without."""
    name = str(request.param)
    if name == "here":
        monkeypatch.setattr(grep, "ripgrep_for", lambda workspace: None)
    elif find_ripgrep(()) is None:
        pytest.skip("ripgrep is not installed")
    elif name == "ripgrep, settled":
        monkeypatch.setattr(dir_handle, "SETTLED", -(10**18))
    return name


def matches_of(result: ToolResult) -> tuple[GrepMatch, ...]:
    assert isinstance(result.data, GrepData)
    assert result.data.total == len(result.data.matches)
    return result.data.matches


def here(root: Path | str, arguments: dict[str, JsonValue]) -> ToolResult:
    """A call with the engine in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grep, "ripgrep_for", lambda workspace: None)
        return called(GREP, root, arguments)


CHARACTERS = st.characters(codec="utf-8", blacklist_characters="\0\n\r\ufeff")
LINES = st.text(st.one_of(CHARACTERS, st.sampled_from("abAB .")), max_size=12)
ENDS = st.sampled_from(["\n", "\r\n"])
FILES = st.dictionaries(
    st.text("abxyz", min_size=1, max_size=3).map(lambda name: name + ".txt"),
    st.lists(LINES, max_size=6).map("\n".join),
    min_size=1,
    max_size=5,
)


@given(FILES, st.lists(LINES.filter(bool), min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_property_19_gives_every_line_that_contains_the_text(files: dict[str, str], needles: list[str]) -> None:
    """Property 19, and Property 20 with case counting, on any text."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), files)
        for needle in [*needles, *(line[:3] for content in files.values() for line in content.split("\n")[:1] if line)]:
            result = here(folder, {"pattern": needle, "fixedString": True, "caseSensitive": True})
            expected = [
                f"{name}:{number}: {line}"
                for name in sorted(files)
                for number, line in enumerate(files[name].split("\n"), 1)
                if needle in line
            ]
            assert result.llm_content == ("\n".join(expected) or "No matches found")


@given(FILES, st.text("abAB", min_size=1, max_size=3))
@settings(max_examples=100, deadline=None)
def test_property_20_case_counts_only_when_asked_for(files: dict[str, str], needle: str) -> None:
    """Property 20."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), files)
        exact = {(m["path"], m["line"]) for m in matches_of(here(folder, {"pattern": needle, "caseSensitive": True}))}
        any_case = {(m["path"], m["line"]) for m in matches_of(here(folder, {"pattern": needle}))}
    lines = {(name, number): line for name in files for number, line in enumerate(files[name].split("\n"), 1)}
    assert exact == {place for place, line in lines.items() if needle in line}
    assert any_case == {place for place, line in lines.items() if re.search(needle, line, re.IGNORECASE)}


@given(FILES, st.sampled_from(["a*.txt", "*.txt", "?.txt", "x.txt", "*.py", "{a,b}*.txt", "s/*.txt", "s/**"]))
@settings(max_examples=100, deadline=None)
def test_property_21_only_files_that_fit_the_pattern_are_searched(files: dict[str, str], file_pattern: str) -> None:
    """Property 21: names at any depth without a slash, paths with one."""
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), dict.fromkeys(files, "needle") | {f"s/{name}": "needle" for name in files})
        result = here(folder, {"pattern": "needle", "filePattern": file_pattern})
        pattern = file_pattern if "/" in file_pattern else f"**/{file_pattern}"
        expected = {
            path.relative_to(folder).as_posix()
            for choice in "ab"
            for path in Path(folder).glob(pattern.replace("{a,b}", choice))
            if path.is_file()
        }
    if file_pattern == "s/**":
        expected = {f"s/{name}" for name in files}
    assert {match["path"] for match in matches_of(result)} == expected


PATTERNS = st.one_of(
    # Where an empty match of \\A stands in a line, and where words end that are not ASCII, ripgrep says otherwise.
    st.text("abAB.*+?|()[]^$\\wds ", min_size=1, max_size=8).filter(lambda text: not re.search(r"\\[ABb]", text)),
    st.sampled_from([r"\w+", r"^\s*$", r"é|à", r"[^a]b$", r"\d{2}", "a|^$", r"\bab\b", "", "x*", r"[\w.]+b"]),
)

KNOWN = compile_bytes(rb"[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Z}\p{C}]", utf_8=True)
"""Characters that RE2's tables have: newer ones are letters or digits to ripgrep, whose Unicode is another version's."""
KNOWN_LINES = st.text(
    st.one_of(CHARACTERS.filter(lambda char: KNOWN.search(char.encode()) is not None), st.sampled_from("abAB .")),
    max_size=12,
)


@pytest.mark.skipif(find_ripgrep(()) is None, reason="ripgrep is not installed")
def test_both_engines_take_the_same_characters_for_letters_digits_and_spaces(tmp_path: Path) -> None:
    codes = (code for code in range(0x20, 0x20000) if unicodedata.category(chr(code)) not in ("Cn", "Co", "Cs"))
    characters = [char for char in map(chr, codes) if KNOWN.search(char.encode())]
    assert len(characters) > 70_000
    (tmp_path / "characters").write_text("\n".join(characters))
    program = find_ripgrep(())
    assert program is not None
    flags = ("--no-config", "--no-line-number", "--case-sensitive", "--binary")
    for members in (r"\w", r"\d", r"[\s.]"):
        argv = [program, *flags, "-e", f"^{members}$", tmp_path / "characters"]
        found = subprocess.run(argv, check=True, capture_output=True, text=True).stdout
        here = LineQuery(f"^{members}$", case_sensitive=True).compiled()
        assert [char for char in characters if here.search(char.encode())] == found.split("\n")[:-1]


@pytest.mark.skipif(find_ripgrep(()) is None, reason="ripgrep is not installed")
@given(
    st.dictionaries(
        st.text("ab/.x", min_size=1, max_size=6).filter(lambda name: name.strip("/.") == name and "//" not in name),
        st.builds(lambda lines, end: end.join(lines), st.lists(KNOWN_LINES, max_size=6), ENDS),
        min_size=1,
        max_size=4,
    ),
    PATTERNS,
    st.booleans(),
    st.integers(0, 2),
    st.one_of(st.none(), st.integers(1, 4)),
)
@example({"a": "\n00\n\n"}, "^A?$", False, 1, 1)
@example({"a": "ºAB"}, r"\bab\b", False, 0, None)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_both_engines_give_the_same_lines_in_the_same_order(
    files: dict[str, str], pattern: str, case: bool, context: int, limit: int | None
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name, content in files.items():
            if r"\b" in pattern:  # the edge of a word is ASCII's for RE2, which finds `ab` in `ºab`
                content = "".join(filter(str.isascii, content))  # noqa: PLW2901  # written below instead of it
            try:
                write(Path(folder), {name: content})
            except OSError:
                continue
        arguments: dict[str, JsonValue] = {"pattern": pattern, "caseSensitive": case, "context": context}
        if limit is not None:
            arguments["maxResults"] = limit
        try:
            ours, ripgreps = here(folder, arguments), called(GREP, folder, arguments)
        except InvalidArguments:
            return  # each takes a few expressions that the other does not
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(dir_handle, "SETTLED", -(10**18))
            settled = called(GREP, folder, arguments)
    assert settled.llm_content == ripgreps.llm_content
    assert matches_of(settled) == matches_of(ripgreps)
    assert ours.llm_content == ripgreps.llm_content
    assert matches_of(ours) == matches_of(ripgreps)


WESTERN = st.text(st.one_of(st.characters(max_codepoint=255), st.sampled_from("aé à\n\r")), max_size=30)
PLAIN_WESTERN = WESTERN.filter(lambda text: not text.isascii() and not set(text) & set(r".^$*+?{}[]\|()"))
"""Without an empty alternative such as `|é`, for which the engines differ where a file is not UTF-8."""
CODECS = st.sampled_from(["utf-8", "iso-8859-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-8-sig"])


@pytest.mark.skipif(find_ripgrep(()) is None, reason="ripgrep is not installed")
@given(
    st.lists(st.one_of(st.binary(max_size=40), st.builds(str.encode, WESTERN, CODECS)), min_size=1, max_size=5),
    st.sampled_from(["é", "[à-ü]+", "a?é$", "(?i)É|ÿ", "^\\xe9"]) | PLAIN_WESTERN,
    st.booleans(),
    st.integers(0, 1),
    st.one_of(st.none(), st.integers(1, 3)),
)
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_both_engines_agree_on_other_encodings(
    files: list[bytes], pattern: str, case: bool, context: int, limit: int | None
) -> None:
    arguments: dict[str, JsonValue] = {"pattern": pattern, "caseSensitive": case, "context": context}
    if limit is not None:
        arguments["maxResults"] = limit
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), {f"{number}": content for number, content in enumerate(files)})
        for directory in (".", "0"):
            try:
                ours, ripgreps = (each(folder, {**arguments, "directory": directory}) for each in (here, by_ripgrep))
            except InvalidArguments:
                return
            assert ours.llm_content == ripgreps.llm_content
            assert matches_of(ours) == matches_of(ripgreps)
            assert ours.notes == ripgreps.notes


def by_ripgrep(root: str, arguments: dict[str, JsonValue]) -> ToolResult:
    return called(GREP, root, arguments)


async def test_output_and_data(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"b.py": "one\nTwo é two\r\nthree\n", "a/c.py": "no\ntwo", "z": "x"})
    result = await call(GREP, tmp_path, {"pattern": "é t|^two"})
    assert result.llm_content == "a/c.py:2: two\nb.py:2: Two é two"
    assert matches_of(result) == (
        {"path": "a/c.py", "line": 2, "column": 1, "text": "two"},
        {"path": "b.py", "line": 2, "column": 1, "text": "Two é two"},
    )
    inner = await call(GREP, tmp_path, {"pattern": "é TWO$"})
    assert [match["column"] for match in matches_of(inner)] == [5]
    context = await call(GREP, tmp_path, {"pattern": "three", "context": 1})
    assert context.llm_content == "b.py-2- Two é two\nb.py:3: three"
    nothing = await call(GREP, tmp_path, {"pattern": "nowhere"})
    assert (nothing.llm_content, nothing.ok) == ("No matches found", True)


async def test_the_beginning_that_can_be_matched_is_that_of_each_line(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"f": "x\ny\nx\nyx[A\n"})
    result = await call(GREP, tmp_path, {"pattern": r"\Ax"})
    assert [match["line"] for match in matches_of(result)] == [1, 3]
    in_class = await call(GREP, tmp_path, {"pattern": r"[\[A]$"})
    assert [match["line"] for match in matches_of(in_class)] == [4]


async def test_directory_may_be_a_file_or_below(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"s/a": "x\nx", "b": "x", ".gitignore": "s/a"})
    assert (await call(GREP, tmp_path, {"pattern": "x", "directory": "s/a"})).llm_content == "s/a:1: x\ns/a:2: x"
    limited = await call(GREP, tmp_path, {"pattern": "x", "directory": "s/a", "maxResults": 1})
    assert limited.llm_content == "s/a:1: x\n[stopped at 1 results; there are more]"
    assert (await call(GREP, tmp_path, {"pattern": "x"})).llm_content == "b:1: x"


async def test_property_24_ignored_and_hidden_files_are_searched_only_when_asked_for(
    tmp_path: Path, engine: str
) -> None:
    """Property 24."""
    write(tmp_path, {".gitignore": "*.log\n", "a.log": "x", ".h": "x", "b": "x", ".git/HEAD": "x", ".rgignore": "b"})
    assert (await call(GREP, tmp_path, {"pattern": "x"})).llm_content == "b:1: x"
    hidden = await call(GREP, tmp_path, {"pattern": "x", "includeHidden": True})
    assert hidden.llm_content == ".h:1: x\nb:1: x"
    everything = await call(GREP, tmp_path, {"pattern": "x", "includeHidden": True, "includeIgnored": True})
    assert everything.llm_content == ".h:1: x\na.log:1: x\nb:1: x"


@pytest.mark.parametrize("rules", ["{a,b}.txt\n", "[[:alpha:]].txt\n", "*.txt\n\xff\n!a.txt\n", "*.txt\n"])
async def test_property_24_searches_what_git_lists_where_ripgrep_alone_would_not(
    tmp_path: Path, rules: str, engine: str
) -> None:
    """Property 24, for rules that ripgrep reads otherwise and for files tracked although ignored."""
    write(tmp_path, {".gitignore": rules.encode("latin-1")})
    write(tmp_path, dict.fromkeys(("a.txt", "tracked.txt", "b.txt"), "needle"))
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "-f", "tracked.txt")
    listed = git(tmp_path, "ls-files", "-co", "--exclude-standard").decode().split()
    result = await call(GREP, tmp_path, {"pattern": "needle"})
    assert [match["path"] for match in matches_of(result)] == [each for each in sorted(listed) if each != ".gitignore"]


async def test_nested_repositories_have_rules_of_their_own(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {".gitignore": "*.log\n", "in/x.log": "needle", "in/.gitignore": "*.txt\n", "in/y.txt": "needle"})
    git(tmp_path / "in", "init", "-q")
    assert [match["path"] for match in matches_of(await call(GREP, tmp_path, {"pattern": "needle"}))] == ["in/x.log"]


async def test_encodings_and_binary_files(tmp_path: Path, engine: str) -> None:
    write(
        tmp_path,
        {
            "bin": b"needle\0\nneedle\n",
            "late": b"line\n" * 3000 + b"a\0 needle\n",
            "latin1": "é needle é\n".encode("latin-1"),
            "utf16": "x\né needle\n".encode("utf-16"),
            "bom": b"\xef\xbb\xbfneedle\n",
            "crlf": b"a\r\nneedle\r\n",
            "unended": b"needle",
            "-": b"needle\n",
        },
    )
    result = await call(GREP, tmp_path, {"pattern": "needle$|needle "})
    assert result.llm_content.split("\n") == [
        "-:1: needle",
        "bom:1: needle",
        "crlf:2: needle",
        "late:3001: a\0 needle",
        "latin1:1: é needle é",
        "unended:1: needle",
        "utf16:2: é needle",
    ]
    assert result.notes == ("1 binary file matches, but cannot be shown",)
    columns = {match["path"]: match["column"] for match in matches_of(result)}
    assert columns == {"-": 1, "bom": 1, "crlf": 1, "late": 4, "latin1": 3, "unended": 1, "utf16": 3}


async def test_bytes_that_are_no_utf_8_are_shown_as_letters(tmp_path: Path, engine: str) -> None:
    quoted = "\u201cneedle\u201d é€\n".encode("cp1252")
    write(tmp_path, {"a": quoted, "b": b"\x81 needle\n", "c": "é ".encode() + b"needle \xff\n"})
    result = await call(GREP, tmp_path, {"pattern": "needle"})
    assert result.llm_content == "a:1: \u201cneedle\u201d é€\nb:1: \x81 needle\nc:1: Ã© needle ÿ"
    assert [match["column"] for match in matches_of(result)] == [2, 3, 4]


OTHER_ENCODINGS = ["iso-8859-1", "cp1252", "utf-16-le", "utf-16-be", "utf-16", "utf-32", "utf-32-be", "utf-8-sig"]


@pytest.mark.parametrize("codec", OTHER_ENCODINGS)
@pytest.mark.parametrize("pattern", ["café", "CAFÉ", "caf\\xe9 ", "^caf\\p{L} au"])
async def test_characters_beyond_ascii_are_found_in_any_encoding(
    tmp_path: Path, engine: str, codec: str, pattern: str
) -> None:
    mark = "\ufeff" if codec == "utf-32-be" else ""
    text = f"{mark}un\r\ncafé au lait\r\nnaïve"
    write(tmp_path, {"s/x": text.encode(codec), "plain": "café au lait\n", "bin": b"\0\xe9\0\0" * 99})
    result = await call(GREP, tmp_path, {"pattern": pattern})
    assert result.llm_content == "plain:1: café au lait\ns/x:2: café au lait"
    assert [match["column"] for match in matches_of(result)] == [1, 1]
    near = await call(GREP, tmp_path, {"pattern": pattern, "context": 1, "filePattern": "x"})
    assert near.llm_content == "s/x-1- un\ns/x:2: café au lait\ns/x-3- naïve"


async def test_words_of_other_scripts_are_found_in_their_old_encodings(tmp_path: Path, engine: str) -> None:
    texts = {
        "koi8_r": "привет мир, это не она\n",
        "cp1251": "это привет от нас\n",
        "cp932": "これはペンです\nデータ\n",
    }
    write(tmp_path, {codec: text.encode(codec) for codec, text in texts.items()})
    result = await call(GREP, tmp_path, {"pattern": "привет|データ"})
    assert result.llm_content == "cp1251:1: это привет от нас\ncp932:2: データ\nkoi8_r:1: привет мир, это не она"


async def test_one_wrong_byte_hides_no_other_line(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"mixed": "über\n".encode() + b"\xfcber\n\xff\n"})
    result = await call(GREP, tmp_path, {"pattern": "ü"})
    assert result.llm_content == "mixed:1: über\nmixed:2: über"


@pytest.mark.parametrize("codec", ["utf-16-le", "utf-16-be", "utf-32", "utf-16"])
async def test_a_file_that_was_named_is_searched_whatever_its_encoding(tmp_path: Path, engine: str, codec: str) -> None:
    write(tmp_path, {"x": "one\nthe needle\n".encode(codec)})
    assert (await call(GREP, tmp_path, {"pattern": "needle", "directory": "x"})).llm_content == "x:2: the needle"


async def test_a_text_too_large_to_be_decoded_is_told(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(python_search, "MAX_WIDE_BYTES", 100_000)
    write(tmp_path, {"x": b"caf\xe9\n" * 100_000, "y": "café\n", "z": b"\0" * 500_000, "u": "café\n" * 50_000})
    result = await call(GREP, tmp_path, {"pattern": "café", "maxResults": 50_002})
    assert result.data is not None
    assert matches_of(result)[-1]["path"] == "y"
    assert (
        "1 file is not UTF-8 and too large to decode: its bytes were searched for the pattern as UTF-8" in result.notes
    )


PIECES = (
    st.text("aé€😀\n", min_size=1, max_size=3)
    .map(str.encode)
    .flatmap(
        lambda text: st.tuples(st.integers(0, len(text)), st.integers(0, len(text))).map(
            lambda cut: text[min(cut) : max(cut)]
        )
    )
)
"""Characters of any length, cut within."""


@settings(max_examples=100, deadline=None)
@given(st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | st.lists(PIECES, max_size=4).map(b"".join))
def test_what_is_no_utf_8_is_told_from_what_is(content: bytes) -> None:
    program = find_ripgrep(())
    if program is None:
        pytest.skip("ripgrep is not installed")
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), {"x": content})
        write(Path(folder), {"y": "plain é\n"})
        found = asyncio.run(Ripgrep(program).in_other_encodings(DirHandle.at(os.fsencode(folder)), [b"x", b"y"]))
    try:
        content.replace(b"\0", b"\n").decode()
        plain = True
    except UnicodeDecodeError:
        plain = False
    assert found == (frozenset() if plain else {b"x"})


async def test_files_with_much_else_than_text_cost_little_memory(
    tmp_path: Path, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = tmp_path
    tmp_path = root / "w"
    tmp_path.mkdir()
    if engine != "here":
        limited, codes = root / "limited", root / "codes"
        limited.write_text(f'#!/bin/sh\nulimit -v 250000\n"{find_ripgrep(())}" "$@"\necho $? >> {codes}\n')
        limited.chmod(0o755)
        monkeypatch.setattr(grep, "ripgrep_for", lambda workspace: Ripgrep(limited))
    with (tmp_path / "sparse").open("wb") as file:
        file.write(b"x\0")
        file.truncate(300_000_000)
    with (tmp_path / "text, then nothing").open("wb") as file:
        file.write(b"line\n" * 2000 + b"needle\n")
        file.truncate(100_000_000)
    write(tmp_path, {"a": "needle\n", "b": b"\0needle\0"})
    tracemalloc.start()
    try:
        result = await call(GREP, tmp_path, {"pattern": "needle"})
        assert tracemalloc.get_traced_memory()[1] < 100_000_000
    finally:
        tracemalloc.stop()
    assert result.llm_content == "a:1: needle\ntext, then nothing:2001: needle"
    assert result.notes == ("1 binary file matches, but cannot be shown",)
    if engine != "here":
        assert set((root / "codes").read_text().split()) == {"0"}


async def test_folders_whose_names_look_like_the_engines_output(tmp_path: Path, engine: str) -> None:
    odd = 'x: binary file matches (found "\\0" byte around offset 3)\n.'
    write(tmp_path, {f"{odd}/foo": "needle\n", "x": "no\n", "foo": "no\n", "z": b"needle\0"})
    result = await call(GREP, tmp_path, {"pattern": "needle"})
    assert [os.path.basename(match["path"].strip('"')) for match in matches_of(result)] == ["foo"]
    assert result.llm_content.startswith('"x: binary file')
    assert result.notes == ("1 binary file matches, but cannot be shown",)


async def test_a_long_line_behind_binary_files_is_shown_once_and_in_order(tmp_path: Path, engine: str) -> None:
    long = b"x" * 3000 + b"\nneedle"
    write(
        tmp_path,
        {f"{number:02}{kind}": text for number in range(20) for kind, text in (("b", b"needle\0"), ("t", long))},
    )
    result = await call(GREP, tmp_path, {"pattern": "needle", "context": 1})
    shown = [line.rstrip("x[.]") for line in result.llm_content.split("\n")]
    assert shown == [line for number in range(20) for line in (f"{number:02}t-1- ", f"{number:02}t:2: needle")]


async def test_context_changes_nothing_about_what_is_found(tmp_path: Path, engine: str) -> None:
    late = b"line\n" * 3000 + b"a\0 needle\n"
    write(tmp_path, {"bin": b"x\nneedle\0\nfoo", "late": late, "later": b"x\nneedle\n" + b"line\n" * 30000 + b"\0\n"})
    result = await call(GREP, tmp_path, {"pattern": "needle", "context": 1})
    assert result.llm_content == "late-3000- line\nlate:3001: a\0 needle\nlater-1- x\nlater:2: needle\nlater-3- line"
    assert result.notes == ("1 binary file matches, but cannot be shown",)
    first = await call(GREP, tmp_path, {"pattern": "needle", "context": 1, "maxResults": 1})
    assert first.llm_content == "late-3000- line\nlate:3001: a\0 needle\n[stopped at 1 results; there are more]"


async def test_many_binary_files_between_texts_are_counted(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {f"b{number}\n{number}": b"needle\0" for number in range(50)} | {"a": "needle", "z/c": "needle"})
    result = await call(GREP, tmp_path, {"pattern": "needle"})
    assert result.llm_content == "a:1: needle\nz/c:1: needle"
    assert result.notes == ("50 binary files match, but cannot be shown",)


async def test_long_lines_are_cut_around_the_match(tmp_path: Path, engine: str) -> None:
    write(
        tmp_path,
        {
            "a": b"x" * 10_000_000 + "é".encode() * 1000 + b"needle" + b"y" * 1000 + b"\nneedle\n",
            "b": b"needle" + b"z" * 600,
            "c": "w" * 5000 + "needle" + "é" * 10,
        },
    )
    result = await call(GREP, tmp_path, {"pattern": "needle"})
    first, second, third, fourth = matches_of(result)
    assert first["column"] == 10_001_001
    assert first["text"] == CUT_MARK + "é" * 150 + "needle" + "y" * (MAX_LINE_CHARS - 156) + CUT_MARK
    assert (second["line"], second["text"]) == (2, "needle")
    assert third["text"] == "needle" + "z" * (MAX_LINE_CHARS - 6) + CUT_MARK
    assert fourth["column"] == 5001
    assert fourth["text"].startswith(CUT_MARK + "w")
    assert fourth["text"].endswith("needle" + "é" * 10)


async def test_odd_names(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"a\nb:1: x": "x", "-e": "x", "--help": "x"})
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/c\xff")).write_text("x")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(".")
    (tmp_path / "link").symlink_to("-e")
    result = await call(GREP, tmp_path, {"pattern": "x"})
    assert result.llm_content == '--help:1: x\n-e:1: x\n"a\\nb:1: x":1: x\n"c\\377":1: x'


async def test_credentials_are_skipped_with_a_note(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {".env": "KEY=needle", "server.pem": "needle", "a": "needle", ".ollm/config.toml": "needle"})
    result = await call(GREP, tmp_path, {"pattern": "needle", "includeHidden": True})
    assert result.llm_content == "a:1: needle"
    assert result.notes == ("3 entries that hold credentials or settings left out; read_file asks a person",)
    named = await call(GREP, tmp_path, {"pattern": "needle", "directory": ".env"})
    assert named.llm_content == ".env:1: KEY=needle"


async def test_other_names_of_credentials_are_skipped_too(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {".env": "KEY=needle", "a/server.pem": "needle", "z": "needle", "k": "needle"})
    os.link(tmp_path / ".env", tmp_path / "a/notes.txt")
    os.link(tmp_path / "a/server.pem", tmp_path / "a/z.txt")
    os.link(tmp_path / "k", tmp_path / "l")
    result = await call(GREP, tmp_path, {"pattern": "needle"})
    assert result.llm_content == "k:1: needle\nl:1: needle\nz:1: needle"
    assert result.notes == ("3 entries that hold credentials or settings left out; read_file asks a person",)
    unlimited = await call(GREP, tmp_path, {"pattern": "needle", "maxResults": 50})
    assert unlimited.llm_content == result.llm_content


async def test_other_names_are_skipped_wherever_the_credentials_lie(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    root = tmp_path / "w"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write(
        tmp_path,
        {
            "home/.ssh/work": "needle",
            "w/.gitignore": ".env\n",
            "w/z/.env": "needle",
            "w/z/id_rsa": "needle",
            "w/s/.env": "needle",
            "w/plain": "needle",
        },
    )
    for number, path in enumerate(("home/.ssh/work", "w/z/.env", "w/z/id_rsa", "w/s/.env")):
        os.link(tmp_path / path, root / f"a{number}")
        os.link(tmp_path / path, root / f"s/{number}")
    for limit in ({}, {"maxResults": 50}):
        result = await call(GREP, root, {"pattern": "needle", **limit})
        assert result.llm_content == "plain:1: needle"
        assert "9 entries that hold credentials" in result.notes[0]
    below = await call(GREP, root, {"pattern": "needle", "directory": "s"})
    assert below.llm_content == "No matches found", "whatever folder holds the names of these"
    assert "4 entries that hold credentials" in below.notes[0]


async def test_a_file_that_becomes_a_link_meanwhile_is_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    root = tmp_path / "w"
    write(tmp_path, {"outside": "needle of others", "w/a": "needle", "w/b": "needle", "w/c": b"needle" + b"x" * 2000})
    swapped = file_search.next_batch

    def swap(*arguments: Any) -> list[bytes]:  # Any: whatever it takes, it is passed on
        batch = swapped(*arguments)
        for name in "bc":
            (root / name).unlink(missing_ok=True)
            (root / name).symlink_to(tmp_path / "outside")
        return batch

    monkeypatch.setattr(file_search, "next_batch", swap)
    result = await call(GREP, root, {"pattern": "needle", "maxResults": 50})
    assert result.llm_content == "a:1: needle"


async def test_the_first_matches_in_order_are_given_and_the_limit_is_said(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {f"{number:03}": "x\nx\n" for number in range(600)})
    result = await call(GREP, tmp_path, {"pattern": "x", "maxResults": 3})
    assert result.llm_content == "000:1: x\n000:2: x\n001:1: x\n[stopped at 3 results; there are more]"
    exact = await call(GREP, tmp_path, {"pattern": "x", "maxResults": 1200})
    assert len(matches_of(exact)) == 1200
    assert "stopped" not in exact.llm_content
    limited = await call(GREP, tmp_path, {"pattern": "x"}, limits=Limits(entries=5))
    assert limited.llm_content.endswith("002:1: x\n[stopped at 5 results; there are more]")


async def test_a_flood_of_matches_falls_back_to_the_first_in_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    monkeypatch.setattr(file_search, "SWEEP_LIMIT", 10)
    write(tmp_path, {f"{number:03}": "x\n" for number in range(30)})
    result = await call(GREP, tmp_path, {"pattern": "x"}, limits=Limits(entries=20))
    assert [match["path"] for match in matches_of(result)] == [f"{number:03}" for number in range(20)]


@pytest.mark.parametrize(
    ("pattern", "position"),
    [
        ("a(?=b)", 2),
        ("ab(", 3),
        (r"ab\1", 3),
        ("a[b", 2),
        ("a\nb", 2),
        (r"a\nb", 2),
        ("a\0", 2),
        (r"a\<b", 2),
        (r"a\\\>", 4),
    ],
)
async def test_a_pattern_that_cannot_be_searched_names_the_place(
    tmp_path: Path, pattern: str, position: int, engine: str
) -> None:
    with pytest.raises(InvalidArguments) as caught:
        await call(GREP, tmp_path, {"pattern": pattern})
    if engine == "ripgrep" and pattern != "ab(":
        assert caught.value.details["position"] == position
        assert f"at position {position}" in caught.value.message
    assert "fixedString" in caught.value.message


@pytest.mark.parametrize(
    ("arguments", "failure"),
    [
        ({"pattern": ""}, InvalidArguments),
        ({"pattern": "x", "maxResults": 0}, InvalidArguments),
        ({"pattern": "x", "context": -1}, InvalidArguments),
        ({"pattern": "x", "filePattern": "../*"}, InvalidPath),
        ({"pattern": "x", "directory": "/etc"}, InvalidPath),
        ({"pattern": "x", "directory": "gone"}, FileNotFound),
    ],
)
async def test_refuses_what_cannot_be_searched(
    tmp_path: Path, arguments: dict[str, JsonValue], failure: type[Exception], engine: str
) -> None:
    with pytest.raises(failure):
        await call(GREP, tmp_path, arguments)


async def test_a_hostile_pattern_neither_takes_long_nor_holds_the_loop(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {"f": ("a" * 30 + "!\n") * 200})
    waits: list[float] = []

    async def tick() -> None:
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.01)
            waits.append(time.perf_counter() - before)

    ticking = asyncio.create_task(tick())
    started = time.perf_counter()
    result = await call(GREP, tmp_path, {"pattern": "(a+)+$"})
    taken = time.perf_counter() - started
    ticking.cancel()
    assert result.llm_content == "No matches found"
    assert taken < 10  # a backtracking engine would not come back
    assert max(waits, default=0) < 5


async def test_a_cancelled_search_leaves_no_process(tmp_path: Path, engine: str) -> None:
    write(tmp_path, {f"{number}": b"some text to look through\n" * 40_000 for number in range(30)})
    controller = AbortController()
    asyncio.get_running_loop().call_later(0.02, controller.abort, "enough")
    with pytest.raises(OperationCancelled, match="enough"):
        await call(GREP, tmp_path, {"pattern": "(s.m.|t.x.)+ [a-z ]+ through$"}, signal=controller.signal)
    assert not children_that(lambda line: line.split(" ")[0].rpartition("/")[2] == "rg", recursive=True)


def test_ripgrep_is_never_taken_from_a_folder_a_model_can_write_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "bin/rg"
    write(tmp_path, {"bin/rg": "#!/bin/sh\n"})
    program.chmod(0o755)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "none"))
    monkeypatch.setattr("sys.executable", str(tmp_path / "none/python"))
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_ripgrep(()) == program
    assert find_ripgrep((tmp_path,)) is None
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    outside.mkdir()
    (outside / "rg").symlink_to(program)
    monkeypatch.setenv("PATH", str(outside))
    assert find_ripgrep((tmp_path,)) is None
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "bin")
    assert find_ripgrep(()) is None
    shutil.rmtree(outside)


async def test_a_broken_ripgrep_is_replaced_by_the_engine_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"w/f": "needle", "bin/rg": "#!/bin/sh\nexit 7\n"})
    (tmp_path / "bin/rg").chmod(0o755)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "bin"))
    result = await call(GREP, tmp_path / "w", {"pattern": "needle"})
    assert result.llm_content == "f:1: needle"
