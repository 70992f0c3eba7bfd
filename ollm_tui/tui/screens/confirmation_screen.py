"""Confirmation screen: approve, deny or change a proposed call.

Nothing is approved by Enter, or by a key typed before the question and its end were visible.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.content import Content
from textual.reactive import reactive
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input

from ollm_tui.core.bus.states import ConfirmationState, RememberScope, Risk
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import QUIET_SECONDS, ConfirmationCase, DecisionGuard, KeyPresses, Readiness, deny_all
from ollm_tui.tui.protocol.intents import (
    DecideConfirmation,
    DenyConfirmations,
    HoldConfirmation,
    ReleaseConfirmation,
    ReviewArguments,
)
from ollm_tui.tui.screens.confirmation_box import TIGHT_ROWS, ConfirmationBox
from ollm_tui.tui.screens.confirmation_text import ConfirmationPhase, KeyView, key_lines, subtitle, title
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.footer import KeyFooter
from ollm_tui.tui.widgets.line_view import LineView

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.execution.calls import CallReview

FOOTER = (
    "app.help",
    "confirm.commit",
    "confirm.page",
    "confirm.swap",
    "confirm.previous",
    "confirm.next",
    "confirm.later",
    "app.quit",
)
"""Ids of the keys beside those that the box itself lists."""


@register_keys(KeyGroup.CONFIRMATION)
class ConfirmationScreen(ModalScreen[str | None]):
    """Shows one question of the queue and posts the decisions.

    Dismissed with what was typed, where that is no key of it: the person writes a message.
    """

    # With priority a key acts in the app before the next one is handled: keys of one burst take effect in their
    # order, and what follows `r` or `e` is already typed into the line or the form, which keep letters to themselves.
    BINDINGS: ClassVar[list[BindingType]] = [
        *key_bindings(
            ("y", "approve", "Approve", "confirm.approve", "Approve once; HIGH risk needs it twice"),
            ("a", "remember('session')", "Session", "confirm.session", "Approve for this session"),
            ("A", "remember('workspace')", "Save rule", "confirm.rule", "Approve and save a rule"),
            ("n", "deny", "Deny", "confirm.deny", "Deny"),
            ("r", "reason", "Deny, why", "confirm.reason", "Deny and tell the model why"),
            ("e", "edit", "Edit", "confirm.edit", "Change the arguments before approving"),
            ("left_square_bracket", "step(-1)", "Previous", "confirm.previous", "Question before"),
            ("right_square_bracket", "step(1)", "Next", "confirm.next", "Next question"),
            ("D", "deny_all", "Deny all", "confirm.deny_all", "Deny every open question; pressed twice"),
            ("ctrl+s", "commit", "Check", "confirm.commit", "Check changed arguments; save a rule"),
            ("escape", "back", "Later", "confirm.later", "Decide later; the question stays"),
            priority=True,
        ),
        *key_bindings(("tab", "swap", "Arguments", "confirm.swap", "Show the effect or the arguments")),
    ]

    phase: reactive[ConfirmationPhase] = reactive(ConfirmationPhase.READING, repaint=False, bindings=True)

    def __init__(self, queue: ConfirmationQueueSnapshot, item_id: str, presses: KeyPresses) -> None:
        super().__init__()
        item = queue.find(item_id)
        assert item is not None, "only questions of the queue are shown"
        self._queue = queue
        self._now = presses.now
        self.case = ConfirmationCase(item, said=queue.said_before(item))
        """The question being decided."""
        self.guard = DecisionGuard(presses)
        self._scope = RememberScope.SESSION
        self._sent: set[str] = set()
        self._ready_timer: Timer | None = None
        self._box = ConfirmationBox()

    def compose(self) -> ComposeResult:
        """Compose the box, and its footer over the dashboard's."""
        yield self._box
        yield KeyFooter(FOOTER)

    def on_mount(self) -> None:
        """Show the question it was opened for."""
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
        if answered and (self.case.sent or self.phase is ConfirmationPhase.READING):
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
        if item_id != self.case.item.id:
            return
        if arguments is None:
            self.case.review = self.case.review or review
        elif self.phase is ConfirmationPhase.EDITING and self.case.open:
            self._box.form.show_review(review)
            if not review.errors and review.decision != "deny":
                self.case.change_arguments(arguments, review)
                self._box.arguments_shown = False
                self._leave_form()
                self.guard.renew()
                self.rearm()
        self.draw()

    def key_pressed(self) -> None:
        """Show that the keys that decide wait for silence again."""
        self._draw_when_ready()
        self.draw()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Hide from the footer what the phase has no use for."""
        return action != "commit" or self.phase in (ConfirmationPhase.EDITING, ConfirmationPhase.REMEMBER)

    # -- actions -----------------------------------------------------------------------------------------------------

    def action_approve(self) -> None:
        """Approve; HIGH risk takes two presses."""
        if self._may(f"approve {self.case.item.id}", whole=True, twice=self.case.risk is Risk.HIGH):
            self._decide(approved=True)
        self.draw()

    def action_remember(self, which: str) -> None:
        """Show the rule; the same key once more approves and remembers."""
        scope = RememberScope(which)
        if self.phase is ConfirmationPhase.REMEMBER:
            if (scope is RememberScope.SESSION) is (self._scope is RememberScope.SESSION):
                self._remember()
        elif self.case.offer(scope) is not None and self._may("see the rule", whole=True):
            self.phase, self._scope = ConfirmationPhase.REMEMBER, scope
            self.rearm()

    def action_deny(self) -> None:
        """Deny the question."""
        if self._may(f"deny {self.case.item.id}"):
            self._decide(approved=False)

    def action_reason(self) -> None:
        """Ask for a reason for denying."""
        if self._may("give a reason"):
            self.phase = ConfirmationPhase.REASON
            self._box.ask_line("", "why not; the model reads this")
            self.draw()

    def action_edit(self) -> None:
        """Edit the arguments, or the wording of the rule to be saved."""
        if self.phase is ConfirmationPhase.REMEMBER:
            offer = self.case.offer(self._scope)
            if offer is not None and offer.editable and self._scope is not RememberScope.SESSION:
                self._box.ask_line(offer.text, "the rule, exactly as it will be saved")
                self.rearm()
        elif self._may("edit"):
            self.phase = ConfirmationPhase.EDITING
            self._box.show_form(self.case.arguments)
            self.draw()

    def action_commit(self) -> None:
        """Review changed arguments, or approve with the rule shown."""
        (self.focused or self).call_later(self._commit)

    def _commit(self) -> None:
        if self.phase is ConfirmationPhase.EDITING and self.case.open:
            arguments = self._box.form.parse()
            if arguments is not None:
                self.post_message(ReviewArguments(self.case.item.id, arguments))
        elif self.phase is ConfirmationPhase.REMEMBER:
            self._remember()

    def _remember(self) -> None:
        edited = self._box.input.display
        rule = self._box.input.value.strip() if edited else None
        ready = self.guard.press("remember", whole=True) is Readiness.READY
        if self.case.open and ready and (rule or not edited):
            self._decide(approved=True, remember=self._scope, rule=rule)
        self.draw()

    def _may(self, decision: Hashable, *, whole: bool = False, twice: bool = False) -> bool:
        reading = self.phase is ConfirmationPhase.READING and self.case.open
        return reading and self.guard.press(decision, whole=whole, twice=twice) is Readiness.READY

    def action_step(self, step: int) -> None:
        """Go to another question of the queue."""
        items = self._queue.items
        if self.phase is ConfirmationPhase.READING and items:
            place = next((at for at, item in enumerate(items) if item.id == self.case.item.id), -1)
            self._turn_to(items[(place + step) % len(items)].id)

    def action_deny_all(self) -> None:
        """Deny all open questions; the first press says how many."""
        open_ids = tuple(item.id for item in self._queue.pending)
        if self._may(deny_all(open_ids), twice=True):
            self._sent.update(open_ids)
            self.case.sent = True
            self.post_message(DenyConfirmations(open_ids))
        self.draw()

    def action_swap(self) -> None:
        """Switch between effect and arguments, or change how far a rule reaches."""
        if self.phase is ConfirmationPhase.REMEMBER and self._scope is not RememberScope.SESSION:
            narrow = self._scope is RememberScope.WORKSPACE
            self._scope = RememberScope.USER if narrow else RememberScope.WORKSPACE
            self.rearm()
        elif self.phase is ConfirmationPhase.READING and self.case.preview is not None:
            self._box.arguments_shown = not self._box.arguments_shown
            self.draw()

    def on_key(self, event: events.Key) -> None:
        """Step back when the person types a message: a printable key that is none of the question's."""
        if self.phase is ConfirmationPhase.READING and event.is_printable and event.character:
            event.stop()
            self._close(self.guard.presses.run)

    def action_back(self) -> None:
        """Leave the form, or close the screen and keep the question."""
        if self.phase is ConfirmationPhase.READING:
            self._close()
        else:
            self._leave_form()
            self.draw()

    @on(Input.Submitted, "#confirm-input")
    def _line_given(self, event: Input.Submitted) -> None:
        event.stop()
        if self.phase is ConfirmationPhase.REASON and self.case.open:
            self._decide(approved=False, reason=event.value.strip() or None)

    @on(LineView.EndSeen)
    def _end_seen(self, event: LineView.EndSeen) -> None:
        event.stop()
        if not self._box.arguments_shown and self._box.detail.seen_end:
            self.guard.see_end()
            self._draw_when_ready()
        self.draw()

    # -- helpers ------------------------------------------------------------------------------------------------------

    def _decide(
        self,
        *,
        approved: bool,
        reason: str | None = None,
        remember: RememberScope | None = None,
        rule: str | None = None,
    ) -> None:
        case = self.case
        case.sent = True
        self._sent.add(case.item.id)
        self.post_message(
            DecideConfirmation(case.item.id, approved, reason, case.edited if approved else None, remember, rule)
        )
        self._leave_form()
        self.draw()

    def _turn_to(self, item_id: str) -> None:
        """Show another question with fresh state."""
        item = self._queue.find(item_id)
        if item is None:
            return
        if item_id != self.case.item.id:
            self.post_message(ReleaseConfirmation(self.case.item.id))
        self.case = ConfirmationCase(item, said=self._queue.said_before(item), sent=item_id in self._sent)
        self.guard.renew()
        self._box.arguments_shown = False
        self._leave_form()
        if item.pending:
            self.post_message(HoldConfirmation(item_id))
        self.rearm()

    def rearm(self) -> None:
        """Let no key decide until what is shown now has been painted."""
        self.call_after_refresh(self._painted, self.guard.hide())
        self.draw()

    def _painted(self, change: int) -> None:
        self.guard.show(change)
        self._draw_when_ready()

    def _draw_when_ready(self) -> None:
        if self._ready_timer is not None:
            self._ready_timer.stop()
        self._ready_timer = self.set_timer(QUIET_SECONDS + 0.02, self.draw)

    def _leave_form(self) -> None:
        self.phase = ConfirmationPhase.READING
        self._box.show_detail()

    def _close(self, typed: str | None = None) -> None:
        self.post_message(ReleaseConfirmation(self.case.item.id))
        # Dismissing a screen that is not on top would pop whatever is.
        if self.is_current:
            self.dismiss(typed)

    def draw(self) -> None:
        """Draw the question; called each second while a clock runs."""
        case, now = self.case, self._now()
        items = self._queue.items
        place = next((at for at, one in enumerate(items, 1) if one.id == case.item.id), 1)
        self._box.border_title = Content(title(case, place, max(1, len(items))))
        self._box.border_subtitle = Content(subtitle(case.item, now))
        self._box.set_class(case.risk is Risk.HIGH, "-high")
        tight = self.has_class("-tight")
        self._box.show_case(case, self.size)
        keys = KeyView(
            approve=self.guard.readiness(whole=True),
            deny=self.guard.readiness(whole=False),
            again=self.guard.again(f"approve {case.item.id}"),
            all_again=self.guard.again(deny_all(tuple(item.id for item in self._queue.pending))),
            waiting=len(self._queue.pending),
            rule_edited=self._box.input.display,
        )
        self._box.keys.show_lines(*key_lines(case, keys, self.phase, self._scope, tight=tight))
        self._box.fit(self.size)
