"""The rows of a terminal screen: scrolling, scrollback, resizing, and reading it as pyte's `Screen` is read."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import overload

from pyte import modes as mo
from pyte.screens import Char, Cursor, Margins, Screen, StaticDefaultDict

from ollm_tui.tui.terminal.emulator.cell_styles import DEFAULT, CellStyle, as_char
from ollm_tui.tui.terminal.emulator.resize_reflow import Place, broken, join, reflow
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.emulator.widths import STUB, ClusterTable

SCROLLBACK_LINES = 10_000
MAX_SIDE = 2_000
"""The widest and tallest screen; a program or a broken window size cannot ask for more."""

MAX_JOINED = 500
"""Rows of one broken line that are joined when the width changes."""

BufferRow = StaticDefaultDict[int, Char]


class LiveCursor(Cursor):
    """pyte's cursor, with the style of what is written next held as a `CellStyle`."""

    __slots__ = ("style",)

    def __init__(self, x: int = 0, y: int = 0) -> None:
        self.style = DEFAULT
        super().__init__(x, y)

    @property
    def attrs(self) -> Char:  # pyright: ignore[reportIncompatibleVariableOverride]  # pyte stores it; ours is derived
        return as_char(" ", self.style)

    @attrs.setter
    def attrs(self, char: Char) -> None:  # pyte's own constructor assigns a blank
        self.style = DEFAULT


class BufferView(dict[int, BufferRow]):
    """`screen.buffer[y][x]` as pyte has it, made from the rows when somebody looks."""

    def __init__(self, grid: Grid) -> None:
        super().__init__()
        self._grid = grid

    def __getitem__(self, y: int) -> BufferRow:
        grid = self._grid
        line: BufferRow = StaticDefaultDict(grid.default_char)
        reverse = mo.DECSCNM in grid.mode
        x = 0
        for text, style in grid.rows[y].runs():
            for unit in text:
                line[x] = as_char("" if unit == STUB else grid.clusters.expand(unit), style, reverse=reverse)
                x += 1
        return line

    def __iter__(self) -> Iterator[int]:
        return iter(range(self._grid.lines))

    def __len__(self) -> int:
        return self._grid.lines


class Scrollback(Sequence[str]):
    """Lines as people read them, over the history of a screen; bounded by `maxlen`."""

    def __init__(self, history: deque[ScreenRow | str], clusters: ClusterTable) -> None:
        self._history = history
        self._clusters = clusters
        self.maxlen = history.maxlen

    def __len__(self) -> int:
        return len(self._history)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(len(self)))]
        line = self._history[index]
        return self._clusters.plain(line.text if isinstance(line, ScreenRow) else line)

    def __iter__(self) -> Iterator[str]:
        for line in self._history:
            yield self._clusters.plain(line.text if isinstance(line, ScreenRow) else line)


