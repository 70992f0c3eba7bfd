"""Question whether to trust the folder's own config file."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen

from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.tui.decisions import ARM_SECONDS
from ollm_tui.tui.protocol.intents import TrustConfig
from ollm_tui.tui.screens.yes_no_screen import YesNoScreen
from ollm_tui.tui.styled_text import TextRole, line, lines_of
from ollm_tui.tui.widgets.line_view import LineView
from ollm_tui.tui.widgets.text_box import TextBox

MEANING = (
    "Trusted, it can only tighten: its asks and denies count beside yours, nothing in it can allow.",
    "A yes is for this text alone: once the file changes, it no longer counts.",
)


class TrustScreen(ModalScreen[None]):
    """Question answered by y only after the end was visible."""

    BINDINGS: ClassVar[list[BindingType]] = YesNoScreen.BINDINGS

    def __init__(self, path: str, content: bytes, now: Callable[[], float]) -> None:
        super().__init__()
        self._path, self._content, self._now = path, content, now
        self._shown_at = now()
        self._text = LineView("trust-text")
        self._words = TextBox("trust-words")

    def compose(self) -> ComposeResult:
        """Compose the file and the question."""
        with Vertical(id="trust-box") as box:
            box.border_title = Content(f"Trust {visible(self._path)}?")
            box.border_subtitle = "PgUp/PgDn scroll"
            yield self._text
            yield self._words

    def on_mount(self) -> None:
        """Show the text and focus it."""
        self._shown_at = self._now()
        text = self._content.decode("utf-8", "backslashreplace")
        self._text.show_lines(lines_of(visible_block(text)))
        self._text.focus()
        self._draw_words()

    @on(LineView.EndSeen)
    def _draw_words(self) -> None:
        yes = " trust it" if self._text.seen_end else " trust it, once you have read to its end"
        self._words.show_lines(
            [
                line(),
                line(
                    ("y", TextRole.ACCENT),
                    f"{yes}   ",
                    ("n", TextRole.ACCENT),
                    " or ",
                    ("Esc", TextRole.ACCENT),
                    " not now",
                ),
                line(),
                *(line(words, prose=True) for words in MEANING),
            ]
        )

    def action_answer(self, yes: bool) -> None:
        """Answer; an approval that comes too early is ignored."""
        if not self.is_current:
            return
        if yes:
            if not self._text.seen_end or self._now() - self._shown_at < ARM_SECONDS:
                return
            self.post_message(TrustConfig(self._content))
        self.dismiss()
