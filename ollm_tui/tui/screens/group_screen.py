"""List of similar questions: all that were shown, or a chosen few, are approved or denied together."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.timer import Timer
from textual.widgets import Input

from ollm_tui.core.base.escape import visible
from ollm_tui.core.bus.states import Risk
from ollm_tui.tui.bindings import KeyGroup, key_bindings, register_keys
from ollm_tui.tui.decisions import QUIET_SECONDS, DecisionGuard, KeyPresses, Readiness
from ollm_tui.tui.group_selection import GroupSelection
from ollm_tui.tui.protocol.intents import DecideGroup, HoldGroup
from ollm_tui.tui.question_groups import rule_wording
from ollm_tui.tui.screens.group_rule import RuleForm
from ollm_tui.tui.screens.group_text import ESC, head_lines, list_keys, reason_keys
from ollm_tui.tui.screens.question_screens import after_burst
from ollm_tui.tui.styled_text import StyledLine, line, set_border
from ollm_tui.tui.values import ConfirmationQueueSnapshot
from ollm_tui.tui.widgets.overlay_screen import OverlayScreen
from ollm_tui.tui.widgets.question_list import QuestionList, question_row
from ollm_tui.tui.widgets.row_list import RowList
from ollm_tui.tui.widgets.text_box import TextBox

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.execution.calls import CallReview
    from ollm_tui.core.execution.remembering import RuleEffect

NO_RULE = "Rules of another session are made there; here it takes a yes or a no."
WIDTH, SHARE_OF_HEIGHT, BORDERS = 120, 0.96, 2
"""The widest box in cells, its part of the window, and the rows of its frame."""


@register_keys(KeyGroup.GROUP)
class GroupScreen(OverlayScreen[str | None]):
    """Shows the questions that were similar when it was opened; none is decided that was not shown whole.

    Dismissed with the id of a question to open alone.
    """

    # With priority, as in the confirmation: each key acts before the next one is handled.
    BINDINGS: ClassVar[list[BindingType]] = key_bindings(
        ("space", "mark", "Choose", "group.mark", "Choose the marked question, or not; without any, all are meant"),
        ("y", "approve", "Approve", "group.approve", "Approve all shown, or the chosen ones; several take it twice"),
        ("n", "deny", "Deny", "group.deny", "Deny all shown, or the chosen ones; several take it twice"),
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
        self._denying: tuple[str, ...] = ()
        """The questions that the reason being typed is about."""
        self.guard = DecisionGuard(presses)
        self._timer: Timer | None = None
        self._head = TextBox("group-head")
        self._list = QuestionList("group-list")
        self._rule = RuleForm()
        self._reason = Input(id="group-reason", compact=True, placeholder="why not; the model reads this")
        self._keys = TextBox("group-keys")
        self._box = Vertical(id="group-box")

    def compose(self) -> ComposeResult:
        """Compose head, list, reason and keys."""
        with self._box:
            yield self._head
            yield self._list
            yield self._reason
            yield self._rule
            yield self._keys

    def on_mount(self) -> None:
        """Show the questions and stop their clocks."""
        self._reason.display = self._rule.display = False
        self._box.set_class(self.selection.first.details.risk is Risk.HIGH, "-high")
        self.post_message(HoldGroup(tuple(self.selection.shown), on=True))
        self._list.focus()
        self.rearm()

    def on_resize(self) -> None:
        """Fit the list to the window."""
        self.call_after_refresh(self.draw)

    # -- what is decided ---------------------------------------------------------------------------------------------

    @property
    def unread(self) -> int:
        """How many of the questions that a key decides have not been in sight as a whole."""
        return len(set(self.selection.targets) - self._list.whole)

    # -- updates -----------------------------------------------------------------------------------------------------

    def show_queue(self, queue: ConfirmationQueueSnapshot) -> None:
        """Show another snapshot: rows stay where they are, and what has ended says how."""
        changed = self.selection.take(queue)
        if self.selection.is_over:
            self._close()
        elif changed:
            if self._rule.display:
                self._rule.begin(self._rule.wording, self._denying, self.selection.open_ids)
            self.rearm()
        else:
            self.draw()

    def show_review(self, item_id: str, review: CallReview, arguments: JsonObject | None) -> None:
        """Take no notice: reviews are for the confirmation of one question."""

    def key_pressed(self) -> None:
        """Show that the keys that decide wait for silence again."""
        self._draw_when_ready()
        self.draw()

    @on(QuestionList.Seen)
    def _seen(self) -> None:
        self.rearm()

    # -- actions -----------------------------------------------------------------------------------------------------

    def action_mark(self) -> None:
        """Choose the marked question, or not."""
        chosen = self._list.chosen_id
        if chosen is not None and self.selection.toggle(chosen):
            self.rearm()

    def action_approve(self) -> None:
        """Approve the targets; several, and HIGH ones, take two presses."""
        if self._may("approve"):
            self._decide(self.selection.targets, approved=True)
        self.draw()

    def action_deny(self) -> None:
        """Deny the targets; several take two presses."""
        if self._may("deny"):
            self._decide(self.selection.targets, approved=False)
        self.draw()

    def action_reason(self) -> None:
        """Ask for a reason for denying the targets."""
        if self.selection.targets and self._may("give a reason", twice=False):
            self._denying = self.selection.targets
            self._reason.value, self._reason.display = "", True
            self._reason.focus()
        self.draw()

    def action_rule(self) -> None:
        """Write a rule that would allow the targets; its effect is shown before it is saved."""
        if self.selection.first.source:
            self.notify(NO_RULE, markup=False)
        elif self.selection.targets and self._may("make a rule", twice=False):
            self._denying = self.selection.targets
            self._rule.display = True
            self._rule.begin(rule_wording(self.selection.target_group), self._denying, self.selection.open_ids)
            self.rearm()

    def show_effect(self, item_ids: tuple[str, ...], effect: RuleEffect) -> None:
        """Show what the rule would do."""
        self._rule.show_effect(item_ids, effect)
        self.rearm()

    @on(Input.Changed, "#group-rule")
    def _rule_changed(self) -> None:
        self._rule.judge()
        self.rearm()

    def action_save_rule(self) -> None:
        """Save the rule as its effect is shown; the questions it allows are approved."""
        ready = self.guard.press(("rule", self._rule.shown), whole=True) is Readiness.READY
        if self._rule.display and self._rule.can_be_saved and ready:
            after_burst(self, self.guard, self._save_rule)
        else:
            self.rearm()

    def _save_rule(self) -> None:
        self.selection.answered = True
        self._rule.save()
        self._leave_form()
        self.rearm()

    def action_scope(self) -> None:
        """Change how far the rule reaches; one about HIGH risk ends with the session."""
        if self._rule.display and self.selection.first.details.risk is not Risk.HIGH:
            self._rule.widen()
            self.rearm()

    def action_take_newer(self) -> None:
        """Add the similar questions that came since to the list."""
        if not self._reason.display and not self._rule.display and (newer := self.selection.take_newer()):
            self.post_message(HoldGroup(newer, on=True))
            self.rearm()

    def action_back(self) -> None:
        """Leave the reason, or close the list and keep the questions."""
        if self._reason.display or self._rule.display:
            self._leave_form()
            self.rearm()
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
        left = tuple(item_id for item_id in self._denying if item_id in self.selection.open_ids)
        if left and self.guard.press(("deny with a reason", left)) is Readiness.READY:
            self._decide(left, approved=False, reason=event.value.strip() or None)
        self.draw()

    # -- helpers -----------------------------------------------------------------------------------------------------

    def _decision(self, verb: str) -> Hashable:
        return (verb, self.selection.targets)

    def _may(self, verb: str, *, twice: bool | None = None) -> bool:
        if not self.selection.targets or self._reason.display or self._rule.display:
            return False
        if twice is None:
            twice = len(self.selection.targets) > 1 or (
                verb == "approve" and self.selection.first.details.risk is Risk.HIGH
            )
        return self.guard.press(self._decision(verb), whole=True, twice=twice) is Readiness.READY

    def _decide(self, item_ids: tuple[str, ...], *, approved: bool, reason: str | None = None) -> None:
        after_burst(self, self.guard, lambda: self._send(item_ids, approved=approved, reason=reason))

    def _send(self, item_ids: tuple[str, ...], *, approved: bool, reason: str | None) -> None:
        self.selection.decided(item_ids)
        if self._reason.display:
            self._leave_form()
        self.post_message(DecideGroup(item_ids, approved, reason))
        self.rearm()

    def _leave_form(self) -> None:
        self._denying = ()
        self._reason.display = self._rule.display = False
        self._list.focus()

    def _close(self, item_id: str | None = None) -> None:
        self.post_message(HoldGroup(tuple(self.selection.shown), on=False))
        if self.is_current:
            self.dismiss(item_id)

    def rearm(self) -> None:
        """Let no key decide until what is shown now has been painted, and all of it has been in sight."""
        change = self.guard.renew()
        if not self.unread:
            self.guard.see_end()
        self.call_after_refresh(self._painted, change)
        self.draw()

    def _painted(self, change: int) -> None:
        self.guard.show(change)
        self._draw_when_ready()

    def _draw_when_ready(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self.set_timer(QUIET_SECONDS + 0.02, self.draw)

    def draw(self) -> None:
        """Draw the list; called each second while a clock runs."""
        selection = self.selection
        details = selection.first.details
        what = f"{len(selection.shown)} similar questions   {details.risk.value.upper()}   {visible(details.tool_name)}"
        set_border(self._box, what, "PgUp/PgDn scroll   Enter opens one")
        self._head.show_lines(head_lines(selection.group))
        self._list.show_rows(
            [
                question_row(item, marked=item.id in selection.marked, sent=item.id in selection.sent)
                for item in selection.shown.values()
            ]
        )
        self._keys.show_lines(self._key_lines())
        self._fit()

    def _fit(self) -> None:
        """Limit the list so that head and keys stay visible."""
        width = min(WIDTH, self.size.width) - 4
        around = self._head.rows_at(width) + self._keys.rows_at(width) + (1 if self._reason.display else 0)
        around += self._rule.rows_at(width) if self._rule.display else 0
        self._list.styles.max_height = max(3, int(self.size.height * SHARE_OF_HEIGHT) - BORDERS - around)

    def _key_lines(self) -> list[StyledLine]:
        ready = self.guard.readiness(whole=True) is Readiness.READY
        if self._reason.display:
            return [reason_keys(sum(item_id in self.selection.open_ids for item_id in self._denying))]
        if self._rule.display:
            return [self._rule.key_line(ready=ready)]
        if not self.selection.open_ids:
            return [line("Nothing here waits any more.   ", ESC, " close")]
        again = next((verb for verb in ("approve", "deny") if self.guard.again(self._decision(verb))), "")
        chosen = bool(self.selection.marked)
        return list_keys(
            len(self.selection.targets), self.unread, len(self.selection.newer), again, chosen=chosen, ready=ready
        )
