"""Search in a terminal: its scrollback and screen, line by line, while output goes on.

`TextFinder.find` may take some milliseconds over ten thousand lines, so it runs in a thread; lines that have left the
screen are searched once.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import islice

from textual.timer import Timer
from textual.widget import Widget

from ollm_tui.tui.terminal.emulator.cells import ClusterTable
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.strips import drawn_text
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine

MAX_MATCHES = 10_000
"""Matches kept, the newest; a single letter may have a million."""

MAX_QUERY = 1_000
"""Characters of a query."""

MAX_JOINED = 500
"""Rows of one wrapped line that are searched as one."""


@dataclass(frozen=True, order=True)
class TextMatch:
    """Drawn characters `start` to `end` of `line` (numbered as in `ViewFrame`).

    A match across rows of a wrapped line has a part in each; `rest` are those after the first.
    """

    line: int
    start: int
    end: int
    rest: tuple[tuple[int, int, int], ...] = ()

    @property
    def parts(self) -> tuple[tuple[int, int, int], ...]:
        """Line, start and end in each of its rows."""
        return (self.line, self.start, self.end), *self.rest


@dataclass(frozen=True, eq=False)
class TextMatches:
    """What was found, oldest first; `more`: older matches are not kept."""

    found: tuple[TextMatch, ...] = ()
    more: bool = False
    columns: int = 0

    def __len__(self) -> int:
        return len(self.found)

    def __contains__(self, match: TextMatch) -> bool:
        index = bisect_left(self.found, match)
        return index < len(self.found) and self.found[index] == match

    def in_lines(self, first: int, last: int) -> dict[int, list[tuple[int, int, TextMatch]]]:
        """Return the parts of matches in lines `first` to `last`, by line."""
        parts: dict[int, list[tuple[int, int, TextMatch]]] = {}
        begin = bisect_left(self.found, (first - MAX_JOINED,), key=lambda match: (match.line,))
        for match in islice(self.found, begin, None):
            if match.line > last:
                break
            for line, start, end in match.parts:
                if first <= line <= last:
                    parts.setdefault(line, []).append((start, end, match))
        return parts

    def at_or_before(self, line: int, column: int) -> int | None:
        """Return the index of the last match that begins at or before a position."""
        index = bisect_right(self.found, (line, column), key=_begin) - 1
        return index if index >= 0 else None

    def after(self, line: int, column: int) -> int | None:
        """Return the index of the first match that begins after a position."""
        index = bisect_right(self.found, (line, column), key=_begin)
        return index if index < len(self.found) else None

    def before(self, line: int, column: int) -> int | None:
        """Return the index of the last match that begins before a position."""
        index = bisect_left(self.found, (line, column), key=_begin) - 1
        return index if index >= 0 else None


NO_MATCHES = TextMatches()


def pattern_of(query: str) -> re.Pattern[str]:
    """Compile a query with smart case: a capital in it makes case matter."""
    query = query[:MAX_QUERY]
    return re.compile(re.escape(query), 0 if any(map(str.isupper, query)) else re.IGNORECASE)


class TextFinder:
    """Finds one query in one engine, repeatedly; used by one thread at a time."""

    def __init__(self, engine: TerminalEngine, query: str) -> None:
        self.query = query
        self._engine = engine
        self._pattern = pattern_of(query)
        self._columns = 0
        self._done = 0
        """All lines before this one have been searched."""
        self._final: list[TextMatch] = []
        self._more = False

    def find(self) -> TextMatches:
        """Return all matches there are now."""
        if not self.query:
            return NO_MATCHES
        oldest, number, lines, rows, clusters = self._take()
        del self._final[: bisect_left(self._final, (oldest,), key=lambda match: (match.line,))]
        history = ((line, False) if isinstance(line, str) else (line.text, line.wrapped) for line in lines)
        found: list[TextMatch] = []
        logical: list[str] = []
        for matches, texts in ((self._final, history), (found, rows)):
            for text, wrapped in texts:
                logical.append(drawn_text(text, self._columns, clusters))
                if not wrapped or len(logical) >= MAX_JOINED:
                    matches.extend(self._matches_in(logical, number))
                    number += len(logical)
                    logical = []
            if matches is self._final:
                self._done = number
        found.extend(self._matches_in(logical, number))
        if len(self._final) > MAX_MATCHES:
            del self._final[:-MAX_MATCHES]
            self._more = True
        kept = (*self._final, *found)[-MAX_MATCHES:]
        return TextMatches(kept, self._more or len(kept) < len(self._final) + len(found), self._columns)

    def _take(self) -> tuple[int, int, list[ScreenRow | str], list[tuple[str, bool]], ClusterTable]:
        """Take what must be searched: oldest line's number, the first's, and the lines."""
        with self._engine.lock:
            screen = self._engine.screen
            if screen.scrolled < self._done or screen.columns != self._columns:
                # Another size: lines came back from the scrollback, or wrap elsewhere.
                self._final, self._done, self._more = [], 0, False
                self._columns = screen.columns
            oldest = screen.scrolled - len(screen.history)
            first = max(oldest, self._done)
            lines = list(islice(reversed(screen.history), screen.scrolled - first))[::-1]
            rows = [(row.text, row.wrapped) for row in screen.rows]
            return oldest, first, lines, rows, screen.clusters

    def _matches_in(self, rows: list[str], first: int) -> Iterable[TextMatch]:
        """Yield the matches in the rows of one logical line, numbered from `first`."""
        if len(rows) == 1:
            for match in self._pattern.finditer(rows[0]):
                yield TextMatch(first, *match.span())
            return
        for match in self._pattern.finditer("".join(rows)):
            parts = parts_of(rows, first, *match.span())
            yield TextMatch(*parts[0], tuple(parts[1:]))


def parts_of(rows: Sequence[str], first: int, start: int, end: int) -> list[tuple[int, int, int]]:
    """Return a span of joined rows as `(line, start, end)` in each of them."""
    parts: list[tuple[int, int, int]] = []
    begin = 0
    for number, row in enumerate(rows, first):
        if start < begin + len(row) and end > begin:
            parts.append((number, max(start - begin, 0), min(end - begin, len(row))))
        begin += len(row)
    return parts


def _begin(match: TextMatch) -> tuple[int, int]:
    return match.line, match.start


SEARCH_AGAIN_SECONDS = 0.25
"""Seconds between searches while output goes on."""


class SearchRun:
    """One search at a time, in a thread; calls back with matches."""

    def __init__(
        self, view: Widget, engine: TerminalEngine, go_to: Callable[[TextMatch], None], changed: Callable[[], None]
    ) -> None:
        self.matches = NO_MATCHES
        self.current: TextMatch | None = None
        """The match that the person is at."""
        self._view = view
        self._engine = engine
        self._go_to = go_to
        self._changed = changed
        self.finder: TextFinder | None = None
        self._searching = False
        self._again = False
        self._timer: Timer | None = None
        self._origin = (0, 0)
        """The pointer's position when the search began."""
        self._jump_pending = False
        """Whether the pointer has yet to go to the first match."""

    @property
    def active(self) -> bool:
        """Whether a search is on."""
        return self.finder is not None

    @property
    def hits(self) -> str:
        """Which match of how many, in a few characters; empty without a search."""
        if self.finder is None or not self.finder.query:
            return ""
        if self._jump_pending:
            return ".."
        if not self.matches.found:
            return "none"
        total = f"{len(self.matches)}{'+' if self.matches.more else ''}"
        return total if self.current is None else f"{bisect_left(self.matches.found, self.current) + 1}/{total}"

    def start(self, query: str, position: tuple[int, int]) -> None:
        """Search from `position`, or where the search began, towards older lines."""
        if self.finder is None:
            self._origin = position
        self.finder = TextFinder(self._engine, query)
        self._jump_pending = True
        self._search_again()

    def stop(self) -> None:
        """End the search; the pointer stays."""
        self.finder, self._jump_pending = None, False
        self.matches, self.current = NO_MATCHES, None
        self._changed()

    def step(self, step: int, position: tuple[int, int]) -> None:
        """Go to the next match after `position` (-1: the previous), cyclically."""
        found = self.matches.found
        if found:
            at = self.matches.after(*position) if step > 0 else self.matches.before(*position)
            self._show(found[(0 if step > 0 else -1) if at is None else at])

    def output_arrived(self) -> None:
        """Search again, shortly, because the text has changed."""
        if self.finder is not None and self._timer is None:
            self._timer = self._view.set_timer(SEARCH_AGAIN_SECONDS, self._search_again)

    def _search_again(self) -> None:
        self._timer = None
        self._again = True
        if not self._searching:
            self._searching = True
            self._view.run_worker(self._run(), group="find")

    async def _run(self) -> None:
        """Search in a thread until no further search is requested."""
        try:
            while self._again:
                self._again = False
                finder = self.finder
                if finder is not None:
                    matches = await asyncio.to_thread(finder.find)
                    if finder is self.finder:
                        self._take(matches)
        finally:
            self._searching = False

    def _take(self, matches: TextMatches) -> None:
        self.matches = matches
        jump, self._jump_pending = self._jump_pending, False
        if self.current is not None and self.current not in matches:
            self.current = None
        if jump and matches.found:
            index = matches.at_or_before(*self._origin)
            self._show(matches.found[-1 if index is None else index])
        self._changed()

    def _show(self, match: TextMatch) -> None:
        self.current = match
        self._go_to(match)
