"""Cuts growing markdown into blocks that never change again, and one open tail.

Only the tail is rendered again while an answer streams, so a token's cost stays the same. The cut depends
on the text alone: a finished answer has the same blocks as its stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

FENCE_LINES = 60
"""A longer code fence is cut into parts of this many lines."""

TAIL_CHARS = 8_000
"""Longer prose without a blank line is cut at a line end, a longer line at a blank or anywhere."""

_FENCE = re.compile(r"^(`{3,}|~{3,})[ \t]*+([^\s`]*+)[^`]*+$")
_LIST = re.compile(r"^ {0,3}([-*+]|\d{1,9}[.)])(\s|$)")


@dataclass(frozen=True)
class Prose:
    """Markdown that is rendered by itself."""

    text: str


@dataclass(frozen=True)
class Code:
    """A code fence or a part of one; `joins`: it continues the part before it."""

    text: str
    language: str
    joins: bool = False


@dataclass
class BlockSplitter:
    """Takes text in parts; `closed` grows, `tail` may still change."""

    closed: list[Prose | Code] = field(default_factory=list["Prose | Code"])
    _lines: list[str] = field(default_factory=list[str])
    _chars: int = 0
    _partial: str = ""
    _fence: str = ""
    _language: str = ""
    _joins: bool = False
    _after_blank: bool = False
    _continues_line: bool = False
    """The text that follows continues a line that was cut, so it is no fence."""

    def feed(self, text: str) -> None:
        """Take more text, which may end within a line."""
        *whole, self._partial = (self._partial + text).split("\n")
        for one in whole:
            self._take(self._last_part(one))
            self._continues_line = False
        self._partial = self._last_part(self._partial)

    @property
    def tail(self) -> Prose | Code | None:
        """The open block; None when it is empty."""
        lines = [*self._lines, self._partial] if self._partial else self._lines
        if self._fence:
            if self._closes_fence(self._partial):
                lines = lines[:-1]
            return Code("\n".join(lines), self._language, self._joins)
        opening = self._opens_fence(self._partial)
        if opening and not self._lines:
            return Code("", opening[2])
        text = "\n".join(lines)
        return Prose(text) if text.strip() else None

    def _last_part(self, one: str) -> str:
        """Take what a line has beyond a block's length; return its rest."""
        while len(one) > TAIL_CHARS:
            end = one.rfind(" ", TAIL_CHARS // 2, TAIL_CHARS) + 1 or TAIL_CHARS
            self._take(one[:end])
            one, self._continues_line = one[end:], True
        return one

    def _take(self, one: str) -> None:
        if self._fence:
            self._take_code(one)
            return
        opening = self._opens_fence(one)
        if opening and not (self._in_list and one.startswith(" ")):
            self._close()
            self._fence, self._language, self._joins = opening[1], opening[2], False
            return
        if not one.strip():
            self._after_blank = True
            self._lines.append(one)
            return
        if self._after_blank and not self._continues_list(one):
            self._close()
        self._after_blank = False
        self._lines.append(one)
        self._chars += len(one)
        if self._chars > TAIL_CHARS:
            self._close()

    def _take_code(self, one: str) -> None:
        if self._closes_fence(one):
            self._close()
            self._fence = ""
            return
        self._lines.append(one)
        self._chars += len(one)
        if len(self._lines) >= FENCE_LINES or self._chars > TAIL_CHARS:
            self._close()
            self._joins = True

    def _opens_fence(self, one: str) -> re.Match[str] | None:
        return None if self._continues_line else _FENCE.match(one)

    def _closes_fence(self, one: str) -> bool:
        stripped = one.strip()
        return not self._continues_line and len(stripped) >= len(self._fence) and not stripped.strip(self._fence[0])

    @property
    def _in_list(self) -> bool:
        return any(_LIST.match(one) for one in self._lines[:1])

    def _continues_list(self, one: str) -> bool:
        # A loose list cut at a blank line would restart its numbers.
        return self._in_list and (one.startswith("  ") or _LIST.match(one) is not None)

    def _close(self) -> None:
        text = "\n".join(self._lines)
        if self._fence:
            if self._lines or not self._joins:
                self.closed.append(Code(text, self._language, self._joins))
        elif text.strip():
            self.closed.append(Prose(text.strip("\n")))
        self._lines = []
        self._chars = 0
        self._after_blank = False


def split_markdown(text: str) -> list[Prose | Code]:
    """Return all blocks of a finished text."""
    splitter = BlockSplitter()
    splitter.feed(text)
    tail = splitter.tail
    return [*splitter.closed, tail] if tail is not None else splitter.closed
