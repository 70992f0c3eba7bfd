"""A few styled lines, as high as they need, or exactly one row; parts of them can be clicked."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.geometry import Size
from textual.strip import Strip
from textual.widget import Widget

from ollm_tui.tui.styled_text import RolePalette, StyledLine, TextRole, app_of, line, wrap_all


@dataclass(frozen=True)
class ClickTarget:
    """A clickable stretch of a row: its cells (end exclusive) and the action."""

    row: int
    begin: int
    end: int
    action: str


class OneRow(Widget):
    """One row of styled text; what it draws decides what a click hits."""

    ALLOW_SELECT = False

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self.targets: list[ClickTarget] = []
        """The clickable parts, as `row` found them."""

    @abstractmethod
    def row(self, width: int) -> StyledLine:
        """Return the row at this width."""

    @property
    def text(self) -> str:
        """The row without styles."""
        return self.row(self.size.width).text

    def render_line(self, y: int) -> Strip:
        """Draw the row."""
        width = self.size.width
        shown = StyledLine() if y else self.row(width)
        return RolePalette.of(self).strip(shown, width, self.rich_style)

    def target_at(self, cell: int) -> str | None:
        """Return the action of the part at a cell."""
        return next((target.action for target in self.targets if target.begin <= cell < target.end), None)


class TextBox(Widget):
    """Draws wrapped lines, never scrolls; a click on a target runs its action."""

    def __init__(self, name: str, *, actions_of: Widget | None = None) -> None:
        """`actions_of` is the widget whose actions the targets name, else the screen."""
        super().__init__(id=name)
        self._actions_of = actions_of
        self._lines: tuple[StyledLine, ...] = ()
        self._targets: tuple[ClickTarget, ...] = ()
        self._rows: list[StyledLine] = []
        self._wrapped_at = -1

    def show_lines(self, lines: Sequence[StyledLine], targets: Sequence[ClickTarget] = ()) -> None:
        """Replace the lines; targets count rows before wrapping."""
        if (tuple(lines), tuple(targets)) == (self._lines, self._targets):
            return
        needed = len(wrap_all(self._lines, max(1, self._wrapped_at)))
        self._lines, self._targets = tuple(lines), tuple(targets)
        width, self._wrapped_at = self._wrapped_at, -1
        self.refresh(layout=needed != len(wrap_all(self._lines, max(1, width))))

    def show_keys(self, keys: Sequence[tuple[str, str, str]], gap: int) -> None:
        """Show a row of (key, label, action), `gap` cells apart."""
        parts: list[str | tuple[str, TextRole]] = []
        targets: list[ClickTarget] = []
        column = 0
        for key, label, action in keys:
            parts += [(key, TextRole.ACCENT), f" {label}{' ' * gap}"]
            end = column + len(key) + 1 + len(label)
            targets.append(ClickTarget(0, column, end, action))
            column = end + gap
        self.show_lines([line(*parts)], targets)

    @property
    def plain_text(self) -> str:
        """The text without styles."""
        return "\n".join(one.text for one in self._lines)

    def rows_at(self, width: int) -> int:
        """Return the rows the lines take at a width."""
        return len(wrap_all(self._lines, max(1, width)))

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the wrapped lines' height."""
        return len(self._wrap(width))

    def render_line(self, y: int) -> Strip:
        """Draw a wrapped line."""
        width = self.size.width
        rows = self._wrap(width)
        return RolePalette.of(self).strip(rows[y] if y < len(rows) else StyledLine(), width, self.rich_style)

    async def on_click(self, event: events.Click) -> None:
        """Run the action of a clicked target."""
        for target in self._targets:
            if target.row == event.y and target.begin <= event.x < target.end:
                await app_of(self).run_action(target.action, self._actions_of or self.screen)

    def _wrap(self, width: int) -> list[StyledLine]:
        if width != self._wrapped_at:
            self._rows, self._wrapped_at = wrap_all(self._lines, width), width
        return self._rows
