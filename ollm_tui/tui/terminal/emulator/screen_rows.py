"""The lines of a screen: one code unit a column, styles where there are any; wrapping them again.

Writing a run is two slices and a join instead of an object for every cell, which is what makes the engine fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ollm_tui.tui.terminal.emulator.cells import DEFAULT, PICTURE, PROTECTED, STUB, CellStyle

Span = tuple[int, CellStyle]
"""`(end, style)`: the style of the columns from the previous span's end up to `end`."""


class ScreenRow:
    """A line; blank cells of the default style at its end are not stored.

    `styles` (one a stored column) and `spans` (runs, for finished lines) are two forms of one thing: at most one is
    set, none when every cell has the default style.
    """

    __slots__ = ("drawn", "spans", "styles", "text", "wrapped")

    def __init__(self, text: str = "", spans: list[Span] | None = None) -> None:
        self.text: str = text
        self.spans: list[Span] | None = spans
        self.styles: list[CellStyle] | None = None
        self.wrapped = False
        """Whether the line continues in the next row because it was full."""
        self.drawn: object = None
        """A view's cache, cleared by every change."""

    @classmethod
    def blank(cls, columns: int, style: CellStyle) -> ScreenRow:
        """Make an erased row; a background colour fills it."""
        return cls() if style is DEFAULT else cls(" " * columns, [(columns, style)])

    def copy(self) -> ScreenRow:
        """Copy the row, without what a view made of it."""
        row = ScreenRow(self.text, self.spans)
        row.styles = None if self.styles is None else self.styles.copy()
        row.wrapped = self.wrapped
        return row

    def runs(self) -> Iterator[tuple[str, CellStyle]]:
        """Yield the stored text in runs of one style."""
        text = self.text
        start = 0
        if self.spans is not None:
            for end, style in self.spans:
                yield text[start:end], style
                start = end
        elif self.styles is not None:
            current = DEFAULT
            for x, style in enumerate(self.styles):
                if style is not current and style != current:
                    if x > start:
                        yield text[start:x], current
                    start, current = x, style
            if start < len(text):
                yield text[start:], current
        elif text:
            yield text, DEFAULT

    def style_at(self, x: int) -> CellStyle:
        """Return the style of a column; the default beyond the stored ones."""
        if self.spans is not None:
            for end, style in self.spans:
                if x < end:
                    return style
        elif self.styles is not None and x < len(self.styles):
            return self.styles[x]
        return DEFAULT

    def expand_styles(self) -> list[CellStyle]:
        """Return the styles, one a stored column, made on first need."""
        styles = self.styles
        if styles is None:
            styles = self.styles = []
            if self.spans is None:
                styles.extend([DEFAULT] * len(self.text))
            else:
                for end, style in self.spans:
                    styles.extend([style] * (end - len(styles)))
                self.spans = None
        return styles

    def write(self, x: int, run: str, style: CellStyle) -> None:
        """Write `run` (a code unit a column, whole characters) at column `x`."""
        self.drawn = None
        text = self.text
        have = len(text)
        end = x + len(run)
        if style is not DEFAULT or self.styles is not None or self.spans is not None:
            styles = self.expand_styles()
            if x > have:
                styles.extend([DEFAULT] * (x - have))
            styles[x:end] = [style] * (end - x)
        if x == have:
            self.text = text + run
        elif x > have:
            self.text = text + " " * (x - have) + run
        else:
            head = text[:x]
            if text[x] == STUB:
                head = head[:-1] + " "
            if end < have and text[end] == STUB:
                run += " "
                end += 1
            self.text = head + run + text[end:]

    def write_styled(self, x: int, run: str, styles: list[CellStyle]) -> None:
        """Write `run` at column `x` with a style for each column."""
        self.write(x, run, DEFAULT)
        self.expand_styles()[x : x + len(run)] = styles

    def erase(self, start: int, end: int, columns: int, style: CellStyle) -> None:
        """Blank columns `start` up to `end`; only a background leaves cells stored."""
        if style is DEFAULT:
            have = len(self.text)
            if start >= have:
                return
            if end >= have or end >= columns:  # a picture's line may be longer than a screen that became narrower
                self.truncate(start)
                return
        if end > start:
            self.write(start, " " * (min(end, columns) - start), style)

    def erase_unprotected(self, start: int, end: int, columns: int, style: CellStyle) -> None:
        """Blank columns as `erase` does, except protected ones (DECSCA)."""
        self._join_styles()
        protected: list[tuple[int, int]] = []
        x = 0
        for run, shown in self.runs():
            x += len(run)
            if shown.flags & PROTECTED:
                protected.append((x - len(run), x))
        for first, last in (*protected, (end, end)):
            if start < min(first, end):
                self.erase(start, min(first, end), columns, style)
            start = max(start, last)

    def restyle(self, start: int, end: int, changed: Callable[[CellStyle], CellStyle]) -> None:
        """Change the styles of columns `start` up to `end`, of blank ones too; wide characters have one style."""
        self._pad(end)
        start -= self.text[start] == STUB
        end += self.text[end : end + 1] == STUB
        self._join_styles()
        spans: list[Span] = []
        done = x = 0
        for run, style in self.runs():
            x += len(run)
            for stop, shown in ((min(x, start), style), (min(x, end), changed(style)), (x, style)):
                if stop > done:
                    spans.append((stop, shown))
                    done = stop
        self.spans = spans
        self.drawn = None

    def truncate(self, length: int) -> None:
        """Drop all from a column on; half a wide character becomes a blank."""
        self.drawn = None
        self.wrapped = False
        text = self.text
        if length >= len(text):
            return
        self.text = text[:length] if text[length] != STUB else text[: length - 1] + " "
        if length == 0:
            self.styles = self.spans = None
        elif self.styles is not None or self.spans is not None:
            del self.expand_styles()[length:]

    def insert(self, x: int, count: int, columns: int, style: CellStyle) -> None:
        """Insert `count` blanks at `x`; what leaves the row is lost."""
        if x >= len(self.text) and style is DEFAULT:
            return
        self._pad(x)
        self._split_wide(x)
        text = self.text
        if style is not DEFAULT or self.styles is not None or self.spans is not None:
            self.expand_styles()[x:x] = [style] * count
        self.text = text[:x] + " " * count + text[x:]
        self.truncate(columns)
        self.drawn = None

    def delete(self, x: int, count: int, columns: int, style: CellStyle) -> None:
        """Delete `count` columns at `x`; blanks come in at the end."""
        self.drawn = None
        self.wrapped = False
        have = len(self.text)
        if style is not DEFAULT and have < columns:
            self._pad(columns)
        elif x >= have:
            return
        self._split_wide(x)
        self._split_wide(x + count)
        if self.styles is not None or self.spans is not None:
            del self.expand_styles()[x : x + count]
        self.text = self.text[:x] + self.text[x + count :]
        if style is not DEFAULT:
            self.write(len(self.text), " " * (columns - len(self.text)), style)

    def cut(self, start: int, end: int) -> ScreenRow:
        """Copy columns `start` up to `end`; half a wide character at either side becomes a blank."""
        whole = self.copy()
        whole._pad(end)
        whole._split_wide(start)
        whole._split_wide(end)
        part = ScreenRow(whole.text[start:end])
        if whole.styles is not None or whole.spans is not None:
            part.styles = whole.expand_styles()[start:end]
        return part

    def paste(self, x: int, part: ScreenRow) -> None:
        """Write what `cut` took, at column `x`."""
        if part.styles is not None or part.spans is not None:
            self.write_styled(x, part.text, part.expand_styles())
        else:
            self.write(x, part.text, DEFAULT)

    def _pad(self, length: int) -> None:
        have = len(self.text)
        if have < length:
            if self.styles is not None or self.spans is not None:
                self.expand_styles().extend([DEFAULT] * (length - have))
            self.text += " " * (length - have)

    def _split_wide(self, x: int) -> None:
        """Turn a wide character across column `x` into two blanks."""
        text = self.text
        if 0 < x < len(text) and text[x] == STUB:
            self.text = text[: x - 1] + "  " + text[x + 1 :]

    def compact(self) -> ScreenRow | str:
        """Return the cheapest form that loses nothing, for the scrollback."""
        self.drawn = None
        self._join_styles()
        if self.spans is None and not self.wrapped:
            return self.text
        return self

    def _join_styles(self) -> None:
        """Keep the styles as runs: what looks at all of a row takes far fewer steps then."""
        if self.styles is None:
            return
        spans: list[Span] = []
        end = 0
        for run, style in self.runs():
            end += len(run)
            spans.append((end, style))
        self.spans = spans if any(style is not DEFAULT for _, style in spans) else None
        self.styles = None


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
        result.extend(wrap_again(joined, columns))
        if start <= position[0] < end:
            offset = offsets[position[0] - start] + position[1]
            new_position = _position_of(offset, result, first)
        start = end
    return result, new_position


def wrap_again(row: ScreenRow, columns: int) -> list[ScreenRow]:
    """Wrap a line for another width; one with a picture stays whole."""
    is_picture = len(row.text) > columns and any(style.flags & PICTURE for _, style in row.runs())
    return [row] if is_picture else split_row(row, columns)


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
