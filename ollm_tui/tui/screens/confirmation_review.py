"""Shows the queue in the panes and opens the confirmation when due.

Depends on the panes only, so that the dashboard can import it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from textual.timer import Timer

from ollm_tui.tui.decisions import IDLE_SECONDS, AutoOpenTimer, KeyPresses, ScreenSituation
from ollm_tui.tui.styled_text import app_of
from ollm_tui.tui.values import ConfirmationQueueSnapshot

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.execution.calls import CallReview
    from ollm_tui.core.execution.remembering import RuleEffect
    from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
    from ollm_tui.tui.screens.group_screen import GroupScreen
    from ollm_tui.tui.screens.pane_screen import PaneScreen


class ConfirmationReview:
    """Holds the last snapshot of the queue; decides nothing."""

    def __init__(self, dashboard: PaneScreen, presses: KeyPresses) -> None:
        self.queue = ConfirmationQueueSnapshot()
        self.auto_open = AutoOpenTimer()
        self._dashboard = dashboard
        self._presses = presses
        self._open: ConfirmationScreen | GroupScreen | None = None
        self._timer: Timer | None = None

    def take(self, queue: ConfirmationQueueSnapshot) -> None:
        """Show another snapshot everywhere."""
        self.queue = queue
        self._dashboard.queue.queue = queue
        self._dashboard.chat.show_queue(queue)
        if self._open is not None:
            self._open.show_queue(queue)
        self.consider()

    def show_review(self, item_id: str, review: CallReview, arguments: JsonObject | None) -> None:
        """Hand a review to the confirmation screen."""
        if self._open is not None:
            self._open.box.show_review(item_id, review, arguments)

    def show_effect(self, item_ids: tuple[str, ...], effect: RuleEffect) -> None:
        """Hand the effect of a rule to the form it was typed into."""
        if self._open is not None:
            self._open.box.show_effect(item_ids, effect)

    @property
    def deciding(self) -> bool:
        """Whether a decision waits for a moment without a key."""
        return self._presses.deciding is not None

    def tick(self) -> None:
        """Redraw the clocks."""
        self._dashboard.queue.draw_rows()
        if self._open is not None:
            self._open.box.draw()

    def window_returned(self) -> None:
        """Disarm the open confirmation, or consider opening one."""
        if self._open is not None:
            self._open.box.rearm()
        self.consider()

    def key_pressed(self, age: float, character: str) -> None:
        """Note a key, paste or mouse button, before it acts, pressed `age` seconds ago."""
        self._presses.add(age, character)
        if self._open is not None:
            self._open.box.timing.wait()
        elif self._unseen is not None:
            self._consider_in(IDLE_SECONDS)  # by then the key has moved the focus or emptied the draft

    def consider(self) -> None:
        """Open the confirmation if it interrupts nobody, or try later."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        item_id = self._unseen
        if item_id is None:
            return
        wait = self.auto_open.wait_before_opening(self._situation())
        if wait == 0.0:
            self.open(item_id)
        elif wait is not None:
            self._consider_in(wait)

    def _consider_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._dashboard.set_timer(seconds + 0.01, self.consider)

    @property
    def _unseen(self) -> str | None:
        return self.auto_open.unseen(tuple(item.id for item in self.queue.pending))

    def open_oldest(self) -> None:
        """Show the oldest open confirmation."""
        pending = self.queue.pending
        if pending:
            self.open(pending[0].id)

    def open(self, item_id: str) -> None:
        """Show a confirmation; at most one screen is open."""
        from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen

        if self._open is not None or self.queue.find(item_id) is None:
            return
        self._open = screen = ConfirmationScreen(self.queue, item_id, self._presses)
        self.auto_open.seen |= {item.id for item in self.queue.pending}

        def closed(typed: str | None) -> None:
            self._closed(typed)
            if screen.wanted_list:
                self.open_group(screen.wanted_list)

        app_of(self._dashboard).push_screen(screen, closed)

    def open_group(self, item_ids: tuple[str, ...]) -> None:
        """Show similar questions as a list, in place of the confirmation."""
        from ollm_tui.tui.screens.group_screen import GroupScreen

        if self._open is not None or not any(item.id in item_ids for item in self.queue.pending):
            return
        self._open = GroupScreen(self.queue, item_ids, self._presses)
        self.auto_open.seen |= {item.id for item in self.queue.pending}
        app_of(self._dashboard).push_screen(self._open, self._group_closed)

    def _group_closed(self, item_id: str | None) -> None:
        self._closed(None)
        if item_id is not None:
            self.open(item_id)

    def _closed(self, typed: str | None) -> None:
        self._open = None
        if typed:
            self._dashboard.go_to_prompt()
            self._dashboard.prompt.insert(typed)
        # Questions that came while it was open were counted in its "1 of 3": "later" applies to all.
        self.auto_open.seen |= {item.id for item in self.queue.pending}
        self.consider()

    def _situation(self) -> ScreenSituation:
        app = app_of(self._dashboard)
        return ScreenSituation(
            modal_open=app.screen is not self._dashboard,
            app_focused=app.app_focus,
            terminal_focused=self._dashboard.term.captures_keys,
            draft_empty=self._draft_empty,
            mouse_down=app.mouse_captured is not None,
            last_key=self._presses.last,
            now=self._presses.now(),
        )

    @property
    def _draft_empty(self) -> bool:
        prompt, focused = self._dashboard.prompt, self._dashboard.focused
        writing = focused is not None and focused is not prompt and focused.check_consume_key("y", "y")
        return not prompt.text and not writing
