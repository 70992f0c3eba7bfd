"""Cutting long outputs: what is kept, and how the rest is spoken of (001 R9, 000 Property 43, contract "Cutting")."""

from __future__ import annotations

import codecs
import io
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from ollm_tui.core.base.escape import boundary_after, boundary_before

HEAD_PERCENT = 40
"""Share of an excerpt that comes from the beginning; the rest comes from the end, where errors stand."""

NO_OUTPUT = "(no output)"
"""What a model reads where there is nothing: some providers refuse empty texts."""

_COALESCE = 4096
"""Pieces shorter than this are joined, so that a stream of single characters costs no object each."""

_PIECE = 1 << 20
"""Characters of one piece of a stream that may be held whole although fewer are wanted."""

_LONG_LINES = 32
"""Bytes a line must have on average for its end to be found quicker by search than by looking at every byte."""

_CONTEXT = 64
"""Characters kept beyond what is shown: they tell whether a cut falls on the end of a line or inside a grapheme."""


@dataclass(frozen=True)
class TruncationConfig:
    """Limits in characters and lines; None is no limit, 0 keeps nothing. Raises ValueError when negative."""

    max_chars: int | None = None
    max_lines: int | None = None

    def __post_init__(self) -> None:
        for name, limit in (("max_chars", self.max_chars), ("max_lines", self.max_lines)):
            if limit is not None and limit < 0:
                raise ValueError(f"{name} must not be negative, but is {limit}")


@dataclass(frozen=True)
class Truncated:
    """A text after cutting. `omitted` says how much is missing ("3 lines and 5 characters"), None where nothing is."""

    content: str
    truncated: bool
    omitted: str | None = None
    gap: tuple[int, int] | None = None
    """Of an excerpt: the positions in the full text between which everything is left out."""


class OutputStore(Protocol):
    """Keeps the full text of an output that was cut, where `read_file` and `grep` can reach it."""

    async def save(self, name: str, text: str) -> Path:
        """Write `text` under a name of its own made from `name`; returns its place. Raises OSError."""
        ...


class OutputFormatter:
    """The ways an output is shaped for the model and for the screen (000 `OutputFormatter`)."""

    @staticmethod
    def truncate(text: str, config: TruncationConfig) -> Truncated:
        """Keep the beginning: lines first, then characters, never half a grapheme; add a note (000 Property 43)."""
        kept, lines_omitted, chars_omitted = text, 0, 0
        if config.max_lines is not None and text:
            lines = text.split("\n")
            lines_omitted = max(0, len(lines) - config.max_lines)
            if lines_omitted:
                kept = "\n".join(lines[: config.max_lines])
        if config.max_chars is not None and len(kept) > config.max_chars:
            cut = boundary_before(kept, config.max_chars)
            chars_omitted = len(kept) - cut
            kept = kept[:cut]
        if not lines_omitted and not chars_omitted:
            return Truncated(text, truncated=False)
        omitted = _said(lines_omitted, chars_omitted)
        return Truncated(f"{kept}\n\n[Output truncated: {omitted} omitted]", truncated=True, omitted=omitted)

    @staticmethod
    def exceeds(text: str, config: TruncationConfig) -> bool:
        """Return whether `excerpt` would leave something out."""
        if config.max_chars is not None and len(text) > config.max_chars:
            return True
        return config.max_lines is not None and _line_count(text) > config.max_lines

    @staticmethod
    def excerpt(text: str, config: TruncationConfig, full_text: str | None = None) -> Truncated:
        """Keep the beginning (40 %) and the end (60 %), with a marker between and the indicator behind.

        `full_text` is the path where everything can be read. Never cuts inside a grapheme. Here a last `\\n` ends the
        last line and starts none.
        """
        if not OutputFormatter.exceeds(text, config):
            return Truncated(text, truncated=False)
        ends = _Ends(first=text, last=text, total=len(text), newlines=text.count("\n"))
        return _excerpt(ends, config, full_text)

    @staticmethod
    def format_for_llm(text: str) -> str:
        """Return the text without blanks around it; never empty."""
        return text.strip() or NO_OUTPUT

    @staticmethod
    def format_for_display(text: str) -> str:
        """Return the text as it is: the screen does its own folding."""
        return text


