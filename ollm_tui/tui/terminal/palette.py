"""Colours of a terminal, as far as the theme has them."""

from __future__ import annotations

from dataclasses import dataclass

from rich.color import Color
from rich.style import Style
from textual.color import Color as TextualColor
from textual.widget import Widget

from ollm_tui.tui.styled_text import app_of

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
