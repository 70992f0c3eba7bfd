"""One row of tabs, for the narrow layout and for the commands of the terminal pane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from textual import events
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ollm_tui.tui.styled_text import RolePalette, StyledLine, TextRole, line


@dataclass(frozen=True)
class Tab:
    """A tab with a safe label."""

    id: str
    label: str
    role: TextRole = TextRole.PLAIN


class TabStrip(Widget):
    """Shows tabs around the chosen one; a click chooses."""

    @dataclass
    class Chosen(Message):
        """A tab was clicked."""

        strip: TabStrip
        tab_id: str

        @property
        def control(self) -> TabStrip:
            """The strip, for selectors of `@on`."""
            return self.strip

    def __init__(self, name: str) -> None:
        super().__init__(id=name)
        self._tabs: tuple[Tab, ...] = ()
        self._chosen = ""
        self._spans: list[tuple[int, int, str]] = []

    def show_tabs(self, tabs: Sequence[Tab], chosen: str) -> None:
        """Replace the tabs."""
        if (tuple(tabs), chosen) != (self._tabs, self._chosen):
            self._tabs, self._chosen = tuple(tabs), chosen
            self.refresh()

    @property
    def text(self) -> str:
        """The row without styles."""
        return self._line(self.size.width).text

    def render_line(self, y: int) -> Strip:
        """Draw the tabs."""
        width = self.size.width
        if y > 0:
            return Strip.blank(width, self.rich_style)
        return RolePalette.of(self).strip(self._line(width), width, self.rich_style)

    def on_click(self, event: events.Click) -> None:
        """Choose the clicked tab."""
        for begin, end, tab_id in self._spans:
            if begin <= event.x < end:
                self.post_message(self.Chosen(self, tab_id))

    def _line(self, width: int) -> StyledLine:
        labels = [_label(tab, chosen=tab.id == self._chosen) for tab in self._tabs]
        chosen = next((index for index, tab in enumerate(self._tabs) if tab.id == self._chosen), 0)
        first = 0
        # The chosen tab and its successor stay in sight.
        while first < chosen and sum(label.cells for label in labels[first : chosen + 2]) + 4 > width:
            first += 1
        parts: list[str | tuple[str, TextRole]] = [("< ", TextRole.MUTED) if first else " "]
        self._spans = []
        cell = 2 if first else 1
        for index in range(first, len(labels)):
            self._spans.append((cell, cell + labels[index].cells, self._tabs[index].id))
            parts += [(span.text, span.role) for span in labels[index].spans]
            cell += labels[index].cells
        return line(*parts).cut(width)


def _label(tab: Tab, *, chosen: bool) -> StyledLine:
    if chosen:
        return line((f"[{tab.label}]", TextRole.CHOSEN if tab.role is TextRole.PLAIN else tab.role), " ")
    return line((f" {tab.label} ", TextRole.MUTED if tab.role is TextRole.PLAIN else tab.role), " ")
