"""Pictures as cells of the screen: half blocks, which scroll, and go, as text does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ollm_tui.core.shell.pty_process import CELL_WIDTH
from ollm_tui.tui.pictures.outer_pictures import placeholders
from ollm_tui.tui.pictures.raster import CLEAR, Raster, half_blocks
from ollm_tui.tui.terminal.emulator.cells import DEFAULT, PICTURE, PICTURE_NUMBER, RGB, CellStyle, ClusterTable
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.emulator.writing import WritingScreen

MAX_LINES = 500
"""Lines of a picture; a taller one is drawn smaller."""
MAX_CELLS = 80_000
"""Cells of pictures that are kept, about 16 MB; beyond it the oldest become blank."""


@dataclass(frozen=True)
class CellSize:
    """The cells a program asks for, 0 for as many as the other side leaves."""

    columns: int = 0
    lines: int = 0

    def fitted(self, raster: Raster, columns: int) -> tuple[int, int]:
        """Return the columns, and half lines, of a picture: at most `columns`, its form kept."""
        wide, halves = min(self.columns, 9999), 2 * min(self.lines, 9999)
        if not wide and not halves:
            wide = -(-raster.width // CELL_WIDTH)
            halves = -(-raster.height // CELL_WIDTH)
        elif not halves:
            halves = max(1, round(raster.height * wide / raster.width))
        elif not wide:
            wide = max(1, round(raster.width * halves / raster.height))
        factor = min(1.0, columns / wide, 2 * MAX_LINES / halves)
        return min(columns, max(1, round(wide * factor))), max(1, round(halves * factor))


def picture_rows(raster: Raster, columns: int, halves: int, number: int = 0) -> list[ScreenRow]:
    """Return a picture as lines of `columns` cells; the work is bounded by these, not by its pixels."""
    flags = PICTURE | number << PICTURE_NUMBER
    known: dict[tuple[int, int], CellStyle] = {}
    rows: list[ScreenRow] = []
    for line in half_blocks(raster, columns, halves):
        row = ScreenRow("".join(" " if cell == (CLEAR, CLEAR) else "▄" if cell[0] == CLEAR else "▀" for cell in line))
        row.styles = [known.get(cell) or known.setdefault(cell, _style(*cell, flags)) for cell in line]
        rows.append(row)
    return rows


def placeholder_rows(columns: int, halves: int, outer: int, clusters: ClusterTable, number: int = 0) -> list[ScreenRow]:
    """Return the lines of a picture that the outer terminal draws, with its number there."""
    style = CellStyle(RGB | outer, flags=PICTURE | number << PICTURE_NUMBER)
    rows: list[ScreenRow] = []
    for line in range(-(-halves // 2)):
        row = ScreenRow("".join(map(clusters.intern, placeholders(columns, line))))
        row.styles = [style] * columns
        rows.append(row)
    return rows


def _style(upper: int, lower: int, flags: int) -> CellStyle:
    if upper == CLEAR:
        upper, lower = lower, CLEAR
    return CellStyle(RGB | upper if upper != CLEAR else -1, RGB | lower if lower != CLEAR else -1, flags)


class PlacedPictures:
    """The lines of a screen and its scrollback that show pictures, as many as may be kept."""

    def __init__(self, screen: WritingScreen) -> None:
        self._screen = screen
        self._rows: dict[int, tuple[ScreenRow, int]] = {}
        """Lines with their length, by identity, oldest first: one that shows picture after picture counts once."""
        self._cells = 0

    def columns_left(self) -> int:
        """Return how wide a picture at the cursor can be; at the line's end that is the next line."""
        screen = self._screen
        if screen.cursor.x >= screen.columns:
            screen.wrap()
        return screen.columns - screen.cursor.x

    def place(self, rows: list[ScreenRow], *, moves: bool = True) -> None:
        """Put a picture at the cursor, which then is in its last line, behind it.

        Args:
            rows: The picture's lines.
            moves: Whether the cursor moves, and the screen scrolls where the picture needs lines below it.
        """
        screen, cursor = self._screen, self._screen.cursor
        x, y = min(cursor.x, screen.columns - 1), cursor.y
        for number, part in enumerate(rows if moves else rows[: screen.lines - y]):
            if number:
                if cursor.y == screen.lines - 1 and (not moves or cursor.y != screen.region()[1]):
                    break
                if moves:
                    screen.index()
                else:
                    cursor.y += 1
            screen.rows[cursor.y].paste(x, part)
            screen.dirty.add(cursor.y)
            self._keep(screen.rows[cursor.y])
        cursor.x = min(screen.columns, x + len(rows[0].text))
        if not moves:
            cursor.x, cursor.y = x, y

    def erase(self, number: int | None) -> None:
        """Blank the cells of the pictures with a number, or of all with one, in the screen's lines."""
        for row in self._screen.rows:
            _blank(row, lambda own: own > 0 if number is None else own == number)
        self._screen.mark_all_dirty()

    def _keep(self, row: ScreenRow) -> None:
        self._cells += len(row.text) - self._rows.pop(id(row), (row, 0))[1]
        self._rows[id(row)] = (row, len(row.text))
        while self._cells > MAX_CELLS:
            oldest, length = self._rows.pop(next(iter(self._rows)))
            self._cells -= length
            _blank(oldest, lambda _number: True)
            self._screen.mark_all_dirty()


def _blank(row: ScreenRow, chosen: Callable[[int], bool]) -> None:
    """Erase the cells of a line that show pictures with a number that is chosen; 0 is none."""
    start = 0
    for run, style in list(row.runs()):
        end = start + len(run)
        if style.flags & PICTURE and chosen(style.flags >> PICTURE_NUMBER):
            row.erase(start, end, len(row.text) + 1, DEFAULT)
        start = end
