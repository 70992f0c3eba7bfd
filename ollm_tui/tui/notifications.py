"""Calls the person back to a window without the focus: a bell, a notification by the terminal, the window's title."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Literal, TypeAlias

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.values import StatusWord

Notify: TypeAlias = Literal["all", "bell", "never"]
"""How: with a bell, a notification and the title; with the bell alone; not at all."""

_BELL = "\a"
_KEEP_TITLE, _OWN_TITLE, _GIVE_TITLE_BACK = "\x1b[22;2t", "\x1b]2;{}\a", "\x1b[23;2t"
_OSC_9, _OSC_777 = "\x1b]9;{}\a", "\x1b]777;notify;ollm-tui;{}\a"
_WAITS = {StatusWord.WAITING: "a question waits", StatusWord.INPUT: "a command waits for your input"}
_RESTS = {
    StatusWord.IDLE: "the turn has ended",
    StatusWord.OFFLINE: "the turn has ended",
    StatusWord.ERROR: "the turn failed",
}


class Notifier:
    """Follows the state word of the status line. Says each change that needs the person once, and only unfocused."""

    def __init__(self, write: Callable[[str], None], environment: Mapping[str, str]) -> None:
        """`write` sends to the outer terminal, which `environment` describes."""
        self.write = write
        self.how: Notify = "all"
        self.focused = True
        self._word = StatusWord.IDLE
        self._titled = False
        urxvt_or_vte = environment.get("TERM", "").startswith("rxvt") or "VTE_VERSION" in environment
        self._notification = _OSC_777 if urxvt_or_vte else _OSC_9
        # A multiplexer shows a bell in its own list of windows; what it does not know it may print.
        self._multiplexed = bool(environment.get("TMUX") or environment.get("STY"))

    def follow(self, word: StatusWord) -> None:
        """Take the state as it is now."""
        before, self._word = self._word, word
        if self.focused or self.how == "never" or word is before:
            return
        ended = word in _RESTS and before not in _RESTS
        if word in _WAITS or ended:
            self._call(_WAITS.get(word) or _RESTS[word])

    def focus_changed(self, focused: bool) -> None:
        """Take whether the window has the focus; with it the title is again what it was."""
        self.focused = focused
        if focused:
            self.give_title_back()

    def give_title_back(self) -> None:
        """Leave the window's title as it was found."""
        if self._titled:
            self._titled = False
            self.write(_GIVE_TITLE_BACK)

    def _call(self, words: str) -> None:
        self.write(_BELL)
        if self.how != "all" or self._multiplexed:
            return
        if not self._titled:
            self._titled = True
            self.write(_KEEP_TITLE)
        text = visible(f"ollm-tui: {words}")
        self.write(_OWN_TITLE.format(text) + self._notification.format(text))
