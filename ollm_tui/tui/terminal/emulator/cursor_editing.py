"""Cursor movement, tab stops, erasing, inserting and deleting (ECMA-48); finished lines many at a time."""

from __future__ import annotations

from pyte import modes as mo
from pyte.screens import Margins

from ollm_tui.tui.terminal.emulator.cells import DEFAULT, PROTECTED, CellStyle, canonical
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow, Span, split_row
from ollm_tui.tui.terminal.emulator.scrolling import Area, shift_columns
from ollm_tui.tui.terminal.emulator.writing import SGR, WritingScreen


class BlockScreen(WritingScreen):
    """A screen that takes whole lines where nothing but their text matters."""

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
            runs = 0
            for number, line in enumerate(lines):
                if "\x1b" in line:
                    text, spans, style_after = self._styled(line, style)
                    if style_after.bg >= 0:
                        taken = number
                        break
                    style = style_after
                else:
                    text, spans = line, [(len(line), style)] if style is not DEFAULT and line else None
                runs += len(spans) if spans else 0
                if len(text) > self.columns:
                    finished.extend(row.compact() for row in split_row(ScreenRow(text, spans), self.columns))
                else:
                    finished.append(ScreenRow(text, spans) if spans else text)
            self.cursor.style = style
            self.count_runs(runs)
        self._append(finished)
        return taken

    def _styled(self, line: str, style: CellStyle) -> tuple[str, list[Span] | None, CellStyle]:
        """Return text and spans of a line with SGR, and the style after it."""
        parts = SGR.split(line)
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


