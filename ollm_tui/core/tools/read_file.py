"""`read_file`: read a whole file or a range of its lines (001 R2, 000 Properties 6-8)."""

from __future__ import annotations

import base64
import os
from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from pydantic import Field, model_validator

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FileReadFailed, FileTooLarge, from_os_error
from ollm_tui.core.base.escape import quote_name
from ollm_tui.core.base.output import OutputFormatter, TruncationConfig
from ollm_tui.core.base.results import ToolData, ToolResult, UpdateOutput
from ollm_tui.core.bus.states import Risk
from ollm_tui.core.fence.workspace import Access, Location
from ollm_tui.core.files.line_index import LineIndexes, line_offset
from ollm_tui.core.files.text_files import (
    SAMPLE_BYTES,
    Encoding,
    Newline,
    NotTextError,
    binary_file,
    newline_style,
    recognise,
)
from ollm_tui.core.tools.base import Effect, Parameters, Tool, ToolGroup, ToolInvocation, TouchedPath
from ollm_tui.core.tools.context import Limits, ToolContext
from ollm_tui.core.tools.listed_files import iso_time

_PART_ADVICE = "It is too large to be read whole; a command such as `od -c -N 500 FILE` shows a part of it."
_BOM = "\ufeff"
_PIECE = 1 << 20

line_indexes = LineIndexes()
"""Line offsets of the last huge files that were read."""


class ReadEncoding(StrEnum):
    """Form of the content: text, or any bytes as base64."""

    UTF_8 = "utf-8"
    BASE64 = "base64"


class ReadFileData(ToolData):
    """The exact content, and facts about the file.

    `content` keeps line ends and a UTF-8 byte-order mark (as U+FEFF). `size` is the file's, in bytes; `modified` in UTC
    (ISO 8601). `start_line` and `end_line` say which lines `content` holds; None where it holds none.
    """

    content: str
    encoding: str
    newline: Newline
    bom: bool
    size: int
    modified: str
    total_lines: int | None = None
    start_line: int | None = None
    end_line: int | None = None


class ReadFileParameters(Parameters):
    """What to read, and in which form."""

    path: str = Field()
    start_line: int | None = None
    end_line: int | None = Field(None, ge=1)
    encoding: ReadEncoding | None = None
    line_numbers: bool = False

    @model_validator(mode="after")
    def _is_a_range(self) -> Self:
        if self.start_line == 0:
            raise ValueError("startLine counts from 1 (or from the end with -1); 0 is no line")
        if self.end_line is not None and self.start_line is not None:
            if self.start_line < 0:
                raise ValueError("endLine does not go with a negative startLine, which reads to the end")
            if self.start_line > self.end_line:
                raise ValueError(f"startLine {self.start_line} is behind endLine {self.end_line}")
        if self.encoding is ReadEncoding.BASE64 and (self.is_range or self.line_numbers):
            raise ValueError("base64 gives the whole file: leave out startLine, endLine and lineNumbers")
        return self

    @property
    def is_range(self) -> bool:
        """Return whether only some lines are wanted."""
        return self.start_line is not None or self.end_line is not None

    def lines_of(self, total: int) -> range:
        """Return the requested lines that exist, counted from 1."""
        first = self.start_line or 1
        if first < 0:
            first = max(1, total + first + 1)
        last = total if self.end_line is None else min(self.end_line, total)
        return range(first, last + 1)


class ReadFileInvocation(ToolInvocation[ReadFileParameters]):
    """A call that reads one file."""

    def get_description(self) -> str:
        params = self.params
        described = f"Read {quote_name(params.path)}"
        if params.start_line is not None and params.start_line < 0:
            return f"{described}, last {-params.start_line} lines"
        if params.is_range:
            last = "the end" if params.end_line is None else params.end_line
            return f"{described}, lines {params.start_line or 1} to {last}"
        return described

    def touched_paths(self) -> list[TouchedPath]:
        return [TouchedPath(self.params.path, Access.READ)]

    async def check(self, signal: AbortSignal) -> ToolResult | None:
        """Raise FileNotFound, IsADirectory, InvalidPath and NoPermission with the path."""
        await signal.in_thread(self._open_and_close)
        return None

    async def execute(self, signal: AbortSignal, update_output: UpdateOutput | None = None) -> ToolResult:
        """Read. Raises FileNotFound, IsADirectory, NoPermission, FileTooLarge and BinaryFile with the path."""
        content = await signal.in_thread(read_content, self.context, self.params, signal)
        return content.as_result(self.context.limits)

    def _open_and_close(self) -> None:
        workspace = self.context.fence
        os.close(workspace.open_for_reading(workspace.resolve(self.params.path)))


