"""Confirmation screen: the queue of questions, one of them shown.

Nothing is approved by Enter, or by a key typed before the question and its end were visible.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType

from ollm_tui.core.bus.states import ConfirmationState
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import ConfirmationCase, DecisionGuard, KeyPresses, deny_all
from ollm_tui.tui.protocol.intents import DenyConfirmations, HoldConfirmation, ReleaseConfirmation
from ollm_tui.tui.question_groups import group_questions
from ollm_tui.tui.screens.confirmation_box import TIGHT_ROWS
from ollm_tui.tui.screens.confirmation_question import QuestionBox
from ollm_tui.tui.screens.confirmation_text import ConfirmationPhase, QueuePlace
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.footer import KeyFooter
from ollm_tui.tui.widgets.overlay_screen import OverlayScreen

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.execution.calls import CallReview
    from ollm_tui.core.execution.remembering import RuleEffect

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
        item = queue.find(item_id)
        assert item is not None, "only questions of the queue are shown"
        self._queue = queue
        self._sent: set[str] = set()
        self._groups: tuple[ConfirmationQueueSnapshot, dict[str, tuple[str, ...]]] | None = None
        self.wanted_list: tuple[str, ...] = ()
        """The questions whose list is to be opened once this screen is gone."""
        self._box = QuestionBox(ConfirmationCase(item, said=queue.said_before(item)), presses, self._sent)
        self._footer = KeyFooter(FOOTER)

    @property
    def case(self) -> ConfirmationCase:
        """The question being decided."""
        return self._box.case

    @property
    def guard(self) -> DecisionGuard:
        """What its keys ask before they decide."""
        return self._box.guard

    def compose(self) -> ComposeResult:
        """Compose the box, and its footer over the dashboard's."""
        yield self._box
        yield self._footer

    def on_mount(self) -> None:
        """Show the question it was opened for."""
        self.watch(self._box, "phase", self._phase_changed)
        self._turn_to(self.case.item.id)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the box to the window."""
        self.set_class(event.size.height < TIGHT_ROWS, "-tight")
        self.call_after_refresh(self.draw)

    # -- updates -----------------------------------------------------------------------------------------------------

    def show_queue(self, queue: ConfirmationQueueSnapshot) -> None:
        """Show another snapshot; move on after a decision made here. A form stays, and says what became of it."""
        self._queue = queue
        before = self.case.item
        gone = replace(before, state=ConfirmationState.CANCELLED) if before.pending else before
        self.case.item = item = queue.find(before.id) or gone
        answered = item.state in (ConfirmationState.APPROVED, ConfirmationState.DENIED)
        if answered and (self.case.sent or self._box.phase is ConfirmationPhase.READING):
            waiting = [other for other in queue.pending if other.id not in self._sent]
            if waiting:
                self._turn_to(waiting[0].id)
            else:
                self._close()
        elif before.pending and not item.pending:
            self.rearm()
        else:
            self.draw()

    def show_review(self, item_id: str, review: CallReview, arguments: JsonObject | None) -> None:
        """Show a review of the question, or of the edited `arguments`."""
        if item_id == self.case.item.id:
            self._box.show_review(review, arguments)

    def show_effect(self, item_ids: tuple[str, ...], effect: RuleEffect) -> None:
        """Hand over what a rule that was typed would do."""
        if item_ids == (self.case.item.id,):
            self._box.show_effect(effect)

    def key_pressed(self) -> None:
        """Show that the keys that decide wait for silence again."""
        self._box.draw_when_ready()
        self.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave the key of the list to a message where there is no list."""
        return action != "group" or len(self._box.queue_place.alike) > 1

    # -- actions -----------------------------------------------------------------------------------------------------

    def action_step(self, step: int) -> None:
        """Go to another question of the queue."""
        items = self._queue.items
        if self._box.phase is ConfirmationPhase.READING and items:
            place = next((at for at, item in enumerate(items) if item.id == self.case.item.id), -1)
            self._turn_to(items[(place + step) % len(items)].id)

    def action_group(self) -> None:
        """Open the list of similar questions in the place of this one."""
        alike = self._box.queue_place.alike
        if self._box.phase is ConfirmationPhase.READING and len(alike) > 1:
            self.wanted_list = alike
            self._close()

    def action_deny_all(self) -> None:
        """Deny all open questions; the first press says how many."""
        open_ids = tuple(item.id for item in self._queue.pending)
        if self._box.may(deny_all(open_ids), twice=True):
            self._box.after_burst(lambda: self._deny(open_ids))
        self.draw()

    def _deny(self, item_ids: tuple[str, ...]) -> None:
        self._sent.update(item_ids)
        self.case.sent = True
        self.post_message(DenyConfirmations(item_ids))
        self.draw()

    def action_back(self) -> None:
        """Leave the form, or close the screen and keep the question."""
        if self._box.phase is ConfirmationPhase.READING:
            self._close()
        else:
            self._box.leave_form()
            self.draw()

    def on_key(self, event: events.Key) -> None:
        """Step back when the person types a message: a printable key that is none of the question's."""
        if self._box.phase is ConfirmationPhase.READING and event.is_printable and event.character:
            event.stop()
            self._close(self.guard.presses.run)

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _turn_to(self, item_id: str) -> None:
        item = self._queue.find(item_id)
        if item is None:
            return
        if item_id != self.case.item.id:
            self.post_message(ReleaseConfirmation(self.case.item.id))
        self._box.turn_to(ConfirmationCase(item, said=self._queue.said_before(item), sent=item_id in self._sent))
        self.rearm()
        if item.pending:
            self.call_after_refresh(self._hold, item_id)  # the review that it asks for would delay the painting

    def _hold(self, item_id: str) -> None:
        if item_id == self.case.item.id and self.is_current:
            self.post_message(HoldConfirmation(item_id))

    def rearm(self) -> None:
        """Let no key decide until what is shown now has been painted."""
        self._place()
        self._box.rearm()

    def draw(self) -> None:
        """Draw the question and its place in the queue."""
        self._place()
        self._box.draw()

    def _phase_changed(self, phase: ConfirmationPhase) -> None:
        self._footer.labels["confirm.later"] = "Later" if phase is ConfirmationPhase.READING else "Back"

    def _place(self) -> None:
        items = self._queue.items
        number = next((at for at, one in enumerate(items, 1) if one.id == self.case.item.id), 1)
        waiting = tuple(item.id for item in self._queue.pending)
        self._box.queue_place = QueuePlace(number, max(1, len(items)), waiting, self._alike())

    def _alike(self) -> tuple[str, ...]:
        """Return the open questions like this one; grouped once for each state of the queue."""
        if self._groups is None or self._groups[0] is not self._queue:
            groups = group_questions(item for item in self._queue.pending if item.id not in self._sent)
            self._groups = self._queue, {item.id: group.ids for group in groups for item in group.items}
        return self._groups[1].get(self.case.item.id, ())

    def _close(self, typed: str | None = None) -> None:
        self.post_message(ReleaseConfirmation(self.case.item.id))
        # Dismissing a screen that is not on top would pop whatever is.
        if self.is_current:
            self.dismiss(typed)
