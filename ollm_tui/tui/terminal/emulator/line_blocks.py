"""Finished lines, written many at a time: what a flood of output costs is mostly here."""

from __future__ import annotations

from pyte import modes as mo

from ollm_tui.tui.terminal.emulator.cells import DEFAULT, CellStyle
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow, Span, split_row
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
            self.cursor.style = style
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
