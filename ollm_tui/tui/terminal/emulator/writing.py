"""Writing text: runs of narrow characters with their styles, wide characters, clusters."""

from __future__ import annotations

import re

from pyte import charsets
from pyte import modes as mo

from ollm_tui.tui.terminal.emulator.cells import (
    NARROW,
    STUB,
    VS16,
    WIDE,
    ZWJ,
    CellStyle,
    StyleMemo,
    is_pictograph,
    joined,
    joins,
    width,
    without_private,
)
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.emulator.scrolling import ScrollingScreen

LINE_DRAWING = (
    charsets.LAT1_MAP[:0x5F] + " " + charsets.VT100_MAP[0x60:0x7F].replace("░", "␤") + charsets.LAT1_MAP[0x7F:]
)
"""DEC special graphics as on the VT510 and xterm; pyte's table is the Linux console's, which differs."""
CHARSETS = {"B": charsets.LAT1_MAP, "0": LINE_DRAWING, "U": charsets.IBMPC_MAP, "V": charsets.VAX42_MAP}

SGR = re.compile(r"\x1b\[([0-9;:]*)m")
"""The sequence that sets the pen's style, and its parameters."""
_RUNS = re.compile(rf"([{NARROW}]+)|([{WIDE}]+)|(.)", re.DOTALL)
_NARROW = re.compile(f"[{NARROW}]")
_ODD = f"[^{NARROW}{WIDE}]"
_PIECES = re.compile(
    rf"([{NARROW}]+)(?!{_ODD})|([{WIDE}]+)(?!{_ODD})|(.(?:[^{NARROW}{WIDE}{ZWJ}]++|{ZWJ}[{WIDE}]?)*+)", re.DOTALL
)
"""Narrow and wide runs, and what has to be looked at: a character with all that could belong to its cell, and more."""