class ExcerptBuffer:
    """Gives the excerpt of a stream, holding about twice `max_chars` of it; `spill` gets everything as it came."""

    def __init__(self, max_chars: int, max_lines: int | None = None, spill: BinaryIO | None = None) -> None:
        self._config = TruncationConfig(max_chars, max_lines)
        self._spill = spill
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._room = max_chars + _CONTEXT
        self._first = io.StringIO()
        self._newline_after_first: int | None = None
        self._last: deque[str | bytes] = deque()
        """ASCII may stay bytes: nearly all of it is let go again, and is never made text."""
        self._last_length = 0
        self._lines_are_long = True
        self._newline_before_last = -1
        self._newlines = 0
        self._total = 0

    @property
    def total_chars(self) -> int:
        """Characters taken so far."""
        return self._total

    @property
    def total_newlines(self) -> int:
        """Line ends taken so far."""
        return self._newlines

    def feed_bytes(self, data: bytes) -> None:
        """Take UTF-8; a character may be split between calls, invalid bytes become U+FFFD (the spill keeps them)."""
        if self._spill is not None:
            self._spill.write(data)
        if self._newline_after_first is not None and data.isascii() and not self._decoder.getstate()[0]:
            self._newlines += self._count_newlines(data)
            self._total += len(data)
            self._keep_last(data)
        else:
            self._take(self._decoder.decode(data))

    def feed(self, text: str) -> None:
        """Take text."""
        if self._spill is not None:
            self._spill.write(text.encode("utf-8", "surrogatepass"))
        self._take(text)

    def end_of_input(self) -> None:
        """Take what an unfinished character left behind as U+FFFD."""
        self._take(self._decoder.decode(b"", final=True))

    def excerpt(self, full_text: str | None = None) -> Truncated:
        """Return what is shown of everything taken so far; may be asked at any time."""
        first = self._first.getvalue()
        if self._total <= self._room and not OutputFormatter.exceeds(first, self._config):
            return Truncated(first, truncated=False)
        ends = _Ends(
            first=first,
            last="".join(map(_as_text, self._last)),
            total=self._total,
            newlines=self._newlines,
            newline_after_first=self._newline_after_first,
            newline_before_last=self._newline_before_last,
        )
        return _excerpt(ends, self._config, full_text)

    def _take(self, text: str) -> None:
        if not text:
            return
        free = max(0, self._room - self._total)
        if free:
            self._first.write(text[:free])
        if self._newline_after_first is None:
            found = text.find("\n", free)
            self._newline_after_first = self._total + found if found >= 0 else None
        self._newlines += text.count("\n")
        self._total += len(text)
        self._keep_last(text)

    def _count_newlines(self, data: bytes) -> int:
        # `count` looks at each byte by itself; `replace` leaps from one to the next, at half the cost for usual lines.
        found = len(data) - len(data.replace(b"\n", b"")) if self._lines_are_long else data.count(b"\n")
        self._lines_are_long = found * _LONG_LINES <= len(data)
        return found

    def _keep_last(self, piece: str | bytes) -> None:
        if not piece:
            return
        if self._last and len(self._last[-1]) + len(piece) < _COALESCE:
            self._last[-1] = _joined(self._last[-1], piece)
        else:
            self._last.append(piece)
        self._last_length += len(piece)
        while self._last_length - len(self._last[0]) >= self._room:
            self._let_go(self._last.popleft())
        if self._last_length > max(_PIECE, 2 * self._room):
            # One piece far longer than what is kept of all: only its end stays. Trimming each would copy too much.
            oldest = self._last.popleft()
            surplus = self._last_length - self._room
            self._last.appendleft(oldest[surplus:])
            self._let_go(oldest[:surplus])

    def _let_go(self, piece: str | bytes) -> None:
        start = self._total - self._last_length
        self._last_length -= len(piece)
        found = piece.rfind(b"\n") if isinstance(piece, bytes) else piece.rfind("\n")
        if found >= 0:
            self._newline_before_last = start + found


def _as_text(piece: str | bytes) -> str:
    return piece.decode("ascii") if isinstance(piece, bytes) else piece


def _joined(first: str | bytes, second: str | bytes) -> str | bytes:
    if isinstance(first, bytes) and isinstance(second, bytes):
        return first + second
    return _as_text(first) + _as_text(second)


