"""When the keys of a question decide: what it shows was painted, and nothing else was pressed for a moment."""

from __future__ import annotations

from collections.abc import Callable

from textual.message_pump import MessagePump
from textual.timer import Timer
from textual.widget import Widget

from ollm_tui.tui.decisions import BURST_SECONDS, QUIET_SECONDS, DecisionGuard


def after_burst(owner: MessagePump, guard: DecisionGuard, act: Callable[[], object]) -> None:
    """Do what a press decides, unless another key follows at once.

    Such a key may be the second one of a paste.
    """
    held = guard.hold()

    def act_if_it_stands() -> None:
        if guard.stands(held):
            act()

    owner.set_timer(BURST_SECONDS, act_if_it_stands)


class KeyTiming:
    """Tells the guard of a box what has been painted, and has the box drawn again once its keys count."""

    def __init__(self, box: Widget, guard: DecisionGuard, draw: Callable[[], object]) -> None:
        self._box, self._guard, self._draw = box, guard, draw
        self._timer: Timer | None = None

    def rearm(self, change: int) -> None:
        """Draw, and let no key decide until that has been painted; `change` is the guard's number of it."""
        self._box.call_after_refresh(self._painted, change)
        self._draw()

    def wait(self) -> None:
        """Draw, and again once the keys count: they wait for silence anew."""
        self._draw_when_ready()
        self._draw()

    def _painted(self, change: int) -> None:
        self._guard.show(change)
        self._draw_when_ready()

    def _draw_when_ready(self) -> None:
        if self._timer is not None:
            self._timer.stop()
        self._timer = self._box.set_timer(QUIET_SECONDS + 0.02, self._draw)
