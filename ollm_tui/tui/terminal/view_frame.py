"""What a terminal view shows: strips of lines, updated frame by frame."""

from __future__ import annotations

import time
from dataclasses import dataclass

from rich.color import Color
from rich.style import Style as RichStyle
from textual.selection import Selection
from textual.strip import Strip

from ollm_tui.tui.pictures.outer_pictures import without_placeholders
from ollm_tui.tui.terminal.emulator.osc import BACKGROUND, FOREGROUND
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.strips import NO_OVERLAY, NULL_STYLE, Mark, Overlay, StripPainter, TerminalPalette
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.text_search import NO_MATCHES, TextMatch, TextMatches

SYNC_SECONDS = 0.15
"""How long a program may hold back a frame (mode 2026)."""

MAX_SEGMENTS = 500
"""Segments made in a frame, a few milliseconds of work; lines beyond them come with the next one."""

MAX_ROWS = 40
"""Rows of a wrapped line, before and after the one that is pointed at, in which its link is looked for."""

_REVERSE_SCREEN = 5 << 5
_CURSOR, _FAINT_CURSOR = RichStyle(reverse=True), RichStyle(underline=True)
_LINK = RichStyle(underline=True)
_FOUND, _FOUND_NOW = RichStyle(underline=True, bold=True), RichStyle(reverse=True, bold=True)
"""Attributes only, visible over every colour of a program."""


@dataclass(frozen=True)
class ViewState:
    """What the widget adds to the screen: focus, selection, matches, pointer."""

    focused: bool = False
    shows_cursor: bool = True
    selection: Selection | None = None
    selection_style: RichStyle = NULL_STYLE
    matches: TextMatches = NO_MATCHES
    current: TextMatch | None = None
    pointer: tuple[int, int] | None = None
    """Line and character of the reading pointer."""
    link: TextMatch | None = None
    """The link that is pointed at."""


@dataclass(frozen=True)
class LogicalLine:
    """A line with the rows it wraps into, as drawn, from the line numbered `first`."""

    first: int
    rows: tuple[str, ...]
    hyperlinks: tuple[tuple[int, int, str], ...]
    """Characters of the whole text, and the address a program gave them."""

    @property
    def text(self) -> str:
        """The rows as one."""
        return "".join(self.rows)

    def index_of(self, number: int, character: int) -> int:
        """Return where a character of one of the rows stands in the whole text."""
        return sum(map(len, self.rows[: number - self.first])) + character


