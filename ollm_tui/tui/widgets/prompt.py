"""The prompt: a draft sent with Enter, with history; an idle screen stays still."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.timer import Timer

from ollm_tui.tui.bindings import KeyGroup, register_keys
from ollm_tui.tui.protocol.intents import SendMessage
from ollm_tui.tui.styled_text import set_rule
from ollm_tui.tui.terminal_references import FoldedPastes, References, TerminalExcerpt
from ollm_tui.tui.widgets.prompt_menu import HINT, CompletingTextArea

if TYPE_CHECKING:
    from ollm_tui.tui.prompt_history import PromptHistory

HISTORY = 1_000
DRAFT_SECONDS = 1.0
"""After a change of the draft it is kept on disk."""
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@register_keys(KeyGroup.PROMPT)
class Prompt(CompletingTextArea):
    """Enter sends, ctrl+j breaks the line, up and down at the edges recall history."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *CompletingTextArea.BINDINGS,
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
        Binding(
            "ctrl+g",
            "edit_outside",
            "Editor",
            id="prompt.editor",
            tooltip="Write the draft in $VISUAL or $EDITOR, else in vi",
            show=False,
        ),
        Binding("pageup", "scroll_chat(-1)", "Chat up", id="prompt.page_up", tooltip="Scroll the chat up", show=False),
        Binding(
            "pagedown", "scroll_chat(1)", "Chat down", id="prompt.page_down", tooltip="Scroll the chat down", show=False
        ),
        Binding("ctrl+end", "scroll_chat(0)", "Follow", id="prompt.follow", tooltip="Go to the end", show=False),
    ]

    @dataclass
    class ScrollAsked(Message):
        """The chat should scroll by `pages`; 0 means to its end."""

        pages: int

    @dataclass
    class EditorAsked(Message):
        """The draft should be written in the person's editor."""

        draft: str

    class Edited(Message):
        """The draft changed by a key or a paste."""

    def __init__(self) -> None:
        super().__init__(
            id="prompt",
            compact=True,
            soft_wrap=True,
            highlight_cursor_line=False,
            placeholder=Content("Ask for something"),
        )
        self.cursor_blink = False  # below a dialog each blink would paint the whole screen
        self._recalled: int | None = None
        self._draft = ""
        self._references = References()
        self._pastes = FoldedPastes()
        self._stored: PromptHistory | None = None
        """Where what is sent is remembered; None for nowhere."""
        self._keeping: Timer | None = None
        self._writing = asyncio.Lock()
        set_rule(self, "Prompt", HINT)

    # Priority bindings run at once in the app, while keys typed before may still be queued here: go behind those.

    def action_send(self) -> None:
        """Send the draft."""
        self.call_later(self._send)

    def action_break_line(self) -> None:
        """Insert a line end."""
        self.call_later(self.insert, "\n")

    def _send(self) -> None:
        self.ask_completer()  # keys that come at once leave the menu behind
        if self.menu_answers and self.accept():
            return
        text = self._pastes.unfold(self.text).strip()
        if not text:
            return
        if text[0] in "!/" and text[0] != self.text.lstrip()[0]:
            text = f" {text}"  # a folded paste is neither a shell line nor a command: nobody saw its beginning
        self.text = ""
        if not self.sent or self.sent[-1] != text:
            self.sent = [*self.sent, text][-HISTORY:]
        self._recalled = None
        if self._stored is not None:
            self._store(self._stored.add, text)
        self.post_message(SendMessage(text, self._references.used_in(text)))

    def action_edit_outside(self) -> None:
        """Ask for the person's editor; what was pasted is there as it is."""
        self.post_message(self.EditorAsked(self._pastes.unfold(self.text)))

    def take_edited(self, draft: str, edited: str) -> None:
        """Put what became of a draft into its place; what came meanwhile stays."""
        text = _CONTROLS.sub("", edited.replace("\r\n", "\n").replace("\r", "\n"))
        if self._pastes.unfold(self.text) != draft:
            self.put_back(text)
        elif text != draft:
            self.replace(text, (0, 0), self.document.end)  # which can be undone
            self.move_cursor(self.document.end)

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

    def action_complete(self) -> None:
        """Open the folded paste before the cursor; else complete."""
        row, column = self.cursor_location
        token = self._pastes.token_before(self.document.get_line(row)[:column].rstrip(" "))
        if token:
            begin = self.document.get_line(row).rfind(token, 0, column)
            self.replace(self._pastes.unfold(token), (row, begin), (row, begin + len(token)))
        else:
            super().action_complete()

    def action_delete_left(self) -> None:
        """Delete a character, or a whole token."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        token = self._references.token_before(before) or self._pastes.token_before(before)
        if token and not self.selected_text:
            self.delete((row, column - len(token)), (row, column))
        else:
            super().action_delete_left()

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
        text = _CONTROLS.sub("", event.text.replace("\r\n", "\n").replace("\r", "\n"))
        event.text = self._pastes.fold(text)

    def on_text_area_changed(self) -> None:
        """Tell that the draft changed."""
        self.ask_completer()
        if self._stored is not None and self._keeping is None:
            self._keeping = self.set_timer(DRAFT_SECONDS, self._keep_draft)
        self.post_message(self.Edited())

    def _keep_draft(self) -> None:
        self._keeping = None
        if self._stored is not None:
            self._store(self._stored.keep_draft, self._pastes.unfold(self.text))

    def _store(self, write: Callable[[str], None], text: str) -> None:
        async def in_order() -> None:
            async with self._writing:
                await asyncio.to_thread(write, text)

        self.run_worker(in_order, group="stored prompts")

    async def remember(self, workspace: Path) -> None:
        """Take up what was sent in this workspace before, and the draft left there where nothing is typed yet."""
        from ollm_tui.tui.prompt_history import PromptHistory  # not for the first frame

        history = PromptHistory(workspace)
        stored = await asyncio.to_thread(history.load)
        self.sent = [*stored.sent, *self.sent][-HISTORY:]
        self._stored = history
        if stored.draft:
            self.put_back(stored.draft)

    def _recall(self, step: int) -> bool:
        """Recall the previous (-1) or next message; False where there is none."""
        if self._recalled is None:
            if step > 0 or not self.sent:
                return False
            self._draft, index = self.text, len(self.sent) - 1
        else:
            index = self._recalled + step
        if index < 0:
            return True
        if index >= len(self.sent):
            self._recalled, self.text = None, self._draft
        else:
            self._recalled, self.text = index, self.sent[index]
        self.move_cursor(self.document.end)
        return True
