"""The conversation pane: transcript, search line, and the row that says why a turn failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.conversation_entries import Change
from ollm_tui.tui.protocol import Intent
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.transcript import Transcript

if TYPE_CHECKING:
    from textual.widgets import Input

EMPTY = "No messages yet. Type a task below; / for commands, ! for the shell."


class ConversationPane(Vertical):
    """Shows entries; `fault` stays in sight until the next attempt."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "r", "retry", "Retry", id="chat.retry", tooltip="Send the last message again after a failure", show=False
        ),
        Binding("slash", "search", "Search", id="chat.find", tooltip="Search the conversation", show=False),
        Binding("n", "found(1)", "Next hit", id="chat.find_next", tooltip="Next hit of the search", show=False),
        Binding(
            "N", "found(-1)", "Previous hit", id="chat.find_previous", tooltip="Hit before of the search", show=False
        ),
    ]

    fault: reactive[str] = reactive("")
    """Why the last turn failed; safe text of one line."""

    @dataclass
    class Retry(Intent):
        """Send the last message again."""

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        super().__init__(id="conversation", classes="pane")
        self.transcript = Transcript(now)
        self._fault_row = Static(markup=False, id="fault")
        self._welcome = Static(EMPTY, markup=False, id="welcome")
        self._welcome.can_focus = True
        self._below = Static(markup=False, id="below")
        self._search: Input | None = None
        self._sought = ""
        self.border_title = "Chat"

    def compose(self) -> ComposeResult:
        yield self._welcome
        yield self.transcript
        yield self._below
        yield self._fault_row

    def on_mount(self) -> None:
        self._fault_row.display = False
        self.transcript.display = False
        self.watch(self.transcript, "following", self._show_follow)
        self.watch(self.transcript, "new_below", self._show_follow)

    def apply(self, change: Change) -> None:
        """Take what happened in the conversation."""
        self.transcript.apply(change)
        self._show_emptiness()

    @property
    def focus_target(self) -> Widget:
        """What to focus when somebody comes here."""
        return self.transcript if not self.transcript.empty else self._welcome

    def show_queue(self, queue: ConfirmationQueueSnapshot) -> None:
        self.transcript.show_queue(queue)

    def welcome(self, lines: list[str]) -> None:
        """What stands in an empty conversation, in our words."""
        self._welcome.update("\n".join([EMPTY, "", *(visible(one) for one in lines)]))

    def watch_fault(self, fault: str) -> None:
        self._fault_row.display = bool(fault)
        self._fault_row.update(f"! [r] retry   {visible(fault)}")  # first: a long fault is cut at its end

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        if action == "retry":
            return bool(self.fault)
        if action == "found":
            return bool(self._sought)
        return True

    def action_retry(self) -> None:
        self.post_message(self.Retry())

    def action_search(self) -> None:
        if self._search is None:
            from textual.widgets import Input  # needs time and memory that a start without it saves

            self._search = Input(self._sought, placeholder="Search; Enter finds, Esc leaves", id="search", compact=True)
            self.mount(self._search, before=self._fault_row)
        self._search.focus()

    def action_found(self, step: int) -> None:
        if self._sought and not self.transcript.find(self._sought, step):
            self.notify(f"Nothing has {visible(self._sought)!r} in it.", markup=False)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._sought = event.value
        self.action_found(-1)

    def on_key(self, event: events.Key) -> None:
        if event.key == "escape" and self._search is not None:
            event.stop()
            self.focus_target.focus()
            self._search.remove()
            self._search = None

    def _show_emptiness(self) -> None:
        empty = self.transcript.empty
        if self._welcome.display is not empty:
            self._welcome.display = empty
            self.transcript.display = not empty
            self._show_follow()

    def _show_follow(self) -> None:
        following, new = self.transcript.following, self.transcript.new_below
        words = "follow" if following else f"{new} new below - End" if new else "End follows"
        self.border_subtitle = words if not self.transcript.empty else ""
        # In the narrow layout there is no border to write on.
        self._below.update(words)
        self._below.set_class(new > 0, "-new")
