"""One line of a terminal's output while it can still be rewritten: text as long as that will do, else cells.

A row is a `str` while it was only ever appended to or is plain ASCII. A row of cells has one entry a column: the
character with what combines with it, and "" for the second column of a wide one and the columns a tab skips.
"""

from __future__ import annotations

import unicodedata
from typing import TypeAlias

Row: TypeAlias = str | list[str]

_TAB = 8


def rendered(row: Row) -> str:
    """Return the row as text."""
    return row if isinstance(row, str) else "".join(row)


def column_at_end(row: Row) -> int:
    """Return the column after the row's last character."""
    if isinstance(row, str) and not _one_cell_each(row):
        return len(cells_of(row, 0))
    return len(row)


def with_cells(row: Row) -> list[str]:
    """Return the row as cells; a new list."""
    return cells_of(row, 0) if isinstance(row, str) else list(row)


def cells_of(text: str, column: int) -> list[str]:
    """Return the cells that `text` takes when it starts in `column`."""
    if _one_cell_each(text):
        return list(text)
    cells: list[str] = []
    for character in text:
        if character == "\t":
            width = _TAB - (column + len(cells)) % _TAB
            cells += ["\t", *[""] * (width - 1)]
        elif unicodedata.category(character) in ("Mn", "Me", "Cf"):
            _combine(cells, character)
        else:
            cells.append(character)
            if unicodedata.east_asian_width(character) in ("W", "F"):
                cells.append("")
    return cells


def overwritten(row: Row, column: int, text: str) -> tuple[Row, int]:
    """Return the row after `text` was written over it from `column`, and the column after it."""
    if isinstance(row, str) and _one_cell_each(row) and _one_cell_each(text):
        after = column + len(text)
        return row[:column].ljust(column) + text + row[after:], after
    cells = with_cells(row)
    cells += [" "] * (column - len(cells))
    new = cells_of(text, column)
    after = column + len(new)
    _separate(cells, column)
    _separate(cells, after)
    cells[column:after] = new
    return cells, after


def _one_cell_each(text: str) -> bool:
    return text.isascii() and "\t" not in text


def _combine(cells: list[str], mark: str) -> None:
    for index in range(len(cells) - 1, -1, -1):
        if cells[index]:
            cells[index] += mark
            return
    cells.append(mark)


def _separate(cells: list[str], column: int) -> None:
    """Make a cut before `column` possible: what spreads over it becomes blanks."""
    if not 0 < column < len(cells) or cells[column]:
        return
    start = column
    while start > 0 and not cells[start]:
        start -= 1
    end = column
    while end < len(cells) and not cells[end]:
        end += 1
    cells[start:end] = [" "] * (end - start)
