"""List of similar questions that are approved or denied together."""

from __future__ import annotations

from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Input

from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import KeyPresses, Readiness
from ollm_tui.tui.protocol.intents import DecideGroup, HoldGroup
from ollm_tui.tui.question_groups import rule_wording
from ollm_tui.tui.question_queue import GroupSelection
from ollm_tui.tui.screens.group_box import GroupBox
from ollm_tui.tui.screens.key_timing import after_burst
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.overlay_screen import OverlayScreen
from ollm_tui.tui.widgets.row_list import RowList

NO_RULE = "Make rules of another session there; here you can approve or deny."


@register_keys(KeyGroup.GROUP)
class GroupScreen(OverlayScreen[str | None]):
    """Shows the questions that were similar when it was opened; none is decided that was not shown whole.

    Dismissed with the id of a question to open alone.
    """

    # With priority, as in the confirmation: each key acts before the next one is handled.
    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("space", "mark", "Choose", "group.mark", "Choose the marked question, or not; without any, all are meant"),
        (
            "y",
            "decide('approve')",
            "Approve",
            "group.approve",
            "Approve all shown, or the chosen ones; several take it twice",
        ),
        ("n", "decide('deny')", "Deny", "group.deny", "Deny all shown, or the chosen ones; several take it twice"),
        ("r", "reason", "Deny, why", "group.reason", "Deny them and tell the model why"),
        ("A", "rule", "Make a rule", "group.rule", "Make a rule that allows them; its effect is shown first"),
        ("ctrl+s", "save_rule", "Save", "group.save_rule", "Save the rule that is shown"),
        ("tab", "scope", "How far", "group.scope", "How far the rule reaches: session, workspace, every workspace"),
        ("m", "take_newer", "Take newer", "group.newer", "Add the similar questions that came since"),
        ("escape", "back", "Later", "group.later", "Decide later; the questions stay"),
        priority=True,
    )

    def __init__(self, queue: ConfirmationQueueSnapshot, item_ids: tuple[str, ...], presses: KeyPresses) -> None:
        super().__init__()
        self.selection = GroupSelection.of(queue, item_ids)
        self.box = GroupBox(self.selection, presses)
        self.guard = self.box.guard

    def compose(self) -> ComposeResult:
        """Compose the box."""
        yield self.box

    def on_mount(self) -> None:
        """Stop the clocks of the questions."""
        self.post_message(HoldGroup(tuple(self.selection.shown), on=True))

    def on_resize(self) -> None:
        """Fit the list to the window."""
        self.call_after_refresh(self.box.draw)

    # -- updates -----------------------------------------------------------------------------------------------------

    def show_queue(self, queue: ConfirmationQueueSnapshot) -> None:
        """Show another snapshot: rows stay where they are, and what has ended says how."""
        changed = self.selection.take(queue)
        if self.selection.is_over:
            self._close()
        elif changed:
            rule = self.box.rule
            if rule.display:
                rule.begin(rule.wording, rule.item_ids, self.selection.open_ids)
            self.box.rearm()
        else:
            self.box.draw()

    # -- actions -----------------------------------------------------------------------------------------------------

    def action_mark(self) -> None:
        """Choose the marked question, or not."""
        chosen = self.box.list.chosen_id
        if chosen is not None and self.selection.toggle(chosen):
            self.box.rearm()

    def action_decide(self, verb: str) -> None:
        """Approve or deny the targets; several take two presses.

        So does an approval of HIGH risk.
        """
        twice = len(self.selection.targets) > 1 or (verb == "approve" and self.selection.high_risk)
        if self.box.may(verb, twice=twice):
            self._decide(self.selection.targets, approved=verb == "approve")
        self.box.draw()

    def action_reason(self) -> None:
        """Ask for a reason for denying the targets."""
        if self.box.may("give a reason", twice=False):
            self.box.reason.begin(self.selection.targets)
        self.box.draw()

    def action_rule(self) -> None:
        """Write a rule that would allow the targets; its effect is shown before it is saved."""
        if self.selection.first.source:
            self.notify(NO_RULE, markup=False)
        elif self.box.may("make a rule", twice=False):
            wording = rule_wording(self.selection.target_group)
            self.box.rule.begin(wording, self.selection.targets, self.selection.open_ids)
            self.box.rearm()

    def action_save_rule(self) -> None:
        """Save the rule as its effect is shown; the questions it allows are approved."""
        rule = self.box.rule

        def save() -> None:
            self.selection.answered = True
            rule.save()
            self.box.leave_form()
            self.box.rearm()

        ready = self.guard.press(("rule", rule.shown), whole=True) is Readiness.READY
        if rule.display and rule.can_be_saved and ready:
            after_burst(self.box, self.guard, save)
        else:
            self.box.rearm()

    def action_scope(self) -> None:
        """Change how far the rule reaches; one about HIGH risk ends with the session."""
        if self.box.rule.display and not self.selection.high_risk:
            self.box.rule.widen()
            self.box.rearm()

    def action_take_newer(self) -> None:
        """Add the similar questions that came since to the list."""
        if not self.box.form_open and (newer := self.selection.take_newer()):
            self.post_message(HoldGroup(newer, on=True))
            self.box.rearm()

    def action_back(self) -> None:
        """Leave the form, or close the list and keep the questions."""
        if self.box.form_open:
            self.box.leave_form()
            self.box.rearm()
        else:
            self._close()

    @on(RowList.Opened)
    def _opened(self, event: RowList.Opened) -> None:
        event.stop()
        if event.row_id in self.selection.open_ids:
            self._close(event.row_id)

    @on(Input.Submitted, "#group-reason")
    def _reason_given(self, event: Input.Submitted) -> None:
        event.stop()
        left = self.box.reason.left(self.selection.open_ids)
        if left and self.guard.press(("deny with a reason", left)) is Readiness.READY:
            self._decide(left, approved=False, reason=event.value.strip() or None)
        self.box.draw()

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _decide(self, item_ids: tuple[str, ...], *, approved: bool, reason: str | None = None) -> None:
        def send() -> None:
            self.selection.decided(item_ids)
            if self.box.reason.display:
                self.box.leave_form()
            self.post_message(DecideGroup(item_ids, approved, reason))
            self.box.rearm()

        after_burst(self.box, self.guard, send)

    def _close(self, item_id: str | None = None) -> None:
        self.post_message(HoldGroup(tuple(self.selection.shown), on=False))
        if self.is_current:
            self.dismiss(item_id)
