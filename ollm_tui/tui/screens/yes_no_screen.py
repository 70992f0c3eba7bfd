"""Short yes/no question about the app itself."""

from __future__ import annotations

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.styled_text import TextRole, line
from ollm_tui.tui.widgets.text_box import TextBox


@register_keys(KeyGroup.DIALOGS, 1)
class YesNoScreen(ModalScreen[bool]):
    """Dismissed with True for yes. Enter does nothing."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("y", "answer(True)", "Yes", "ask.yes", "Yes"),
        ("escape,n", "answer(False)", "No", "ask.no", "No"),
    )

    def __init__(self, title: str, facts: tuple[str, ...], yes: str) -> None:
        super().__init__()
        self._title, self._facts, self._yes = title, facts, yes
        self._words = TextBox("ask-words")

    def compose(self) -> ComposeResult:
        """Compose the question."""
        with Vertical(id="ask-box") as box:
            box.border_title = Content(self._title)
            yield self._words

    def on_mount(self) -> None:
        """Show the facts and keys."""
        keys = line(("y", TextRole.ACCENT), f" {self._yes}   ", ("Esc", TextRole.ACCENT), " no")
        self._words.show_lines(
            [*(line(f"- {visible(fact)}", hang=2, prose=True) for fact in self._facts), line(), keys]
        )

    def action_answer(self, yes: bool) -> None:
        """Close with the answer."""
        if self.is_current:
            self.dismiss(yes)
