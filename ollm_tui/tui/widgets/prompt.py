"""The prompt: a draft sent with Enter, with history; its cursor stops blinking at rest."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from functools import partial
from time import monotonic
from typing import ClassVar

from textual import events, on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.timer import Timer
from textual.widgets import TextArea

from ollm_tui.tui.bindings import KeyGroup, register_keys
from ollm_tui.tui.protocol.intents import SendMessage
from ollm_tui.tui.terminal_references import References, TerminalExcerpt
from ollm_tui.tui.widgets.prompt_completion import Completion, DraftCompleter, last_word
from ollm_tui.tui.widgets.prompt_menu import PromptMenu

BLINK_SECONDS = 30.0
"""How long the cursor blinks after the last key; at rest the screen costs nothing."""

HINT = "Enter send  ^J newline  /cmd  !shell"
HISTORY = 200
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@register_keys(KeyGroup.PROMPT)
class Prompt(TextArea):
    """Enter sends, ctrl+j breaks the line, up and down at the edges recall history."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "send", "Send", id="prompt.send", tooltip="Send the message", show=False, priority=True),
        Binding(
            "ctrl+j,shift+enter",
            "break_line",
            "Newline",
            id="prompt.newline",
            tooltip="Begin a new line in the message",
            show=False,
            priority=True,
        ),
        Binding("pageup", "scroll_chat(-1)", "Chat up", id="prompt.page_up", tooltip="Scroll the chat up", show=False),
        Binding(
            "pagedown", "scroll_chat(1)", "Chat down", id="prompt.page_down", tooltip="Scroll the chat down", show=False
        ),
        Binding("ctrl+end", "scroll_chat(0)", "Follow", id="prompt.follow", tooltip="Go to the end", show=False),
        Binding(
            "tab,shift+tab",
            "complete",
            "Complete",
            id="prompt.complete",
            tooltip="Complete a command, or a file name that begins with @",
            show=False,
        ),
        Binding("escape", "close_menu", "Close", id="prompt.close_menu", tooltip="Close the menu of the prompt"),
    ]

    @dataclass
    class ScrollAsked(Message):
        """The chat should scroll by `pages`; 0 means to its end."""

        pages: int

    class Edited(Message):
        """The draft changed by a key or a paste."""

    def __init__(self, *, blink: bool = True) -> None:
        super().__init__(
            id="prompt",
            compact=True,
            soft_wrap=True,
            highlight_cursor_line=False,
            placeholder=Content("Ask for something"),
        )
        self._may_blink = blink
        self.cursor_blink = blink
        self._blink_timer: Timer | None = None
        self._last_key = 0.0
        self._sent: list[str] = []
        self._recalled: int | None = None
        self._draft = ""
        self._references = References()
        self.completer = DraftCompleter()
        self.menu = PromptMenu()
        self._completion = Completion()
        self._asked = 0
        """Counts what was asked of the completer: only the last answer is shown."""
        self._asked_about = ""
        self._closed_at: int | None = None
        """Where the word begins whose menu was closed."""
        self.border_title = "Prompt"
        self.border_subtitle = HINT

    def on_mount(self) -> None:
        """Let the cursor blink for a while."""
        self._stop_blinking_later()

    # Priority bindings run at once in the app, while keys typed before may still be queued here: go behind those.

    def action_send(self) -> None:
        """Send the draft."""
        self.call_later(self._send)

    def action_break_line(self) -> None:
        """Insert a line end."""
        self.call_later(self.insert, "\n")

    def _send(self) -> None:
        marked = self.menu.marked
        if marked is not None and marked.text != self._completion.word:
            self.accept()
            return
        text = self.text.strip()
        if not text:
            return
        self.text = ""
        if not self._sent or self._sent[-1] != text:
            self._sent = [*self._sent, text][-HISTORY:]
        self._recalled = None
        self.post_message(SendMessage(text, self._references.used_in(text)))

    def put_back(self, text: str) -> None:
        """Put a message that was not sent before the draft."""
        self.text = f"{text}\n{self.text}" if self.text.strip() else text
        self.move_cursor(self.document.end)

    def refer_to(self, excerpt: TerminalExcerpt) -> None:
        """Insert a token that stands for text of a terminal."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        gap = " " if before and not before[-1].isspace() else ""
        self.insert(f"{gap}{self._references.add(excerpt).token} ")

    def action_delete_left(self) -> None:
        """Delete a character, or a whole token."""
        row, column = self.cursor_location
        token = self._references.token_before(self.document.get_line(row)[:column])
        if token and not self.selected_text:
            self.delete((row, column - len(token)), (row, column))
        else:
            super().action_delete_left()

    # -- the menu ----------------------------------------------------------------------------------------------------

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now."""
        return self.menu.display if action == "close_menu" else super().check_action(action, parameters)

    def action_close_menu(self) -> None:
        """Close the menu until another word begins."""
        begin = len(self._before()) - len(self._completion.word)
        self._show_menu(Completion())
        self._closed_at = begin

    def action_complete(self) -> None:
        """Take the marked choice; without a menu open one."""
        self._closed_at = None
        if not self.accept():
            self._ask_completer(by_key=True)

    def accept(self) -> bool:
        """Put the marked choice in the place of the word before the cursor. False without a menu."""
        choice = self.menu.marked
        if choice is None:
            return False
        (row, column), word = self.cursor_location, self._completion.word
        self._show_menu(Completion())
        self.replace(choice.insertion, (row, column - len(word)), (row, column))
        return True

    def _before(self) -> str:
        return self.get_text_range((0, 0), self.cursor_location)

    def _ask_completer(self, *, by_key: bool = False) -> None:
        before = self._before()
        if not by_key and before == self._asked_about:
            return
        self._asked, self._asked_about = self._asked + 1, before
        found = self.completer.at_once(before) if by_key or before.startswith("/") else None
        if found is not None:
            self._show_menu(found, by_key=by_key)
        elif by_key or last_word(before).startswith("@"):
            self.run_worker(partial(self._complete, before, by_key), exclusive=True)
        else:
            self._closed_at = None
            self._show_menu(Completion())

    async def _complete(self, before: str, by_key: bool) -> None:
        asked = self._asked
        found = await asyncio.to_thread(self.completer.complete, before, lambda: asked != self._asked)
        if asked == self._asked and before == self._before():
            self._show_menu(found, by_key=by_key)

    def _show_menu(self, found: Completion, *, by_key: bool = False) -> None:
        """Show what there is to choose; a key takes the only choice at once, or what all choices share."""
        closed = self._closed_at == len(self._before()) - len(found.word)
        if not closed:
            self._closed_at = None
        choices = () if closed or [choice.text for choice in found.choices] == [found.word] else found.choices
        self._completion = found
        self.menu.show_choices(choices)
        if by_key and len(choices) == 1:
            self.accept()
        elif by_key and len(found.common) > len(found.word):
            self.insert(found.common[len(found.word) :])
        self.refresh_bindings()

    @on(TextArea.SelectionChanged)
    def _cursor_moved(self) -> None:
        self._ask_completer()

    def action_scroll_chat(self, pages: int) -> None:
        """Scroll the chat."""
        self.post_message(self.ScrollAsked(pages))

    def action_cursor_up(self, select: bool = False) -> None:
        """Move up, at the first line into the history."""
        if self.menu.display:
            self.menu.action_move(-1)
        elif select or self.cursor_location[0] > 0 or not self._recall(-1):
            super().action_cursor_up(select)

    def action_cursor_down(self, select: bool = False) -> None:
        """Move down, at the last line through the history."""
        if self.menu.display:
            self.menu.action_move(1)
        elif select or self.cursor_location[0] < self.document.line_count - 1 or not self._recall(1):
            super().action_cursor_down(select)

    async def _on_paste(self, event: events.Paste) -> None:
        # Escape sequences would be drawn raw and sent to the model. Textual runs the base's handler next.
        event.text = _CONTROLS.sub("", event.text.replace("\r\n", "\n").replace("\r", "\n"))

    def on_text_area_changed(self) -> None:
        """Tell that the draft changed."""
        self._ask_completer()
        self.post_message(self.Edited())

    async def _on_key(self, event: events.Key) -> None:
        self._blink_cursor()  # and Textual runs the base's handler next

    def _recall(self, step: int) -> bool:
        """Recall the previous (-1) or next message; False where there is none."""
        if self._recalled is None:
            if step > 0 or not self._sent:
                return False
            self._draft, index = self.text, len(self._sent) - 1
        else:
            index = self._recalled + step
        if index < 0:
            return True
        if index >= len(self._sent):
            self._recalled, self.text = None, self._draft
        else:
            self._recalled, self.text = index, self._sent[index]
        self.move_cursor(self.document.end)
        return True

    def _blink_cursor(self) -> None:
        self._last_key = monotonic()
        if self._may_blink and not self.cursor_blink:
            self.cursor_blink = True
        if self._blink_timer is None:
            self._stop_blinking_later()

    def _stop_blinking_later(self, seconds: float = BLINK_SECONDS) -> None:
        if self._may_blink:
            self._blink_timer = self.set_timer(seconds, self._stop_blinking)

    def _stop_blinking(self) -> None:
        self._blink_timer = None
        left = self._last_key + BLINK_SECONDS - monotonic()
        if left > 0:
            self._stop_blinking_later(left)
        else:
            self.cursor_blink = False
