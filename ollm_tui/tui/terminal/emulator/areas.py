"""Rectangles of a screen: moving, filling and copying the cells between side margins (DEC STD 070)."""

from __future__ import annotations

from typing import NamedTuple

from ollm_tui.tui.terminal.emulator.cells import DEFAULT, CellStyle
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow


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