class ViewFrame:
    """The lines of a view; scrolling, and text of selections.

    Methods take the engine's lock. A line's number is `screen.scrolled + y`, which never changes, so a selection stays
    with its text.
    """

    def __init__(self, engine: TerminalEngine) -> None:
        self.engine = engine
        self.strips: list[Strip] = []
        self.state = ViewState()
        self.back = 0
        """Lines scrolled back from the newest one."""
        self.keeps_position = False
        """Whether lines stay in place even at the bottom: somebody reads."""
        self._painter: StripPainter | None = None
        self._scrolled = 0
        self.late: list[int] = []
        """Lines that are drawn first in the next frame: this one had enough to do."""
        self._cursor: tuple[int, int] | None = None
        self._found: dict[int, list[tuple[int, int, TextMatch]]] = {}
        """The matches in sight, by line."""

    def seconds_held(self) -> float:
        """Return for how long the program holds the frame back; 0 or less: draw."""
        with self.engine.lock:
            since = self.engine.screen.synchronized_since
        return 0.0 if since is None else since + SYNC_SECONDS - time.monotonic()

    def repaint(self, palette: TerminalPalette, state: ViewState) -> None:
        """Redraw every line, for another palette or size."""
        with self.engine.lock:
            screen = self.engine.screen
            screen.colours.theme = {
                **{number: _rgb(colour) for number, colour in enumerate(palette.ansi)},
                FOREGROUND: _rgb(palette.foreground),
                BACKGROUND: _rgb(palette.background),
            }
            self._painter = StripPainter(palette, screen.columns, screen.clusters, screen.links.uri)
            self.state = state
            self._redo_all()

    def update(self, state: ViewState) -> set[int]:
        """Update the strips; return the lines that changed."""
        with self.engine.lock:
            self.engine.frame_taken()
            screen = self.engine.screen
            painter = self._painter_for_screen()
            if painter is None:
                return set()
            moved = self.keeps_position and screen.scrolled != self._scrolled
            if state != self.state or self.back or moved or len(self.strips) != screen.lines:
                self.state = state
                self._redo_all()
                return set(range(screen.lines))
            dirty = {y for y in screen.dirty if y < screen.lines}
            screen.dirty.clear()
            self._scrolled = screen.scrolled
            before, self._cursor = self._cursor, self._cursor_cell()
            if before != self._cursor:
                dirty.update(cell[0] for cell in (before, self._cursor) if cell and cell[0] < screen.lines)
            changed: set[int] = set()
            order = dict.fromkeys((*self.late, *sorted(dirty)))
            self.late = []
            enough = painter.segments_made + MAX_SEGMENTS
            for y in order:
                if painter.segments_made > enough:
                    self.late.append(y)
                    continue
                strip = self._line(painter, y)
                if strip is not self.strips[y]:
                    self.strips[y] = strip
                    changed.add(y)
            return changed

    def scroll(self, lines: int) -> bool:
        """Show older lines (negative: newer ones); return whether that was possible."""
        with self.engine.lock:
            self._keep_position()
            back = min(max(0, self.back + lines), len(self.engine.screen.history))
            if back == self.back:
                return False
            self.back = back
            self._redo_all()
            return True

    def reveal(self, number: int, *, centred: bool) -> bool:
        """Scroll a line into sight; return whether that was needed."""
        with self.engine.lock:
            screen = self.engine.screen
            y = self.row_of(number)
            if 0 <= y < screen.lines:
                return False
            target = screen.lines // 2 if centred else 0 if y < 0 else screen.lines - 1
            return self.scroll(screen.scrolled - number + target - self.back)

    def row_of(self, number: int) -> int:
        """Return a line's row on the view; outside its height when out of sight."""
        with self.engine.lock:
            self._keep_position()
            return number - (self.engine.screen.scrolled - self.back)

    def bounds(self) -> tuple[int, int]:
        """Return the numbers of the oldest and the newest line."""
        with self.engine.lock:
            screen = self.engine.screen
            return screen.scrolled - len(screen.history), screen.scrolled + screen.lines - 1

    def line_text(self, number: int) -> str:
        """Return a line's text as drawn, without trailing blanks; empty when gone."""
        with self.engine.lock:
            painter = self._painter_for_screen()
            oldest, newest = self.bounds()
            return painter.text(self._row(number)) if painter and oldest <= number <= newest else ""

    def logical_line(self, number: int) -> LogicalLine:
        """Return a line with the rows before and after that it wraps into, a bounded number; empty when gone."""
        with self.engine.lock:
            painter = self._painter_for_screen()
            oldest, newest = self.bounds()
            if painter is None or not oldest <= number <= newest:
                return LogicalLine(number, (), ())
            first = last = number
            while first > max(oldest, number - MAX_ROWS) and self._wraps(first - 1):
                first -= 1
            while last < min(newest, number + MAX_ROWS) and self._wraps(last):
                last += 1
            rows: list[str] = []
            links: list[tuple[int, int, str]] = []
            begin = 0
            for one in range(first, last + 1):
                row = self._row(one)
                for start, end, uri in painter.hyperlinks(row):
                    if links and links[-1][1:] == (begin + start, uri):
                        links[-1] = (links[-1][0], begin + end, uri)
                    else:
                        links.append((begin + start, begin + end, uri))
                rows.append(painter.whole_text(row) if one < last else painter.text(row))
                begin += len(rows[-1])
            return LogicalLine(first, tuple(rows), tuple(links))

    def selected_text(self, selection: Selection) -> str:
        """Return a selection's text: wrapped lines joined, trailing blanks left out."""
        with self.engine.lock:
            painter = self._painter_for_screen()
            if painter is None:
                return ""
            oldest, newest = self.bounds()
            first = max(oldest, selection.start.y if selection.start else oldest)
            last = min(newest, selection.end.y if selection.end else newest)
            pieces: list[str] = []
            for number in range(first, last + 1):
                row = self._row(number)
                start, end = selection.get_span(number) or (0, 0)
                joined = not isinstance(row, str) and row.wrapped and number < last
                text = painter.whole_text(row) if joined else painter.text(row)
                pieces.append(text[start : None if end < 0 else end] + ("" if joined else "\n"))
        return without_placeholders("".join(pieces)).rstrip("\n")

    def _wraps(self, number: int) -> bool:
        row = self._row(number)
        return isinstance(row, ScreenRow) and row.wrapped

    def _row(self, number: int) -> ScreenRow | str:
        screen = self.engine.screen
        index = number - screen.scrolled
        return screen.rows[index] if index >= 0 else screen.history[index]

    def _painter_for_screen(self) -> StripPainter | None:
        """Return the painter; a new one for another width or reversed colours."""
        painter, screen = self._painter, self.engine.screen
        reverse = _REVERSE_SCREEN in screen.mode
        if painter is not None and (
            painter.reverse != reverse or painter.columns != screen.columns or painter.colours != screen.colours.own
        ):
            painter = StripPainter(painter.palette, screen.columns, screen.clusters, screen.links.uri)
            painter.reverse = reverse
            painter.colours = dict(screen.colours.own)
            self._painter = painter
            screen.mark_all_dirty()
        return painter

    def _redo_all(self) -> None:
        self.engine.frame_taken()
        screen = self.engine.screen
        painter = self._painter_for_screen()
        if painter is None:
            return
        self._keep_position()
        screen.dirty.clear()
        self.late.clear()
        self._cursor = self._cursor_cell()
        top = screen.scrolled - self.back
        self._found = self.state.matches.in_lines(top, top + screen.lines - 1)
        self.strips = [self._line(painter, y) for y in range(screen.lines)]

    def _keep_position(self) -> None:
        """Keep the same lines in sight while others arrive below."""
        screen = self.engine.screen
        if self.back or self.keeps_position:
            self.back = min(max(0, self.back + screen.scrolled - self._scrolled), len(screen.history))
        self._scrolled = screen.scrolled

    def _cursor_cell(self) -> tuple[int, int] | None:
        screen = self.engine.screen
        if screen.cursor.hidden or self.back or not self.state.shows_cursor:
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
        """Return cursor and marks over a line."""
        state = self.state
        cursor = self._cursor[1] if self._cursor is not None and self._cursor[0] == y else None
        marks = self._marks(number)
        if cursor is None and not marks:
            return NO_OVERLAY
        thin = self.engine.screen.cursor_shape in (3, 4) or not state.focused
        return Overlay(cursor, _FAINT_CURSOR if thin else _CURSOR, marks)

    def _marks(self, number: int) -> tuple[Mark, ...]:
        """Return selection, matches and pointer, the later over the earlier."""
        state = self.state
        marks: list[Mark] = []
        if state.selection is not None and (span := state.selection.get_span(number)) is not None:
            marks.append(Mark(*span, state.selection_style))
        if state.link is not None:
            marks += [Mark(start, end, _LINK) for line, start, end in state.link.parts if line == number]
        if state.matches.columns == self.engine.screen.columns:
            for start, end, match in self._found.get(number, ()):
                marks.append(Mark(start, end, _FOUND_NOW if match == state.current else _FOUND))
        if state.pointer is not None and state.pointer[0] == number:
            marks.append(Mark(state.pointer[1], state.pointer[1] + 1, _CURSOR))
        return tuple(marks)


def _rgb(colour: Color) -> int:
    triplet = colour.get_truecolor()
    return triplet.red << 16 | triplet.green << 8 | triplet.blue
