"""Rewrap the rows of the primary screen when its width changes."""

from __future__ import annotations

from ollm_tui.tui.terminal.emulator.cell_styles import DEFAULT, CellStyle
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.emulator.widths import STUB

Position = tuple[int, int]
"""Line and column of a cursor."""


def reflow(rows: list[ScreenRow], position: Position, columns: int) -> tuple[list[ScreenRow], Position]:
    """Wrap rows again at `columns`; return them and the new cursor position.

    Wrapped rows are joined first; a line too long is wrapped and never cut.
    """
    result: list[ScreenRow] = []
    new_position = position
    start = 0
    while start < len(rows):
        end = start + 1
        while end < len(rows) and rows[end - 1].wrapped:
            end += 1
        line = rows[start:end]
        first = len(result)
        joined, offsets = join_rows(line)
        result.extend(split_row(joined, columns))
        if start <= position[0] < end:
            offset = offsets[position[0] - start] + position[1]
            new_position = _position_of(offset, result, first)
        start = end
    return result, new_position


def split_row(row: ScreenRow, columns: int) -> list[ScreenRow]:
    """Wrap a line into rows of at most `columns`; the row itself if it fits."""
    text = row.text
    if len(text) <= columns:
        return [row]
    styles = row.expand_styles() if row.styles is not None or row.spans is not None else None
    parts: list[ScreenRow] = []
    start = 0
    while start < len(text):
        end = min(start + columns, len(text))
        if end < len(text) and text[end] == STUB and end - start > 1:
            end -= 1
        part = ScreenRow(text[start:end].replace(STUB, "\ufffd") if columns == 1 else text[start:end])
        if styles is not None:
            part.styles = styles[start:end]
        part.wrapped = end < len(text) or row.wrapped
        parts.append(part)
        start = end
    return parts


def join_rows(line: list[ScreenRow]) -> tuple[ScreenRow, list[int]]:
    """Join the rows of a logical line; return also the column where each begins."""
    if len(line) == 1:
        line[0].drawn = None
        return line[0], [0]
    text = ""
    styles: list[CellStyle] = []
    offsets: list[int] = []
    for row in line:
        offsets.append(len(text))
        text += row.text
        styles += row.expand_styles()
    whole = ScreenRow(text)
    whole.wrapped = line[-1].wrapped
    if any(style is not DEFAULT for style in styles):
        whole.styles = styles
    return whole, offsets


def _position_of(offset: int, rows: list[ScreenRow], first: int) -> Position:
    """Return the position of an offset in the logical line from row `first` on."""
    for y in range(first, len(rows) - 1):
        length = len(rows[y].text)
        if offset < length:
            return y, offset
        offset -= length
    return len(rows) - 1, offset