@dataclass(frozen=True)
class Content:
    """Content as data for programs and as text for models."""

    shown: str
    """The path as results show it."""
    data: ReadFileData
    text: str
    note: str | None = None

    def as_result(self, limits: Limits) -> ToolResult:
        """Return the result, cut to the limits, naming the lines left out."""
        excerpt = OutputFormatter.excerpt(
            self.text, TruncationConfig(limits.result_chars, limits.result_lines), self.shown
        )
        notes = [self.note] if self.note else []
        if excerpt.gap is not None and self.data.start_line is not None:
            notes.append(self._how_to_go_on(*excerpt.gap))
        return ToolResult(
            llm_content=excerpt.content,
            return_display=f"Read {self._what()} of {self.shown}",
            data=self.data,
            notes=tuple(notes),
            truncated=excerpt.truncated,
        )

    def _how_to_go_on(self, gap_start: int, gap_end: int) -> str:
        first = (self.data.start_line or 1) + self.text.count("\n", 0, gap_start)
        last = (self.data.start_line or 1) + self.text.count("\n", 0, gap_end - 1)
        if first == last:
            return f"line {first} is too long to be shown whole; grep shows lines around a match"
        return f"lines {first} to {last} are not shown whole: read them with startLine={first}, endLine={last}"

    def _what(self) -> str:
        data = self.data
        if data.encoding == ReadEncoding.BASE64:
            return f"{data.size} bytes"
        if data.start_line is None:
            return "no lines"
        if (data.start_line, data.end_line) == (1, data.total_lines):
            return "1 line" if data.total_lines == 1 else f"{data.total_lines} lines"
        return f"lines {data.start_line}-{data.end_line} of {data.total_lines}"


def read_content(
    context: ToolContext, params: ReadFileParameters, signal: AbortSignal, already_read: int = 0
) -> Content:
    """Read a file, with `already_read` bytes of others in one limit. Blocks; raises ToolFailure."""
    location = context.fence.resolve(params.path)
    descriptor = context.fence.open_for_reading(location)
    try:
        status, limit = os.fstat(descriptor), context.limits.file_bytes
        if already_read and already_read + status.st_size > limit:
            raise _too_large(
                location,
                f" ({status.st_size:,} bytes) was not read: with it the answer would hold more than {limit:,} bytes. "
                "Read it with read_file.",
                status.st_size,
                limit,
            )
        reader = _Reader(descriptor, status, location, params, limit, signal)
        if params.is_range and status.st_size > limit:
            return reader.range_of_huge()
        raw = reader.whole()
        content = reader.base64(raw) if params.encoding is ReadEncoding.BASE64 else reader.text(raw)
    except OSError as error:
        raise from_os_error(error, location.shown, FileReadFailed) from None
    finally:
        os.close(descriptor)
    if params.encoding is not ReadEncoding.BASE64:
        context.seen.note(location.real, raw)
    return content


