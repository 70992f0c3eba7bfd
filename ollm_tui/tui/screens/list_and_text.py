"""Base of screens that are a list with the marked entry's text beside it, or below it in a narrow window."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.tui.screens.memory_browser import KeyHint, MemoryRows, key_lines
from ollm_tui.tui.styled_text import TextRole
from ollm_tui.tui.widgets.line_view import LongText
from ollm_tui.tui.widgets.overlay_screen import OverlayScreen
from ollm_tui.tui.widgets.text_box import TextBox

LOOKING = "Looking ..."
WIDE_COLUMNS = 100


class ListAndTextScreen(OverlayScreen[None]):
    """List, text and keys in a box; what is above the list is its subclass's."""

    TITLE_TEXT: ClassVar[str]
    KEYS: ClassVar[tuple[KeyHint, ...]]

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._rows = MemoryRows("list-rows")
        self._shown = LongText("list-text")
        self._side = Vertical(self._shown, id="list-side")
        self._hints = TextBox("list-keys")
        self._box = Vertical(id="list-box")
        self._box.border_title = self.TITLE_TEXT

    def above(self) -> Iterator[Widget]:
        """Yield what stands above the list."""
        yield from ()

    def compose(self) -> ComposeResult:
        """Compose list, text and keys."""
        with self._box:
            yield from self.above()
            with Horizontal(id="list-body"):
                yield self._rows
                yield self._side
            yield self._hints

    def on_mount(self) -> None:
        """Focus the list, in which there is nothing yet."""
        self._rows.focus()
        self._shown.show_text(LOOKING, role=TextRole.MUTED)

    def on_resize(self, event: events.Resize) -> None:
        """Adapt to the width."""
        self.set_class(event.size.width < WIDE_COLUMNS, "-narrow")
        self.call_after_refresh(lambda: self._hints.show_lines(*key_lines(self.KEYS, max(20, self._hints.size.width))))

    def entitle(self, title: str) -> None:
        """Set the title of the box."""
        self._box.border_title = Content(visible(title))

    def show(self, title: str, text: str) -> None:
        """Show a text beside the list."""
        self._side.border_title = Content(visible(title))
        self._shown.show_text(visible_block(text).rstrip())

    def action_read(self) -> None:
        """Go to the text, or back to the list."""
        (self._rows if self._shown.has_focus else self._shown).focus()

    def action_close(self) -> None:
        """Close the screen."""
        if self.is_current:
            self.dismiss()
