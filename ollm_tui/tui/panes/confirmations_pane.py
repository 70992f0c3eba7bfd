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
from ollm_tui.tui.question_groups import QuestionGroup, group_questions, subject
from ollm_tui.tui.styled_text import StyledLine, TextRole, line, set_rule
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
    """List of confirmations with number, risk and clock; similar ones stand in one row.

    Opening a row requests the review of that confirmation, or the list of those in it.
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
        """Open the confirmation on a question, or the list of similar ones."""

        item_ids: tuple[str, ...]

    def __init__(self, presses: KeyPresses) -> None:
        super().__init__(id="queue", classes="pane")
        self._now = presses.now
        self.guard = DecisionGuard(presses)
        self._marked: str | None = None
        self._rows = RowList("queue-rows")
        self._groups: tuple[QuestionGroup, ...] = ()
        self._words: dict[str, tuple[StyledLine, ...]] = {}
        self._empty = Static("", markup=False, id="queue-empty")
        self._empty.can_focus = True
        set_rule(self, "Queue")

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
        set_rule(self, f"Queue ({open_})  F8 review" if open_ else "Queue")
        self._groups = group_questions(queue.items)
        self._words = {group.row_id: _group_lines(group) for group in self._groups}
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
        rows = [
            ListRow(group.row_id, self._words[group.row_id], line(time_words(_next_due(group), now)))
            for group in self._groups
        ]
        self._rows.show_rows(rows)
        height = sum(len(row.lines) for row in rows)
        self._rows.styles.height = max(1, height)

    @on(RowList.Opened)
    def _open(self, event: RowList.Opened) -> None:
        event.stop()
        group = self._group(event.row_id)
        if group is not None:
            self.post_message(self.ReviewAsked(group.ids))

    def _group(self, row_id: str | None) -> QuestionGroup | None:
        return next((group for group in self._groups if group.row_id == row_id), None)

    def action_deny(self) -> None:
        """Deny the marked confirmation; several in one row are decided in their list."""
        group = self._group(self._rows.chosen_id)
        if group is None:
            return
        chosen = group.oldest
        if len(group.items) > 1:
            self.notify(f"Enter opens the list of these {len(group.items)}; n denies them there.", markup=False)
        elif chosen.pending and self._may(f"deny {chosen.id}"):
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
    preview = item.details.preview
    if preview is not None and preview.kind == "diff":
        return f"{preview.diff.path}  +{preview.diff.added} -{preview.diff.removed}"
    return subject(item)


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


def _next_due(group: QuestionGroup) -> Confirmation:
    """Return the question with the least time left, else the oldest."""
    clocked = [item for item in group.items if item.deadline is not None]
    return min(clocked, key=lambda item: item.deadline or 0.0, default=group.oldest)


def _group_lines(group: QuestionGroup) -> tuple[StyledLine, ...]:
    details = group.oldest.details
    alone = len(group.items) == 1
    name = f"#{group.oldest.ordinal} " if alone else f"{len(group.items)} x "
    what = subject_of(group.oldest) if alone else group.pattern.text
    return (
        line(
            (name, TextRole.STRONG),
            (f"{RISK_WORDS[details.risk]:<4}", RISK_ROLES[details.risk]),
            f" {visible(details.tool_name)}",
        ),
        line(("   ", TextRole.PLAIN), (visible(what[:SUBJECT_CHARACTERS]), TextRole.MUTED)),
    )
