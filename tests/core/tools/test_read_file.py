"""`read_file`: whole files, ranges, encodings, limits (001 R2, 000 Properties 6-8)."""

from __future__ import annotations

import base64
import os
import re
import socket
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import JsonValue

from ollm_tui.core.base.abort import AbortController
from ollm_tui.core.base.errors import (
    BinaryFile,
    FileNotFound,
    FileTooLarge,
    InvalidArguments,
    InvalidPath,
    IsADirectory,
    NoPermission,
    OperationCancelled,
    ToolFailure,
)
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.files.line_index import STRIDE, LineIndexes, line_offset
from ollm_tui.core.files.text_files import Newline
from ollm_tui.core.tools.context import Limits
from ollm_tui.core.tools.read_file import READ_FILE, ReadFileData
from tests.core.tools.file_reads import call, called

CONTENTS = st.text(
    st.one_of(st.characters(codec="utf-8", blacklist_characters="\0"), st.sampled_from("\n\n\r\n ab\ufeff")),
    max_size=80,
)


def data_of(result: ToolResult) -> ReadFileData:
    assert isinstance(result.data, ReadFileData)
    return result.data


@given(st.lists(CONTENTS, min_size=1, max_size=4))
@settings(max_examples=100, deadline=None)
def test_property_6_what_was_written_is_read_back(contents: list[str]) -> None:
    """Property 6: any text without NUL, byte for byte, through `data.content`."""
    with tempfile.TemporaryDirectory() as folder:
        for index, content in enumerate(contents):
            path = Path(folder) / f"f{index}"
            raw = content.encode()
            path.write_bytes(raw)
            try:
                data = data_of(called(READ_FILE, folder, {"path": path.name}))
            except BinaryFile:
                raise AssertionError(f"{raw!r} is text") from None
            encoded = data.content.encode(data.encoding)
            assert encoded == raw
            assert data.size == len(raw)
            assert data.total_lines == content.count("\n") + (content != "" and not content.endswith("\n")) or (
                data.newline is Newline.CR
            )


@given(CONTENTS.filter(lambda text: "\r" not in text), st.integers(-15, 15), st.integers(1, 15), st.booleans())
@settings(max_examples=100, deadline=None)
def test_property_7_a_range_gives_exactly_its_lines(content: str, start: int, end: int, to_the_end: bool) -> None:
    """Property 7: in `data.content` with their line ends, and the same for the model."""
    lines = content.split("\n")
    kept = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    arguments = (
        {"path": "f", "startLine": start}
        if to_the_end or start < 0
        else {"path": "f", "startLine": start, "endLine": end}
    )
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "f").write_bytes(content.encode())
        if start == 0 or (start > end and "endLine" in arguments):
            with pytest.raises(InvalidArguments):
                called(READ_FILE, folder, arguments)
            return
        result = called(READ_FILE, folder, arguments)
    first = max(1, len(kept) + start + 1) if start < 0 else start
    expected = kept[first - 1 :] if "endLine" not in arguments else kept[first - 1 : end]
    data = data_of(result)
    assert data.content == "".join(expected)
    assert data.total_lines == len(kept)
    if expected:
        assert (data.start_line, data.end_line) == (first, first + len(expected) - 1)
        shown = "".join(expected).removeprefix("\ufeff")
        shown = shown.removesuffix("\n") if "endLine" in arguments else shown
        assert not shown or result.llm_content == shown
    elif kept:
        assert result.llm_content == f"(file has {len(kept)} lines)"


