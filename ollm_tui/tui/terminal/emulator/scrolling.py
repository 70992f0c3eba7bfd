"""Areas of a screen, and scrolling: the region's lines, and what is between its side margins."""

from __future__ import annotations

from typing import NamedTuple

from ollm_tui.tui.terminal.emulator.cells import DEFAULT, CellStyle
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.emulator.scrollback import Grid


class Area(NamedTuple):
    """A rectangle of cells; its last line and column belong to it."""

    top: int
    left: int
    bottom: int
    right: int

    @property
    def width(self) -> int:
        """Its columns."""
        return self.right - self.left + 1

    @property
    def lines(self) -> range:
        """Its lines."""
        return range(self.top, self.bottom + 1)


def shift_lines(rows: list[ScreenRow], area: Area, count: int, style: CellStyle) -> None:
    """Move an area's cells up by `count` lines (negative: down); what leaves it is lost, blanks come in."""
    parts = [rows[y].cut(area.left, area.right + 1) for y in area.lines]
    blanks = [_blank(area.width, style) for _ in range(min(abs(count), len(parts)))]
    moved = parts[count:] + blanks if count > 0 else blanks + parts[:count]
    for y, part in zip(area.lines, moved, strict=True):
        rows[y].paste(area.left, part)


def shift_columns(rows: list[ScreenRow], area: Area, count: int, style: CellStyle) -> None:
    """Move an area's cells left by `count` columns (negative: right); what leaves it is lost, blanks come in."""
    blanks = min(abs(count), area.width)
    kept_from, kept_to = (area.left + blanks, area.right + 1) if count > 0 else (area.left, area.right + 1 - blanks)
    for y in area.lines:
        row = rows[y]
        if not row.text and style is DEFAULT:
            continue
        kept = row.cut(kept_from, kept_to)
        row.paste(area.left if count > 0 else area.left + blanks, kept)
        row.paste(area.right + 1 - blanks if count > 0 else area.left, _blank(blanks, style))


def copy_area(rows: list[ScreenRow], area: Area, top: int, left: int, columns: int) -> range:
    """Copy an area to another place, as much as fits there; returns the lines that changed."""
    end = min(area.right + 1, area.left + columns - left)
    parts = [rows[y].cut(area.left, end) for y in area.lines]
    changed = range(top, min(top + len(parts), len(rows)))
    for y, part in zip(changed, parts, strict=False):
        rows[y].paste(left, part)
    return changed


def _blank(width: int, style: CellStyle) -> ScreenRow:
    return ScreenRow(" " * width, [(width, style)])


class ScrollingScreen(Grid):
    """A grid whose lines move; at the primary screen's top they go into the scrollback."""

    def scroll_up(self, count: int = 1) -> None:
        """SU: remove lines at the region's top; from the primary screen's top into the scrollback."""
        rows = self.rows
        if count == 1 and self.margins is None and self.sides is None:
            row = rows.pop(0)
            if not self.alternate_screen:
                self.scrolled += 1
                line = row.compact()
                self.history.append(line)
                if isinstance(line, ScreenRow):
                    self.count_runs(len(line.spans or ()))
            rows.append(ScreenRow.blank(self.columns, self.pen_erase))
            self.mark_all_dirty()
            return
        top, bottom = self.region()
        count = min(count or 1, bottom - top + 1)
        if self.sides is not None:
            self._shift_lines(top, bottom, count)
            return
        if top > 0:
            self.unwrap_line_above(top)
        elif not self.alternate_screen:
            self.add_to_scrollback([row.compact() for row in rows[:count]])
        del rows[top : top + count]
        self._insert_blanks(bottom + 1 - count, count)
        self._mark_region_dirty(top, bottom)

    def scroll_down(self, count: int = 1) -> None:
        """SD: remove lines at the region's bottom; they are lost."""
        top, bottom = self.region()
        if self.sides is not None:
            self._shift_lines(top, bottom, -(count or 1))
        else:
            self._insert_rows(top, bottom, count or 1)

    def _shift_lines(self, top: int, bottom: int, count: int) -> None:
        left, right = self.side_edges()
        shift_lines(self.rows, Area(top, left, bottom, right), count, self.pen_erase)
        self._mark_region_dirty(top, bottom)

    def _insert_rows(self, top: int, bottom: int, count: int) -> None:
        count = min(count, bottom - top + 1)
        self.unwrap_line_above(top)
        self.unwrap_line_above(bottom + 1 - count)
        del self.rows[bottom + 1 - count : bottom + 1]
        self._insert_blanks(top, count)
        self._mark_region_dirty(top, bottom)

    def _delete_rows(self, top: int, bottom: int, count: int) -> None:
        count = min(count, bottom - top + 1)
        self.unwrap_line_above(top)
        self.unwrap_line_above(bottom + 1)
        del self.rows[top : top + count]
        self._insert_blanks(bottom + 1 - count, count)
        self._mark_region_dirty(top, bottom)

    def _insert_blanks(self, y: int, count: int) -> None:
        style = self.pen_erase
        self.rows[y:y] = [ScreenRow.blank(self.columns, style) for _ in range(count)]

    def _mark_region_dirty(self, top: int, bottom: int) -> None:
        if top == 0 and bottom == self.lines - 1:
            self.mark_all_dirty()
        else:
            self.dirty.update(range(top, bottom + 1))

    def insert_lines(self, count: int | None = None) -> None:
        """IL: insert blank lines at the cursor, inside the region only."""
        top, bottom = self.region()
        if self.sides is not None:
            self._shift_lines_below(-(count or 1))
        elif top <= self.cursor.y <= bottom:
            self._insert_rows(self.cursor.y, bottom, count or 1)
            self.cursor.x = 0

    def delete_lines(self, count: int | None = None) -> None:
        """DL: delete lines at the cursor, inside the region only."""
        top, bottom = self.region()
        if self.sides is not None:
            self._shift_lines_below(count or 1)
        elif top <= self.cursor.y <= bottom:
            self._delete_rows(self.cursor.y, bottom, count or 1)
            self.cursor.x = 0

    def _shift_lines_below(self, count: int) -> None:
        top, bottom = self.region()
        if top <= self.cursor.y <= bottom and self.is_between_sides():
            self._shift_lines(self.cursor.y, bottom, count)
            self.cursor.x = self.side_edges()[0]

    def index(self) -> None:
        """IND: move down; at the region's last line scroll. Clears a pending wrap."""
        cursor = self.cursor
        cursor.x = min(cursor.x, self.columns - 1)
        bottom = self.lines - 1 if self.margins is None else self.margins.bottom
        if cursor.y == bottom:
            if self.sides is None or self.is_between_sides():
                self.scroll_up()
        elif cursor.y < self.lines - 1:
            cursor.y += 1

    def reverse_index(self) -> None:
        """RI: move up; at the region's first line scroll down."""
        cursor = self.cursor
        cursor.x = min(cursor.x, self.columns - 1)
        if cursor.y == self.region()[0]:
            if self.is_between_sides():
                self.scroll_down()
        elif cursor.y > 0:
            cursor.y -= 1
