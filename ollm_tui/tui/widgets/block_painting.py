"""Blocks of the conversation as strips: lines, prose, code, small pictures."""

from __future__ import annotations

import base64
import binascii
import io
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Protocol

from rich.cells import cell_len
from rich.color import Color
from rich.console import Console, RenderableType
from rich.segment import Segment
from rich.style import Style
from rich.theme import Theme
from textual.strip import Strip

from ollm_tui.core.base.escape import visible_block
from ollm_tui.tui.pictures.png import decode_png
from ollm_tui.tui.pictures.raster import CLEAR, Raster, half_blocks
from ollm_tui.tui.styled_text import TAB_SIZE, RolePalette, StyledLine, TextRole, app_of, wrap_all

if TYPE_CHECKING:
    from rich.markdown import Markdown
    from textual.widget import Widget

CODE_INDENT = 2
PICTURE_INDENT = 4
MAX_SIDE = 400
"""Pixels; a larger picture is not drawn here."""
PROSE_CELLS = 100
"""Longer lines are hard to read on; code, tables and output take all there is."""
REPLACED = "\N{REPLACEMENT CHARACTER}"


class Block(Protocol):
    """A part of an entry that is drawn as a whole."""

    def paint(self, painter: BlockPainter, width: int) -> list[Strip]:
        """Return its rows, each exactly `width` cells."""
        ...

    def estimate(self, width: int) -> int:
        """Return about how many rows it takes, cheaply."""
        ...


class BlockPainter:
    """Styles and console of one theme and background; made again when either changes."""

    def __init__(self, palette: RolePalette, base: Style, *, dark: bool, ansi: bool) -> None:
        self.palette = palette
        self.base = base
        self.code_theme = ("ansi_dark" if dark else "ansi_light") if ansi else ("native" if dark else "friendly")
        self._console: Console | None = None

    @classmethod
    def of(cls, widget: Widget) -> BlockPainter:
        """Return a painter for the widget's current style."""
        theme = app_of(widget).current_theme
        return cls(RolePalette.of(widget), widget.rich_style, dark=theme.dark, ansi=theme.ansi)

    def lines(self, lines: tuple[StyledLine, ...], width: int, fill: TextRole = TextRole.PLAIN) -> list[Strip]:
        """Draw styled lines, wrapped."""
        rows = (row for one in lines for row in wrap_all((one,), min(width, PROSE_CELLS) if one.prose else width))
        return [self.palette.strip(row, width, self.base, fill) for row in rows]

    def rendered(self, renderable: RenderableType, width: int, indent: int = 0, spare: int = 0) -> list[Strip]:
        """Draw a rich renderable on rows of `width` cells, of which it leaves `indent` and `spare` empty."""
        console = self._markdown_console()
        options = console.options.update_width(max(1, width - indent - spare))
        lead = [Segment(" " * indent, self.base)] if indent else []
        rows: list[Strip] = []
        for segments in console.render_lines(renderable, options, pad=False):
            sanitized = [self._sanitized(segment) for segment in segments if segment.control is None]
            rows.append(Strip([*lead, *sanitized]).crop_extend(0, width, self.base))
        return rows

    def _sanitized(self, segment: Segment) -> Segment:
        """Return a segment over `base`, without controls that entities bring (`&#x202e;`)."""
        text = segment.text
        if not text.isprintable():
            text = "".join(character if character.isprintable() else REPLACED for character in text)
        style = self.base + segment.style if segment.style else self.base
        if style.bgcolor is not None and style.bgcolor.is_default:
            style += Style(bgcolor=self.base.bgcolor)  # the outer terminal's own would be a box on a theme's
        return Segment(text, style)

    def _markdown_console(self) -> Console:
        if self._console is None:
            style = self.palette.style
            theme = Theme(
                {
                    "markdown.h1": style(TextRole.PRIMARY) + Style(underline=True),
                    "markdown.h2": style(TextRole.PRIMARY),
                    "markdown.h3": style(TextRole.STRONG),
                    "markdown.h4": style(TextRole.STRONG),
                    "markdown.code": style(TextRole.CODE),
                    "markdown.code_block": style(TextRole.CODE),
                    "markdown.block_quote": style(TextRole.MUTED),
                    "markdown.list": Style(),
                    "markdown.item.bullet": style(TextRole.ACCENT),
                    "markdown.item.number": style(TextRole.ACCENT),
                    "markdown.hr": style(TextRole.MUTED),
                    "markdown.link": style(TextRole.ACCENT),
                    "markdown.link_url": style(TextRole.ACCENT) + Style(underline=True),
                    "markdown.table.border": style(TextRole.MUTED),
                    "markdown.table.header": style(TextRole.STRONG),
                }
            )
            self._console = Console(
                file=io.StringIO(),
                force_terminal=True,
                color_system="truecolor",
                theme=theme,
                width=80,
                legacy_windows=False,
            )
        return self._console


