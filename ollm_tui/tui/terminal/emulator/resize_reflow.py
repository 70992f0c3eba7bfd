"""Breaking lines anew when the screen becomes wider or narrower."""

from __future__ import annotations

from ollm_tui.tui.terminal.emulator.cell_styles import DEFAULT, CellStyle
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.emulator.widths import STUB

Place = tuple[int, int]
"""A cursor's line and column."""


def reflow(rows: list[ScreenRow], place: Place, columns: int) -> tuple[list[ScreenRow], Place]:
    """The rows of a screen that is `columns` wide, and where the cursor's place went.

    Rows that went on in the next because they were full are joined first; a line too long is broken and never cut.
    """
    result: list[ScreenRow] = []
    new_place = place
    start = 0
    while start < len(rows):
        end = start + 1
        while end < len(rows) and rows[end - 1].wrapped:
            end += 1
        line = rows[start:end]
        first = len(result)
        joined, offsets = join(line)
        result.extend(broken(joined, columns))
        if start <= place[0] < end:
            offset = offsets[place[0] - start] + place[1]
            new_place = _place_of(offset, result, first)
        start = end
    return result, new_place


def broken(row: ScreenRow, columns: int) -> list[ScreenRow]:
    """A line as rows of at most `columns`; the same row when it fits."""
    text = row.text
    if len(text) <= columns:
        return [row]
    styles = row.dense() if row.styles is not None or row.spans is not None else None
    pieces: list[ScreenRow] = []
    start = 0
    while start < len(text):
        end = min(start + columns, len(text))
        if end < len(text) and text[end] == STUB and end - start > 1:
            end -= 1
        piece = ScreenRow(text[start:end].replace(STUB, "\ufffd") if columns == 1 else text[start:end])
        if styles is not None:
            piece.styles = styles[start:end]
        piece.wrapped = end < len(text) or row.wrapped
        pieces.append(piece)
        start = end
    return pieces


def join(line: list[ScreenRow]) -> tuple[ScreenRow, list[int]]:
    """The rows of one logical line as one row, and at which column of it each of them begins."""
    if len(line) == 1:
        line[0].drawn = None
        return line[0], [0]
    text = ""
    styles: list[CellStyle] = []
    offsets: list[int] = []
    for row in line:
        offsets.append(len(text))
        text += row.text
        styles += row.dense()
    whole = ScreenRow(text)
    whole.wrapped = line[-1].wrapped
    if any(style is not DEFAULT for style in styles):
        whole.styles = styles
    return whole, offsets


def _place_of(offset: int, rows: list[ScreenRow], first: int) -> Place:
    """Line and column of a column of the logical line whose rows begin at `first`."""
    for y in range(first, len(rows) - 1):
        length = len(rows[y].text)
        if offset < length:
            return y, offset
        offset -= length
    return len(rows) - 1, offset