@given(st.text(min_size=1, max_size=30))
@settings(max_examples=100, deadline=None)
def test_property_8_a_path_with_nothing_there_fails_by_name(name: str) -> None:
    """Property 8: FileNotFoundError with the path; other texts are no paths inside the fence at all."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "file").touch()
        with pytest.raises(ToolFailure) as caught:
            called(READ_FILE, folder, {"path": f"nothing here{name}"})
        assert caught.value.type in ("FileNotFoundError", "InvalidPathError", "NotADirectoryError")
        if "/" not in name and "\0" not in name and name.isprintable():
            assert isinstance(caught.value, FileNotFound)
            assert "nothing here" in caught.value.message


async def test_shows_text_with_plain_line_ends_and_records_the_real_ones(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"\xef\xbb\xbfone\r\ntwo\r\n")
    result = await call(READ_FILE, tmp_path, {"path": "f"})
    assert result.llm_content == "one\ntwo\n"
    data = data_of(result)
    assert (data.content, data.encoding, data.newline, data.bom) == (
        "\ufeffone\r\ntwo\r\n",
        "utf-8",
        Newline.CRLF,
        True,
    )
    assert data.modified.endswith("Z")
    assert (data.total_lines, data.start_line, data.end_line) == (2, 1, 2)


@pytest.mark.parametrize(
    ("raw", "encoding", "text"),
    [
        ("Grüße\n".encode("utf-16"), "utf-16-le", "Grüße\n"),
        (b"\xfe\xff" + "é\n".encode("utf-16-be"), "utf-16-be", "é\n"),
        ("naïve café à la carte\n".encode("cp1252"), None, "naïve café à la carte\n"),
        (b"old\rmac\r", "utf-8", "old\nmac\n"),
    ],
)
async def test_reads_other_encodings(tmp_path: Path, raw: bytes, encoding: str | None, text: str) -> None:
    (tmp_path / "f").write_bytes(raw)
    result = await call(READ_FILE, tmp_path, {"path": "f"})
    assert result.llm_content == text
    if encoding is not None:
        assert data_of(result).encoding == encoding
    ranged = await call(READ_FILE, tmp_path, {"path": "f", "endLine": 1})
    assert ranged.llm_content == text.split("\n")[0]


async def test_numbers_lines(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a\nb\n\nd\n")
    result = await call(READ_FILE, tmp_path, {"path": "f", "startLine": 2, "endLine": 3, "lineNumbers": True})
    assert result.llm_content == "2|b\n3|"
    assert result.return_display == "Read lines 2-3 of 4 of f"
    assert (await call(READ_FILE, tmp_path, {"path": "f", "lineNumbers": True})).llm_content == "1|a\n2|b\n3|\n4|d\n"


async def test_says_when_there_is_nothing_to_show(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    (tmp_path / "f").write_text("a\n\nb")
    assert (await call(READ_FILE, tmp_path, {"path": "empty"})).llm_content == "(file is empty)"
    assert (await call(READ_FILE, tmp_path, {"path": "empty", "startLine": 3})).llm_content == "(file is empty)"
    assert (await call(READ_FILE, tmp_path, {"path": "f", "startLine": 9})).llm_content == "(file has 3 lines)"
    assert (await call(READ_FILE, tmp_path, {"path": "f", "startLine": 2, "endLine": 2})).llm_content


@pytest.mark.parametrize(
    "arguments",
    [
        {"startLine": 0},
        {"endLine": 0},
        {"endLine": -1},
        {"startLine": 3, "endLine": 2},
        {"startLine": -2, "endLine": 5},
        {"startLine": 1, "encoding": "base64"},
        {"startLine": 1.5},
        {"encoding": "latin-1"},
    ],
)
async def test_refuses_ranges_that_are_none(tmp_path: Path, arguments: dict[str, int | float | str]) -> None:
    (tmp_path / "f").write_text("a\n")
    with pytest.raises(InvalidArguments, match="read_file"):
        await call(READ_FILE, tmp_path, {"path": "f", **arguments})


@pytest.mark.parametrize(
    ("raw", "looks"),
    [(b"\x89PNG\r\n\x1a\n\0\0", "PNG image"), (b"%PDF-1.7\n\xff\0", "PDF"), (b"ab\0cd", "binary data")],
)
async def test_says_what_a_binary_file_looks_like(tmp_path: Path, raw: bytes, looks: str) -> None:
    (tmp_path / "f").write_bytes(raw)
    with pytest.raises(BinaryFile, match=f"(?s)f looks like .*{looks}.*encoding=base64"):
        await call(READ_FILE, tmp_path, {"path": "f"})
    result = await call(READ_FILE, tmp_path, {"path": "f", "encoding": "base64"})
    assert base64.b64decode(data_of(result).content) == raw
    assert data_of(result).encoding == "base64"


async def test_refuses_what_is_no_file(tmp_path: Path) -> None:
    (tmp_path / "d").mkdir()
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("/etc/passwd")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "sock"))
        with pytest.raises(IsADirectory, match="ls"):
            await call(READ_FILE, tmp_path, {"path": "d"})
        for path in ("pipe", "sock", "link", "../x", "/dev/zero", "a\0b"):
            with pytest.raises(InvalidPath):
                await call(READ_FILE, tmp_path, {"path": path})


async def test_says_when_permission_is_missing(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may read every file")
    (tmp_path / "f").touch(mode=0)
    with pytest.raises(NoPermission, match="f"):
        await call(READ_FILE, tmp_path, {"path": "f"})


async def test_a_long_file_is_cut_in_the_middle_and_says_how_to_go_on(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("".join(f"line {number}\n" for number in range(1, 101)))
    result = await call(READ_FILE, tmp_path, {"path": "f"}, limits=Limits(result_lines=10))
    assert "line 4\n[... 90 lines omitted ...]\nline 95\n" in result.llm_content
    assert result.llm_content.endswith("[Output truncated: 90 lines omitted] Full text: f")
    assert result.truncated
    assert result.notes == ("lines 5 to 94 are not shown whole: read them with startLine=5, endLine=94",)
    assert data_of(result).content.count("\n") == 100
    rest = await call(READ_FILE, tmp_path, {"path": "f", "startLine": 5, "endLine": 94}, limits=Limits(result_lines=10))
    assert rest.notes == ("lines 9 to 88 are not shown whole: read them with startLine=9, endLine=88",)


@pytest.mark.parametrize("arguments", [{}, {"startLine": 1, "endLine": 2}, {"encoding": "base64"}])
async def test_advice_about_a_huge_binary_leads_to_no_other_refusal(
    tmp_path: Path, arguments: dict[str, JsonValue]
) -> None:
    (tmp_path / "f").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(20_000))
    with pytest.raises((FileTooLarge, BinaryFile), match="od -c") as failure:
        await call(READ_FILE, tmp_path, {"path": "f", **arguments}, limits=Limits(file_bytes=10_000))
    assert not re.search("startLine|base64", failure.value.message)


async def test_a_whole_file_over_the_limit_names_both_sizes_and_a_range_is_read(tmp_path: Path) -> None:
    lines = [f"{number} {'x' * (number % 50)}\n" for number in range(2000)]
    raw = "".join(lines).encode()
    (tmp_path / "f").write_bytes(raw)
    limits = Limits(file_bytes=10_000)
    with pytest.raises(FileTooLarge, match=rf"{len(raw):,} bytes.*10,000 bytes.*startLine"):
        await call(READ_FILE, tmp_path, {"path": "f"}, limits=limits)
    result = await call(READ_FILE, tmp_path, {"path": "f", "startLine": 1990, "endLine": 1993}, limits=limits)
    assert data_of(result).content == "".join(lines[1989:1993])
    assert data_of(result).total_lines == 2000
    tail = await call(READ_FILE, tmp_path, {"path": "f", "startLine": -2}, limits=limits)
    assert data_of(tail).content == "".join(lines[-2:])
    beyond = await call(READ_FILE, tmp_path, {"path": "f", "startLine": 5000}, limits=limits)
    assert beyond.llm_content == "(file has 2000 lines)"
    with pytest.raises(FileTooLarge, match="lines 1 to 2000"):
        await call(READ_FILE, tmp_path, {"path": "f", "startLine": 1}, limits=limits)


@given(
    st.lists(
        st.text(st.characters(codec="utf-8", blacklist_characters="\0\n\r"), max_size=40), min_size=1, max_size=30
    ),
    st.sampled_from(["utf-8", "utf-16", "utf-32"]),
    st.booleans(),
    st.integers(1, 32),
    st.integers(0, 5),
)
@settings(max_examples=100, deadline=None)
def test_property_7_ranges_of_files_over_the_limit_are_the_same(
    lines: list[str], codec: str, ended: bool, start: int, more: int
) -> None:
    """Property 7, for files that are not held in memory: same lines as of a file that is."""
    text = "\n".join(f"{line}." for line in lines) + ("\n" if ended else "")
    raw = text.encode(codec)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "f").write_bytes(raw)
        arguments = {"path": "f", "startLine": start, "endLine": start + more}
        small = called(READ_FILE, folder, arguments)
        try:
            huge = called(READ_FILE, folder, arguments, limits=Limits(file_bytes=len(raw) - 1))
        except FileTooLarge:
            assert start == 1  # everything was asked for
            return
    assert huge.llm_content == small.llm_content
    assert data_of(huge).content == data_of(small).content
    assert data_of(huge).total_lines == data_of(small).total_lines


@pytest.mark.parametrize("newline", [b"\n", b"\n\0", b"\0\0\0\n"])
def test_finds_every_line_of_a_file_of_many_strides(tmp_path: Path, newline: bytes) -> None:
    unit = b"x".rjust(len(newline), b"\0") if newline[0] == 0 else b"x".ljust(len(newline), b"\0")
    lines = [unit * (17 * number % 40_000) + newline for number in range(0, 9000, 60)]
    raw = b"".join(lines) + unit
    assert len(raw) > 2 * STRIDE
    path = tmp_path / "f"
    path.write_bytes(raw)
    indexes = LineIndexes(files_kept=1)
    with open(path, "rb") as file:
        index = indexes.of(file.fileno(), newline, lambda: None)
        assert index.total_lines == len(lines) + 1
        offset = 0
        for number, line in enumerate(lines, 1):
            assert line_offset(file.fileno(), index, newline, number) == offset
            offset += len(line)
        assert line_offset(file.fileno(), index, newline, len(lines) + 2) == len(raw)
        assert indexes.of(file.fileno(), newline, lambda: pytest.fail("was known")) is index
    with open(path, "ab") as file:
        file.write(newline)
    with open(path, "rb") as file:
        assert indexes.of(file.fileno(), newline, lambda: None).newlines == index.newlines + 1


async def test_a_late_nul_does_not_make_a_text_binary(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"line\n" * 5000 + b"a\0b\n")
    assert (await call(READ_FILE, tmp_path, {"path": "f", "startLine": -1})).llm_content == "a\0b\n"


async def test_a_file_of_the_system_without_a_size_is_read_to_its_end(tmp_path: Path) -> None:
    result = await call(READ_FILE, "/proc/self", {"path": "status"})
    assert result.llm_content.startswith("Name:")


async def test_an_aborted_call_reads_nothing(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a")
    controller = AbortController()
    controller.abort("enough")
    with pytest.raises(OperationCancelled, match="enough"):
        await call(READ_FILE, tmp_path, {"path": "f"}, signal=controller.signal)


async def test_takes_quoted_names_and_shows_them_so(tmp_path: Path) -> None:
    (tmp_path / "a\nb").write_text("x")
    result = await call(READ_FILE, tmp_path, {"path": '"a\\nb"'})
    assert result.llm_content == "x"
    assert result.return_display == 'Read 1 line of "a\\nb"'
