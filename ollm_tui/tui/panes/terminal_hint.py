"""What stands in the terminal pane before the person's shell does."""

from __future__ import annotations

from dataclasses import dataclass, field

from textual import events
from textual.message import Message
from textual.widgets import Static

from ollm_tui.core.base.escape import visible

EDITING = {"enter": "\r", "backspace": "\x7f"}


class ShellHint(Static, can_focus=True):
    """Says how the shell comes to be, and hands on what is typed while it starts: nothing typed is lost."""

    @dataclass
    class Typed(Message):
        """Meant for the shell. Never printed: a password may be among it."""

        text: str = field(repr=False)

    def __init__(self) -> None:
        super().__init__("Shell starts on first focus", markup=False, id="term-hint")
        self._failed = False

    def starting(self) -> None:
        """The shell was asked for."""
        self._failed = False
        self.update("Shell is starting")

    def failed(self, why: str) -> None:
        """There will be none."""
        self._failed = True
        self.update(f"{visible(why)}\nEnter tries again.")

    def on_key(self, event: events.Key) -> None:
        text = EDITING.get(event.key) or (event.character if event.is_printable else None)
        if text and not self._failed:
            event.stop()
            self.post_message(self.Typed(text))
