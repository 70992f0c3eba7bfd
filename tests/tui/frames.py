"""Draw frames for nobody: render every widget in them, and leave out putting the pieces together.

A headless app throws its frames away (`App._display`), and nothing in Textual keeps it from making them whole first:
each line of each widget is cut where any other widget begins, a fifth of the CPU of a dashboard's test. What a test looks
at, the screen's text or its picture, is put together when it asks, out of the same widgets.
"""

from __future__ import annotations

from collections import deque

from rich.console import RenderableType
from textual._compositor import Compositor
from textual._context import active_app, visible_screen_stack
from textual.geometry import Region
from textual.screen import Screen

_render_update = Compositor.render_update


def _rendered(
    self: Compositor, full: bool = False, screen_stack: list[Screen[object]] | None = None, simplify: bool = False
) -> RenderableType | None:
    """As `Compositor.render_update`, without an update; pictures ask for a full and simplified one and get it."""
    if full or not active_app.get().is_headless:
        return _render_update(self, full, screen_stack, simplify)
    visible_screen_stack.set([] if screen_stack is None else screen_stack)
    regions = self._dirty_regions.copy()
    self._dirty_regions.clear()
    if regions:
        deque(self._get_renders(Region.from_union(list(regions)).intersection(self.size.region)), maxlen=0)
    return None


def install() -> None:
    """Have every app of this process draw like this."""
    Compositor.render_update = _rendered  # type: ignore[method-assign]  # there is no setting, and apps make it themselves
