"""Order of keys: each takes effect before the next is delivered.

Textual gives a key to whatever has the focus when it arrives. The key before it may still be on its way up to the
binding that opens a question, moves the focus or closes a form: typed fast, or while the loop is blocked, the second
key would act in the wrong widget. So a key that may do such a thing holds back what follows until it has taken effect.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from textual.app import App
from textual.events import Event, Key, Paste
from textual.message_pump import MessagePump
from textual.timer import Timer
from textual.widget import Widget

from ollm_tui.tui.panes.terminal_prefix import TerminalPrefix
from ollm_tui.tui.terminal import LEAVE_KEY, REVIEW_KEY

if TYPE_CHECKING:
    from ollm_tui.tui.screens.dashboard_screen import Dashboard

LAPS = 4
"""Passes over the queues while messages remain; streamed updates never end."""

HELD_AT_MOST = 2.0
"""Seconds; keys must not wait for a handler that hangs."""


class KeyOrder:
    """Queues keys and pastes behind one still being handled."""

    def __init__(self, app: App[int], dashboard: Dashboard, deliver: Callable[[Event], Awaitable[None]]) -> None:
        """`deliver` gives one to what has the focus."""
        self._app = app
        self._dashboard = dashboard
        self._deliver = deliver
        self._held: deque[Key | Paste] = deque()
        self._passage = 0
        self._limit: Timer | None = None
        self._typed_into: Widget | None = None
        """What the last key gave text to."""

    @property
    def busy(self) -> bool:
        """Return whether a key is still being handled."""
        return self._limit is not None

    async def take(self, event: Key | Paste) -> None:
        """Deliver an event, or queue it behind a pending key."""
        self._wait_for_screen()
        if self.busy:
            self._held.append(event)
        else:
            await self._act(event)

    def note_press(self, event: Event) -> None:
        """Tell open questions of a key or click, by when it was pressed."""
        # A key that waited behind another was pressed before: the driver's thread made the event.
        age = max(0.0, time.monotonic() - event.time)
        character = event.character if isinstance(event, Key) and event.is_printable else None
        self._dashboard.reviewing.key_pressed(age, character or "")

    async def _act(self, event: Key | Paste) -> None:
        """Give a key to what has the focus; unless it is text there, later keys wait for what it does."""
        self.note_press(event)
        self._dashboard.interrupting.key_typed(event.key if isinstance(event, Key) else "")
        target = self._app.focused or self._app.screen
        if isinstance(target, TerminalPrefix) and target.yields_to(event):
            self._held.appendleft(event)  # again, ahead of later ones, once what the prefix does about it is done
            self._follow(target)
            return
        is_text = (
            isinstance(event, Paste)
            or target.check_consume_key(event.key, event.character)
            or (self.program_takes_keys() and event.key not in (LEAVE_KEY, REVIEW_KEY))
        )
        if not is_text and self._typed_into is target and target.message_queue_size:
            self._held.appendleft(event)  # a key with priority acts here: it would overtake text that is on its way
            self._follow(target)
            return
        await self._deliver(event)
        self._typed_into = target if is_text else None
        if not is_text:
            self._follow(target)

    def program_takes_keys(self) -> bool:
        """Return whether keys go to a program; also asked in the driver's thread."""
        view = self._dashboard.term.view
        return self._app.screen is self._dashboard and view is not None and view.takes_keys

    def _wait_for_screen(self) -> None:
        """Wait for the content of a screen that has just opened."""
        if not self.busy and not self._app.screen.is_mounted:
            self._follow(self._app.screen)

    def _follow(self, target: Widget) -> None:
        """Hold later keys back until this one has taken effect."""
        self._passage += 1
        self._limit = self._app.set_timer(HELD_AT_MOST, self._let_go)
        self._climb([*target.ancestors_with_self], self._passage, lap=1, quiet=True)

    def _climb(self, way: list[MessagePump], passage: int, lap: int, *, quiet: bool) -> None:
        """Follow the key and its messages through the queues of its handlers."""
        while way:
            node = way.pop(0)
            if node.call_later(self._passed, node, way, passage, lap, quiet):
                return
        if lap == 1 or (not quiet and lap < LAPS):  # on the first, the key itself was ahead
            start = self._app.focused or self._app.screen
            self._climb([*start.ancestors_with_self], passage, lap + 1, quiet=True)
        else:
            # A screen opened, or a pane shown, can have the focus from here on.
            self._app.screen.call_after_refresh(self._app.call_later, self._arrived, passage)

    def _passed(self, node: MessagePump, way: list[MessagePump], passage: int, lap: int, quiet: bool) -> None:
        self._climb(way, passage, lap, quiet=quiet and node.message_queue_size == 0)

    async def _arrived(self, passage: int) -> None:
        if passage == self._passage:
            await self._let_go()

    async def _let_go(self) -> None:
        """Deliver waiting events until one must be waited for itself."""
        if self._limit is not None:
            self._limit.stop()
            self._limit = None
        self._typed_into = None
        self._wait_for_screen()
        while self._held and not self.busy:
            await self._act(self._held.popleft())
