"""One row above the prompt that says what must not be missed where the queue is out of sight."""

from __future__ import annotations

from textual.reactive import reactive
from textual.strip import Strip
from textual.widget import Widget

from ollm_tui.tui.styled_text import Ink, Line, Palette, line, spread
from ollm_tui.tui.widgets.tool_call import clock_text


class Banner(Widget):
    """Counts open questions and says when the next expires. A click opens the review."""

    waiting: reactive[int] = reactive(0)
    seconds_left: reactive[float | None] = reactive(None)

    def __init__(self) -> None:
        super().__init__(id="banner")
        self._palette: Palette | None = None

    def watch_waiting(self, waiting: int) -> None:
        self.set_class(waiting > 0, "-waiting")

    @property
    def text(self) -> str:
        return self._line(self.size.width).text

    def render_line(self, y: int) -> Strip:
        if self._palette is None:
            self._palette = Palette.of(self)
        return self._palette.strip(self._line(self.size.width), self.size.width, self.rich_style)

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._palette = None

    async def on_click(self) -> None:
        await self.run_action("screen.review")

    def _line(self, width: int) -> Line:
        noun = "approval" if self.waiting == 1 else "approvals"
        left = self.seconds_left
        clock = f", next expires in {clock_text(left)}" if left is not None else ""
        words = f" ! {self.waiting} {noun} waiting{clock}"
        return spread(line((words, Ink.WARNING)), line(("F8 review ", Ink.ACCENT)), width)
