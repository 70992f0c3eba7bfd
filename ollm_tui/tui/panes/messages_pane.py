"""Pane of the messages that wait for the model, above the prompt."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Static

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.protocol.intents import DropQueued, EditQueued, MoveQueued, ReleaseQueued
from ollm_tui.tui.styled_text import TextRole, line
from ollm_tui.tui.widgets.row_list import ListRow, RowList

if TYPE_CHECKING:
    from ollm_tui.agent.message_queue import QueuedMessage

GOING = "for the next request.  F2: e edit  J K move  d drop"
HELD = "kept when you stopped.  F2: Enter sends  e edit  J K move  d drop"


@register_keys(KeyGroup.LISTS, 3)
class MessagesPane(Vertical):
    """Rows of waiting messages; hidden where there are none."""

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("e", "edit", "Edit", "messages.edit", "Take the waiting message back into the prompt"),
        ("d", "drop", "Drop", "messages.drop", "Drop the waiting message; Up in the prompt has it still"),
        ("K,shift+up", "shift(-1)", "Earlier", "messages.earlier", "Send the waiting message earlier"),
        ("J,shift+down", "shift(1)", "Later", "messages.later", "Send the waiting message later"),
        show=False,
    )

    def __init__(self) -> None:
        super().__init__(id="messages")
        self._head = Static(markup=False, id="messages-head")
        self.rows = RowList("messages-rows")
        self._held = False

    def compose(self) -> ComposeResult:
        """Yield the heading and the rows."""
        yield self._head
        yield self.rows

    def on_mount(self) -> None:
        """Begin hidden."""
        self.display = False

    def show_messages(self, messages: tuple[QueuedMessage, ...], *, held: bool) -> None:
        """Show the messages as they are now."""
        self.display = bool(messages)
        self._held = held
        count = f"{len(messages)} message{'s' if len(messages) > 1 else ''}"
        self._head.update(f"{count} {HELD if held else GOING}")
        self.rows.show_rows(
            [ListRow(str(message.id), (line(("> ", TextRole.ACCENT), visible(message.typed)),)) for message in messages]
        )

    def action_edit(self) -> None:
        """Take the marked message back into the prompt."""
        self._post(EditQueued)

    def action_drop(self) -> None:
        """Drop the marked message."""
        self._post(DropQueued)

    def action_shift(self, step: int) -> None:
        """Move the marked message."""
        if self.rows.chosen_id is not None:
            self.post_message(MoveQueued(int(self.rows.chosen_id), step))

    @on(RowList.Opened)
    def _opened(self, event: RowList.Opened) -> None:
        event.stop()
        if self._held:
            self.post_message(ReleaseQueued())
        else:
            self.action_edit()

    def _post(self, intent: type[EditQueued] | type[DropQueued]) -> None:
        if self.rows.chosen_id is not None:
            self.post_message(intent(int(self.rows.chosen_id)))
