"""Base of screens that are a list with the marked entry's text.

The text stands beside the list, or below it in a narrow window.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Input

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.tui.layout import WIDE_COLUMNS
from ollm_tui.tui.styled_text import StyledLine, StyledSpan, TextRole, line, set_rule
from ollm_tui.tui.widgets.line_view import LongText
from ollm_tui.tui.widgets.overlay_screen import OverlayScreen
from ollm_tui.tui.widgets.row_list import RowList
from ollm_tui.tui.widgets.text_box import ClickTarget, TextBox

LOOKING = "Looking ..."


@dataclass(frozen=True)
class KeyHint:
    """A key, what it does, and the action of a click."""

    key: str
    words: str
    action: str


class MarkedRows(RowList):
    """List whose mark stays visible while the text is read."""

    def row_role(self, row: int) -> TextRole:
        """Return the role of a row; the marked ones stand out."""
        first, last = self.span
        return TextRole.CHOSEN if first <= row < last else TextRole.PLAIN


class ListAndTextScreen(OverlayScreen[None]):
    """List, text, message and keys in a box, below a subclass's lines."""

    TITLE_TEXT: ClassVar[str]
    KEYS: ClassVar[tuple[KeyHint, ...]]
    FIRST_TEXT: ClassVar[str] = LOOKING
    """Stands beside the list until there is something in it."""

    def __init__(self, name: str) -> None:
        super().__init__(name=name)
        self._rows = MarkedRows("list-rows")
        self._shown = LongText("list-text")
        self._side = Vertical(self._shown, id="list-side")
        self._said = TextBox("list-said")
        self._said.display = False
        self._hints = TextBox("list-keys")
        self._box = Vertical(id="list-box")
        self._box.border_title = self.TITLE_TEXT

    def above(self) -> Iterator[Widget]:
        """Yield what stands above the list."""
        yield from ()

    def compose(self) -> ComposeResult:
        """Compose list, text, message and keys."""
        with self._box:
            yield from self.above()
            with Horizontal(id="list-body"):
                yield self._rows
                yield self._side
            yield self._said
            yield self._hints

    def on_mount(self) -> None:
        """Focus the list, in which there is nothing yet."""
        self._rows.focus()
        self._shown.show_text(self.FIRST_TEXT, role=TextRole.MUTED)

    def on_resize(self, event: events.Resize) -> None:
        """Adapt to the width."""
        self.set_class(event.size.width < WIDE_COLUMNS, "-narrow")
        self.call_after_refresh(self.draw_keys)

    @property
    def hints(self) -> tuple[KeyHint, ...]:
        """The keys to show now."""
        return self.KEYS

    def draw_keys(self) -> None:
        """Draw the keys in as many lines as they take."""
        self._hints.show_lines(*key_lines(self.hints, max(20, self._hints.size.width)))

    def entitle(self, title: str) -> None:
        """Set the title of the box."""
        self._box.border_title = Content(visible(title))

    def show(self, title: str, text: str) -> None:
        """Show a text beside the list."""
        set_rule(self._side, visible(title))
        self._shown.show_text(visible_block(text).rstrip())

    def say(self, words: str, role: TextRole = TextRole.WARNING) -> None:
        """Show a message above the keys; an empty one takes no room."""
        self._said.show_lines([line((words, role), prose=True)] if words else [])
        self._said.display = bool(words)

    def action_read(self) -> None:
        """Go to the text, or back to the list."""
        (self._rows if self._shown.has_focus else self._shown).focus()

    def action_close(self) -> None:
        """Close the screen."""
        if self.is_current:
            self.dismiss()


class SearchedListScreen(ListAndTextScreen):
    """List and text below a line that searches them."""

    SEARCH: ClassVar[str]
    """What the empty line says."""

    def __init__(self, name: str, containing: str) -> None:
        super().__init__(name)
        self._search = Input(containing, placeholder=self.SEARCH, id="list-search", compact=True)
        self._search.cursor_blink = False

    def above(self) -> Iterator[Widget]:
        """Yield the line."""
        yield self._search

    @on(Input.Submitted, "#list-search")
    def _search_done(self) -> None:
        self._rows.focus()

    def action_search(self) -> None:
        """Focus the search."""
        self._search.focus()

    def leave_search(self) -> bool:
        """Leave the search; return whether there was one."""
        searching = bool(self._search.value) or self._search.has_focus
        if searching:
            self._search.value = ""
            self._rows.focus()
        return searching


def key_lines(hints: Sequence[KeyHint], width: int) -> tuple[list[StyledLine], list[ClickTarget]]:
    """Return the hints in wrapped lines, and their click targets."""
    rows: list[list[StyledSpan]] = [[]]
    spots: list[ClickTarget] = []
    at = 0
    for hint in hints:
        length, gap = len(hint.key) + 1 + len(hint.words), 3 if rows[-1] else 0
        if at + gap + length > width and rows[-1]:
            rows.append([])
            at = gap = 0
        at += gap
        key = StyledSpan(hint.key, TextRole.ACCENT)
        rows[-1] += [StyledSpan(" " * gap), key, StyledSpan(f" {hint.words}")]
        spots.append(ClickTarget(len(rows) - 1, at, at + length, hint.action))
        at += length
    return [StyledLine(tuple(row)) for row in rows], spots
