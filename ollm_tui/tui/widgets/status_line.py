"""The status line: what is going on, in its first word, then with what and where."""

from __future__ import annotations

from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.styled_text import RolePalette, StyledLine, TextRole, line, spread
from ollm_tui.tui.values import Activity, SessionStatus, StatusWord
from ollm_tui.tui.widgets.tool_call_view import clock_text

WORD_ROLES = {
    StatusWord.IDLE: TextRole.MUTED,
    StatusWord.THINKING: TextRole.ACCENT,
    StatusWord.STREAMING: TextRole.ACCENT,
    StatusWord.RUNNING: TextRole.ACCENT,
    StatusWord.STOPPING: TextRole.WARNING,
    StatusWord.WAITING: TextRole.WARNING,
    StatusWord.OFFLINE: TextRole.WARNING,
    StatusWord.ERROR: TextRole.ERROR,
}
WIDE = 100
SMALL = 60
"""Below this width only the state and the model are named."""


class StatusLine(Widget):
    """One row. `detail` stands behind the state: seconds, a rate, the running tool."""

    activity: reactive[Activity] = reactive(Activity.IDLE)
    waiting: reactive[int] = reactive(0)
    detail: reactive[str] = reactive("")
    surroundings: reactive[SessionStatus] = reactive(SessionStatus())

    def __init__(self) -> None:
        super().__init__(id="status")
        self._palette: RolePalette | None = None

    @property
    def word(self) -> StatusWord:
        """ERROR outranks WAITING, that STOPPING, RUNNING, STREAMING, THINKING; OFFLINE replaces IDLE."""
        if self.activity is Activity.FAILED:
            return StatusWord.ERROR
        if self.waiting:
            return StatusWord.WAITING
        if self.activity is Activity.IDLE:
            return StatusWord.OFFLINE if self.surroundings.offline else StatusWord.IDLE
        return StatusWord(self.activity.value.upper())

    def render_line(self, y: int) -> Strip:
        if y > 0:
            return Strip.blank(self.size.width, self.rich_style)
        if self._palette is None:
            self._palette = RolePalette.of(self)
        return self._palette.strip(self._line().cut(self.size.width), self.size.width, self.rich_style)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None

    @property
    def text(self) -> str:
        return self._line().text

    def _line(self) -> StyledLine:
        word = self.word
        state = f"{word.value} {self.waiting}" if word is StatusWord.WAITING else word.value
        if self.detail and word not in (StatusWord.WAITING, StatusWord.IDLE, StatusWord.OFFLINE, StatusWord.ERROR):
            state += f" {visible(self.detail)}"
        around = self.surroundings
        facts = [visible(around.model)] if around.model else []
        if around.offline and word is not StatusWord.OFFLINE:
            facts.append("OFFLINE")
        if self.size.width >= SMALL:
            if around.tokens_used is not None:
                facts.append(_tokens(around.tokens_used, around.tokens_limit, short=self.size.width < WIDE))
            if around.workspace:
                facts.append(visible(around.workspace))
        policy = "policy: DENIES ALL" if around.denied_because else f"policy: {visible(around.mode)}"
        alarming = bool(around.denied_because) or around.mode == "yolo"
        parts: list[str | tuple[str, TextRole]] = [" ", (state, WORD_ROLES[word])]
        for fact in facts:
            parts += [(" | ", TextRole.MUTED), fact]
        parts += [(" | ", TextRole.MUTED), (policy, TextRole.ERROR if alarming else TextRole.PLAIN)]
        return line(*parts)


def _tokens(used: int, limit: int | None, *, short: bool) -> str:
    if not limit:
        return f"ctx {_thousands(used)}"
    if short:
        return f"ctx {100 * used // limit}%"
    return f"ctx {_thousands(used)}/{_thousands(limit)} {100 * used // limit}%"


def _thousands(count: int) -> str:
    return str(count) if count < 1_000 else f"{count / 1000:.1f}k"


class WaitingBanner(Widget):
    """Counts open questions and says when the next expires. A click opens the review."""

    waiting: reactive[int] = reactive(0)
    seconds_left: reactive[float | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__(id="banner")
        self._palette: RolePalette | None = None

    def watch_waiting(self, waiting: int) -> None:
        self.set_class(waiting > 0, "-waiting")

    @property
    def text(self) -> str:
        return self._line(self.size.width).text

    def render_line(self, y: int) -> Strip:
        if self._palette is None:
            self._palette = RolePalette.of(self)
        return self._palette.strip(self._line(self.size.width), self.size.width, self.rich_style)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None

    async def on_click(self) -> None:
        await self.run_action("screen.review")

    def _line(self, width: int) -> StyledLine:
        noun = "approval" if self.waiting == 1 else "approvals"
        left = self.seconds_left
        clock = f", next expires in {clock_text(left)}" if left is not None else ""
        words = f" ! {self.waiting} {noun} waiting{clock}"
        return spread(line((words, TextRole.WARNING)), line(("F8 review ", TextRole.ACCENT)), width)
