"""The footer: the keys that work now, in a fixed order, from the bindings."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import App
from textual.binding import ActiveBinding
from textual.dom import DOMNode
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget

from ollm_tui.tui.bindings import display_key
from ollm_tui.tui.styled_text import RolePalette, TextRole, app_of, line

ORDER = (
    "app.help",
    "pane.next",
    "queue.review",
    "terminal.send_selection",
    "terminal.find",
    "terminal.mark",
    "terminal.done",
    "layout.zoom",
    "app.palette",
    "session.pick",
    "turn.interrupt",
    "terminal.leave",
    "app.quit",
)
"""Binding ids from the left; those that do not fit are dropped before the last, never Help or Quit."""


@dataclass(frozen=True)
class FooterKey:
    """A key and what it does."""

    shown: str
    words: str
    action: str
    enabled: bool
    node: DOMNode


class KeyFooter(Widget):
    """One row of keys, updated when bindings change."""

    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self) -> None:
        super().__init__(id="keys")
        self._keys: tuple[FooterKey, ...] = ()
        self._spans: list[tuple[int, int, FooterKey]] = []
        self.labels: dict[str, str] = {}
        """Labels that replace a binding's own, by id: `Review(3)`."""

    def on_mount(self) -> None:
        """Subscribe to the screen's bindings."""
        signal = self.screen.bindings_updated_signal  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # textual: Screen[Unknown]
        signal.subscribe(self, self._bindings_changed)  # pyright: ignore[reportUnknownMemberType]  # as above
        self.call_after_refresh(self.gather)

    def _bindings_changed(self, screen: Screen[object]) -> None:
        if self.is_attached and screen is self.screen:
            self.gather()

    def gather(self) -> None:
        """Read the active bindings."""
        app = app_of(self)
        active: dict[str, ActiveBinding] = {}
        for bound in self.screen.active_bindings.values():
            if bound.binding.id is not None:
                active.setdefault(bound.binding.id, bound)
        keys = tuple(
            FooterKey(
                _key_text(app, bound),
                self.labels.get(name, bound.binding.description),
                bound.binding.action,
                bound.enabled,
                bound.node,
            )
            for name in ORDER
            if (bound := active.get(name)) is not None
        )
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def render_line(self, y: int) -> Strip:
        """Draw the keys."""
        width = self.size.width
        if y > 0:
            return Strip.blank(width, self.rich_style)
        parts: list[str | tuple[str, TextRole]] = [" "]
        self._spans = []
        column = 1
        for key in self._fitting(width):
            parts += [
                (key.shown, TextRole.ACCENT if key.enabled else TextRole.MUTED),
                (f" {key.words}  ", TextRole.PLAIN if key.enabled else TextRole.MUTED),
            ]
            end = column + len(key.shown) + 1 + len(key.words)
            self._spans.append((column, end, key))
            column = end + 2
        return RolePalette.of(self).strip(line(*parts), width, self.rich_style)

    async def on_click(self, event: events.Click) -> None:
        """Run a clicked key's action."""
        for begin, end, key in self._spans:
            if begin <= event.x < end and key.enabled:
                await app_of(self).run_action(key.action, key.node)

    def _fitting(self, width: int) -> list[FooterKey]:
        keys = list(self._keys)
        while len(keys) > 2 and 1 + sum(len(key.shown) + len(key.words) + 3 for key in keys) > width + 2:
            del keys[-2]
        return keys


def _key_text(app: App[object], bound: ActiveBinding) -> str:
    """Return a key as displayed: `F8`, `^P`, `Esc`."""
    return display_key(app.get_key_display(bound.binding))
