"""The footer: the keys that work now, in a fixed order, from the bindings."""

from __future__ import annotations

from dataclasses import dataclass

from textual import events
from textual.binding import ActiveBinding
from textual.dom import DOMNode
from textual.screen import Screen

from ollm_tui.tui.bindings import display_key
from ollm_tui.tui.styled_text import StyledLine, TextRole, app_of, line
from ollm_tui.tui.widgets.text_box import ClickTarget, OneRow

ORDER = (
    "app.help",
    "pane.next",
    "messages.go",
    "session.go_on",
    "queue.review",
    "chat.undo",
    "terminal.send_selection",
    "terminal.find",
    "terminal.mark",
    "terminal.done",
    "layout.zoom",
    "app.palette",
    "pane.prompt",
    "turn.interrupt",
    "terminal.leave",
    "session.pick",
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


class KeyFooter(OneRow):
    """One row of keys, updated when bindings change."""

    def __init__(self, order: tuple[str, ...] = ORDER) -> None:
        super().__init__("keys")
        self._order = order
        self._keys: tuple[FooterKey, ...] = ()
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
                display_key(app.get_key_display(bound.binding)),
                self.labels.get(name, bound.binding.description),
                bound.binding.action,
                bound.enabled,
                bound.node,
            )
            for name in self._order
            if (bound := active.get(name)) is not None
        )
        if keys != self._keys:
            self._keys = keys
            self.refresh()

    def row(self, width: int) -> StyledLine:
        """Return the keys that fit."""
        parts: list[str | tuple[str, TextRole]] = [" "]
        self.targets = []
        column = 1
        for key in self._fitting(width):
            parts += [
                (key.shown, TextRole.ACCENT if key.enabled else TextRole.MUTED),
                (f" {key.words}  ", TextRole.PLAIN if key.enabled else TextRole.MUTED),
            ]
            end = column + len(key.shown) + 1 + len(key.words)
            self.targets.append(ClickTarget(0, column, end, key.action))
            column = end + 2
        return line(*parts)

    async def on_click(self, event: events.Click) -> None:
        """Run a clicked key's action."""
        action = self.target_at(event.x)
        for key in self._keys:
            if key.action == action and key.enabled:
                await app_of(self).run_action(key.action, key.node)

    def _fitting(self, width: int) -> list[FooterKey]:
        keys = list(self._keys)
        while len(keys) > 2 and 1 + sum(len(key.shown) + len(key.words) + 3 for key in keys) > width + 2:
            del keys[-2]
        return keys
