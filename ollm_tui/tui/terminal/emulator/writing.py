"""Writing text: runs, wide characters, clusters, and whole blocks of finished lines."""

from __future__ import annotations

import re
import unicodedata

from pyte import charsets
from pyte import modes as mo

from ollm_tui.tui.terminal.emulator.cells import (
    DEFAULT,
    MAX_CLUSTER,
    NARROW,
    STUB,
    VS16,
    WIDE,
    ZWJ,
    CellStyle,
    StyleMemo,
    is_pictograph,
    is_skin_tone,
    width,
    without_private,
)
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow, Span, split_row
from ollm_tui.tui.terminal.emulator.scrolling import ScrollingScreen

LINE_DRAWING = (
    charsets.LAT1_MAP[:0x5F] + " " + charsets.VT100_MAP[0x60:0x7F].replace("░", "␤") + charsets.LAT1_MAP[0x7F:]
)
"""DEC special graphics as on the VT510 and xterm; pyte's table is the Linux console's, which differs."""
CHARSETS = {"B": charsets.LAT1_MAP, "0": LINE_DRAWING, "U": charsets.IBMPC_MAP, "V": charsets.VAX42_MAP}

_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Categories of zero-width characters that draw nothing but can turn text around or hide in it: never kept."""
_SGR = re.compile(r"\x1b\[([0-9;:]*)m")
_RUNS = re.compile(rf"([{NARROW}]+)|([{WIDE}]+)|(.)", re.DOTALL)


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
        self._after_joiner = False
        """A zero-width joiner was attached: the next emoji may belong to the same cell."""
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
        if self._after_joiner:
            self._after_joiner = False
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
            screenful = self.columns * self.lines
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
        if cell is None:
            return False
        before = self.clusters.expand(cell[0].text[cell[1]])
        return is_pictograph(before[0]) and (before[-1] == ZWJ or is_skin_tone(char))

    def _attach(self, char: str) -> None:
        """Add a zero-width character to the cell before the cursor, if there is one."""
        cell = self._previous_cell()
        if cell is None or (char != ZWJ and unicodedata.category(char) in _INVISIBLE):
            return
        row, x = cell
        before = self.clusters.expand(row.text[x])
        if len(before) >= MAX_CLUSTER:
            return
        cluster = self.clusters.intern(before + char)
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
        self._after_joiner = char == ZWJ
        self.dirty.add(self.cursor.y)
        if self.cursor.x == 0:
            self.dirty.add(self.cursor.y - 1)

    # Blocks of lines

    def accepts_blocks(self) -> bool:
        """Whether finished lines may be written at once: blank rows ahead, no special mode."""
        return (
            self.cursor.x == 0
            and self.translation is None
            and self.margins is None
            and self.sides is None
            and mo.IRM not in self.mode
            and mo.DECAWM in self.mode
            and self.cursor.style.bg < 0
            and not any(row.text for row in self.rows[self.cursor.y :])
        )

    def write_block(self, lines: list[str]) -> int:
        """Write finished lines (narrow text and SGR); return how many were taken.

        Call it only when `accepts_blocks`. A line that leaves a background set is not taken: it would colour those
        below.
        """
        style = self.cursor.style
        finished: list[ScreenRow | str] | list[str]
        taken = len(lines)
        if style is DEFAULT and "\x1b" not in "".join(lines) and len(max(lines, key=len)) <= self.columns:
            finished = lines
        else:
            finished = []
            for number, line in enumerate(lines):
                if "\x1b" in line:
                    text, spans, style_after = self._styled(line, style)
                    if style_after.bg >= 0:
                        taken = number
                        break
                    style = style_after
                else:
                    text, spans = line, [(len(line), style)] if style is not DEFAULT and line else None
                if len(text) > self.columns:
                    finished.extend(row.compact() for row in split_row(ScreenRow(text, spans), self.columns))
                else:
                    finished.append(ScreenRow(text, spans) if spans else text)
            self.set_style(style)
        self._append(finished)
        return taken

    def _styled(self, line: str, style: CellStyle) -> tuple[str, list[Span] | None, CellStyle]:
        """Return text and spans of a line with SGR, and the style after it."""
        parts = _SGR.split(line)
        memo = self.memo
        spans: list[Span] = []
        end = len(parts[0])
        if end:
            spans.append((end, style))
        plain = style is DEFAULT or not end
        for number in range(1, len(parts), 2):
            style = memo.get((style, parts[number])) or memo.apply(style, parts[number])
            part = parts[number + 1]
            if part:
                end += len(part)
                spans.append((end, style))
                plain = plain and style is DEFAULT
        text = "".join(parts[::2])
        return text, None if plain else spans, style

    def _append(self, finished: list[ScreenRow | str] | list[str]) -> None:
        """Write finished lines at the cursor's row, scrolling as needed; the cursor ends below."""
        y = self.cursor.y
        count = len(finished)
        rows = self.rows
        overflow = y + count + 1 - self.lines
        if overflow <= 0:
            rows[y : y + count] = [ScreenRow(line) if isinstance(line, str) else line for line in finished]
            self.dirty.update(range(y, y + count))
            self.cursor.y = y + count
            return
        above = min(overflow, y)
        gone = overflow - above
        if not self.alternate_screen:
            self.add_to_scrollback([row.compact() for row in rows[:above]])
            self.add_to_scrollback(finished[:gone])
        shown = [ScreenRow(line) if isinstance(line, str) else line for line in finished[gone:]]
        rows[:] = rows[above:y] + shown + [ScreenRow() for _ in range(self.lines - (y - above) - len(shown))]
        self.cursor.y = self.lines - 1
        self.mark_all_dirty()
