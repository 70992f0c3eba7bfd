"""`TerminalCanvas`: draws a terminal engine frame by frame, with scrolling and selection."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from textual import events, on
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.selection import Selection
from textual.strip import Strip
from textual.timer import Timer
from textual.widget import Widget

from ollm_tui.tui.styled_text import app_of
from ollm_tui.tui.terminal.emulator.osc import BellRang, ClipboardWrite, TerminalEvent, TitleSet
from ollm_tui.tui.terminal.strips import palette_of, selection_style
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.view_frame import ViewFrame, ViewState

FRAME_SECONDS = 1 / 30
RESIZE_SECONDS = 0.05
"""Debounce of new sizes, so that dragging a border does not flood the program."""


@dataclass
class ViewMessage(Message):
    """A message of one view, handled by `on_terminal_view_...`; `@on` can select by the view."""

    view: Widget

    def __init_subclass__(cls) -> None:
        super().__init_subclass__(namespace="terminal_view")

    @property
    def control(self) -> Widget:
        """The view, for selectors of `@on`."""
        return self.view


class FrameClock:
    """Clock of a view's frames; it stands while the view is hidden."""

    def __init__(self, view: Widget, draw: Callable[[], None]) -> None:
        self._view, self._draw = view, draw
        self._last = 0.0
        self.timer: Timer | None = None
        self.hidden = False

    def schedule(self) -> None:
        """Draw now, or when the frame interval has passed."""
        if self.timer is not None or self.hidden:
            return
        delay = self._last + FRAME_SECONDS - time.monotonic()
        if delay > 0:
            self.wait(delay)
        else:
            self._draw()

    def wait(self, seconds: float) -> None:
        """Draw after this time."""
        self.timer = self._view.set_timer(seconds, self._due)

    def drawn(self) -> None:
        """Count the interval from now."""
        self._last = time.monotonic()

    def _due(self) -> None:
        self.timer = None
        self._draw()


class EngineListener:
    """Listener of an engine that posts what it hears as messages.

    Posting is the one thing that is safe from the thread that feeds the engine.
    """

    def __init__(self, view: TerminalCanvas) -> None:
        self._view, self._engine = view, view.engine

    def connect(self) -> None:
        """Listen to the engine; its answers only where nobody else takes them."""
        self._engine.on_wake = self._wake
        if self._engine.on_reply is None:
            self._engine.on_reply = self._view.answer
        self._engine.on_event = self._event

    def disconnect(self) -> None:
        """Listen no longer, unless another view took the engine."""
        if self._engine.on_wake == self._wake:
            self._engine.on_wake = None
        if self._engine.on_reply == self._view.answer:
            self._engine.on_reply = None
        if self._engine.on_event == self._event:
            self._engine.on_event = None

    def _wake(self) -> None:
        self._view.post_message(TerminalCanvas.Wake(self._view))

    def _event(self, event: TerminalEvent) -> None:
        view = self._view
        match event:
            case TitleSet(title):
                view.post_message(TerminalCanvas.TitleChanged(view, title))
            case BellRang():
                view.post_message(TerminalCanvas.Bell(view))
            case ClipboardWrite(text):
                view.post_message(TerminalCanvas.Clipboard(view, text))
            case _:
                view.post_message(TerminalCanvas.Reported(view, event))


