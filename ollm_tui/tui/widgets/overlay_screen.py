"""Screens that lie over the dashboard, which shows through them dimmed."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Size
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen, ScreenResultType
from textual.strip import Strip
from textual.visual import RenderOptions, Visual, VisualType

if TYPE_CHECKING:
    from textual.css.styles import RulesMap
    from textual.style import Style as VisualStyle


class OverlayScreen(ModalScreen[ScreenResultType]):
    """Base of what opens over the dashboard."""

    def render(self) -> VisualType:  # pyright: ignore[reportIncompatibleMethodOverride]  # Widget.render gives these
        """Draw what lies below as Textual does, but without the detour through Rich."""
        shown = super().render()
        return _DimmedScreen(shown) if isinstance(shown, BackgroundScreen) else shown


class _DimmedScreen(Visual):
    """The screen below in dimmed colours, without links."""

    def __init__(self, shown: BackgroundScreen) -> None:
        self._screen: Screen[object] = shown.screen  # pyright: ignore[reportUnknownMemberType]  # declared without its result
        self._color = shown.color

    def render_strips(self, width: int, height: int | None, style: VisualStyle, options: RenderOptions) -> list[Strip]:
        size = self._screen.size if height is None else Size(width, height)
        below = self._screen._compositor.render_strips(size)  # pyright: ignore[reportPrivateUsage]  # as BackgroundScreen
        base = style.rich_style
        return [
            Strip([Segment(text, _dimmed(own, base, self._color)) for text, own, _ in strip], strip.cell_length)
            for strip in below
        ]

    def get_optimal_width(self, rules: RulesMap, container_width: int) -> int:
        return container_width

    def get_minimal_width(self, rules: RulesMap) -> int:
        return 1

    def get_height(self, rules: RulesMap, width: int) -> int:
        return self._screen.size.height


@lru_cache(maxsize=2048)
def _dimmed(style: Style | None, base: Style, color: Color) -> Style:
    """Return a style as Textual dims it, on that of the screen above."""
    (segment,) = BackgroundScreen.process_segments([Segment("", style)], color)
    return base + (segment.style or Style.null())
