"""What a terminal view shows: the strips of its lines, brought up to date from the engine a frame at a time."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.color import Color
from rich.style import Style as RichStyle
from textual.selection import Selection
from textual.strip import Strip

from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.strips import NO_OVERLAY, NULL_STYLE, Mark, Overlay, StripPainter, TerminalPalette
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.text_search import NO_MATCHES, TextMatch, TextMatches

SYNC_SECONDS = 0.15
"""How long a program may hold back a frame (mode 2026) before it is drawn all the same."""

_REVERSE_SCREEN = 5 << 5
_CURSOR, _FAINT_CURSOR = RichStyle(reverse=True), RichStyle(underline=True)
_FOUND, _FOUND_NOW = RichStyle(underline=True, bold=True), RichStyle(reverse=True, bold=True)
"""Without a colour of their own, so that they are seen over every colour of a program and without any."""


@dataclass(frozen=True)
class ViewState:
    """What the widget adds to the screen: its focus, and what the person selected, sought and points at."""

    focused: bool = False
    shows_cursor: bool = True
    selection: Selection | None = None
    selection_style: RichStyle = NULL_STYLE
    matches: TextMatches = NO_MATCHES
    current: TextMatch | None = None
    """The match that the person is at."""
    pointer: tuple[int, int] | None = None
    """Line and character the person points at with keys."""


class ViewFrame:
    """The lines of a view. Every method takes the engine's lock; the strips are whole frames, never half of one.

    Lines are numbered for good: `screen.scrolled + y`. A selection in those numbers stays with its text.
    """

    def __init__(self, engine: TerminalEngine) -> None:
        self.engine = engine
        self.strips: list[Strip] = []
        self.look = ViewState()
        self.back = 0
        """Lines scrolled back from the newest one."""
        self.held = False
        """Whether the place is kept even at the bottom while lines arrive: somebody reads."""
        self._painter: StripPainter | None = None
        self._scrolled = 0
        self._cursor: tuple[int, int] | None = None
        self._found: dict[int, list[tuple[int, int, TextMatch]]] = {}
        """The matches in sight, by line."""

    def held_for(self) -> float:
        """Seconds for which the program wants the frame that is shown to stand; 0 or less: draw."""
        with self.engine.lock:
            since = self.engine.screen.synchronized_since
        return 0.0 if since is None else since + SYNC_SECONDS - time.monotonic()

    def repaint(self, palette: TerminalPalette, look: ViewState) -> None:
        """Make every line anew, for another palette or size."""
        with self.engine.lock:
            screen = self.engine.screen
            screen.foreground = _rgb(palette.foreground)
            screen.background = _rgb(palette.background)
            self._painter = StripPainter(palette, screen.columns, screen.clusters, screen.links.uri)
            self.look = look
            self._redo_all()

    def update(self, look: ViewState) -> set[int]:
        """Bring the lines up to date and say which of them changed."""
        with self.engine.lock:
            self.engine.frame_taken()
            screen = self.engine.screen
            painter = self._painter_for_screen()
            if painter is None:
                return set()
            moved = self.held and screen.scrolled != self._scrolled
            if look != self.look or self.back or moved or len(self.strips) != screen.lines:
                self.look = look
                self._redo_all()
                return set(range(screen.lines))
            dirty = {y for y in screen.dirty if y < screen.lines}
            screen.dirty.clear()
            self._scrolled = screen.scrolled
            before, self._cursor = self._cursor, self._cursor_place()
            if before != self._cursor:
                dirty.update(place[0] for place in (before, self._cursor) if place and place[0] < screen.lines)
            changed: set[int] = set()
            for y in dirty:
                strip = self._line(painter, y)
                if strip is not self.strips[y]:
                    self.strips[y] = strip
                    changed.add(y)
            return changed

    def scroll(self, lines: int) -> bool:
        """Show older lines (negative: newer ones); whether that was possible."""
        with self.engine.lock:
            self._keep_place()
            back = min(max(0, self.back + lines), len(self.engine.screen.history))
            if back == self.back:
                return False
            self.back = back
            self._redo_all()
            return True

    def reveal(self, number: int, *, centred: bool) -> bool:
        """Scroll so that a line is in sight; whether it was not, and now is. `centred` brings it to the middle."""
        with self.engine.lock:
            screen = self.engine.screen
            y = self.place_of(number)
            if 0 <= y < screen.lines:
                return False
            place = screen.lines // 2 if centred else 0 if y < 0 else screen.lines - 1
            return self.scroll(screen.scrolled - number + place - self.back)

    def place_of(self, number: int) -> int:
        """Where on the view a line is; negative or beyond its height when it is out of sight."""
        with self.engine.lock:
            self._keep_place()
            return number - (self.engine.screen.scrolled - self.back)

    def bounds(self) -> tuple[int, int]:
        """The numbers of the oldest and the newest line there are."""
        with self.engine.lock:
            screen = self.engine.screen
            return screen.scrolled - len(screen.history), screen.scrolled + screen.lines - 1

    def line_text(self, number: int) -> str:
        """The characters of a line as they are drawn, without trailing blanks; empty for one that is gone."""
        with self.engine.lock:
            painter = self._painter_for_screen()
            oldest, newest = self.bounds()
            return painter.text(self._row(number)) if painter and oldest <= number <= newest else ""

    def selected_text(self, selection: Selection) -> str:
        """The text of a selection: broken lines joined, blanks at line ends left out."""
        with self.engine.lock:
            screen = self.engine.screen
            painter = self._painter_for_screen()
            if painter is None:
                return ""
            oldest = screen.scrolled - len(screen.history)
            newest = screen.scrolled + screen.lines - 1
            first = max(oldest, selection.start.y if selection.start else oldest)
            last = min(newest, selection.end.y if selection.end else newest)
            pieces: list[str] = []
            for number in range(first, last + 1):
                row = self._row(number)
                start, end = selection.get_span(number) or (0, 0)
                joined = not isinstance(row, str) and row.wrapped and number < last
                text = painter.text(row)
                pieces.append(text[start : None if end < 0 else end] + ("" if joined else "\n"))
        return "".join(pieces).rstrip("\n")

    def _row(self, number: int) -> ScreenRow | str:
        screen = self.engine.screen
        index = number - screen.scrolled
        return screen.rows[index] if index >= 0 else screen.history[index]

    def _painter_for_screen(self) -> StripPainter | None:
        """The painter; a new one when the program reversed the screen or the width changed."""
        painter, screen = self._painter, self.engine.screen
        reverse = _REVERSE_SCREEN in screen.mode
        if painter is not None and (painter.reverse != reverse or painter.columns != screen.columns):
            painter = StripPainter(painter.palette, screen.columns, screen.clusters, screen.links.uri)
            painter.reverse = reverse
            self._painter = painter
            screen.touch_all()
        return painter

    def _redo_all(self) -> None:
        self.engine.frame_taken()
        screen = self.engine.screen
        painter = self._painter_for_screen()
        if painter is None:
            return
        self._keep_place()
        screen.dirty.clear()
        self._cursor = self._cursor_place()
        top = screen.scrolled - self.back
        self._found = self.look.matches.in_lines(top, top + screen.lines - 1)
        self.strips = [self._line(painter, y) for y in range(screen.lines)]

    def _keep_place(self) -> None:
        """Who has scrolled back, or reads, sees the same lines while others arrive below."""
        screen = self.engine.screen
        if self.back or self.held:
            self.back = min(max(0, self.back + screen.scrolled - self._scrolled), len(screen.history))
        self._scrolled = screen.scrolled

    def _cursor_place(self) -> tuple[int, int] | None:
        screen = self.engine.screen
        if screen.cursor.hidden or self.back or not self.look.shows_cursor:
            return None
        return screen.cursor.y, min(screen.cursor.x, screen.columns - 1)

    def _line(self, painter: StripPainter, y: int) -> Strip:
        number = self.engine.screen.scrolled + y - self.back
        row = self._row(number)
        overlay = self._overlay(y, number)
        if overlay is NO_OVERLAY and isinstance(row, ScreenRow) and y >= self.back:
            strip = painter.screen_strip(row)
        else:
            strip = painter.strip(row, overlay)
        return strip.apply_offsets(0, number)

    def _overlay(self, y: int, number: int) -> Overlay:
        """The cursor and the selection where they lie over a line."""
        look = self.look
        cursor = self._cursor[1] if self._cursor is not None and self._cursor[0] == y else None
        marks = self._marks(number)
        if cursor is None and not marks:
            return NO_OVERLAY
        thin = self.engine.screen.cursor_shape in (3, 4) or not look.focused
        return Overlay(cursor, _FAINT_CURSOR if thin else _CURSOR, marks)

    def _marks(self, number: int) -> tuple[Mark, ...]:
        """Selection, matches and pointer, in the order they lie over each other."""
        look = self.look
        marks: list[Mark] = []
        if look.selection is not None and (span := look.selection.get_span(number)) is not None:
            marks.append(Mark(*span, look.selection_style))
        if look.matches.columns == self.engine.screen.columns:
            for start, end, match in self._found.get(number, ()):
                marks.append(Mark(start, end, _FOUND_NOW if match == look.current else _FOUND))
        if look.pointer is not None and look.pointer[0] == number:
            marks.append(Mark(look.pointer[1], look.pointer[1] + 1, _CURSOR))
        return tuple(marks)


def _rgb(colour: Color) -> tuple[int, int, int]:
    triplet = colour.get_truecolor()
    return triplet.red, triplet.green, triplet.blue
