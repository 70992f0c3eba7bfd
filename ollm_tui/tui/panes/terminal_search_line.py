"""The search line of the terminal pane, with the count of matches."""

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
    """Search line that covers the tabs or one terminal line.

    It takes no room of its own: a search must not resize the program's terminal.
    """

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
        self._input.cursor_blink = False  # an idle screen stays still
        self._hits = Static(markup=False, id="term-hits")

    def compose(self) -> ComposeResult:
        """Yield the mark, the input and the count."""
        yield Static("/ ", markup=False, id="term-search-mark")
        yield self._input
        yield self._hits

    def on_mount(self) -> None:
        """Focus the input and search for the last text."""
        self._input.focus()
        if self._input.value:
            self.view.find(self._input.value)

    @property
    def sought(self) -> str:
        """The text to search for."""
        return self._input.value

    def ask(self) -> None:
        """Focus the input."""
        self._input.focus()

    def place(self, *, over_tabs: bool) -> None:
        """Update position and count; never cover the current match."""
        self.set_class(over_tabs or (self.view.reader is not None and self.view.reader.at_bottom), "-top")
        self.show_hits()

    @on(events.DescendantFocus)
    @on(events.DescendantBlur)
    def show_hits(self) -> None:
        """Show the number of the match, the count and the keys."""
        keys = "Up/Down  Esc" if self._input.has_focus else "n/N  Esc"
        self._hits.update(f" {self.view.search.hits}  {keys} " if self.view.search.hits else " Esc ")

    def on_input_changed(self, event: Input.Changed) -> None:
        """Search while the person types."""
        event.stop()
        self.view.find(event.value)

    def action_to_text(self) -> None:
        """Focus the terminal's text."""
        self.view.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        """Focus the terminal's text on Enter."""
        event.stop()
        self.action_to_text()

    def action_found(self, step: int) -> None:
        """Go to another match."""
        self.view.action_found(step)

    def action_close(self) -> None:
        """End the search."""
        self.view.search.stop()
        self.view.focus()
