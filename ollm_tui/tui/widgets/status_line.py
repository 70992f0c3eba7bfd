"""The status line, its state first; and the banner of waiting approvals."""

from __future__ import annotations

from textual.reactive import reactive

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.durations import clock_text
from ollm_tui.tui.styled_text import StyledLine, TextRole, line, spread
from ollm_tui.tui.values import Activity, SessionStatus, StatusWord
from ollm_tui.tui.widgets.text_box import OneRow

WORD_ROLES = {
    StatusWord.IDLE: TextRole.MUTED,
    StatusWord.THINKING: TextRole.ACCENT,
    StatusWord.STREAMING: TextRole.ACCENT,
    StatusWord.RUNNING: TextRole.ACCENT,
    StatusWord.STOPPING: TextRole.WARNING,
    StatusWord.INPUT: TextRole.WARNING,
    StatusWord.WAITING: TextRole.WARNING,
    StatusWord.OFFLINE: TextRole.WARNING,
    StatusWord.ERROR: TextRole.ERROR,
}
WORDS_ALONE = (StatusWord.WAITING, StatusWord.IDLE, StatusWord.OFFLINE, StatusWord.ERROR)
"""States without a detail."""
WIDE = 100
SMALL = 60
"""Below this width only state and model are shown."""


class StatusLine(OneRow):
    """One row; `detail` follows the state: seconds, a rate, the running tool."""

    activity: reactive[Activity] = reactive(Activity.IDLE)
    waiting: reactive[int] = reactive(0)
    detail: reactive[str] = reactive("", repaint=False)
    asking: reactive[str] = reactive("")
    """The agent's command that waits for the person, in a few words."""
    jobs: reactive[int] = reactive(0)
    """The agent's commands that run in the background."""
    session: reactive[SessionStatus] = reactive(SessionStatus())

    def __init__(self) -> None:
        super().__init__("status")

    @property
    def word(self) -> StatusWord:
        """The state: ERROR outranks WAITING, that INPUT, that most activities; OFFLINE replaces IDLE."""
        if self.activity is Activity.FAILED:
            return StatusWord.ERROR
        if self.waiting:
            return StatusWord.WAITING
        if self.asking and self.activity is not Activity.STOPPING:
            return StatusWord.INPUT
        if self.activity is Activity.IDLE:
            return StatusWord.OFFLINE if self.session.offline else StatusWord.IDLE
        return StatusWord(self.activity.value.upper())

    def watch_detail(self) -> None:
        """Draw where it is shown: below a dialog that would paint the whole screen each second."""
        if self.word not in WORDS_ALONE:
            self.refresh()

    def row(self, width: int) -> StyledLine:
        """Return the state and the facts that the width has room for."""
        word = self.word
        state = f"{word.value} {self.waiting}" if word is StatusWord.WAITING else word.value
        if word is StatusWord.INPUT:
            state += f" ^T answers {visible(self.asking)}"
        elif self.detail and word not in WORDS_ALONE:
            state += f" {visible(self.detail)}"
        session = self.session
        policy = "policy: DENIES ALL" if session.denied_because else f"policy: {visible(session.mode)}"
        alarming = bool(session.denied_because) or session.mode == "yolo"
        # Each with how long it stays where there is no room: the greatest goes first.
        facts: list[tuple[int, str, TextRole]] = [(0, state, WORD_ROLES[word])]
        if self.asking and word is not StatusWord.INPUT:
            facts.append((0, "INPUT ^T", TextRole.WARNING))
        if not session.recorded:
            facts.append((0, "NOT RECORDED", TextRole.ERROR))
        if session.model:
            facts.append((2, visible(session.model), TextRole.PLAIN))
        if session.offline and word is not StatusWord.OFFLINE:
            facts.append((0, "OFFLINE", TextRole.PLAIN))
        if session.tokens_used is not None and width >= SMALL:
            facts.append((3, _tokens(session, short=width < WIDE), TextRole.PLAIN))
        if session.tokens_per_second is not None and self.activity is not Activity.STREAMING:  # there the detail has it
            facts.append((7, _rate(session.tokens_per_second), TextRole.PLAIN))
        if self.jobs:
            facts.append((4, f"{self.jobs} job{'s' if self.jobs > 1 else ''}", TextRole.PLAIN))
        if session.workspace and width >= SMALL:
            facts.append((6, visible(session.workspace), TextRole.PLAIN))
        if session.branch:
            facts.append((5, visible(session.branch), TextRole.PLAIN))
        facts.append((1, policy, TextRole.ERROR if alarming else TextRole.PLAIN))
        return _fitting(facts, width)


def _fitting(facts: list[tuple[int, str, TextRole]], width: int) -> StyledLine:
    """Return the facts on one line, without those that there is no room for."""
    while True:
        parts: list[str | tuple[str, TextRole]] = [" "]
        for number, (_, text, role) in enumerate(facts):
            parts += [(" | ", TextRole.MUTED)] if number else []
            parts.append((text, role))
        shown = line(*parts)
        least = max(facts, key=lambda fact: fact[0])
        if shown.cells <= width or least[0] == 0:
            return shown.cut(width)
        facts.remove(least)


def _tokens(session: SessionStatus, *, short: bool) -> str:
    """Return how full the window is, as `3.1k/8k 38%`; `~` marks our own estimate."""
    used, limit, mark = session.tokens_used or 0, session.tokens_limit, "~" if session.tokens_estimated else ""
    if not limit:
        return f"ctx {mark}{_thousands(used)}"
    if short:
        return f"ctx {mark}{100 * used // limit}%"
    return f"ctx {mark}{_thousands(used)}/{_thousands(limit)} {100 * used // limit}%"


def _rate(tokens_per_second: float) -> str:
    return f"{tokens_per_second:.0f} t/s" if tokens_per_second >= 10 else f"{tokens_per_second:.1f} t/s"


def _thousands(count: int) -> str:
    return str(count) if count < 1_000 else f"{count / 1000:.1f}k"


class WaitingBanner(OneRow):
    """Counts open questions and their next expiry; a click opens the review."""

    waiting: reactive[int] = reactive(0)
    seconds_left: reactive[float | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__("banner")

    def watch_waiting(self, waiting: int) -> None:
        """Show the banner while something waits."""
        self.set_class(waiting > 0, "-waiting")

    async def on_click(self) -> None:
        """Open the review."""
        await self.run_action("screen.review")

    def row(self, width: int) -> StyledLine:
        """Return the count at the left, the key at the right."""
        noun = "approval" if self.waiting == 1 else "approvals"
        left = self.seconds_left
        clock = f", next expires in {clock_text(left)}" if left is not None else ""
        words = f" ! {self.waiting} {noun} waiting{clock}"
        return spread(line((words, TextRole.WARNING)), line(("F8 review ", TextRole.ACCENT)), width)
