"""Rows of the engine as Textual strips, as wide as the screen, in the colours that the theme has."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.style import Style as RichStyle
from textual.color import Color as TextualColor
from textual.strip import Strip
from textual.widget import Widget

from ollm_tui.tui.styled_text import app_of
from ollm_tui.tui.terminal.emulator import cells
from ollm_tui.tui.terminal.emulator.cells import DEFAULT, NARROW, RGB, STUB, VS16, WIDE, ZWJ, CellStyle, ClusterTable
from ollm_tui.tui.terminal.emulator.osc import BACKGROUND, FOREGROUND
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow

ANSI_NAMES = ("black", "red", "green", "yellow", "blue", "magenta", "cyan", "white")
ANSI_VARIABLES = tuple(f"ansi-{name}" for name in ANSI_NAMES) + tuple(f"ansi-bright-{name}" for name in ANSI_NAMES)
"""Theme variables of the sixteen colours; the ANSI theme has the rest."""


@dataclass(frozen=True)
class TerminalPalette:
    """A theme's text colour, background, and sixteen ANSI colours."""

    foreground: Color
    background: Color
    ansi: tuple[Color, ...]


def palette_of(widget: Widget) -> TerminalPalette:
    """Return the colours of the theme where a widget stands."""
    variables = app_of(widget).theme_variables
    ansi = tuple(_theme_colour(variables.get(name), number) for number, name in enumerate(ANSI_VARIABLES))
    style = widget.rich_style
    return TerminalPalette(style.color or Color.default(), style.bgcolor or Color.default(), ansi)


def selection_style(widget: Widget) -> Style:
    """Return the theme's background for selections; its text colour may be transparent."""
    background = widget.screen.get_component_rich_style("screen--selection").bgcolor
    if background is None or background.is_default:
        return Style(reverse=True)
    return Style(color=widget.rich_style.color, bgcolor=background)


def _theme_colour(value: str | None, number: int) -> Color:
    """Return a theme's colour, or the terminal's own without one."""
    if value is None:
        return Color.from_ansi(number)
    try:
        return TextualColor.parse(value).rich_color
    except ValueError:
        return Color.from_ansi(number)


MAX_STYLES = 4_096
"""Rich styles cached; beyond it the cache is emptied."""

_CERTAIN = re.compile(f"[{NARROW}{WIDE}{STUB}]*")
_ODD = re.compile(f"[^{NARROW}{WIDE}{STUB}]{STUB}?|(?<![^{STUB}]){STUB}")
"""A character that has to be looked at, with its second column; or a second column without a first."""


NULL_STYLE = RichStyle.null()


@dataclass(frozen=True)
class Mark:
    """A style over the drawn characters `start` to `end`; -1 is the row's end."""

    start: int
    end: int
    style: RichStyle


@dataclass(frozen=True)
class Overlay:
    """What is drawn over a row: a cursor's column, and marks in order."""

    cursor: int | None = None
    cursor_style: RichStyle = NULL_STYLE
    marks: tuple[Mark, ...] = ()


NO_OVERLAY = Overlay()


class StripPainter:
    """Makes strips for a palette and width; rows cache theirs, so scrolling is cheap."""

    def __init__(
        self, palette: TerminalPalette, columns: int, clusters: ClusterTable, uri: Callable[[int], str | None]
    ) -> None:
        self.palette = palette
        self.columns = columns
        self.reverse = False
        """DECSCNM: the whole screen with colours exchanged."""
        self.colours: Mapping[int, int] = {}
        """Colours that the program set in place of the palette's."""
        self._clusters = clusters
        self._uri = uri
        self.segments_made = 0
        """What drawing costs goes by these: pictures have one a cell."""
        self._rich: dict[CellStyle, RichStyle] = {}

    def screen_strip(self, row: ScreenRow) -> Strip:
        """Return a screen row's strip, cached until the row changes."""
        drawn = row.drawn
        if isinstance(drawn, _Drawn) and drawn.painter is self:
            return drawn.strip
        strip = self.strip(row)
        row.drawn = _Drawn(self, strip)
        return strip

    def strip(self, row: ScreenRow | str, overlay: Overlay = NO_OVERLAY) -> Strip:
        """Return a line as a strip, with what is drawn over it."""
        segments = self._segments(ScreenRow(row) if isinstance(row, str) else row)
        if overlay.cursor is not None:
            segments = _restyled_cells(segments, overlay.cursor, overlay.cursor_style)
        for mark in overlay.marks:
            segments = _restyled_characters(list(segments), mark)
        made = list(segments)
        self.segments_made += len(made)
        return Strip(made, self.columns)

    def text(self, row: ScreenRow | str) -> str:
        """Return a line's characters as drawn, without trailing blanks."""
        return self.whole_text(row).rstrip(" ")

    def whole_text(self, row: ScreenRow | str) -> str:
        """Return a line's characters as drawn: of one that goes on below, a blank at the end is text."""
        return drawn_text(row if isinstance(row, str) else row.text, self.columns, self._clusters)

    def hyperlinks(self, row: ScreenRow | str) -> Iterator[tuple[int, int, str]]:
        """Yield the characters, as drawn, and the address of each hyperlink (OSC 8)."""
        start = 0
        for run, style in row.runs() if isinstance(row, ScreenRow) else ():
            end = start + len(_shown(run, self._clusters))
            if style.link and (uri := self._uri(style.link)) is not None:
                yield start, end, uri
            start = end

    def _segments(self, row: ScreenRow) -> Iterator[Segment]:
        width = 0
        columns = self.columns
        for run, style in row.runs():
            # The screen may have become narrower than a line of the scrollback.
            part = run if width + len(run) <= columns else _cut(run, columns - width)
            if part:
                width += len(part)
                yield Segment(_shown(part, self._clusters), self._style(style))
        if width < columns:
            yield Segment(" " * (columns - width), self._style(DEFAULT))

    def _style(self, style: CellStyle) -> RichStyle:
        known = self._rich.get(style)
        if known is None:
            if len(self._rich) >= MAX_STYLES:
                self._rich.clear()
            known = self._rich[style] = self._make_style(style)
        return known

    def _make_style(self, style: CellStyle) -> RichStyle:
        flags = style.flags
        fg = self._colour(style.fg, FOREGROUND, self.palette.foreground)
        bg = self._colour(style.bg, BACKGROUND, self.palette.background)
        if bool(flags & cells.REVERSE) != self.reverse:
            fg, bg = bg, fg
        if flags & cells.HIDDEN:
            fg = bg
        uri = self._uri(style.link) if style.link else None
        return RichStyle(
            color=fg,
            bgcolor=bg,
            bold=bool(flags & cells.BOLD) or None,
            dim=bool(flags & cells.DIM) or None,
            italic=bool(flags & cells.ITALIC) or None,
            underline=bool(flags & cells.UNDERLINE) or None,
            underline2=bool(flags & cells.DOUBLE_UNDERLINE) or None,
            blink=bool(flags & cells.BLINK) or None,
            strike=bool(flags & cells.STRIKE) or None,
            overline=bool(flags & cells.OVERLINE) or None,
            link=uri,
        )

    def _colour(self, colour: int, own: int, default: Color) -> Color:
        """Return a cell's colour; `own` is the number of the default one."""
        colour = self.colours.get(own if colour < 0 else colour, colour - RGB) + RGB if self.colours else colour
        if colour < 0:
            return default
        if colour >= RGB:
            return Color.from_rgb(colour >> 16 & 0xFF, colour >> 8 & 0xFF, colour & 0xFF)
        return self.palette.ansi[colour] if colour < 16 else Color.from_ansi(colour)


