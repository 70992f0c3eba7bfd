"""A terminal engine for any thread: screen, stream and their lock."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from ollm_tui.tui.terminal.emulator import SCROLLBACK_LINES, LiveScreen, LiveStream
from ollm_tui.tui.terminal.emulator.osc import BellRang, ClipboardWrite, TerminalEvent, TitleSet
from ollm_tui.tui.terminal.emulator.terminal_modes import InputModes

log = logging.getLogger(__name__)

FEED_SLICE = 16_384
"""Bytes parsed at once: a few milliseconds, if they are not made to cost much more."""
LEAST_SLICE = 256
SLOW_SECONDS = 0.1
"""CPU time of a slice after which the next ones are smaller, so that the view gets the lock."""
HOLD_SECONDS = 0.002
"""How long further slices are parsed without releasing the lock."""
MAX_REPLY = 16_384
"""Characters of answers to one slice; a flood of queries gets no more."""
MAX_EVENTS = 256
"""Events delivered of one slice."""


class TerminalEngine:
    """Parses output and wakes the view at most once a frame.

    `feed` may be called from any thread; `on_wake`, `on_reply` and `on_event` are called there with the lock released.
    Read `screen` only while holding `lock`.
    """

    def __init__(self, columns: int = 80, lines: int = 24, scrollback_lines: int = SCROLLBACK_LINES) -> None:
        self.lock = threading.RLock()
        self.screen = LiveScreen(columns, lines, scrollback_lines)
        self.stream = LiveStream(self.screen)
        self.on_wake: Callable[[], None] | None = None
        """Called when something changed after the last `frame_taken`."""
        self.on_reply: Callable[[bytes], None] | None = None
        """Called with the terminal's answers, for the program's input."""
        self.on_event: Callable[[TerminalEvent], None] | None = None
        self.parse_errors = 0
        """Times parsing failed and was restarted; 0 unless the engine has a defect."""
        self.wake_pending = False
        """Whether `on_wake` was called and no frame was taken since."""
        self._slice = FEED_SLICE
        self._replies: list[str] = []
        self._reply_size = 0
        self._events: list[TerminalEvent] = []
        self.screen.on_reply = self._collect_reply
        self.screen.on_event = self._collect_event
        self.screen.pictures.unlocked = self._unlocked

    def feed(self, data: bytes) -> None:
        """Parse a program's output; return when that is done."""
        start = 0
        while start < len(data):
            with self.lock:
                start = self._parse_some(data, start)
                replies, events = self._collected()
            self._deliver(replies, events)
            self._wake()
            if start < len(data):
                time.sleep(0)  # lets a waiting view have the lock: Python's locks are not fair

    def _parse_some(self, data: bytes, start: int) -> int:
        """Parse until there is something to deliver or the lock was held long enough.

        Plain lines take little of that time a slice, and each release costs a turn of the interpreter's lock.
        """
        until = time.monotonic() + HOLD_SECONDS
        while start < len(data):
            began = time.thread_time()
            try:
                self.stream.feed(data[start : start + self._slice])
            except Exception:  # a defect here must not end the thread that reads the program's output
                log.exception("the terminal engine failed on a slice of output and continues with the next")
                self.parse_errors += 1
                self.stream.attach(self.screen)
            start += self._slice
            taken = time.thread_time() - began
            if taken > SLOW_SECONDS:
                self._slice = max(LEAST_SLICE, self._slice // 4)
            elif taken < SLOW_SECONDS / 8:
                self._slice = min(FEED_SLICE, self._slice * 2)
            if self._replies or self._events or time.monotonic() >= until:
                break
        return start

    @contextmanager
    def _unlocked(self) -> Generator[None]:
        """Let others have the screen meanwhile: the program's thread waits for its picture, nobody else."""
        self.lock.release()
        try:
            yield
        finally:
            self.lock.acquire()

    @property
    def input_modes(self) -> InputModes:
        """What the program asked of keyboard and mouse."""
        with self.lock:
            return self.screen.input_modes

    def resize(self, columns: int, lines: int) -> None:
        """Resize the screen; whoever holds the PTY tells the program."""
        with self.lock:
            self.screen.resize(lines, columns)
        self._wake()

    def frame_taken(self) -> None:
        """Let the next change wake the view again."""
        self.wake_pending = False

    def _wake(self) -> None:
        if not self.wake_pending and self.on_wake is not None:
            self.wake_pending = True
            self.on_wake()

    def _collect_reply(self, reply: str) -> None:
        self._reply_size += len(reply)
        if self._reply_size <= MAX_REPLY:
            self._replies.append(reply)

    def _collect_event(self, event: TerminalEvent) -> None:
        if isinstance(event, (BellRang, ClipboardWrite, TitleSet)):  # only the last one of a slice can be noticed
            self._events = [other for other in self._events if type(other) is not type(event)]
        if len(self._events) < MAX_EVENTS:
            self._events.append(event)

    def _collected(self) -> tuple[bytes, list[TerminalEvent]]:
        replies, events = "".join(self._replies).encode(), self._events
        self._replies, self._events, self._reply_size = [], [], 0
        return replies, events

    def _deliver(self, replies: bytes, events: list[TerminalEvent]) -> None:
        if replies and self.on_reply is not None:
            self.on_reply(replies)
        if self.on_event is not None:
            for event in events:
                self.on_event(event)