class TerminalCanvas(Widget):
    """The drawing half of a `TerminalView`; one canvas at a time draws an engine."""

    DEFAULT_CSS = """
    TerminalCanvas {
        width: 1fr;
        height: 1fr;
        min-height: 1;
        background: $background;
        color: $foreground;
        text-wrap: nowrap;
    }
    """

    @dataclass
    class Input(ViewMessage):
        """Bytes the person typed, pasted or clicked; hidden in `repr`, may be a password."""

        data: bytes = field(repr=False)

    @dataclass
    class DeviceReply(ViewMessage):
        """Bytes nobody typed: the terminal's answers, focus, passing mouse."""

        data: bytes

    @dataclass
    class Resized(ViewMessage):
        """The screen has another size, in cells; the PTY must get it."""

        columns: int
        lines: int

    @dataclass
    class TitleChanged(ViewMessage):
        """The program set its title; untrusted, never markup."""

        title: str

    @dataclass
    class Bell(ViewMessage):
        """The program rang the bell."""

    @dataclass
    class Clipboard(ViewMessage):
        """The program sets the clipboard, which its screen allows."""

        text: str

    @dataclass
    class Reported(ViewMessage):
        """The program reported its directory, a prompt, a command or an exit code."""

        event: TerminalEvent

    @dataclass
    class Scrolled(ViewMessage):
        """The person scrolled; `lines` above the newest line, 0 at the bottom."""

        lines: int

    @dataclass
    class Wake(ViewMessage):
        """The engine has something to draw; sent from the feeding thread."""

    interactive: reactive[bool] = reactive(True, repaint=False, init=False)
    """Whether keys and mouse go to a program."""

    def __init__(self, engine: TerminalEngine | None = None, *, classes: str | None = None) -> None:
        super().__init__(classes=classes)
        self.engine = engine or TerminalEngine()
        self.follow_size = True
        """Whether the engine takes the widget's size; replays keep their own."""
        self.dot_columns = 0
        """Columns at the left that are not the program's."""
        self.frame = ViewFrame(self.engine)
        self.frames = FrameClock(self, self._draw_frame)
        self._listener = EngineListener(self)
        self._resize_timer: Timer | None = None

    def watch_interactive(self) -> None:
        """Draw the cursor, or no longer."""
        if self.is_mounted:
            self.frames.schedule()

    def send(self, data: bytes) -> None:
        """Post what the person typed or clicked, for the program."""
        if data:
            self.post_message(self.Input(self, data))

    def answer(self, data: bytes) -> None:
        """Post the terminal's own answers, for the program; safe from any thread."""
        if data:
            self.post_message(self.DeviceReply(self, data))

    def on_mount(self) -> None:
        """Connect the engine."""
        self._listener.connect()
        app_of(self).theme_changed_signal.subscribe(self, lambda _theme: self.repaint())
        self.repaint()

    def on_unmount(self) -> None:
        """Disconnect the engine, unless another view took it."""
        self._listener.disconnect()

    def notify_style_update(self) -> None:
        """Redraw in the new style."""
        super().notify_style_update()
        if self.is_mounted:
            self.repaint()

    def on_terminal_view_clipboard(self, message: TerminalCanvas.Clipboard) -> None:
        """Set the clipboard."""
        app_of(self).copy_to_clipboard(message.text)

    # Size

    def on_resize(self, event: events.Resize) -> None:
        """Resize the engine, and report the size once it is stable."""
        columns, lines = self.content_size
        if columns <= 0 or lines <= 0 or not self.follow_size:
            return
        screen = self.engine.screen
        if (screen.columns, screen.lines) == (columns, lines) and self._resize_timer is None:
            self.post_message(self.Resized(self, columns, lines))
            return
        self.engine.resize(columns, lines)
        if self._resize_timer is not None:
            self._resize_timer.stop()

        def report() -> None:
            self._resize_timer = None
            self.post_message(self.Resized(self, screen.columns, screen.lines))

        self._resize_timer = self.set_timer(RESIZE_SECONDS, report)
        self.repaint()

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the screen's lines."""
        return self.engine.screen.lines

    # Drawing

    def on_terminal_view_wake(self, message: TerminalCanvas.Wake) -> None:
        """Draw the engine's changes."""
        message.stop()
        self.frames.schedule()

    @on(events.Hide)
    @on(events.Show)
    def _visibility_changed(self, event: events.Hide | events.Show) -> None:
        """Draw only while no other tab is in front."""
        self.frames.hidden = isinstance(event, events.Hide)
        if not self.frames.hidden:
            self.repaint()

    def _draw_frame(self) -> None:
        """Take what changed from the engine and refresh those lines only."""
        held = self.frame.seconds_held()
        if held > 0:
            self.frames.wait(min(held, FRAME_SECONDS))
            return
        changed = self.frame.update(self.view_state())
        self.frames.drawn()
        if self.frame.late:
            self.frames.schedule()
        if len(changed) == len(self.frame.strips):
            self.refresh()
        elif changed:
            width = self.dot_columns + self.content_size.width
            self.refresh(*(Region(-self.dot_columns, y, width, 1) for y in sorted(changed)))

    def repaint(self) -> None:
        """Redraw everything, for another theme or size."""
        self.frame.repaint(palette_of(self), self.view_state())
        self.refresh()

    def view_state(self) -> ViewState:
        """Return what is drawn over the screen."""
        return ViewState(self.has_focus, self.interactive, self.text_selection, selection_style(self))

    def render_line(self, y: int) -> Strip:
        """Return a line's strip, fitted to the width."""
        strips = self.frame.strips
        width = self.content_size.width
        if 0 <= y < len(strips):
            strip = strips[y]
            # `rich_style` is computed on each access, which took a third of a frame's time.
            return strip if strip.cell_length == width else strip.crop_extend(0, width, self.rich_style)
        return Strip.blank(width, self.rich_style)

    # Selection

    def get_selection(self, selection: Selection) -> tuple[str, str] | None:
        """Return the selected text, for Textual."""
        return self.frame.selected_text(selection), "\n"

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw the new selection."""
        self.frames.schedule()

    # Scrolling

    def scroll_back(self, lines: int) -> None:
        """Show older lines (negative: newer ones); at 0 follow the program again."""
        if self.frame.scroll(lines):
            self.refresh()
            self.post_message(self.Scrolled(self, self.frame.back))

    def scroll_to_bottom(self) -> None:
        """Follow the program again."""
        self.scroll_back(-self.frame.back)
