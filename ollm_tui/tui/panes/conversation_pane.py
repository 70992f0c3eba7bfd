"""The conversation pane: transcript, search line and the last error."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.entry_texts import is_stored
from ollm_tui.tui.protocol.intents import RetryTurn
from ollm_tui.tui.styled_text import copy_text, set_rule
from ollm_tui.tui.values import AnswerEntry, Change, ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from ollm_tui.tui.panes.conversation_search import ConversationSearch

EMPTY = "No messages yet. Type a task below; / for commands, ! for the shell."


@register_keys(KeyGroup.CHAT, 1)
class ConversationPane(Vertical):
    """Shows entries; `error` stays on screen until the next attempt."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("r", "retry", "Retry", "chat.retry", "Send the last message again after a failure"),
        ("slash", "search", "Search", "chat.find", "Search the conversation"),
        ("n", "found(1)", "Next hit", "chat.find_next", "Next hit of the search"),
        ("N", "found(-1)", "Previous hit", "chat.find_previous", "Hit before of the search"),
        show=False,
    )

    error: reactive[str] = reactive("")
    """Why the last turn failed."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id="conversation", classes="pane")
        self.transcript = Transcript(now)
        self._error_row = Static(markup=False, id="chat-error")
        self._welcome = Static(EMPTY, markup=False, id="welcome")
        self._welcome.can_focus = True
        self._below = Static(markup=False, id="below")
        self._search: ConversationSearch | None = None
        set_rule(self, "Chat")

    def compose(self) -> ComposeResult:
        """Yield the welcome, the transcript and the rows below."""
        yield self._welcome
        yield self.transcript
        yield self._below
        yield self._error_row

    def on_mount(self) -> None:
        """Start empty."""
        self._error_row.display = False
        self.transcript.display = False
        self.watch(self.transcript, "following", self._show_follow)
        self.watch(self.transcript, "new_below", self._show_follow)

    def apply(self, change: Change) -> None:
        """Apply a change of the conversation."""
        self.transcript.apply(change)
        self._show_or_hide_welcome()

    @property
    def focus_target(self) -> Widget:
        """The widget to focus when the person comes here."""
        return self.transcript if self.transcript.document.items else self._welcome

    def show_queue(self, queue: ConfirmationQueueSnapshot) -> None:
        """Show numbers and clocks of the calls that wait."""
        self.transcript.show_queue(queue)

    def welcome(self, lines: list[str]) -> None:
        """Set the text of an empty conversation."""
        self._welcome.update("\n".join([EMPTY, "", *(visible(one) for one in lines)]))

    def watch_error(self, error: str) -> None:
        """Show or hide the row of the error."""
        self._error_row.display = bool(error)
        self._error_row.update(f"! [r] retry   {visible(error)}")  # first: a long error is cut at its end

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether a key works now."""
        if action == "retry":
            return bool(self.error)
        if action == "found":
            return self._search is not None and self._search.display and bool(self._search.words)
        return True

    def action_retry(self) -> None:
        """Send the last message again."""
        self.post_message(RetryTurn())

    def copy_answer(self) -> None:
        """Copy the model's last answer."""
        items = self.transcript.document.items
        found = [each.entry for each in reversed(items) if isinstance(each.entry, AnswerEntry) and each.entry.text]
        if not found:
            self.notify("There is no answer yet.", markup=False)
        elif is_stored(found[0]):  # its text is in the log alone, and is read when it comes into sight
            self.transcript.show_found(found[0].id, 1)
            self.notify("The last answer is in sight now; copy it again.", markup=False)
        else:
            copy_text(self, found[0].text)

    async def action_search(self) -> None:
        """Open the search line."""
        if self._search is None:
            # its input needs time and memory that a start without it saves
            from ollm_tui.tui.panes.conversation_search import ConversationSearch

            self._search = ConversationSearch(self.transcript)
            await self.mount(self._search, before=self._error_row)
        self._search.ask()

    def action_found(self, step: int) -> None:
        """Go to another hit."""
        if self._search is not None:
            self._search.find(step)

    def show_found(self, words: str, entry_id: str) -> None:
        """Go to the entry that the log had the words in."""
        if self._search is not None and self._search.words == words:
            self._search.show_found(entry_id)

    def on_key(self, event: events.Key) -> None:
        """Close the search with Esc."""
        if event.key == "escape" and self._search is not None and self._search.display:
            event.stop()
            self.focus_target.focus()
            self._search.end()

    def _show_or_hide_welcome(self) -> None:
        empty = not self.transcript.document.items
        if self._welcome.display is not empty:
            self._welcome.display = empty
            self.transcript.display = not empty
            self._show_follow()

    @on(Transcript.LinkPointed)
    def _show_follow(self) -> None:
        following, new = self.transcript.following, self.transcript.new_below
        words = "follow" if following else f"{new} new below - End" if new else "End follows"
        link = self.transcript.pointed_link if self.transcript.has_focus else None
        title = "Chat" if following or not self.transcript.document.items else f"Chat  {words}"
        set_rule(self, title if link is None else f"{title}  o opens {link.words}")
        # The narrow layout has no line to write on.
        self._below.update(words)
        self._below.set_class(new > 0, "-new")