class CursorScreen(BlockScreen):
    """Cursor movement: relative moves stop at the margins and edges."""

    def cursor_up(self, count: int | None = None) -> None:
        """CUU."""
        top = self.region()[0]
        self.clear_pending_wrap()
        limit = top if self.cursor.y >= top else 0
        self.cursor.y = max(self.cursor.y - (count or 1), limit)

    def cursor_down(self, count: int | None = None) -> None:
        """CUD."""
        bottom = self.region()[1]
        self.clear_pending_wrap()
        limit = bottom if self.cursor.y <= bottom else self.lines - 1
        self.cursor.y = min(self.cursor.y + (count or 1), limit)

    def cursor_back(self, count: int | None = None) -> None:
        """CUB and BS; with reverse wrap (mode 45) on from the left margin to the end of the line above."""
        cursor = self.cursor
        steps = count or 1
        reverse = 45 << 5 in self.mode and mo.DECAWM in self.mode
        if reverse and (cursor.x >= self.columns or self.full_at == (cursor.y, cursor.x)):
            steps -= 1
        self.clear_pending_wrap()
        left, right = self.side_edges()
        while True:
            moved = min(steps, cursor.x - (left if cursor.x >= left else 0))
            cursor.x -= moved
            steps -= moved
            if not (steps and reverse):
                return
            top, bottom = self.region()
            if top <= cursor.y <= bottom or cursor.y == 0:  # round and round, through the region or its line
                turn = (right - left + 1) * (bottom - top + 1 if cursor.y >= top else 1)
                steps = (steps - 1) % turn + 1
            cursor.y = bottom if cursor.y == top else max(0, cursor.y - 1)
            cursor.x = right
            steps -= 1

    def cursor_forward(self, count: int | None = None) -> None:
        """CUF."""
        self.clear_pending_wrap()
        right = self.side_edges()[1]
        limit = right if self.cursor.x <= right else self.columns - 1
        self.cursor.x = min(limit, self.cursor.x + (count or 1))

    def column_relative(self, count: int | None = None) -> None:
        """HPR: right, past a margin too."""
        self.clear_pending_wrap()
        self.cursor.x = min(self.columns - 1, self.cursor.x + (count or 1))

    def carriage_return(self) -> None:
        """CR: to the left margin, or to the first column from left of it."""
        self.full_at = None
        left = self.side_edges()[0]
        self.cursor.x = left if self.cursor.x >= left or mo.DECOM in self.mode else 0

    def cursor_position(self, line: int | None = None, column: int | None = None) -> None:
        """CUP; in origin mode relative to the region and inside it."""
        if mo.DECOM in self.mode:
            self.cursor_to_line(line)
            self.cursor_to_column(column)
            return
        self.full_at = None
        cursor = self.cursor
        cursor.y = min((line or 1), self.lines) - 1
        cursor.x = min((column or 1), self.columns) - 1

    def cursor_to_column(self, column: int | None = None) -> None:
        """CHA and HPA; in origin mode relative to the left margin."""
        self.full_at = None
        left, right = self.side_edges() if mo.DECOM in self.mode else (0, self.columns - 1)
        self.cursor.x = min(left + (column or 1) - 1, right)

    def cursor_to_line(self, line: int | None = None) -> None:
        """VPA."""
        self.clear_pending_wrap()
        if mo.DECOM in self.mode:
            top, bottom = self.region()
        else:
            top, bottom = 0, self.lines - 1
        self.cursor.y = min(top + (line or 1) - 1, bottom)

    def line_relative(self, count: int | None = None) -> None:
        """VPR: down, past a bottom margin too."""
        self.clear_pending_wrap()
        self.cursor.y = min(self.cursor.y + (count or 1), self.lines - 1)

    def next_row(self) -> None:
        """CR and LF without LNM, the commonest pair there is."""
        if self.sides is None:
            self.cursor.x = 0
        else:
            self.carriage_return()
        self.index()

    def next_line(self) -> None:
        """NEL."""
        self.index()
        self.carriage_return()

    def clear_pending_wrap(self) -> None:
        """Put a cursor about to wrap on the last column, for all but writing."""
        self.full_at = None
        if self.cursor.x >= self.columns:
            self.cursor.x = self.columns - 1

    # Tab stops

    def tab(self, count: int | None = None) -> None:
        """HT and CHT: to the next stop, at most to the right margin or the last column."""
        x = self.cursor.x
        right = self.side_edges()[1]
        last = right if x <= right else self.columns - 1
        if x >= last:
            return
        ahead = sorted(stop for stop in self.tabstops if x < stop < last)
        number = (count or 1) - 1
        self.cursor.x = ahead[number] if number < len(ahead) else last

    def back_tab(self, count: int | None = None) -> None:
        """CBT: to the previous stop, at most to the first column."""
        self.clear_pending_wrap()
        behind = sorted((stop for stop in self.tabstops if stop < self.cursor.x), reverse=True)
        number = (count or 1) - 1
        self.cursor.x = behind[number] if number < len(behind) else 0

    def set_tab_stop(self) -> None:
        """HTS."""
        self.tabstops.add(min(self.cursor.x, self.columns - 1))

    def clear_tab_stop(self, how: int = 0) -> None:
        """TBC: 0 the stop here, 3 all."""
        if how == 0:
            self.tabstops.discard(min(self.cursor.x, self.columns - 1))
        elif how == 3:
            self.tabstops.clear()

    # Margins

    def set_margins(self, top: int | None = None, bottom: int | None = None) -> None:
        """DECSTBM, 1-based; fewer than two lines are ignored; the cursor goes home."""
        first = max((top or 1) - 1, 0)
        last = min(bottom or self.lines, self.lines) - 1
        if first >= last:
            return
        self.margins = None if (first, last) == (0, self.lines - 1) else Margins(first, last)
        self.cursor_position()

    def set_sides(self, left: int | None = None, right: int | None = None) -> None:
        """DECSLRM where mode 69 is on, 1-based; fewer than two columns are ignored. Else SCOSC."""
        if 69 << 5 not in self.mode:
            self.save_cursor()
            return
        first = max((left or 1) - 1, 0)
        last = min(right or self.columns, self.columns) - 1
        if first < last:
            self.sides = None if (first, last) == (0, self.columns - 1) else (first, last)
            self.cursor_position()