@dataclass(frozen=True)
class _Drawn:
    painter: StripPainter
    strip: Strip


def drawn_text(cells: str, columns: int, clusters: ClusterTable) -> str:
    """Return a stored line's characters as drawn at `columns`; thread-safe."""
    return _shown(cells if len(cells) <= columns else _cut(cells, columns), clusters)


def _shown(cells: str, clusters: ClusterTable) -> str:
    """Return cells as text that Rich and terminals measure as wide as they are."""
    if cells.isascii() and STUB not in cells:
        return cells
    if not _CERTAIN.fullmatch(cells):
        cells = _ODD.sub(lambda odd: _fitted(odd[0][0], len(odd[0]), clusters), cells)
    return cells.replace(STUB, "")


def _fitted(cell: str, width: int, clusters: ClusterTable) -> str:
    """Return a cell's cluster at `width` cells; VS16, or all marks, may have to go."""
    text = clusters.expand(cell).rstrip(ZWJ)
    if width == 1:
        text = text.replace(VS16, "")
    if text == STUB or unicodedata.category(text[:1] or STUB) in ("Cf", "Cc", "Zl", "Zp"):
        return ("-" if text == "\xad" else " ") * width
    if cell_len(text) == width:
        return text
    base = text[0]
    missing = width - cell_len(base)
    return base + " " * missing if missing >= 0 else "\ufffd" * width


def character_at(text: str, column: int) -> int:
    """Return the index of the drawn character at a column; the length of the text behind its end."""
    index = cells = 0
    while index < len(text):
        end, size = _cluster_cells(text, index)
        if column < cells + size:
            break
        index, cells = end, cells + size
    return index


def _cut(cells: str, length: int) -> str:
    """Return the first columns; a wide character across the border becomes a blank."""
    cut = cells[: max(0, length)]
    if cut and cells[len(cut) : len(cut) + 1] == STUB:
        return cut[:-1] + " "
    return cut


def _restyled_cells(segments: Iterator[Segment], column: int, style: RichStyle) -> Iterator[Segment]:
    """Yield segments with a style over the character at a column."""
    start = 0
    for segment in segments:
        end = start + segment.cell_length
        if not start <= column < end:
            yield segment
        else:
            text, own, _ = segment
            index = cells = 0
            while index < len(text) - 1 and start + cells + (size := _cluster_cells(text, index)[1]) <= column:
                cells += size
                index = _cluster_cells(text, index)[0]
            after = _cluster_cells(text, index)[0]
            yield from _split(text, own, index, after, style)
        start = end


def _cluster_cells(text: str, index: int) -> tuple[int, int]:
    """Return the end of the cluster at `index`, and its cells."""
    end = index + 1
    cells = cell_len(text[index:end])
    while end < len(text):
        longer = cell_len(text[index : end + 1])
        if longer > cells and cells > 0:
            break
        cells = longer
        end += 1
    return end, cells


def _restyled_characters(segments: Sequence[Segment], mark: Mark) -> Iterator[Segment]:
    """Yield segments with a mark over the characters it names."""
    position = 0
    for segment in segments:
        text, own, _ = segment
        first = max(mark.start - position, 0)
        last = len(text) if mark.end < 0 else min(max(mark.end - position, 0), len(text))
        if first >= last:
            yield segment
        else:
            yield from _split(text, own, first, last, mark.style)
        position += len(text)


def _split(text: str, own: RichStyle | None, first: int, last: int, style: RichStyle) -> Iterator[Segment]:
    if first:
        yield Segment(text[:first], own)
    yield Segment(text[first:last], own + style if own else style)
    if last < len(text):
        yield Segment(text[last:], own)