class Grid(Screen):
    """Rows of a screen and the lines that have left it, oldest first, in `history` (`scrollback` as text).

    A line of the history is a `str` (default style, not continued in the next) or a `ScreenRow`. `scrolled` counts the
    lines that went there and stayed away, so `scrolled + y` names a line for good while others arrive.
    """

    cursor: LiveCursor  # pyright: ignore[reportIncompatibleVariableOverride]  # narrower on purpose: only ours is set
    tabstops: set[int]

    def __init__(self, columns: int, lines: int, scrollback_lines: int = SCROLLBACK_LINES) -> None:
        columns, lines = _side(columns), _side(lines)
        self.clusters = ClusterTable()
        self.history: deque[ScreenRow | str] = deque(maxlen=max(0, scrollback_lines))
        """The lines that left the screen, in the form the engine keeps them."""
        self.scrolled = 0
        self.rows: list[ScreenRow] = [ScreenRow() for _ in range(lines)]
        self.alternate_screen = False
        self.pen_erase = DEFAULT
        """The style erased cells get: the pen's background and nothing else (xterm's `bce`)."""
        self.main_rows: list[ScreenRow] | None = None
        """The primary screen while the alternate one is shown."""
        self.parked: Place = (0, 0)
        """Where the primary screen's cursor is meanwhile."""
        super().__init__(columns, lines)
        self.buffer = BufferView(self)

    @property
    def display(self) -> list[str]:
        """The lines as text, each exactly `columns` wide; the second half of a wide character is left out."""
        return [self.clusters.plain(row.text.ljust(self.columns)) for row in self.rows]

    @property
    def scrollback(self) -> Scrollback:
        """The lines that left the screen at its top, as text, oldest first."""
        return Scrollback(self.history, self.clusters)

    def touch_all(self) -> None:
        """Mark every line dirty, cheaply when they already are."""
        if len(self.dirty) < self.lines:
            self.dirty.update(range(self.lines))

    def set_style(self, style: CellStyle) -> None:
        """Change what is written next, and with what cells are erased."""
        self.cursor.style = style
        self.pen_erase = DEFAULT if style.bg < 0 else CellStyle(bg=style.bg)

    def region(self) -> tuple[int, int]:
        """First and last line of the scrolling region."""
        return self.margins or (0, self.lines - 1)

    # Scrolling

    def scroll_up(self, count: int = 1) -> None:
        """SU: lines leave at the region's top; from the top of the primary screen they go to the scrollback."""
        top, bottom = self.region()
        count = min(count or 1, bottom - top + 1)
        rows = self.rows
        if top > 0:
            self.end_line_above(top)
        elif not self.alternate_screen:
            self.keep(row.compact() for row in islice(rows, count))
        del rows[top : top + count]
        blank = self.pen_erase
        rows[bottom + 1 - count : bottom + 1 - count] = [ScreenRow.blank(self.columns, blank) for _ in range(count)]
        self._touch_region(top, bottom)

    def scroll_down(self, count: int = 1) -> None:
        """SD: lines leave at the region's bottom and are lost."""
        top, bottom = self.region()
        self._insert_rows(top, bottom, count or 1)

    def keep(self, lines: Iterator[ScreenRow | str] | list[ScreenRow | str] | list[str]) -> None:
        """Add lines to the scrollback."""
        kept = list(lines)
        self.scrolled += len(kept)
        self.history.extend(kept)

    def end_line_above(self, y: int) -> None:
        """What row `y` shows from now on is not what the row above went on in: the two are never joined again."""
        above: list[ScreenRow | str] | list[ScreenRow] = self.rows[y - 1 : y]
        if y == 0 and self.history and not self.alternate_screen:
            above = [self.history[-1]]
        for row in above:
            if isinstance(row, ScreenRow):
                row.wrapped = False

    def _insert_rows(self, top: int, bottom: int, count: int) -> None:
        count = min(count, bottom - top + 1)
        rows = self.rows
        self.end_line_above(top)
        self.end_line_above(bottom + 1 - count)
        del rows[bottom + 1 - count : bottom + 1]
        rows[top:top] = [ScreenRow.blank(self.columns, self.pen_erase) for _ in range(count)]
        self._touch_region(top, bottom)

    def _delete_rows(self, top: int, bottom: int, count: int) -> None:
        count = min(count, bottom - top + 1)
        rows = self.rows
        self.end_line_above(top)
        self.end_line_above(bottom + 1)
        del rows[top : top + count]
        place = bottom + 1 - count
        rows[place:place] = [ScreenRow.blank(self.columns, self.pen_erase) for _ in range(count)]
        self._touch_region(top, bottom)

    def _touch_region(self, top: int, bottom: int) -> None:
        if top == 0 and bottom == self.lines - 1:
            self.touch_all()
        else:
            self.dirty.update(range(top, bottom + 1))

    def insert_lines(self, count: int | None = None) -> None:
        """IL: open blank lines at the cursor, inside the region only."""
        top, bottom = self.region()
        if top <= self.cursor.y <= bottom:
            self._insert_rows(self.cursor.y, bottom, count or 1)
            self.cursor.x = 0

    def delete_lines(self, count: int | None = None) -> None:
        """DL: take lines out at the cursor, inside the region only."""
        top, bottom = self.region()
        if top <= self.cursor.y <= bottom:
            self._delete_rows(self.cursor.y, bottom, count or 1)
            self.cursor.x = 0

    def index(self) -> None:
        """IND: one line down; at the region's last line the region scrolls. A cursor about to wrap no longer is."""
        cursor = self.cursor
        cursor.x = min(cursor.x, self.columns - 1)
        bottom = self.lines - 1 if self.margins is None else self.margins.bottom
        if cursor.y == bottom:
            self.scroll_up()
        elif cursor.y < self.lines - 1:
            cursor.y += 1

    def reverse_index(self) -> None:
        """RI: one line up; at the region's first line the region scrolls down."""
        cursor = self.cursor
        cursor.x = min(cursor.x, self.columns - 1)
        if cursor.y == self.region()[0]:
            self.scroll_down()
        elif cursor.y > 0:
            cursor.y -= 1

    # Size

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size. The cursor keeps its text: rows leave to, and come back from, the scrollback at the top.

        Lines that were broken because they were full are joined and broken anew on the primary screen.
        """
        lines, columns = _side(lines or self.lines), _side(columns or self.columns)
        if (lines, columns) == (self.lines, self.columns):
            return
        old_columns, self.columns = self.columns, columns
        self.margins = None
        alternate = self.main_rows is not None
        primary = self.rows if self.main_rows is None else self.main_rows
        place = self.parked if alternate else (self.cursor.y, self.cursor.x)
        if columns != old_columns:
            continued = self._take_back_line() if primary and self._goes_on() else []
            primary, place = reflow(continued + primary, (place[0] + len(continued), place[1]), columns)
            self.tabstops = {stop for stop in self.tabstops if stop < old_columns}
            self.tabstops.update(stop for stop in range(8, columns, 8) if stop >= old_columns)
        y = place[0] + self._fit(primary, lines, place[0])
        if alternate:
            self.main_rows = primary
            self.park((min(max(y, 0), lines - 1), min(place[1], columns)))
            del self.rows[lines:]
            for row in self.rows:
                row.truncate(columns)
            self.rows.extend(ScreenRow() for _ in range(lines - len(self.rows)))
            y, x = self.cursor.y, self.cursor.x
        else:
            self.rows, x = primary, place[1]
        self.lines = lines
        self.cursor.y = min(max(y, 0), lines - 1)
        self.cursor.x = min(x, columns)
        self.dirty.clear()
        self.touch_all()

    def park(self, place: Place) -> None:
        """Note where the cursor of the primary screen is while the alternate one is shown."""
        self.parked = place

    def _fit(self, rows: list[ScreenRow], lines: int, cursor_row: int) -> int:
        """Make the primary screen's rows exactly `lines` and return how far the cursor's text moved."""
        while len(rows) > lines and len(rows) - 1 > cursor_row and not rows[-1].text:
            rows.pop()
        moved = 0
        if len(rows) > lines:
            moved = -min(len(rows) - lines, cursor_row)
            self.keep([row.compact() for row in rows[:-moved]])
            del rows[:-moved]
            del rows[lines:]
        elif cursor_row == len(rows) - 1:
            while self.history:
                line = self._take_back_line()
                back = broken(join(line)[0], self.columns)
                if len(rows) + len(back) > lines:
                    self.keep([row.compact() for row in line])
                    break
                rows[:0] = back
                moved += len(back)
        rows.extend(ScreenRow() for _ in range(lines - len(rows)))
        return moved

    def _goes_on(self) -> bool:
        """Whether the newest line of the scrollback was broken and goes on in the row below it."""
        if not self.history:
            return False
        line = self.history[-1]
        return isinstance(line, ScreenRow) and line.wrapped

    def _take_back_line(self) -> list[ScreenRow]:
        """Take the newest logical line (at most `MAX_JOINED` rows of it) out of the scrollback."""
        rows: list[ScreenRow] = []
        while self.history and (not rows or self._goes_on()) and len(rows) < MAX_JOINED:
            line = self.history.pop()
            self.scrolled -= 1
            rows.append(ScreenRow(line) if isinstance(line, str) else line.copy())
        return rows[::-1]


def _side(length: int) -> int:
    return min(max(1, length), MAX_SIDE)


__all__ = ["Grid", "LiveCursor", "Margins"]
