"""A search in a terminal that goes on while output comes: what is found by now, and at which match the person is."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Callable

from textual.timer import Timer
from textual.widget import Widget

from ollm_tui.tui.terminal.engine import TerminalEngine
from ollm_tui.tui.terminal.search import NO_MATCHES, Finder, Match, Matches

LOOK_AGAIN_SECONDS = 0.25
"""While output goes on, what is sought is sought again this often."""


class SearchRun:
    """One search at a time, in a thread. `go_to` is called with the match to show, `changed` after every news."""

    def __init__(
        self, view: Widget, engine: TerminalEngine, go_to: Callable[[Match], None], changed: Callable[[], None]
    ) -> None:
        self.matches = NO_MATCHES
        self.current: Match | None = None
        """The match that the person is at."""
        self._view = view
        self._engine = engine
        self._go_to = go_to
        self._changed = changed
        self._finder: Finder | None = None
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
        self._finder = Finder(self._engine, sought)
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

    def _take(self, matches: Matches) -> None:
        self.matches = matches
        jump, self._to_jump = self._to_jump, False
        if self.current is not None and self.current not in matches:
            self.current = None
        if jump and matches.found:
            place = matches.at_or_before(*self._began_at)
            self._show(matches.found[-1 if place is None else place])
        self._changed()

    def _show(self, match: Match) -> None:
        self.current = match
        self._go_to(match)