class EditingScreen(CursorScreen):
    """Erasing, inserting and deleting; erased cells take the pen's background (`bce`)."""

    def insert_characters(self, count: int | None = None) -> None:
        """ICH; inside the side margins only."""
        if self.sides is not None:
            self._shift_row(-(count or 1))
            return
        self.clear_pending_wrap()
        x = self.cursor.x
        self._row().insert(x, min(count or 1, self.columns - x), self.columns, self.pen_erase)

    def delete_characters(self, count: int | None = None) -> None:
        """DCH; inside the side margins only."""
        if self.sides is not None:
            self._shift_row(count or 1)
            return
        self.clear_pending_wrap()
        x = self.cursor.x
        self._row().delete(x, min(count or 1, self.columns - x), self.columns, self.pen_erase)

    def _shift_row(self, count: int) -> None:
        self.clear_pending_wrap()
        if self.is_between_sides():
            y, right = self.cursor.y, self.side_edges()[1]
            shift_columns(self.rows, Area(y, self.cursor.x, y, right), count, self.pen_erase)
            self.dirty.add(y)

    def erase_characters(self, count: int | None = None) -> None:
        """ECH."""
        self.clear_pending_wrap()
        x = self.cursor.x
        self._row().erase(x, min(x + (count or 1), self.columns), self.columns, self.pen_erase)

    def erase_in_line(self, how: int = 0, private: bool = False) -> None:
        """EL: 0 to the end, 1 from the beginning, 2 all. `private`: DECSEL.

        With a wrap pending EL 0 erases nothing, as in most terminals: programs that end every coloured word with it
        would lose letters (`grep`).
        """
        if how not in (0, 1, 2):
            return
        row = self._row()
        start = 0 if how else self.cursor.x
        end = min(self.cursor.x + 1, self.columns) if how == 1 else self.columns
        if how != 1:
            row.wrapped = row.wrapped and start >= end
            if start == 0:
                self.unwrap_line_above(self.cursor.y)
        if start < end:
            (row.erase_unprotected if private else row.erase)(start, end, self.columns, self.pen_erase)

    def erase_in_display(self, how: int = 0, private: bool = False) -> None:
        """ED: 0 below, 1 above, 2 all, 3 the scrollback. `private`: DECSED."""
        y = self.cursor.y
        if how == 0:
            self.erase_in_line(0, private)
            self._blank_rows(y + 1, self.lines, selectively=private)
        elif how == 1:
            self._blank_rows(0, y, selectively=private)
            self.erase_in_line(1, private)
        elif how == 2:
            self._blank_rows(0, self.lines, selectively=private)
        elif how == 3:
            self.history.clear()
            self.mark_all_dirty()

    def set_protection(self, how: int = 0) -> None:
        """DECSCA: 1 protects cells written from now on against selective erasing."""
        fg, bg, flags, link = self.cursor.style
        if how in (0, 1, 2):
            self.cursor.style = canonical(
                CellStyle(fg, bg, flags | PROTECTED if how == 1 else flags & ~PROTECTED, link)
            )

    def alignment_display(self) -> None:
        """DECALN: fill with E, drop the margins, home."""
        self.margins = self.sides = None
        self.rows[:] = [ScreenRow("E" * self.columns) for _ in range(self.lines)]
        self.cursor_position()
        self.mark_all_dirty()

    def _row(self) -> ScreenRow:
        self.dirty.add(self.cursor.y)
        return self.rows[self.cursor.y]

    def _blank_rows(self, start: int, stop: int, *, selectively: bool) -> None:
        style = self.pen_erase
        self.unwrap_line_above(start)
        if selectively:
            for row in self.rows[start:stop]:
                row.wrapped = False
                row.erase_unprotected(0, self.columns, self.columns, style)
        else:
            self.rows[start:stop] = [ScreenRow.blank(self.columns, style) for _ in range(start, stop)]
        self.dirty.update(range(start, stop))
