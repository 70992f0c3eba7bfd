"""The rows of a screen: scrolling, scrollback, resizing; readable as pyte's `Screen` is."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from pyte import modes as mo
from pyte.screens import Char, Cursor, Screen, StaticDefaultDict

from ollm_tui.tui.terminal.emulator.cells import DEFAULT, STUB, CellStyle, ClusterTable, as_char
from ollm_tui.tui.terminal.emulator.screen_rows import Position, ScreenRow, join_rows, reflow, wrap_again

SCROLLBACK_LINES = 10_000
MAX_SIDE = 2_000
"""Limit of columns and lines, against wrong window sizes."""

MAX_JOINED = 500
"""Rows of one wrapped line that are joined when the width changes."""

BufferRow = StaticDefaultDict[int, Char]


class LiveCursor(Cursor):
    """pyte's cursor, with the pen's style as a `CellStyle`."""

    __slots__ = ("style",)

    def __init__(self, x: int = 0, y: int = 0) -> None:
        self.style = DEFAULT
        super().__init__(x, y)

    @property
    def attrs(self) -> Char:  # pyright: ignore[reportIncompatibleVariableOverride]  # pyte stores it; ours is derived
        """The pen's style in pyte's form."""
        return as_char(" ", self.style)

    @attrs.setter
    def attrs(self, char: Char) -> None:  # pyte's own constructor assigns a blank
        self.style = DEFAULT


class BufferView(dict[int, BufferRow]):
    """`screen.buffer[y][x]` as pyte has it, made from the rows on access."""

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


class Grid(Screen):
    """Rows of a screen, and in `history` the lines that left it, oldest first.

    A line of the history is a `str` (default style, not wrapped) or a `ScreenRow`. `scrolled` counts the lines that
    went there, so `scrolled + y` identifies a line while others arrive.
    """

    cursor: LiveCursor  # pyright: ignore[reportIncompatibleVariableOverride]  # narrower on purpose: only ours is set
    tabstops: set[int]

    def __init__(self, columns: int, lines: int, scrollback_lines: int = SCROLLBACK_LINES) -> None:
        columns, lines = _side(columns), _side(lines)
        self.clusters = ClusterTable()
        self.history: deque[ScreenRow | str] = deque(maxlen=max(0, scrollback_lines))
        self.scrolled: int = 0
        self.rows: list[ScreenRow] = [ScreenRow() for _ in range(lines)]
        self.sides: tuple[int, int] | None = None
        """First and last column of the scrolling region, where side margins are set (DECSLRM)."""
        self.alternate_screen = False
        self.main_rows: list[ScreenRow] | None = None
        """The primary screen while the alternate one is shown."""
        self.main_position: Position = (0, 0)
        """The primary screen's cursor position meanwhile."""
        super().__init__(columns, lines)
        self.buffer = BufferView(self)

    @property
    def display(self) -> list[str]:
        """The lines as text, each `columns` wide; wide characters count two."""
        return [self.clusters.plain(row.text.ljust(self.columns)) for row in self.rows]

    @property
    def scrollback(self) -> list[str]:
        """The lines that left the screen at its top, as text, oldest first."""
        return [self.clusters.plain(line if isinstance(line, str) else line.text) for line in self.history]

    def mark_all_dirty(self) -> None:
        """Mark every line dirty; cheap when they already are."""
        if len(self.dirty) < self.lines:
            self.dirty.update(range(self.lines))

    @property
    def pen_erase(self) -> CellStyle:
        """The style of erased cells: the pen's background alone (terminfo `bce`)."""
        background = self.cursor.style.bg
        return DEFAULT if background < 0 else CellStyle(bg=background)

    def region(self) -> tuple[int, int]:
        """Return first and last line of the scrolling region."""
        return self.margins or (0, self.lines - 1)

    def side_edges(self) -> tuple[int, int]:
        """Return first and last column of the scrolling region."""
        return self.sides or (0, self.columns - 1)

    def is_between_sides(self) -> bool:
        """Whether the cursor is between the side margins."""
        return self.sides is None or self.sides[0] <= self.cursor.x <= self.sides[1]

    def add_to_scrollback(self, lines: list[ScreenRow | str] | list[str]) -> None:
        """Append lines to the scrollback."""
        self.scrolled += len(lines)
        self.history.extend(lines)

    def unwrap_line_above(self, y: int) -> None:
        """End the line above row `y`: what follows no longer continues it."""
        above: list[ScreenRow | str] | list[ScreenRow] = self.rows[y - 1 : y]
        if y == 0 and self.history and not self.alternate_screen:
            above = [self.history[-1]]
        for row in above:
            if isinstance(row, ScreenRow):
                row.wrapped = False

    # Size

    def resize(self, lines: int | None = None, columns: int | None = None) -> None:
        """Change the size; the cursor stays at its text.

        Rows leave to, and come back from, the scrollback at the top. On the primary screen lines are wrapped again.
        """
        lines, columns = _side(lines or self.lines), _side(columns or self.columns)
        if (lines, columns) == (self.lines, self.columns):
            return
        old_columns, self.columns = self.columns, columns
        self.margins = self.sides = None
        alternate = self.main_rows is not None
        primary = self.rows if self.main_rows is None else self.main_rows
        position = self.main_position if alternate else (self.cursor.y, self.cursor.x)
        if columns != old_columns:
            continued = self._pop_scrollback_line() if primary and self._scrollback_continues() else []
            primary, position = reflow(continued + primary, (position[0] + len(continued), position[1]), columns)
            self.tabstops = {stop for stop in self.tabstops if stop < old_columns}
            self.tabstops.update(stop for stop in range(8, columns, 8) if stop >= old_columns)
        y = position[0] + self._fit_rows(primary, lines, position[0])
        if alternate:
            self.main_rows = primary
            self.move_main_cursor((min(max(y, 0), lines - 1), min(position[1], columns)))
            del self.rows[lines:]
            for row in self.rows:
                row.truncate(columns)
            self.rows.extend(ScreenRow() for _ in range(lines - len(self.rows)))
            y, x = self.cursor.y, self.cursor.x
        else:
            self.rows, x = primary, position[1]
        self.lines = lines
        self.cursor.y = min(max(y, 0), lines - 1)
        self.cursor.x = min(x, columns)
        self.dirty.clear()
        self.mark_all_dirty()

    def move_main_cursor(self, position: Position) -> None:
        """Record the primary screen's cursor position while the alternate one is shown."""
        self.main_position = position

    def _fit_rows(self, rows: list[ScreenRow], lines: int, cursor_row: int) -> int:
        """Make the rows exactly `lines`; return how far the cursor's text moved.

        Lines come back from the scrollback where no blank row is left below the text, as in VTE.
        """
        while len(rows) > lines and len(rows) - 1 > cursor_row and not rows[-1].text:
            rows.pop()
        moved = 0
        if len(rows) > lines:
            moved = -min(len(rows) - lines, cursor_row)
            self.add_to_scrollback([row.compact() for row in rows[:-moved]])
            del rows[:-moved]
            del rows[lines:]
        elif cursor_row == len(rows) - 1 or rows[-1].text:
            while self.history:
                line = self._pop_scrollback_line()
                back = wrap_again(join_rows(line)[0], self.columns)
                if len(rows) + len(back) > lines:
                    self.add_to_scrollback([row.compact() for row in line])
                    break
                rows[:0] = back
                moved += len(back)
        rows.extend(ScreenRow() for _ in range(lines - len(rows)))
        return moved

    def _scrollback_continues(self) -> bool:
        """Whether the newest line of the scrollback wraps into the row below it."""
        if not self.history:
            return False
        line = self.history[-1]
        return isinstance(line, ScreenRow) and line.wrapped

    def _pop_scrollback_line(self) -> list[ScreenRow]:
        """Take the newest logical line (at most `MAX_JOINED` rows) out of the scrollback."""
        rows: list[ScreenRow] = []
        while self.history and (not rows or self._scrollback_continues()) and len(rows) < MAX_JOINED:
            line = self.history.pop()
            self.scrolled -= 1
            rows.append(ScreenRow(line) if isinstance(line, str) else line.copy())
        return rows[::-1]


def _side(length: int) -> int:
    return min(max(1, length), MAX_SIDE)