class WritingScreen(ScrollingScreen):
    """A grid to write on; `cursor.x == columns` is a pending wrap."""

    def __init__(self, columns: int, lines: int, scrollback_lines: int) -> None:
        self.memo = StyleMemo()
        self.translation: str | None = None
        """Table of the active character set; None for plain ASCII."""
        self.last_run = ""
        """The run written last, for REP; the stream clears it at anything but text."""
        self.full_at: tuple[int, int] | None = None
        """Line and column of the cursor at a side margin where the next character wraps."""
        super().__init__(columns, lines, scrollback_lines)

    def draw(self, data: str) -> None:
        """Write text at the cursor, controls left out."""
        for part in _RUNS.finditer(data):
            narrow, wide, other = part.groups()
            if narrow:
                self.draw_narrow(narrow)
            elif wide:
                self.draw_wide(wide)
            else:
                self.draw_other(other)

    def draw_narrow(self, run: str) -> None:
        """Write characters that take one column each."""
        if self.translation is not None:
            run = run.translate(self.translation)
        cursor = self.cursor
        x = cursor.x
        end = x + len(run)
        self.last_run = run
        if end >= self.columns or mo.IRM in self.mode or self.sides is not None:
            self._draw_long(run)
            return
        y = cursor.y
        self.rows[y].write(x, run, cursor.style)
        cursor.x = end
        self.dirty.add(y)

    def draw_styled(self, segment: str) -> None:
        """Write narrow runs that each follow an SGR, given with these."""
        parts = SGR.split(segment)
        cursor = self.cursor
        self.last_run = ""
        if len(parts) == 3:
            cursor.style = self.memo.apply(cursor.style, parts[1])
            if parts[2]:
                self.draw_narrow(parts[2])
        elif self._writes_whole_runs():
            self._draw_in_styles(parts)
        else:
            for parameters, run in zip(parts[1::2], parts[2::2], strict=True):
                cursor.style = self.memo.apply(cursor.style, parameters)
                self.last_run = ""
                if run:
                    self.draw_narrow(run)

    def _draw_in_styles(self, parts: list[str]) -> None:
        style = self.cursor.style
        known = self.memo.get
        styles: list[CellStyle] = []
        for parameters, run in zip(parts[1::2], parts[2::2], strict=True):
            style = known((style, parameters)) or self.memo.apply(style, parameters)
            if len(run) == 1:
                styles.append(style)
            elif run:
                styles += [style] * len(run)
        run = "".join(parts[2::2])
        cursor = self.cursor
        start = 0
        while start < len(run):
            if cursor.x >= self.columns:
                cursor.style = styles[start]  # it colours the line that scrolling brings
                self.wrap()
            stop = start + self.columns - cursor.x
            part = run[start:stop]
            self.rows[cursor.y].write_styled(cursor.x, part, styles[start:stop])
            cursor.x += len(part)
            self.dirty.add(cursor.y)
            start = stop
        cursor.style = style
        self.last_run = parts[-1]

    def draw_mixed(self, text: str) -> None:
        """Write text of any characters: its cells are made first and written at once."""
        text = without_private(text)
        start = 0
        while start < len(text) and self._continues(text[start]):
            self._attach(text[start])
            start += 1
        text = text[start:]
        if not self._writes_whole_runs() or 2027 << 5 in self.mode:
            self.draw(text)
            return
        cells: list[str] = []
        known = self.clusters.known_cells.get
        for narrow, wide, other in _PIECES.findall(text):
            if other:
                cells.append(known(other) or self.clusters.cells_of(other))
            else:
                cells.append(narrow or STUB.join(wide) + STUB)
        if cells:
            self._write_cells("".join(cells))

    def _writes_whole_runs(self) -> bool:
        """Whether no mode moves other cells, ends lines elsewhere, or draws other characters."""
        return (
            self.sides is None
            and self.translation is None
            and mo.DECAWM in self.mode
            and mo.IRM not in self.mode
            and self.columns > 1
        )

    def _write_cells(self, cells: str) -> None:
        """Write cells, wide ones whole; lines wrap."""
        cursor = self.cursor
        start = 0
        while start < len(cells):
            stop = start + self.columns - cursor.x
            if cells[stop : stop + 1] == STUB:
                stop -= 1
            if stop <= start:
                self.wrap()
                continue
            part = cells[start:stop]
            self.rows[cursor.y].write(cursor.x, part, cursor.style)
            cursor.x += len(part)
            self.dirty.add(cursor.y)
            start = stop
        last = cells[-2] if cells[-1] == STUB else cells[-1]
        self.last_run = self.clusters.expand(last)[0]

    def _draw_long(self, run: str) -> None:
        """Write a run that reaches the line's end or must move other cells (IRM)."""
        if self.sides is not None:
            self._draw_between_sides(list(run))
            return
        start = 0
        length = len(run)
        cursor = self.cursor
        while start < length:
            if cursor.x >= self.columns:
                self.wrap()
            stop = min(length, start + self.columns - cursor.x)
            self._put(run[start:stop])
            if stop < length and mo.DECAWM not in self.mode:
                self._put(run[-1])
                return
            start = stop

    def _put(self, cells: str) -> None:
        """Write cells that fit on the cursor's line."""
        cursor = self.cursor
        row = self.rows[cursor.y]
        if mo.IRM in self.mode:
            row.insert(cursor.x, len(cells), self.columns, self.pen_erase)
        row.write(cursor.x, cells, cursor.style)
        cursor.x += len(cells)
        if cursor.x >= self.columns and mo.DECAWM not in self.mode:
            cursor.x = self.columns - 1
        self.dirty.add(cursor.y)

    def draw_wide(self, run: str) -> None:
        """Write characters that take two columns each."""
        cursor = self.cursor
        if self._joins(run[0]):
            self._attach(run[0])
            run = run[1:]
        if run:
            self.last_run = run
        if self.columns < 2:
            for _ in run:
                self._draw_long("\ufffd")
            return
        if self.sides is not None:
            self._draw_between_sides([char + STUB for char in run])
            return
        start = 0
        while start < len(run):
            room = (self.columns - cursor.x) // 2
            if room == 0 and mo.DECAWM in self.mode:
                self.wrap()
                continue
            if room == 0:  # no wrapping: the last of them stands in the last two columns
                cursor.x, room, start = self.columns - 2, 1, len(run) - 1
            part = run[start : start + room]
            self._put(STUB.join(part) + STUB)
            start += room

    def _draw_between_sides(self, characters: list[str]) -> None:
        """Write characters one by one; a cursor that starts left of the right margin wraps there."""
        cursor = self.cursor
        left, right = self.side_edges()
        wraps = mo.DECAWM in self.mode
        for cells in characters:
            limit = right + 1 if cursor.x <= right else self.columns
            full = self.full_at == (cursor.y, cursor.x)
            if full or cursor.x + len(cells) > limit:
                if wraps:
                    self.index()
                    cursor.x = left
                    limit = right + 1
                else:
                    cursor.x = limit - len(cells)
            row = self.rows[cursor.y]
            if mo.IRM in self.mode:
                after = row.cut(cursor.x, limit - len(cells))
                row.paste(cursor.x + len(cells), after)
            row.write(cursor.x, cells, cursor.style)
            self.dirty.add(cursor.y)
            cursor.x += len(cells)
            self.full_at = None
            if cursor.x >= limit and (limit < self.columns or not wraps):
                cursor.x = limit - 1
                self.full_at = (cursor.y, cursor.x) if wraps else None

    def draw_other(self, text: str) -> None:
        """Write characters whose width must be looked up, one by one."""
        for char in without_private(text):
            columns = width(char)
            if columns == 0 or self._joins(char):
                if char >= "\xa0":
                    self._attach(char)
            elif columns == 1:
                self.last_run = char
                self._draw_long(char)
            else:
                self.draw_wide(char)

    def wrap(self) -> None:
        """Go to the next line because this one is full."""
        self.rows[self.cursor.y].wrapped = True
        self.cursor.x = 0
        self.index()

    def repeat(self, count: int | None = None) -> None:
        """REP: write the last character again, at most about a screenful."""
        if self.last_run:
            times = count or 1
            screenful = self.columns * self.lines // max(1, width(self.last_run[-1]))
            if times > screenful:
                times = screenful + times % self.columns
            translation, self.translation = self.translation, None
            self.draw(self.last_run[-1] * times)
            self.translation = translation

    # Clusters

    def _previous_cell(self) -> tuple[ScreenRow, int] | None:
        """Return row and first column of the cell left of the cursor."""
        cursor = self.cursor
        x = min(cursor.x, self.columns) - 1
        row = self.rows[cursor.y]
        if x < 0:
            if cursor.y == 0 or not self.rows[cursor.y - 1].wrapped:
                return None
            row = self.rows[cursor.y - 1]
            x = len(row.text) - 1
        if x >= len(row.text) or x < 0:
            return None
        if row.text[x] == STUB:
            x -= 1
        return row, x

    def _joins(self, char: str) -> bool:
        """Whether a character extends the emoji before it instead of taking columns."""
        if not is_pictograph(char):
            return False
        cell = self._previous_cell()
        return cell is not None and joins(self.clusters.expand(cell[0].text[cell[1]]), char)

    def _continues(self, char: str) -> bool:
        """Whether a character that is not in a narrow run belongs to the cell before the cursor."""
        return width(char) == 0 or (self._joins(char) and not _NARROW.match(char))

    def _attach(self, char: str) -> None:
        """Add a zero-width character to the cell before the cursor, if there is one."""
        cell = self._previous_cell()
        if cell is None:
            return
        row, x = cell
        before = self.clusters.expand(row.text[x])
        after = joined(before, char)
        if after is before:
            return
        cluster = self.clusters.intern(after)
        if self.last_run:
            self.last_run = self.clusters.expand(cluster)[0]
        row.text = row.text[:x] + cluster + row.text[x + 1 :]
        row.drawn = None
        if (
            char == VS16
            and 2027 << 5 in self.mode
            and is_pictograph(before[0])
            and x + 1 == self.cursor.x < self.columns
        ):
            row.write(x, cluster + STUB, row.style_at(x))
            self.cursor.x += 1
        self.dirty.add(self.cursor.y)
        if self.cursor.x == 0:
            self.dirty.add(self.cursor.y - 1)
