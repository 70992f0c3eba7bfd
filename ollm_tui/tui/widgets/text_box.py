"""A few styled lines that are as high as they need to be; parts of them can be clicked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from ollm_tui.tui.styled_text import RolePalette, StyledLine, TextRole, app_of, line, wrap_all


@dataclass(frozen=True)
class ClickTarget:
    """A clickable stretch: row, first and last cell (exclusive), and the action of the screen it stands for."""

    row: int
    begin: int
    end: int
    action: str


class TextBox(Widget):
    """Draws lines, wrapped; a click on a spot runs its action. Never scrolls."""

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self._lines: tuple[StyledLine, ...] = ()
        self._spots: tuple[ClickTarget, ...] = ()
        self._rows: list[StyledLine] = []
        self._wrapped_at = -1
        self._palette: RolePalette | None = None

    def show_lines(self, lines: Sequence[StyledLine], spots: Sequence[ClickTarget] = ()) -> None:
        """Replace the lines; spots count rows before wrapping."""
        if (tuple(lines), tuple(spots)) == (self._lines, self._spots):
            return
        needed = len(wrap_all(self._lines, max(1, self._wrapped_at)))
        self._lines, self._spots = tuple(lines), tuple(spots)
        width, self._wrapped_at = self._wrapped_at, -1
        self.refresh(layout=needed != len(wrap_all(self._lines, max(1, width))))

    def show_keys(self, keys: Sequence[tuple[str, str, str]], gap: int) -> None:
        """One row of keys, `gap` cells apart: each with its words and the action that a click on them runs."""
        parts: list[str | tuple[str, TextRole]] = []
        spots: list[ClickTarget] = []
        at = 0
        for key, words, action in keys:
            parts += [(key, TextRole.ACCENT), f" {words}{' ' * gap}"]
            end = at + len(key) + 1 + len(words)
            spots.append(ClickTarget(0, at, end, action))
            at = end + gap
        self.show_lines([line(*parts)], spots)

    @property
    def plain_text(self) -> str:
        return "\n".join(one.text for one in self._lines)

    def rows_at(self, width: int) -> int:
        """Rows the lines take at a width."""
        return len(wrap_all(self._lines, max(1, width)))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._wrap(width))

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self._palette is None:
            self._palette = RolePalette.of(self)
        rows = self._wrap(width)
        return self._palette.strip(rows[y] if y < len(rows) else StyledLine(), width, self.rich_style)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None

    async def on_click(self, event: events.Click) -> None:
        for spot in self._spots:
            if spot.row == event.y and spot.begin <= event.x < spot.end:
                await app_of(self).run_action(spot.action, self.screen)

    def _wrap(self, width: int) -> list[StyledLine]:
        if width != self._wrapped_at:
            self._rows, self._wrapped_at = wrap_all(self._lines, width), width
        return self._rows
