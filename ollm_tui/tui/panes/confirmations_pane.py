"""The queue pane: open confirmations, and those that have just ended."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Static

from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.notices import Confirmation
from ollm_tui.core.bus.states import ConfirmationState, Risk
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import DecisionGuard, KeyPresses, Readiness, deny_all
from ollm_tui.tui.durations import clock_text
from ollm_tui.tui.protocol.intents import DenyConfirmations
from ollm_tui.tui.styled_text import StyledLine, TextRole, line
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.row_list import ListRow, RowList

RISK_WORDS = {Risk.LOW: "LOW", Risk.MEDIUM: "MED", Risk.HIGH: "HIGH"}
RISK_ROLES = {Risk.LOW: TextRole.OK, Risk.MEDIUM: TextRole.WARNING, Risk.HIGH: TextRole.ERROR}
LATE_SECONDS = 15.0
"""The clock turns to a warning with less time left than this."""

SUBJECT_CHARACTERS = 500
"""More than fits into a row on any screen; a command may have a hundred thousand characters."""


@register_keys(KeyGroup.LISTS, 1)
class QueuePane(Vertical):
    """List of confirmations with number, risk and clock.

    Opening a row requests the review of that confirmation.
    """

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("n", "deny", "Deny", "queue.deny", "Deny the marked question"),
        ("D", "deny_all", "Deny all", "queue.deny_all", "Deny every open question; pressed twice"),
        show=False,
    )

    queue: reactive[ConfirmationQueueSnapshot] = reactive(ConfirmationQueueSnapshot(), always_update=True)
    policy: reactive[str] = reactive("ask")

    @dataclass
    class ReviewAsked(Message):
        """Open the confirmation on this question."""

        item_id: str

    def __init__(self, presses: KeyPresses) -> None:
        super().__init__(id="queue", classes="pane")
        self._now = presses.now
        self.guard = DecisionGuard(presses)
        self._marked: str | None = None
        self._rows = RowList("queue-rows")
        self._words: dict[str, tuple[StyledLine, ...]] = {}
        self._empty = Static("", markup=False, id="queue-empty")
        self._empty.can_focus = True
        self.border_title = "Queue"

    def compose(self) -> ComposeResult:
        """Yield the empty text and the rows."""
        yield self._empty
        yield self._rows

    @property
    def focus_target(self) -> Widget:
        """The widget to focus when the person comes here."""
        return self._rows if self.queue.items else self._empty

    def watch_queue(self, queue: ConfirmationQueueSnapshot) -> None:
        """Show another snapshot."""
        open_ = len(queue.pending)
        self.border_title = f"Queue ({open_})" if open_ else "Queue"
        self.border_subtitle = "F8 review" if open_ else ""
        self._empty.display = not queue.items
        self._rows.display = bool(queue.items)
        self.draw_rows()
        if self._rows.chosen_id != self._marked:  # not by a key: keys are counted by themselves
            self._marked = self._rows.chosen_id
            self.call_after_refresh(self.guard.show, self.guard.hide())

    def watch_policy(self, policy: str) -> None:
        """Show the mode in the text of the empty queue."""
        self._empty.update(f"Nothing to approve. policy: {visible(policy)}")

    def draw_rows(self) -> None:
        """Draw the rows, each second and after each change of the queue."""
        now = self._now()
        # Only the clock and the outcome of a confirmation change.
        self._words = {item.id: self._words.get(item.id) or _item_lines(item) for item in self.queue.items}
        rows = [ListRow(item.id, self._words[item.id], line(time_words(item, now))) for item in self.queue.items]
        self._rows.show_rows(rows)
        height = sum(len(row.lines) for row in rows)
        self._rows.styles.height = max(1, height)

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        event.stop()
        self.post_message(self.ReviewAsked(event.row_id))

    def action_deny(self) -> None:
        """Deny the marked confirmation."""
        chosen = self.queue.find(self._rows.chosen_id or "")
        if chosen is not None and chosen.pending and self._may(f"deny {chosen.id}"):
            self.post_message(DenyConfirmations((chosen.id,)))

    def action_deny_all(self) -> None:
        """Deny all open confirmations; the first press says how many."""
        open_ids = tuple(item.id for item in self.queue.pending)
        if open_ids and self._may(deny_all(open_ids), twice=True):
            self.post_message(DenyConfirmations(open_ids))

    def _may(self, decision: Hashable, *, twice: bool = False) -> bool:
        readiness = self.guard.press(decision, twice=twice)
        if readiness is Readiness.AGAIN:
            count = len(self.queue.pending)
            self.notify(f"D again denies {count} question{'s' if count > 1 else ''}.", markup=False)
        return readiness is Readiness.READY


def subject_of(item: Confirmation) -> str:
    """Return a confirmation's command, file or URL, else its description."""
    details, preview = item.details, item.details.preview
    if preview is not None and preview.kind == "command":
        return preview.command
    if preview is not None and preview.kind == "diff":
        return f"{preview.diff.path}  +{preview.diff.added} -{preview.diff.removed}"
    if preview is not None and preview.kind == "url":
        return preview.url
    return details.locations[0] if details.locations else details.description


def time_words(item: Confirmation, now: float) -> tuple[str, TextRole]:
    """Return the time a confirmation has left, or how it ended."""
    if not item.pending:
        return (item.state.value.upper(), TextRole.OK if item.state is ConfirmationState.APPROVED else TextRole.ERROR)
    if item.held:
        return ("HELD", TextRole.MUTED)
    left = item.seconds_left(now)
    if left is None:
        return ("", TextRole.MUTED)
    return (f"{clock_text(left)} !", TextRole.WARNING) if left < LATE_SECONDS else (clock_text(left), TextRole.PLAIN)


def _item_lines(item: Confirmation) -> tuple[StyledLine, ...]:
    details = item.details
    risk = f"{RISK_WORDS[details.risk]:<4}"
    return (
        line(
            (f"#{item.ordinal} ", TextRole.STRONG), (risk, RISK_ROLES[details.risk]), f" {visible(details.tool_name)}"
        ),
        line(("   ", TextRole.PLAIN), (visible(subject_of(item)[:SUBJECT_CHARACTERS]), TextRole.MUTED)),
    )
