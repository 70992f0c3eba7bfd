"""The lines of a terminal's output that can still be rewritten, and the cursor among them.

A row is a `str` while it was only ever appended to or is plain ASCII. A row of cells has one entry a column: the
character with what combines with it, and "" for the second column of a wide one and the columns a tab skips.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import TypeAlias

Row: TypeAlias = str | list[str]
Settle: TypeAlias = Callable[[str], None]

WINDOW = 40
"""Lines that a program can still go back to: the height of the terminals that commands are given."""

MAX_ROW = 16_384
"""Characters of one line that are held for rewriting; what is longer settles in pieces."""

_TAB = 8


class OpenRows:
    """At most `window` rows; what scrolls off goes to `settle` and can no longer change."""

    def __init__(self, settle: Settle, window: int = WINDOW) -> None:
        self._settle = settle
        self._window = window
        self._rows: list[Row] = [""]
        self.row = 0
        self.column: int | None = None
        """Cell the next character goes to; None is the end of the row, wherever that is."""
        self._saved: tuple[int, int] = (0, 0)
        self._main: tuple[list[Row], int, int | None] | None = None
        """The ordinary screen while a program shows its other one."""

    @property
    def at_end(self) -> bool:
        """Whether the cursor is behind the last character of the last row."""
        return self.column is None and self.row == len(self._rows) - 1

    @property
    def position(self) -> int:
        """The cursor's column."""
        return column_at_end(self._rows[self.row]) if self.column is None else self.column

    def text(self) -> str:
        """Return the rows as they are now."""
        rows = self._rows if self._main is None else [*self._main[0], *self._rows]
        return "\n".join(map(rendered, rows))

    def finish(self) -> None:
        """Settle everything: no more will come."""
        while len(self._rows) - 1 > self.row and not self._rows[-1]:
            self._rows.pop()  # blank lines that the cursor was only sent over
        self._settle(self.text())
        self._clear()
        self._main = None

    def append(self, plain: str) -> None:
        """Write text and newlines, with the cursor at the very end."""
        if not plain:
            return
        if plain.count("\n") >= self._window and self._main is None:
            cut = len(plain)
            for _ in range(self._window):
                cut = plain.rfind("\n", 0, cut)
            self._settle("\n".join(map(rendered, self._rows)) + plain[: cut + 1])
            self._rows = list[Row](plain[cut + 1 :].split("\n"))
        else:
            first, *others = plain.split("\n")
            self.write_at_end(first)
            self._rows.extend(others)
            self._scroll()
        self.row = len(self._rows) - 1
        self._bound_row()

    def newline(self) -> None:
        """Go to the start of the next row."""
        self.row += 1
        if self.row == len(self._rows):
            self._rows.append("")
            self._scroll()
        self.move_to(self.row, 0)

    def write_at_end(self, text: str) -> None:
        """Write behind the last character of the cursor's row."""
        row = self._rows[self.row]
        self._rows[self.row] = row + text if isinstance(row, str) else row + cells_of(text, len(row))
        self._bound_row()

    def write(self, text: str) -> None:
        """Write text without controls at the cursor."""
        if self.column is None:
            self.write_at_end(text)
            return
        column = min(self.column, MAX_ROW)
        self._rows[self.row], column = overwritten(self._rows[self.row], column, text)
        self.column = None if column >= column_at_end(self._rows[self.row]) else column

    def move_to(self, row: int, column: int) -> None:
        """Move the cursor, inside the window."""
        self.row = max(0, min(row, self._window - 1))
        while self.row >= len(self._rows):
            self._rows.append("")
        column = max(0, min(column, MAX_ROW))
        self.column = None if column == column_at_end(self._rows[self.row]) else column

    def save_cursor(self) -> None:
        """Remember the cursor's position."""
        self._saved = (self.row, self.position)

    def restore_cursor(self) -> None:
        """Go where the cursor was saved."""
        self.move_to(*self._saved)

    def reset(self) -> None:
        """Erase everything that can still change."""
        self._erase_rows(0, len(self._rows))
        self.move_to(0, 0)

    def edit(self, final: str, first: int) -> None:
        """Run the control sequence that ends in `final` and changes text; ignore others."""
        column, count = self.position, max(1, first)
        row = self._rows[self.row]
        match final:
            case "K" if first == 0:
                self._rows[self.row] = with_cells(row)[:column]
            case "K":
                rest = [] if first == 2 else with_cells(row)[column + 1 :]
                self._rows[self.row] = [" "] * (column + 1) + rest if rest else []
            case "J" if first == 0:
                self._rows[self.row] = with_cells(row)[:column]
                self._erase_rows(self.row + 1, len(self._rows))
            case "J" if first in (1, 2):
                self._erase_rows(0, self.row if first == 1 else len(self._rows))
            case "X":
                self._rows[self.row], _ = overwritten(row, column, " " * min(count, MAX_ROW))
            case "P":
                cells = with_cells(row)
                self._rows[self.row] = cells[:column] + cells[column + count :]
            case "@":
                cells = with_cells(row)
                self._rows[self.row] = cells[:column] + [" "] * min(count, MAX_ROW) + cells[column:]
            case "L":
                self._rows[self.row : self.row] = [""] * min(count, self._window)
                del self._rows[self._window :]
            case "M":
                del self._rows[self.row : self.row + count]
            case _:
                return
        self.move_to(self.row, column)

    def switch_screen(self, *, alternate: bool) -> None:
        """Show the alternate screen, or the ordinary one again."""
        if alternate and self._main is None:
            self._main = (self._rows, self.row, self.column)
            self._clear()
        elif not alternate and self._main is not None:
            self._rows, self.row, self.column = self._main
            self._main = None

    def _clear(self) -> None:
        self._rows = [""]
        self.row, self.column = 0, None

    def _scroll(self) -> None:
        excess = len(self._rows) - self._window
        if excess > 0:
            if self._main is None:
                self._settle("".join(f"{rendered(row)}\n" for row in self._rows[:excess]))
            del self._rows[:excess]
            self.row = max(0, self.row - excess)

    def _bound_row(self) -> None:
        row = self._rows[self.row]
        if len(row) <= MAX_ROW or self.column is not None:
            return
        if self._main is None and self.row == len(self._rows) - 1:
            self._settle("\n".join(map(rendered, self._rows)))
            self._clear()
        else:
            self._rows[self.row] = row[:MAX_ROW]

    def _erase_rows(self, start: int, end: int) -> None:
        if end == len(self._rows):
            # Blank lines at the end are no text: nothing is left of them.
            del self._rows[max(start, self.row + 1) :]
            end = len(self._rows)
        for index in range(start, end):
            self._rows[index] = ""


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
