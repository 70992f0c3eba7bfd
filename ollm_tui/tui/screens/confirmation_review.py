"""Shows the queue in the panes and opens the confirmation when due.

Depends on the panes only, so that the dashboard can import it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.timer import Timer

from ollm_tui.tui.decisions import AutoOpenTimer, ScreenSituation
from ollm_tui.tui.styled_text import app_of
from ollm_tui.tui.values import ConfirmationQueueSnapshot

if TYPE_CHECKING:
    from ollm_tui.core.base.results import JsonObject
    from ollm_tui.core.execution.calls import CallReview
    from ollm_tui.tui.screens.confirmation_screen import ConfirmationScreen
    from ollm_tui.tui.screens.pane_screen import PaneScreen


class ConfirmationReview:
    """Holds the last snapshot of the queue; decides nothing."""

    def __init__(self, dashboard: PaneScreen, now: Callable[[], float]) -> None:
        self.queue = ConfirmationQueueSnapshot()
        self.auto_open = AutoOpenTimer()
        self._dashboard = dashboard
        self._now = now
        self._last_key = float("-inf")
        self._open: ConfirmationScreen | None = None
        self._timer: Timer | None = None

    def take(self, queue: ConfirmationQueueSnapshot) -> None:
        """Show another snapshot everywhere."""
        added = {item.id for item in queue.pending} - {item.id for item in self.queue.pending}
        self.queue = queue
        self._dashboard.queue.queue = queue
        self._dashboard.chat.show_queue(queue)
        if self._open is not None:
            self._open.show_queue(queue)
        app = app_of(self._dashboard)
        if added and not app.app_focus:
            app.bell()
        self.consider()

    def show_review(self, item_id: str, review: CallReview, arguments: JsonObject | None) -> None:
        """Hand a review to the confirmation screen."""
        if self._open is not None:
            self._open.show_review(item_id, review, arguments)

    def tick(self) -> None:
        """Redraw the clocks."""
        self._dashboard.queue.draw_rows()
        if self._open is not None:
            self._open.draw()

    def window_returned(self) -> None:
        """Disarm the open confirmation, or consider opening one."""
        if self._open is not None:
            self._open.rearm()
        self.consider()

    def key_pressed(self) -> None:
        """Note a key; nothing opens by itself while the person types."""
        self._last_key = self._now()

    def consider(self) -> None:
        """Open the confirmation if it interrupts nobody, or try later."""
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        item_id = self.auto_open.unseen(tuple(item.id for item in self.queue.pending))
        if item_id is None:
            return
        wait = self.auto_open.wait_before_opening(self._situation())
        if wait == 0.0:
            self.open(item_id)
        elif wait is not None:
            self._timer = self._dashboard.set_timer(wait + 0.01, self.consider)

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
        self._open = ConfirmationScreen(self.queue, item_id, self._now)
        self.auto_open.seen |= {item.id for item in self.queue.pending}
        app_of(self._dashboard).push_screen(self._open, self._closed)

    def _closed(self, result: None) -> None:
        self._open = None
        # Questions that came while it was open were counted in its "1 of 3": "later" applies to all.
        self.auto_open.seen |= {item.id for item in self.queue.pending}
        self.consider()

    def _situation(self) -> ScreenSituation:
        app = app_of(self._dashboard)
        return ScreenSituation(
            modal_open=app.screen is not self._dashboard,
            app_focused=app.app_focus,
            terminal_focused=self._dashboard.term.captures_keys,
            draft_empty=not self._dashboard.prompt.text,
            mouse_down=app.mouse_captured is not None,
            last_key=self._last_key,
            now=self._now(),
        )
