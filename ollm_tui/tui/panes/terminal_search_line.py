"""The search line of the terminal pane: what is sought, and which match of how many is shown."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Horizontal
from textual.widgets import Input, Static

from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys

if TYPE_CHECKING:
    from ollm_tui.tui.terminal.reading_view import ReadingView

MAX_QUERY = 200


@register_keys(KeyGroup.READING, 1)
class TerminalSearch(Horizontal):
    """Lies over the tabs, or over a line of the terminal: a program must not get another size because we seek."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("enter", "to_text", "Read on", "search.done", "Search: to the hit, n and N go on"),
        ("up", "found(-1)", "Hit before", "search.previous", "Search: hit before"),
        ("down", "found(1)", "Next hit", "search.next", "Search: next hit"),
        ("escape", "close", "End search", "search.close", "Search: end it"),
        show=False,
    )

    def __init__(self, view: ReadingView, sought: str) -> None:
        super().__init__(id="term-search")
        self.view = view
        self._input = Input(sought, placeholder="Search", max_length=MAX_QUERY, compact=True, id="term-sought")
        self._input.cursor_blink = False  # nothing moves on a screen on which nothing happens
        self._hits = Static(markup=False, id="term-hits")

    def compose(self) -> ComposeResult:
        yield Static("/ ", markup=False, id="term-search-mark")
        yield self._input
        yield self._hits

    def on_mount(self) -> None:
        self._input.focus()
        if self._input.value:
            self.view.find(self._input.value)

    @property
    def sought(self) -> str:
        return self._input.value

    def ask(self) -> None:
        """Let the person change what is sought."""
        self._input.focus()

    def place(self, *, over_tabs: bool) -> None:
        """Bring place and count up to date; the line never covers the match that was just found."""
        self.set_class(over_tabs or self.view.points_at_bottom, "-top")
        self.show_hits()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def show_hits(self) -> None:
        """Which match of how many, and the keys that go on from here."""
        keys = "Up/Down  Esc" if self._input.has_focus else "n/N  Esc"
        self._hits.update(f" {self.view.search.hits}  {keys} " if self.view.search.hits else " Esc ")

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        self.view.find(event.value)

    def action_to_text(self) -> None:
        self.view.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.action_to_text()

    def action_found(self, step: int) -> None:
        self.view.action_found(step)

    def action_close(self) -> None:
        self.view.search.stop()
        self.view.focus()