@dataclass(frozen=True)
class _Reader:
    """An open file, and what is wanted of it."""

    descriptor: int
    status: os.stat_result
    location: Location
    params: ReadFileParameters
    limit: int
    signal: AbortSignal

    def base64(self, raw: bytes) -> Content:
        text = base64.b64encode(raw).decode("ascii")
        data = ReadFileData(
            content=text,
            encoding=ReadEncoding.BASE64,
            newline=Newline.NONE,
            bom=False,
            size=len(raw),
            modified=iso_time(self.status.st_mtime_ns),
        )
        return Content(self.location.shown, data, text or "(file is empty)")

    def text(self, raw: bytes) -> Content:
        try:
            encoding = recognise(raw)
        except NotTextError as error:
            raise binary_file(error, self.location.shown, "Read it with encoding=base64.") from None
        text = encoding.decode(raw)
        # Old Macintosh files end lines with CR alone; a CR elsewhere is no line end, as for grep.
        end = "\r" if newline_style(text) is Newline.CR else "\n"
        total = text.count(end) + (text != "" and not text.endswith(end))
        chosen = self.params.lines_of(total)
        if self.params.is_range:
            ended = len(chosen) > 0 and (chosen.stop <= total or text.endswith(end))
            text = end.join(text.split(end)[chosen.start - 1 : chosen.stop - 1]) + (end if ended else "")
        return self._lines(text, encoding, chosen, total)

    def whole(self) -> bytes:
        """Read the whole file, which may still grow. Raises FileTooLarge."""
        pieces: list[bytes] = []
        length, size = 0, self.status.st_size
        while size <= self.limit and length <= self.limit:
            self.signal.throw_if_aborted()
            piece = os.read(self.descriptor, min(_PIECE, self.limit + 1 - length))
            if not piece:
                return b"".join(pieces)
            pieces.append(piece)
            length += len(piece)
        size, advice = max(size, length), _PART_ADVICE
        if self.params.encoding is not ReadEncoding.BASE64:
            self._encoding_by_beginning()
            advice = "Read a range of it with startLine and endLine, or search it with grep."
        problem = f" is {size:,} bytes, more than the limit of {self.limit:,} bytes. {advice}"
        raise _too_large(self.location, problem, size, self.limit)

    def range_of_huge(self) -> Content:
        """Read lines of a file over the limit, holding only them."""
        encoding = self._encoding_by_beginning()
        newline = "\n".encode(encoding.codec)
        index = line_indexes.of(self.descriptor, newline, self.signal.throw_if_aborted)
        chosen = self.params.lines_of(index.total_lines)
        start = line_offset(self.descriptor, index, newline, chosen.start) if chosen else 0
        end = line_offset(self.descriptor, index, newline, chosen.stop) if chosen else 0
        if end - start > self.limit:
            problem = (
                f": lines {chosen.start} to {chosen.stop - 1} are {end - start:,} bytes, more than the "
                f"limit of {self.limit:,} bytes. Ask for fewer lines, or search with grep."
            )
            raise _too_large(self.location, problem, end - start, self.limit)
        raw = self._exactly(start, end - start).removeprefix(encoding.mark if start == 0 else b"")
        note = None
        try:
            text = raw.decode(encoding.codec)
        except UnicodeDecodeError:
            text = raw.decode(encoding.codec, "replace")
            note = f"some bytes are not valid {encoding.codec}; U+FFFD stands for them"
        return self._lines(text, encoding, chosen, index.total_lines, note)

    def _exactly(self, offset: int, length: int) -> bytes:
        pieces: list[bytes] = []
        while length > 0 and (piece := os.pread(self.descriptor, min(length, _PIECE), offset)):
            pieces.append(piece)
            offset += len(piece)
            length -= len(piece)
        return b"".join(pieces)

    def _encoding_by_beginning(self) -> Encoding:
        """Recognise the encoding of a file over the limit. Raises BinaryFile."""
        try:
            return recognise(os.pread(self.descriptor, SAMPLE_BYTES * 8, 0), complete=False)
        except NotTextError as error:
            raise binary_file(error, self.location.shown, _PART_ADVICE) from None

    def _lines(self, text: str, encoding: Encoding, chosen: range, total: int, note: str | None = None) -> Content:
        newline = newline_style(text)
        data = ReadFileData(
            content=text,
            encoding=encoding.codec,
            newline=newline,
            bom=bool(encoding.mark) or (chosen.start == 1 and text.startswith(_BOM)),
            size=self.status.st_size,
            modified=iso_time(self.status.st_mtime_ns),
            total_lines=total,
            start_line=chosen.start if chosen else None,
            end_line=chosen.stop - 1 if chosen else None,
        )
        return Content(self.location.shown, data, self._for_model(text, newline, chosen, total), note)

    def _for_model(self, text: str, newline: Newline, chosen: range, total: int) -> str:
        if not chosen:
            return f"(file has {total} lines)" if total else "(file is empty)"
        # A carriage return elsewhere than in a line end is part of a line: counting it would shift what grep counts.
        shown = text.removeprefix(_BOM).replace("\r\n", "\n")
        if newline is Newline.CR:
            shown = shown.replace("\r", "\n")
        if self.params.line_numbers:
            lines = shown.removesuffix("\n").split("\n")
            numbered = "".join(f"{number}|{line}\n" for number, line in enumerate(lines, chosen.start))
            shown = numbered if shown.endswith("\n") else numbered.removesuffix("\n")
        if self.params.end_line is not None:
            shown = shown.removesuffix("\n")
        if not shown:
            return "(the line is empty)" if self.params.is_range else "(file is empty)"
        return shown


def _too_large(location: Location, problem: str, size: int, limit: int) -> FileTooLarge:
    return FileTooLarge(f"{location.shown}{problem}", {"path": location.shown, "size": size, "limit": limit})


READ_FILE = Tool(
    name="read_file",
    display_name="Read File",
    description="Read a file, or its lines startLine to endLine. startLine=-9 reads the last 9 lines.",
    group=ToolGroup.FS,
    effect=Effect.READS,
    parameters=ReadFileParameters,
    invocation=ReadFileInvocation,
    risk=Risk.LOW,
    returns=ReadFileData,
)
