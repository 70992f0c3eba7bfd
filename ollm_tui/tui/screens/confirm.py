"""The one confirmation: a view over the queue in which a person approves, denies or changes what is proposed.

Nothing is approved by Enter, by a key typed before the question could be read, or before its end was in sight.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.timer import Timer
from textual.widgets import Input

from ollm_tui.tui.intents import Intent
from ollm_tui.tui.screens.confirm_form import EditForm
from ollm_tui.tui.screens.confirm_lines import Phase, head_lines, key_lines, subtitle, title
from ollm_tui.tui.screens.consideration import ARM_SECONDS, Consideration, Lasting, Standing
from ollm_tui.tui.values import QueueSnapshot, QueueState, Reach, ReviewValue, RiskLevel, RuleOffer
from ollm_tui.tui.widgets.diff import argument_lines, preview_lines, preview_title
from ollm_tui.tui.widgets.inkbox import InkBox
from ollm_tui.tui.widgets.lines import LinesView

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject

TIGHT_ROWS = 17
"""On fewer rows the keys take one line, and the head only its first."""


class ConfirmScreen(ModalScreen[None]):
    """Shows one question of the queue at a time. Decisions go upward; the queue's next snapshot moves it on."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "approve", "Approve", id="confirm.approve", tooltip="Approve once; HIGH risk needs it twice"),
        Binding("a", "remember('session')", "Session", id="confirm.session", tooltip="Approve for this session"),
        Binding("A", "remember('saved')", "Save rule", id="confirm.rule", tooltip="Approve and save a rule"),
        Binding("n", "deny", "Deny", id="confirm.deny", tooltip="Deny"),
        Binding("r", "reason", "Deny, why", id="confirm.reason", tooltip="Deny and tell the model why"),
        Binding("e", "edit", "Edit", id="confirm.edit", tooltip="Change the arguments before approving"),
        Binding("left_square_bracket", "step(-1)", "Previous", id="confirm.previous", tooltip="Question before"),
        Binding("right_square_bracket", "step(1)", "Next", id="confirm.next", tooltip="Next question"),
        Binding("D", "deny_all", "Deny all", id="confirm.deny_all", tooltip="Deny every open question"),
        Binding("tab", "swap", "Arguments", id="confirm.swap", tooltip="Show the effect or the arguments"),
        Binding(
            "ctrl+s",
            "commit",
            "Check",
            id="confirm.commit",
            tooltip="Check changed arguments; save a rule",
            priority=True,
        ),
        Binding(
            "escape", "back", "Later", id="confirm.later", tooltip="Decide later; the question stays", priority=True
        ),
    ]

    @dataclass
    class Decided(Intent):
        """The person's word on a question; `reach` and `rule` where it is to be remembered."""

        item_id: str
        approved: bool
        reason: str | None = None
        modified: JsonObject | None = None
        reach: Reach | None = None
        rule: str | None = None

    @dataclass
    class Looked(Intent):
        """A question is being looked at: its clock should stop, and the core say what it knows."""

        item_id: str

    @dataclass
    class LookedAway(Intent):
        """It is not any more."""

        item_id: str

    @dataclass
    class CheckWanted(Intent):
        """What would the core say to these arguments?"""

        item_id: str
        arguments: JsonObject

    def __init__(self, queue: QueueSnapshot, item_id: str, now: Callable[[], float]) -> None:
        super().__init__(id="confirm")
        item = queue.find(item_id)
        assert item is not None, "only questions of the queue are shown"
        self._queue = queue
        self._now = now
        self._case = Consideration(item, now())
        self._phase = Phase.READING
        self._arguments_shown = False
        self._offer: RuleOffer | None = None
        self._sent: set[str] = set()
        self._arm_timer: Timer | None = None
        self._box = Vertical(id="confirm-box")
        self._head = InkBox("confirm-head")
        self._detail = LinesView("confirm-detail")
        self._form = EditForm()
        self._input = Input(id="confirm-input", compact=True, select_on_focus=False)
        self._keys = InkBox("confirm-keys")

    def compose(self) -> ComposeResult:
        with self._box:
            yield self._head
            yield self._detail
            yield self._form
            yield self._input
            yield self._keys

    def on_mount(self) -> None:
        self._turn_to(self._case.item.id)

    def on_resize(self, event: events.Resize) -> None:
        self.set_class(event.size.height < TIGHT_ROWS, "-tight")
        self.call_after_refresh(self.draw)

    # -- what the house says -----------------------------------------------------------------------------------------

    @property
    def case(self) -> Consideration:
        """What is being decided on."""
        return self._case

    def show_queue(self, queue: QueueSnapshot) -> None:
        """Another snapshot: what was decided here makes room for the next, what ended otherwise stays to be read."""
        self._queue = queue
        before = self._case.item
        gone = replace(before, state=QueueState.CANCELLED) if before.pending else before
        self._case.item = item = queue.find(before.id) or gone
        if item.state in (QueueState.APPROVED, QueueState.DENIED):
            waiting = [other for other in queue.pending if other.id not in self._sent]
            if waiting:
                self._turn_to(waiting[0].id)
            else:
                self._close()
            return
        if before.pending and not item.pending:
            self._leave_form()
        self.draw()

    def show_review(self, item_id: str, review: ReviewValue, arguments: JsonObject | None) -> None:
        """The core's word: on the question itself (`arguments` None), or on what was typed into the form."""
        if item_id != self._case.item.id:
            return
        if arguments is None:
            self._case.review = self._case.review or review
        elif self._phase is Phase.EDITING:
            self._form.show_review(review)
            if not review.faults and review.decision != "deny":
                self._case.change_arguments(arguments, review, self._now())
                self._arguments_shown = False
                self._leave_form()
                self._show_detail()
        self.draw()

    # -- what the person does ----------------------------------------------------------------------------------------

    def action_approve(self) -> None:
        if self._phase is Phase.READING and self._case.say_yes(self._now()):
            self._decide(approved=True)
        self.draw()

    def action_remember(self, which: str) -> None:
        """Shows the rule first; the session's is confirmed by the same key, a saved one by ctrl+s."""
        if self._phase is Phase.REMEMBER and self._offer is not None:
            if which == Lasting.SESSION and self._offer.reach is Reach.SESSION:
                self.action_commit()
            return
        offer = self._case.offer(Lasting(which))
        if offer is None or self._phase is not Phase.READING or self._case.standing(self._now()) is not Standing.READY:
            return
        self._phase, self._offer = Phase.REMEMBER, offer
        if offer.reach is not Reach.SESSION and offer.editable:
            self._ask_line(offer.text, "the rule, exactly as it will be kept")
        self._rearm()

    def action_deny(self) -> None:
        if self._phase is Phase.READING and self._case.standing(self._now()) is not Standing.OVER:
            self._decide(approved=False)

    def action_reason(self) -> None:
        if self._phase is Phase.READING and self._case.item.pending:
            self._phase = Phase.REASON
            self._ask_line("", "why not; the model reads this")
            self.draw()

    def action_edit(self) -> None:
        if self._phase is Phase.READING and self._case.item.pending:
            self._phase = Phase.EDITING
            self._detail.display = False
            self._form.display = True
            self._form.begin(self._case.arguments)
            self.draw()

    def action_commit(self) -> None:
        """Have changed arguments judged, or approve with the rule that is shown."""
        if self._phase is Phase.EDITING:
            arguments = self._form.parse()
            if arguments is not None:
                self.post_message(self.CheckWanted(self._case.item.id, arguments))
        elif self._phase is Phase.REMEMBER and self._offer is not None:
            shown = self._input.value.strip() if self._input.display else self._offer.text
            rule = shown if self._offer.editable else None
            if shown and self._case.standing(self._now()) is Standing.READY:
                self._decide(approved=True, reach=self._offer.reach, rule=rule)

    def action_step(self, step: int) -> None:
        items = self._queue.items
        if self._phase is Phase.READING and items:
            place = next((at for at, item in enumerate(items) if item.id == self._case.item.id), -1)
            self._turn_to(items[(place + step) % len(items)].id)

    def action_deny_all(self) -> None:
        if self._phase is Phase.READING:
            for item in self._queue.pending:
                self._sent.add(item.id)
                self.post_message(self.Decided(item.id, approved=False))

    def action_swap(self) -> None:
        if self._phase is Phase.READING and self._case.preview is not None:
            self._arguments_shown = not self._arguments_shown
            self._show_detail()
            self.draw()

    def action_back(self) -> None:
        """Out of a form, back to the question; else out of here, and the question stays."""
        if self._phase is Phase.READING:
            self._close()
        else:
            self._leave_form()
            self.draw()

    @on(Input.Submitted, "#confirm-input")
    def _line_given(self, event: Input.Submitted) -> None:
        event.stop()
        if self._phase is Phase.REASON:
            self._decide(approved=False, reason=event.value.strip() or None)

    @on(LinesView.EndSeen)
    def _end_seen(self, event: LinesView.EndSeen) -> None:
        event.stop()
        if not self._arguments_shown and self._detail.seen_end:
            self._case.effect_seen = True
        self.draw()

    # -- inside ------------------------------------------------------------------------------------------------------

    def _decide(
        self, *, approved: bool, reason: str | None = None, reach: Reach | None = None, rule: str | None = None
    ) -> None:
        case = self._case
        case.sent = True
        self._sent.add(case.item.id)
        self.post_message(self.Decided(case.item.id, approved, reason, case.edited if approved else None, reach, rule))
        self._leave_form()
        self.draw()

    def _turn_to(self, item_id: str) -> None:
        """Show a question: nothing of the one before holds any more."""
        item = self._queue.find(item_id)
        if item is None:
            return
        if item_id != self._case.item.id:
            self.post_message(self.LookedAway(self._case.item.id))
        self._case = Consideration(item, self._now(), sent=item_id in self._sent)
        self._arguments_shown = False
        self._leave_form()
        self._show_detail()
        if item.pending:
            self.post_message(self.Looked(item_id))
        self._rearm()

    def _rearm(self) -> None:
        self._case.disarm(self._now())
        if self._arm_timer is not None:
            self._arm_timer.stop()
        self._arm_timer = self.set_timer(ARM_SECONDS + 0.02, self.draw)
        self.draw()

    def _ask_line(self, text: str, hint: str) -> None:
        self._input.value, self._input.placeholder = text, hint
        self._input.display = True
        self._input.focus()

    def _leave_form(self) -> None:
        self._phase, self._offer = Phase.READING, None
        self._form.display = self._input.display = False
        self._detail.display = True
        self._detail.focus()

    def _close(self) -> None:
        self.post_message(self.LookedAway(self._case.item.id))
        # Dismissing a screen that is not on top would pop whatever is.
        if self.is_current:
            self.dismiss()

    def _show_detail(self) -> None:
        preview = self._case.preview
        if preview is None or self._arguments_shown:
            self._detail.border_title = "Arguments"
            self._detail.show_lines(argument_lines(self._case.arguments))
        else:
            self._detail.border_title = preview_title(preview)
            self._detail.show_lines(preview_lines(preview))
        swap = "   Tab effect / arguments" if preview is not None else ""
        self._detail.border_subtitle = f"PgUp/PgDn scroll{swap}"

    def draw(self) -> None:
        """Show the case as it is now; called each second while a clock runs."""
        case, now = self._case, self._now()
        place = next((at for at, one in enumerate(self._queue.items, 1) if one.id == case.item.id), 1)
        self._box.border_title = Content(title(case, place, max(1, len(self._queue.items))))
        self._box.border_subtitle = Content(subtitle(case.item, now))
        self._box.set_class(case.risk is RiskLevel.HIGH, "-high")
        tight = self.has_class("-tight")
        self._head.show_lines(head_lines(case, tight=tight))
        self._keys.show_lines(*key_lines(case, case.standing(now), self._phase, self._offer, tight=tight))
        self._fit(tight=tight)

    def _fit(self, *, tight: bool) -> None:
        """The detail gets what head and keys leave: they must be in sight on any screen."""
        borders = 2
        width = min(80, self.size.width) - borders - (0 if tight else 2)
        rows = self.size.height if tight else int(self.size.height * 0.96)
        taken = borders + self._head.rows_at(width) + self._keys.rows_at(width)
        room = max(1, rows - taken)
        self._detail.styles.max_height = room
        self._form.styles.max_height = room
