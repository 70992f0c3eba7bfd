"""One question of the queue: the keys that decide it, and the forms for a reason, a rule, other arguments."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.binding import BindingType
from textual.reactive import reactive
from textual.widgets import Input

from ollm_tui.core.bus.states import RememberScope, Risk
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import ConfirmationCase, KeyPresses, Readiness, deny_all
from ollm_tui.tui.protocol.intents import DecideConfirmation, PreviewRule, ReviewArguments
from ollm_tui.tui.question_queue import QuestionQueue
from ollm_tui.tui.screens.confirmation_box import TIGHT_ROWS, ConfirmationBox
from ollm_tui.tui.screens.confirmation_text import ConfirmationPhase, KeyView, key_lines, subtitle, title
from ollm_tui.tui.screens.key_timing import after_burst
from ollm_tui.tui.styled_text import set_border

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.execution.calls import CallReview
    from ollm_tui.core.execution.remembering import RuleEffect


@register_keys(KeyGroup.CONFIRMATION)
class QuestionBox(ConfirmationBox):
    """Decides one question: each key that does asks the guard first."""

    # With priority a key acts in the app before the next one is handled: keys of one burst take effect in their
    # order, and what follows `r` or `e` is already typed into the line or the form, which keep letters to themselves.
    BINDINGS: ClassVar[list[BindingType]] = [
        *key_bindings(
            ("y", "approve", "Approve", "confirm.approve", "Approve once; HIGH risk needs it twice"),
            (
                "c",
                "approve(True)",
                "Caged",
                "confirm.caged",
                "Approve once, to run in the cage; HIGH risk twice",
            ),
            ("a", "remember('session')", "Session", "confirm.session", "Approve for this session"),
            ("A", "remember('workspace')", "Save rule", "confirm.rule", "Approve and save a rule"),
            ("n", "deny", "Deny", "confirm.deny", "Deny"),
            ("r", "reason", "Deny, why", "confirm.reason", "Deny and tell the model why"),
            ("e", "edit", "Edit", "confirm.edit", "Change the arguments before approving"),
            ("ctrl+s", "commit", "Go on", "confirm.commit", "Check changed arguments; save a rule; deny with a reason"),
            priority=True,
        ),
        *key_bindings(("tab", "swap", "Arguments", "confirm.swap", "Show the effect or the arguments")),
    ]

    phase: reactive[ConfirmationPhase] = reactive(ConfirmationPhase.READING, repaint=False, bindings=True)

    def __init__(self, case: ConfirmationCase, queue: QuestionQueue, presses: KeyPresses) -> None:
        super().__init__(presses)
        self.case = case
        """The question being decided."""
        self._queue = queue
        self._scope = RememberScope.SESSION

    def turn_to(self, case: ConfirmationCase) -> None:
        """Show another question with fresh state."""
        self.case = case
        self.guard.renew()
        self.arguments_shown = False
        self.leave_form()

    def show_review(self, item_id: str, review: CallReview, arguments: JsonObject | None) -> None:
        """Take a review of the question, or of the edited `arguments`."""
        if item_id != self.case.item.id:
            return
        if arguments is None:
            self.case.review = self.case.review or review
        elif self.phase is ConfirmationPhase.EDITING and self.case.open:
            self.form.show_review(review)
            if not review.errors and review.decision != "deny":
                self.case.change_arguments(arguments, review)
                self.arguments_shown = False
                self.leave_form()
                self.guard.renew()
                self.forget_effect()
                self.rearm()
        self.draw()

    def leave_form(self) -> None:
        """Go back to reading the question."""
        self.phase = ConfirmationPhase.READING
        self.show_detail()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave out what the phase or the call has no use for."""
        if (action, parameters) == ("approve", (True,)):
            return self.case.item.details.cage_problem is not None
        return action != "commit" or self.phase is not ConfirmationPhase.READING

    # -- actions -----------------------------------------------------------------------------------------------------

    def action_approve(self, caged: bool = False) -> None:
        """Approve, or approve for the cage alone where it can run there; HIGH risk takes two presses."""
        possible = not caged or self.case.item.details.cage_problem == ""
        decision = f"{'cage' if caged else 'approve'} {self.case.item.id}"
        if possible and self.may(decision, whole=True, twice=self.case.risk is Risk.HIGH):
            self._decide(approved=True, caged=caged)
        self.draw()

    def action_remember(self, which: str) -> None:
        """Show the rule; the same key once more approves and remembers."""
        scope = RememberScope(which)
        if self.phase is ConfirmationPhase.REMEMBER:
            if (scope is RememberScope.SESSION) is (self._scope is RememberScope.SESSION):
                self._remember()
        elif self.case.offer(scope) is not None and self.may("see the rule", whole=True):
            self.phase, self._scope = ConfirmationPhase.REMEMBER, scope
            self.rearm()

    def action_deny(self) -> None:
        """Deny the question."""
        if self.may(f"deny {self.case.item.id}"):
            self._decide(approved=False)

    def action_reason(self) -> None:
        """Ask for a reason for denying."""
        if self.may("give a reason"):
            self.phase = ConfirmationPhase.REASON
            self.input.ask("", "why not; the model reads this")
            self.rearm()

    def action_edit(self) -> None:
        """Edit the arguments, or the wording of the rule to be saved."""
        if self.phase is ConfirmationPhase.REMEMBER:
            offer = self.case.offer(self._scope)
            if offer is not None and offer.editable and self._scope is not RememberScope.SESSION:
                self.input.ask(offer.text, "the rule, exactly as it will be saved")
                self.rearm()
        elif not self.case.item.source and self.may("edit"):
            self.phase = ConfirmationPhase.EDITING
            self.show_form(self.case.arguments)
            self.draw()

    def action_commit(self) -> None:
        """Go on with what the form holds, once the keys before have reached it."""
        (self.screen.focused or self).call_later(self._commit)

    def action_swap(self) -> None:
        """Switch between effect and arguments, or change how far a rule reaches."""
        if self.phase is ConfirmationPhase.REMEMBER and self._scope is not RememberScope.SESSION:
            narrow = self._scope is RememberScope.WORKSPACE
            self._scope = RememberScope.USER if narrow else RememberScope.WORKSPACE
            self.rearm()
        elif self.phase is ConfirmationPhase.READING and self.case.preview is not None:
            self.arguments_shown = not self.arguments_shown
            self.draw()

    @on(Input.Submitted, "#confirm-input")
    def _line_given(self, event: Input.Submitted) -> None:
        event.stop()
        if self.phase is ConfirmationPhase.REASON:
            self._commit()

    # -- helpers -----------------------------------------------------------------------------------------------------

    def may(self, decision: Hashable, *, whole: bool = False, twice: bool = False) -> bool:
        """Return whether the key being handled makes this decision about the question that is read."""
        reading = self.phase is ConfirmationPhase.READING and self.case.open
        return reading and self.guard.press(decision, whole=whole, twice=twice) is Readiness.READY

    def _commit(self) -> None:
        """Review changed arguments, approve with the rule shown, or deny with the reason given."""
        match self.phase:
            case ConfirmationPhase.EDITING if self.case.open:
                arguments = self.form.parse()
                if arguments is not None:
                    self.post_message(ReviewArguments(self.case.item.id, arguments))
            case ConfirmationPhase.REMEMBER:
                self._remember()
            case ConfirmationPhase.REASON if self.case.open:
                if self.guard.press("deny with a reason") is Readiness.READY:
                    self._decide(approved=False, reason=self.input.value.strip() or None)
            case _:
                pass
        self.draw()

    def _remember(self) -> None:
        """Approve with the rule shown; one that was typed only once it is known to allow this very call."""
        edited = self.input.display
        rule = self.input.value.strip() if edited else None
        ready = self.guard.press("remember", whole=True) is Readiness.READY
        if self.case.open and ready and rule:
            self.input.checked = rule
            preview = PreviewRule((self.case.item.id,), rule)
            after_burst(self, self.guard, lambda: self.post_message(preview))
        elif self.case.open and ready and not edited:
            self._decide(approved=True, remember=self._scope)
        self.draw()

    def show_effect(self, item_ids: tuple[str, ...], effect: RuleEffect) -> None:
        """Approve with the rule that was checked, or say in the form why it cannot be saved."""
        asked = self.phase is ConfirmationPhase.REMEMBER and item_ids == (self.case.item.id,)
        if not asked or not self.input.checked == effect.wording == self.input.value.strip():
            return
        self.input.checked = ""
        if effect.refusal:
            self.input.refusal = effect.refusal
            self.draw()
        else:
            self._send(DecideConfirmation(self.case.item.id, True, remember=self._scope, rule=effect.wording))

    def _decide(
        self,
        *,
        approved: bool,
        caged: bool = False,
        reason: str | None = None,
        remember: RememberScope | None = None,
        rule: str | None = None,
    ) -> None:
        """Send the decision, unless another key follows at once."""
        case = self.case
        edited = case.edited if approved else None
        reviewed = case.review.digest if edited is not None and case.review is not None else None
        decision = DecideConfirmation(case.item.id, approved, reason, edited, remember, rule, caged, reviewed)
        after_burst(self, self.guard, lambda: self._send(decision))

    def _send(self, decision: DecideConfirmation) -> None:
        if self.case.open:
            self.case.sent = True
            self._queue.sent.add(self.case.item.id)
            self.post_message(decision)
            self.leave_form()
            self.draw()

    @on(Input.Changed, "#confirm-input")
    def draw(self) -> None:
        """Draw the question and its place in the queue; called each second while a clock runs."""
        if not self.is_attached:
            return  # an update came before the screen had its content
        case, screen = self.case, self.screen.size
        place = self._queue.place(case.item.id)
        set_border(self, title(case, place), subtitle(case.item, self.guard.presses.now()))
        self.set_class(case.risk is Risk.HIGH, "-high")
        self.show_case(case, screen)
        keys = KeyView(
            approve=self.guard.readiness(whole=True),
            deny=self.guard.readiness(whole=False),
            again=self.guard.again(f"approve {case.item.id}"),
            caged_again=self.guard.again(f"cage {case.item.id}"),
            all_again=self.guard.again(deny_all(place.waiting)),
            waiting=len(place.waiting),
            rule_edited=self.input.display,
            refusal=self.input.refusal,
        )
        self.keys.show_lines(*key_lines(case, keys, self.phase, self._scope, tight=screen.height < TIGHT_ROWS))
        self.fit(screen)
