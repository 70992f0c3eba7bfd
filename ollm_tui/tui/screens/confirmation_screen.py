"""Confirmation screen: the queue of questions, one of them shown.

Nothing is approved by Enter, or by a key typed before the question and its end were visible.
"""

from __future__ import annotations

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import ConfirmationCase, KeyPresses, deny_all
from ollm_tui.tui.protocol.intents import DenyConfirmations, HoldConfirmation, ReleaseConfirmation
from ollm_tui.tui.question_queue import QuestionQueue
from ollm_tui.tui.screens.confirmation_box import TIGHT_ROWS
from ollm_tui.tui.screens.confirmation_question import QuestionBox
from ollm_tui.tui.screens.confirmation_text import ConfirmationPhase
from ollm_tui.tui.screens.key_timing import after_burst
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.footer import KeyFooter
from ollm_tui.tui.widgets.overlay_screen import OverlayScreen

FOOTER = (
    "confirm.commit",
    "confirm.page",
    "confirm.swap",
    "confirm.previous",
    "confirm.next",
    "confirm.later",
)
"""Ids of the keys beside those that the box itself lists."""


@register_keys(KeyGroup.CONFIRMATION, place=1)
class ConfirmationScreen(OverlayScreen[str | None]):
    """Shows one question of the queue after the other.

    Dismissed with what was typed, where that is no key of it: the person writes a message.
    """

    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("left_square_bracket", "step(-1)", "Previous", "confirm.previous", "Question before"),
        ("right_square_bracket", "step(1)", "Next", "confirm.next", "Next question"),
        ("g", "group", "Alike", "confirm.group", "Open the list of the questions that are like this one"),
        ("D", "deny_all", "Deny all", "confirm.deny_all", "Deny every open question; pressed twice"),
        ("escape", "back", "Later", "confirm.later", "Decide later; the question stays"),
        priority=True,  # as the question's own
    )

    def __init__(self, queue: ConfirmationQueueSnapshot, item_id: str, presses: KeyPresses) -> None:
        super().__init__()
        self._queue = QuestionQueue(queue)
        case = self._queue.case(item_id)
        assert case is not None, "only questions of the queue are shown"
        self.wanted_list: tuple[str, ...] = ()
        """The questions whose list is to be opened once this screen is gone."""
        self.box = QuestionBox(case, self._queue, presses)
        self.guard = self.box.guard
        self._footer = KeyFooter(FOOTER)

    @property
    def case(self) -> ConfirmationCase:
        """The question being decided."""
        return self.box.case

    def compose(self) -> ComposeResult:
        """Compose the box, and its footer over the dashboard's."""
        yield self.box
        yield self._footer

    def on_mount(self) -> None:
        """Show the question it was opened for."""
        self.watch(self.box, "phase", self._phase_changed)
        self._turn_to(self.case.item.id)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the box to the window."""
        self.set_class(event.size.height < TIGHT_ROWS, "-tight")
        self.call_after_refresh(self.box.draw)

    # -- updates -----------------------------------------------------------------------------------------------------

    def show_queue(self, queue: ConfirmationQueueSnapshot) -> None:
        """Show another snapshot; move on after a decision made here. A form stays, and says what became of it."""
        self._queue.snapshot = queue
        before = self.case.item
        self.case.item = item = self._queue.now(before)
        answered = item.state in (ConfirmationState.APPROVED, ConfirmationState.DENIED)
        if answered and (self.case.sent or self.box.phase is ConfirmationPhase.READING):
            if (next_id := self._queue.next_id) is not None:
                self._turn_to(next_id)
            else:
                self._close()
        elif before.pending and not item.pending:
            self.box.rearm()
        else:
            self.box.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the key of the list to a message where there is no list."""
        return action != "group" or len(self._queue.alike(self.case.item.id)) > 1

    # -- actions -----------------------------------------------------------------------------------------------------

    def action_step(self, step: int) -> None:
        """Go to another question of the queue."""
        item_id = self._queue.neighbour(self.case.item.id, step)
        if self.box.phase is ConfirmationPhase.READING and item_id is not None:
            self._turn_to(item_id)

    def action_group(self) -> None:
        """Open the list of similar questions in the place of this one."""
        alike = self._queue.alike(self.case.item.id)
        if self.box.phase is ConfirmationPhase.READING and len(alike) > 1:
            self.wanted_list = alike
            self._close()

    def action_deny_all(self) -> None:
        """Deny all open questions; the first press says how many."""
        open_ids = tuple(item.id for item in self._queue.snapshot.pending)
        if self.box.may(deny_all(open_ids), twice=True):
            after_burst(self.box, self.guard, lambda: self._deny(open_ids))
        self.box.draw()

    def _deny(self, item_ids: tuple[str, ...]) -> None:
        self._queue.sent.update(item_ids)
        self.case.sent = True
        self.post_message(DenyConfirmations(item_ids))
        self.box.draw()

    def action_back(self) -> None:
        """Leave the form, or close the screen and keep the question."""
        if self.box.phase is ConfirmationPhase.READING:
            self._close()
        else:
            self.box.leave_form()
            self.box.draw()

    def on_key(self, event: events.Key) -> None:
        """Step back when the person types a message: a printable key that is none of the question's."""
        if self.box.phase is ConfirmationPhase.READING and event.is_printable and event.character:
            event.stop()
            self._close(self.guard.presses.run)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _turn_to(self, item_id: str) -> None:
        case = self._queue.case(item_id)
        if case is None:
            return
        if item_id != self.case.item.id:
            self.post_message(ReleaseConfirmation(self.case.item.id))
        self.box.turn_to(case)
        self.box.rearm()
        if case.item.pending:
            self.call_after_refresh(self._hold, item_id)  # the review that it asks for would delay the painting

    def _hold(self, item_id: str) -> None:
        if item_id == self.case.item.id and self.is_current:
            self.post_message(HoldConfirmation(item_id))

    def _phase_changed(self, phase: ConfirmationPhase) -> None:
        self._footer.labels["confirm.later"] = "Later" if phase is ConfirmationPhase.READING else "Back"

    def _close(self, typed: str | None = None) -> None:
        self.post_message(ReleaseConfirmation(self.case.item.id))
        # Dismissing a screen that is not on top would pop whatever is.
        if self.is_current:
            self.dismiss(typed)