@dataclass(frozen=True)
class LinesBlock:
    """Styled lines, wrapped by cells."""

    lines: tuple[StyledLine, ...]
    fill: TextRole = TextRole.PLAIN

    def paint(self, painter: BlockPainter, width: int) -> list[Strip]:
        """Draw the lines."""
        return painter.lines(self.lines, width, self.fill)

    def estimate(self, width: int) -> int:
        """Return the rows of unwrapped characters."""
        return sum(1 + len(one.text) // max(1, width) for one in self.lines)


@dataclass(frozen=True)
class ProseBlock:
    """Markdown without fences."""

    text: str
    gap: bool = True
    """Whether a blank row precedes it."""

    def paint(self, painter: BlockPainter, width: int) -> list[Strip]:
        """Render the markdown."""
        markdown = _left_markdown()(visible_block(self.text), code_theme=painter.code_theme, hyperlinks=False)
        table = any(one.lstrip().startswith("|") for one in self.text.splitlines())
        spare = 0 if table else max(0, width - PROSE_CELLS)
        rows = painter.rendered(markdown, width, spare=spare)
        # Headings come with blank rows of their own; blocks stand one row apart.
        blank = [not row.text.strip() for row in rows]
        rows = [row for at, row in enumerate(rows) if not (blank[at] and (at == 0 or blank[at - 1]))]
        while rows and not rows[-1].text.strip():
            rows.pop()
        return ([Strip.blank(width, painter.base)] if self.gap else []) + rows

    def estimate(self, width: int) -> int:
        """Return the rows of the source text."""
        return self.gap + sum(1 + cell_len(one) // max(1, width) for one in self.text.split("\n"))


@cache
def _left_markdown() -> type[Markdown]:
    """Return rich's markdown with headings at the left; it loads with the first answer."""
    from rich.markdown import Heading, Markdown

    class LeftHeading(Heading):
        LEVEL_ALIGN = {f"h{level}": "left" for level in range(1, 7)}  # noqa: RUF012  # as in Heading

    class LeftMarkdown(Markdown):
        elements = {**Markdown.elements, "heading_open": LeftHeading}  # noqa: RUF012  # as in Markdown

    return LeftMarkdown


@dataclass(frozen=True)
class CodeBlock:
    """A code fence: highlighted, indented, wrapped, never cut."""

    text: str
    language: str
    gap: bool = True

    def paint(self, painter: BlockPainter, width: int) -> list[Strip]:
        """Highlight the code."""
        from rich.syntax import Syntax

        code = visible_block(self.text).expandtabs(TAB_SIZE)
        syntax = Syntax(
            code, self.language or "text", theme=painter.code_theme, word_wrap=True, background_color="default"
        )
        rows = painter.rendered(syntax, width, CODE_INDENT)
        return ([Strip.blank(width, painter.base)] if self.gap else []) + rows

    def estimate(self, width: int) -> int:
        """Return the rows of the indented text."""
        room = max(1, width - CODE_INDENT)
        return self.gap + sum(1 + len(one) // room for one in self.text.split("\n"))


@dataclass(frozen=True)
class PictureBlock:
    """A small PNG in base64, drawn as two pixels a cell."""

    encoded: str

    def paint(self, painter: BlockPainter, width: int) -> list[Strip]:
        """Draw the picture; nothing where it cannot be decoded."""
        raster = decoded(self.encoded)
        if raster is None:
            return []
        columns = min(raster.width, max(1, width - PICTURE_INDENT - 1))
        cells = max(1, round(raster.height * columns / raster.width / 2))
        strips: list[Strip] = []
        for row in half_blocks(raster, columns, 2 * cells):
            segments = [Segment("▀", painter.base + _pixel_style(upper, lower)) for upper, lower in row]
            strip = Strip([Segment(" " * PICTURE_INDENT, painter.base), *segments]).simplify()
            strips.append(strip.crop_extend(0, width, painter.base))
        return strips

    def estimate(self, width: int) -> int:
        """Return the rows of a picture as wide as the pane."""
        return max(1, min(width, 96) * 5 // 16)


@lru_cache(maxsize=8)
def decoded(encoded: str) -> Raster | None:
    """Return the pixels of a small PNG; None for anything else."""
    try:
        raster = decode_png(base64.b64decode(encoded, validate=True), MAX_SIDE)
    except (binascii.Error, ValueError):
        return None
    return raster


@lru_cache(maxsize=4096)
def _pixel_style(upper: int, lower: int) -> Style:
    return Style(color=_colour(upper), bgcolor=_colour(lower))


def _colour(colour: int) -> Color | None:
    return None if colour == CLEAR else Color.from_rgb(colour >> 16, colour >> 8 & 0xFF, colour & 0xFF)
