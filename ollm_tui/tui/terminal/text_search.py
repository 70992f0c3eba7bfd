"""Finding text in a terminal: its scrollback and its screen, line by line, while output goes on.

Knows no widget. `TextFinder.find` may take some milliseconds over ten thousand lines, so it belongs into a thread;
lines that have left the screen are looked at once.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from textual.timer import Timer
from textual.widget import Widget

from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.emulator.widths import ClusterTable
from ollm_tui.tui.terminal.strips import drawn_text
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine

MAX_MATCHES = 10_000
"""Matches that are kept, the newest ones; of a single letter there may be a million."""

MAX_QUERY = 1_000
"""Characters of what is sought."""

MAX_JOINED = 500
"""Rows of one broken line that are looked at as one."""


@dataclass(frozen=True, order=True)
class TextMatch:
    """Drawn characters from `start` up to `end` in the line `line` (numbered for good, as in `Frame`).

    A match across the border of a broken line has a part in each of its rows; `rest` are those after the first.
    """

    line: int
    start: int
    end: int
    rest: tuple[tuple[int, int, int], ...] = ()


@dataclass(frozen=True, eq=False)
class TextMatches:
    """What was found, oldest first. `more` says that there are older ones which are not kept."""

    found: tuple[TextMatch, ...] = ()
    more: bool = False
    columns: int = 0

    def __len__(self) -> int:
        return len(self.found)

    def __contains__(self, match: TextMatch) -> bool:
        place = bisect_left(self.found, match)
        return place < len(self.found) and self.found[place] == match

    def in_lines(self, first: int, last: int) -> dict[int, list[tuple[int, int, TextMatch]]]:
        """The parts of matches that lie in these lines, by line."""
        parts: dict[int, list[tuple[int, int, TextMatch]]] = {}
        begin = bisect_left(self.found, (first - MAX_JOINED,), key=lambda match: (match.line,))
        for match in islice(self.found, begin, None):
            if match.line > last:
                break
            for line, start, end in ((match.line, match.start, match.end), *match.rest):
                if first <= line <= last:
                    parts.setdefault(line, []).append((start, end, match))
        return parts

    def at_or_before(self, line: int, column: int) -> int | None:
        """Place of the last match that begins at or before a position; None where there is none."""
        place = bisect_right(self.found, (line, column), key=_begin) - 1
        return place if place >= 0 else None

    def after(self, line: int, column: int) -> int | None:
        """Place of the first match that begins after a position."""
        place = bisect_right(self.found, (line, column), key=_begin)
        return place if place < len(self.found) else None

    def before(self, line: int, column: int) -> int | None:
        """Place of the last match that begins before a position."""
        place = bisect_left(self.found, (line, column), key=_begin) - 1
        return place if place >= 0 else None


NO_MATCHES = TextMatches()


def pattern_of(sought: str) -> re.Pattern[str]:
    """Smart case: letters match both cases, unless one of those sought is a capital."""
    sought = sought[:MAX_QUERY]
    return re.compile(re.escape(sought), 0 if any(map(str.isupper, sought)) else re.IGNORECASE)


class TextFinder:
    """Seeks one text in one engine, again and again. Used by one thread at a time."""

    def __init__(self, engine: TerminalEngine, sought: str) -> None:
        self.sought = sought
        self._engine = engine
        self._pattern = pattern_of(sought)
        self._columns = 0
        self._done = 0
        """All lines before this one have been looked at, once and for good."""
        self._settled: list[TextMatch] = []
        self._more = False

    def find(self) -> TextMatches:
        """What there is now."""
        if not self.sought:
            return NO_MATCHES
        oldest, number, lines, rows, clusters = self._take()
        self._forget_before(oldest)
        logical: list[str] = []
        for line in lines:
            text, wrapped = (line, False) if isinstance(line, str) else (line.text, line.wrapped)
            logical.append(drawn_text(text, self._columns, clusters))
            if not wrapped or len(logical) >= MAX_JOINED:
                self._settled.extend(self._matches_in(logical, number))
                number += len(logical)
                logical = []
                self._done = number
        found: list[TextMatch] = []
        for text, wrapped in rows:
            logical.append(drawn_text(text, self._columns, clusters))
            if not wrapped or len(logical) >= MAX_JOINED:
                found.extend(self._matches_in(logical, number))
                number += len(logical)
                logical = []
        found.extend(self._matches_in(logical, number))
        self._bound()
        kept = (*self._settled, *found)[-MAX_MATCHES:]
        return TextMatches(kept, self._more or len(kept) < len(self._settled) + len(found), self._columns)

    def _take(self) -> tuple[int, int, list[ScreenRow | str], list[tuple[str, bool]], ClusterTable]:
        """What has to be looked at, taken in one moment: the oldest line's number, the first one's, and the lines."""
        with self._engine.lock:
            screen = self._engine.screen
            if screen.scrolled < self._done or screen.columns != self._columns:
                # Another size: lines came back from the scrollback, or are cut elsewhere.
                self._settled, self._done, self._more = [], 0, False
                self._columns = screen.columns
            oldest = screen.scrolled - len(screen.history)
            first = max(oldest, self._done)
            lines = list(islice(reversed(screen.history), screen.scrolled - first))[::-1]
            rows = [(row.text, row.wrapped) for row in screen.rows]
            return oldest, first, lines, rows, screen.clusters

    def _forget_before(self, oldest: int) -> None:
        del self._settled[: bisect_left(self._settled, (oldest,), key=lambda match: (match.line,))]

    def _bound(self) -> None:
        if len(self._settled) > MAX_MATCHES:
            del self._settled[:-MAX_MATCHES]
            self._more = True

    def _matches_in(self, rows: list[str], first: int) -> Iterable[TextMatch]:
        """The matches in rows that are one broken line, the first of which has the number `first`."""
        if len(rows) == 1:
            for match in self._pattern.finditer(rows[0]):
                yield TextMatch(first, *match.span())
            return
        for match in self._pattern.finditer("".join(rows)):
            parts = _parts(rows, first, *match.span())
            yield TextMatch(*parts[0], tuple(parts[1:]))


def _parts(rows: list[str], first: int, start: int, end: int) -> list[tuple[int, int, int]]:
    """A span of joined rows as `(line, start, end)` in each of them."""
    parts: list[tuple[int, int, int]] = []
    begin = 0
    for number, row in enumerate(rows, first):
        if start < begin + len(row) and end > begin:
            parts.append((number, max(start - begin, 0), min(end - begin, len(row))))
        begin += len(row)
    return parts


def _begin(match: TextMatch) -> tuple[int, int]:
    return match.line, match.start


LOOK_AGAIN_SECONDS = 0.25
"""While output goes on, what is sought is sought again this often."""


class SearchRun:
    """One search at a time, in a thread. `go_to` is called with the match to show, `changed` after every news."""

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
        self._finder: TextFinder | None = None
        self._looking = False
        self._again = False
        self._timer: Timer | None = None
        self._began_at = (0, 0)
        """Where the pointer was when the search began."""
        self._to_jump = False
        """Whether the pointer is still to go to what is sought."""

    @property
    def active(self) -> bool:
        return self._finder is not None

    @property
    def hits(self) -> str:
        """Which match of how many, in words of a few characters; empty without a search."""
        if self._finder is None or not self._finder.sought:
            return ""
        if self._to_jump:
            return ".."
        if not self.matches.found:
            return "none"
        total = f"{len(self.matches)}{'+' if self.matches.more else ''}"
        return total if self.current is None else f"{bisect_left(self.matches.found, self.current) + 1}/{total}"

    def seek(self, sought: str, place: tuple[int, int]) -> None:
        """Seek from `place`, or from where the search began, towards older lines; empty text seeks nothing."""
        if self._finder is None:
            self._began_at = place
        self._finder = TextFinder(self._engine, sought)
        self._to_jump = True
        self._look_again()

    def stop(self) -> None:
        """The search is over; the pointer stays at what was found."""
        self._finder, self._to_jump = None, False
        self.matches, self.current = NO_MATCHES, None
        self._changed()

    def step(self, step: int, place: tuple[int, int]) -> None:
        """The next match behind `place` (-1: the one before), round and round."""
        found = self.matches.found
        if found:
            at = self.matches.after(*place) if step > 0 else self.matches.before(*place)
            self._show(found[(0 if step > 0 else -1) if at is None else at])

    def output_came(self) -> None:
        if self._finder is not None and self._timer is None:
            self._timer = self._view.set_timer(LOOK_AGAIN_SECONDS, self._look_again)

    def _look_again(self) -> None:
        self._timer = None
        self._again = True
        if not self._looking:
            self._looking = True
            self._view.run_worker(self._look(), group="find")

    async def _look(self) -> None:
        """Seek in a thread until nobody asks for more; only one search at a time uses a finder."""
        try:
            while self._again:
                self._again = False
                finder = self._finder
                if finder is not None:
                    matches = await asyncio.to_thread(finder.find)
                    if finder is self._finder:
                        self._take(matches)
        finally:
            self._looking = False

    def _take(self, matches: TextMatches) -> None:
        self.matches = matches
        jump, self._to_jump = self._to_jump, False
        if self.current is not None and self.current not in matches:
            self.current = None
        if jump and matches.found:
            place = matches.at_or_before(*self._began_at)
            self._show(matches.found[-1 if place is None else place])
        self._changed()

    def _show(self, match: TextMatch) -> None:
        self.current = match
        self._go_to(match)