@dataclass(frozen=True)
class _Ends:
    """The two ends of a text, and what counting needs to know of the part between. Positions count from the start."""

    first: str
    last: str
    total: int
    newlines: int
    newline_after_first: int | None = None
    newline_before_last: int = -1

    @property
    def last_start(self) -> int:
        return self.total - len(self.last)

    @property
    def line_count(self) -> int:
        return self.newlines + (not self.last.endswith("\n"))

    def end_of_first_lines(self, count: int) -> int:
        """Return where the first `count` lines end, or how far they are known."""
        position = 0
        for _ in range(count):
            position = self.first.find("\n", position) + 1
            if position == 0:
                return len(self.first)
        return position

    def start_of_last_lines(self, count: int) -> int:
        """Return where the last `count` lines start, or how far back they are known."""
        position = len(self.last) - self.last.endswith("\n")
        for _ in range(count):
            found = self.last.rfind("\n", 0, position)
            if found < 0:
                return self.last_start
            position = found
        return self.last_start + (position + 1 if count else len(self.last))

    def chars_to_line_end(self, position: int) -> int:
        found = self.first.find("\n", position)
        if found < 0:
            found = self.total if self.newline_after_first is None else self.newline_after_first
        return found - position

    def chars_from_line_start(self, position: int) -> int:
        found = self.last.rfind("\n", 0, position - self.last_start)
        line_break = self.last_start + found if found >= 0 else self.newline_before_last
        return position - line_break - 1


def _excerpt(ends: _Ends, config: TruncationConfig, full_text: str | None) -> Truncated:
    head_end, tail_start = _cuts(ends, config)
    head, tail = ends.first[:head_end], ends.last[tail_start - ends.last_start :]
    lines, chars = _left_out(ends, head, tail)
    marker = f"[... {_said(lines, 0) if lines else _said(0, chars)} omitted ...]"
    shown = "\n".join(part for part in (head.removesuffix("\n"), marker, tail.removesuffix("\n")) if part)
    omitted = _said(lines, chars)
    where = "" if full_text is None else f" Full text: {full_text}"
    return Truncated(
        f"{shown}\n\n[Output truncated: {omitted} omitted]{where}", True, omitted, gap=(head_end, tail_start)
    )


def _cuts(ends: _Ends, config: TruncationConfig) -> tuple[int, int]:
    """Return where the head ends and the tail starts; either gets what the other leaves free."""
    head, tail = ends.total, ends.total
    kept = ends.total
    if config.max_lines is not None and ends.line_count > config.max_lines:
        head_lines = config.max_lines * HEAD_PERCENT // 100
        head = ends.end_of_first_lines(head_lines)
        tail = ends.total - ends.start_of_last_lines(config.max_lines - head_lines)
        kept = head + tail
    if config.max_chars is not None and kept > config.max_chars:
        head = min(head, max(config.max_chars * HEAD_PERCENT // 100, config.max_chars - tail))
        tail = min(tail, config.max_chars - head)
    start = ends.total - tail - ends.last_start
    return boundary_before(ends.first, head), ends.last_start + boundary_after(ends.last, start)


def _left_out(ends: _Ends, head: str, tail: str) -> tuple[int, int]:
    """Whole lines left out, and characters left out of lines that are shown in part."""
    start, end = len(head), ends.total - len(tail)
    in_first_line = bool(head) and not head.endswith("\n")
    in_last_line = bool(tail) and ends.chars_from_line_start(end) > 0
    breaks = ends.newlines - head.count("\n") - tail.count("\n")
    if breaks == 0:
        return (0, end - start) if in_first_line or in_last_line else (1, 0)
    lines = breaks - in_first_line
    chars = ends.chars_to_line_end(start) if in_first_line else 0
    if in_last_line:
        chars += ends.chars_from_line_start(end)
    elif not tail and ends.chars_from_line_start(end) > 0:
        lines += 1
    return (lines, chars) if lines or chars else (0, end - start)


def _line_count(text: str) -> int:
    return text.count("\n") + (bool(text) and not text.endswith("\n"))


def _said(lines: int, chars: int) -> str:
    """ "3 lines and 5 characters", zero parts left out; always in the plural."""
    return " and ".join(f"{count} {unit}" for count, unit in ((lines, "lines"), (chars, "characters")) if count)
