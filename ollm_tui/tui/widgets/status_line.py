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
        facts = [visible(session.model)] if session.model else []
        if session.offline and word is not StatusWord.OFFLINE:
            facts.append("OFFLINE")
        if width >= SMALL:
            if session.tokens_used is not None:
                facts.append(_tokens(session, short=width < WIDE))
            if session.workspace:
                facts.append(visible(session.workspace))
        policy = "policy: DENIES ALL" if session.denied_because else f"policy: {visible(session.mode)}"
        alarming = bool(session.denied_because) or session.mode == "yolo"
        parts: list[str | tuple[str, TextRole]] = [" ", (state, WORD_ROLES[word])]
        if self.asking and word is not StatusWord.INPUT:
            parts += [(" | ", TextRole.MUTED), ("INPUT ^T", TextRole.WARNING)]
        if not session.recorded:
            parts += [(" | ", TextRole.MUTED), ("NOT RECORDED", TextRole.ERROR)]
        for fact in facts:
            parts += [(" | ", TextRole.MUTED), fact]
        parts += [(" | ", TextRole.MUTED), (policy, TextRole.ERROR if alarming else TextRole.PLAIN)]
        return line(*parts).cut(width)


def _tokens(session: SessionStatus, *, short: bool) -> str:
    """Return how full the window is, as `3.1k/8k 38%`; `~` marks our own estimate."""
    used, limit, mark = session.tokens_used or 0, session.tokens_limit, "~" if session.tokens_estimated else ""
    if not limit:
        return f"ctx {mark}{_thousands(used)}"
    if short:
        return f"ctx {mark}{100 * used // limit}%"
    return f"ctx {mark}{_thousands(used)}/{_thousands(limit)} {100 * used // limit}%"


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
