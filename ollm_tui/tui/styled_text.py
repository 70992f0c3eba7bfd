"""Styled text: lines of spans with roles, wrapped by cells, drawn in theme colours.

Foreign text enters a `StyledLine` only through `visible` or `visible_block`; nothing here reads markup.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from rich.cells import cell_len, chop_cells
from rich.segment import Segment
from rich.style import Style
from textual.color import Color, ColorParseError
from textual.content import Content
from textual.strip import Strip

if TYPE_CHECKING:
    from textual.app import App
    from textual.dom import DOMNode
    from textual.widget import Widget

TAB_SIZE = 4
CHARACTERS_A_CELL = 5
"""The most: `visible` leaves a character four combining marks."""


class TextRole(StrEnum):
    """What a text means, which the theme gives a colour; the words say it too."""

    PLAIN = "plain"
    MUTED = "muted"
    STRONG = "strong"
    PRIMARY = "primary"
    ACCENT = "accent"
    OK = "ok"
    WARNING = "warning"
    ERROR = "error"
    ADDED = "added"
    REMOVED = "removed"
    ROW_ADDED = "row-added"
    """Lies under a whole row, as the next does."""
    ROW_REMOVED = "row-removed"
    WORD_ADDED = "word-added"
    WORD_REMOVED = "word-removed"
    KEYWORD = "keyword"
    STRING = "string"
    COMMENT = "comment"
    NUMBER = "number"
    NAME = "name"
    HUNK = "hunk"
    CODE = "code"
    CHOSEN = "chosen"
    FOUND = "found"


@dataclass(frozen=True)
class StyledSpan:
    """A run of text in one role, safe to draw, without line ends."""

    text: str
    role: TextRole = TextRole.PLAIN


@dataclass(frozen=True)
class StyledLine:
    """A logical line; wrapped continuations are indented by `hang` cells.

    `prose` wraps at blanks, for sentences; commands and files are cut by cells. `fill` lies under the whole row.
    """

    spans: tuple[StyledSpan, ...] = ()
    hang: int = 0
    prose: bool = False
    fill: TextRole = TextRole.PLAIN

    @property
    def text(self) -> str:
        """The text without styles."""
        return "".join(span.text for span in self.spans)

    @property
    def cells(self) -> int:
        """The width in cells."""
        return sum([_cells(span.text) for span in self.spans])

    def wrapped(self, width: int) -> list[StyledLine]:
        """Wrap at `width` cells, losing nothing; at least one line."""
        if width <= 0 or self.cells <= width:
            return [self]
        hang = self.hang if self.hang <= min(width // 2, width - 2) else 0  # leaves room for a wide character
        rows: list[list[StyledSpan]] = [[]]
        room = width
        for span in self.spans:
            text, at = span.text, 0
            while at < len(text):
                # A style text may be one line: do not measure its rest again for each row.
                rest = text[at : at + max(1, room) * CHARACTERS_A_CELL]
                if at + len(rest) == len(text) and cell_len(rest) <= room:
                    rows[-1].append(StyledSpan(rest, span.role))
                    room -= cell_len(rest)
                    break
                head = _head(rest, room)
                blank = head.rfind(" ") if self.prose else -1
                if blank > 0:
                    head = head[: blank + 1]
                if not head and room == width - (hang if len(rows) > 1 else 0):
                    head = text[at]  # a character wider than a line: cut it, never loop
                if head:
                    rows[-1].append(StyledSpan(head, span.role))
                    at += len(head)
                rows.append([StyledSpan(" " * hang)] if hang else [])
                room = width - hang
        return [StyledLine(tuple(row), self.hang, self.prose, self.fill) for row in rows]

    def cut(self, width: int) -> StyledLine:
        """Cut to `width` cells, the cut marked by two dots."""
        if self.cells <= width:
            return self
        if width <= 2:
            return StyledLine((StyledSpan(_head(self.text, max(0, width))),))
        kept: list[StyledSpan] = []
        room = width - 2
        for span in self.spans:
            head = span.text if cell_len(span.text) <= room else _head(span.text, room)
            kept.append(StyledSpan(head, span.role))
            room -= cell_len(head)
            if len(head) < len(span.text):
                break
        return StyledLine((*kept, StyledSpan("..", TextRole.MUTED)), self.hang, fill=self.fill)


def set_border(widget: Widget, title: str, subtitle: str | None = None) -> None:
    """Set the texts of a border, taken literally; draw the widget again only where one differs."""
    for name, text in (("border_title", title), ("border_subtitle", subtitle)):
        if text is not None and getattr(widget, name) != (content := Content(text)).markup:
            setattr(widget, name, content)


def set_rule(widget: Widget, title: str, subtitle: str | None = None) -> None:
    """Set the texts of a border without sides, with the blanks around them that its corners would bring."""
    set_border(widget, _spaced(title), None if subtitle is None else _spaced(subtitle))


def _cells(text: str) -> int:
    """Return the width in cells; most text is ASCII, for which `cell_len` looks at each character all the same."""
    return len(text) if text.isascii() and text.isprintable() else cell_len(text)


def _spaced(text: str) -> str:
    return f" {text} " if text else ""


def app_of(node: DOMNode) -> App[object]:
    """Return the running app, typed."""
    return node.app  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # textual: App[Unknown]


def copy_text(widget: Widget, text: str) -> None:
    """Copy a text to the clipboard, and say so."""
    app_of(widget).copy_to_clipboard(text)
    widget.notify(f"{len(text)} characters copied.", markup=False)


def line(
    *parts: str | tuple[str, TextRole], hang: int = 0, prose: bool = False, fill: TextRole = TextRole.PLAIN
) -> StyledLine:
    """Build a line from texts and (text, role) pairs."""
    spans = (StyledSpan(part) if isinstance(part, str) else StyledSpan(*part) for part in parts)
    return StyledLine(tuple(span for span in spans if span.text), hang, prose, fill)


def spread(left: StyledLine, right: StyledLine, width: int) -> StyledLine:
    """Put `left` and `right` at the edges; cut the left if needed."""
    room = width - right.cells - 1
    if room < 4:
        return left.cut(width)
    kept = left.cut(room)
    gap = width - kept.cells - right.cells
    return StyledLine((*kept.spans, StyledSpan(" " * gap), *right.spans))


def lines_of(text: str, role: TextRole = TextRole.PLAIN, *, indent: int = 0, prose: bool = False) -> list[StyledLine]:
    """Turn a safe block of text into lines, tabs expanded."""
    lead = " " * indent
    return [line((lead + row.expandtabs(TAB_SIZE), role), hang=indent, prose=prose) for row in text.split("\n")]


def wrap_all(lines: Iterable[StyledLine], width: int) -> list[StyledLine]:
    """Wrap every line at `width`."""
    return [row for one in lines for row in one.wrapped(width)]


class RolePalette:
    """Terminal styles of the roles in the current theme."""

    def __init__(self, variables: dict[str, str], *, ansi: bool) -> None:
        self._variables = variables
        self._ansi = ansi
        foreground, background = self._color("foreground"), self._color("background")
        muted = (
            Style(dim=True)
            if ansi or foreground is None or background is None
            else _style(foreground.blend(background, 0.38))
        )
        primary, accent = self._fore("text-primary", "primary"), self._fore("text-accent", "accent")
        error, warning = self._fore("text-error", "error"), self._fore("text-warning", "warning")
        ok = self._fore("text-success", "success")
        self._styles: dict[TextRole, Style] = {
            TextRole.PLAIN: Style(),
            TextRole.MUTED: muted,
            TextRole.STRONG: Style(bold=True),
            TextRole.PRIMARY: primary + Style(bold=True),
            TextRole.ACCENT: accent,
            TextRole.OK: ok,
            TextRole.WARNING: warning + Style(bold=True),
            TextRole.ERROR: error + Style(bold=True),
            TextRole.ADDED: ok,
            TextRole.REMOVED: error,
            TextRole.ROW_ADDED: self._back("success-muted"),
            TextRole.ROW_REMOVED: self._back("error-muted"),
            TextRole.WORD_ADDED: self._word("success"),
            TextRole.WORD_REMOVED: self._word("error"),
            TextRole.KEYWORD: self._fore("text-primary", "primary"),
            TextRole.STRING: self._fore("text-secondary", "secondary"),
            TextRole.COMMENT: muted + Style(italic=True),
            TextRole.NUMBER: accent,
            TextRole.NAME: self._fore("text-warning", "warning"),
            TextRole.HUNK: accent,
            TextRole.CODE: self._fore("text-secondary", "secondary"),
            TextRole.CHOSEN: Style(bold=True) if ansi else Style(bold=True) + self._back("primary-muted"),
            TextRole.FOUND: Style(reverse=True),
        }

    @classmethod
    def of(cls, widget: Widget) -> RolePalette:
        """Return the palette of the current theme, made once for all widgets."""
        app = app_of(widget)
        variables, palette = _PALETTES.get(app, (None, None))
        if palette is None or variables is not app.theme_variables:  # Textual makes new ones with each theme
            palette = cls(app.theme_variables, ansi=app.current_theme.ansi)
            _PALETTES[app] = (app.theme_variables, palette)
        return palette

    def style(self, role: TextRole) -> Style:
        """Return the style of a role."""
        return self._styles[role]

    def strip(self, styled: StyledLine, width: int, base: Style, fill: TextRole = TextRole.PLAIN) -> Strip:
        """Draw the line on exactly `width` cells over `base`; `fill` is the row's role."""
        style = base + self._styles[fill] + self._styles[styled.fill]
        segments = [Segment(span.text, style + self._styles[span.role]) for span in styled.spans]
        return Strip(segments).crop_extend(0, width, style)

    def _color(self, name: str) -> Color | None:
        value = self._variables.get(name)
        if value is None:
            return None
        try:
            return Color.parse(value)
        except ColorParseError:
            return None

    def _fore(self, *names: str) -> Style:
        for name in names:
            color = self._color(name)
            if color is not None and color.a > 0:
                return _style(color)
        return Style()

    def _word(self, name: str) -> Style:
        """Return the style of a changed word, which must stand out of its row without colours too."""
        color, ground = self._color(name), self._color("background")
        style = Style(bold=True, underline=True)
        if color is None or ground is None or self._ansi or color.a < 1:
            return style
        return style + Style(bgcolor=ground.blend(color, 0.55).rich_color)

    def _back(self, name: str) -> Style:
        color = self._color(name)
        if color is None or self._ansi or color.a < 1:
            return Style()
        return Style(bgcolor=color.rich_color)


_PALETTES: WeakKeyDictionary[App[object], tuple[dict[str, str], RolePalette]] = WeakKeyDictionary()


def _style(color: Color) -> Style:
    return Style(color=color.rich_color)


def _head(text: str, cells: int) -> str:
    """Return as many leading characters as fit into `cells`."""
    if cells <= 0:
        return ""
    first = chop_cells(text[: cells * CHARACTERS_A_CELL], cells)
    return first[0] if first and cell_len(first[0]) <= cells else ""
