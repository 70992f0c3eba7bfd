"""`TerminalView`: draws a terminal engine; turns keys, pastes and the mouse into bytes.

The view knows no process. It is given an engine (or owns one), which any thread may feed, and posts what the person
does; whoever holds the PTY connects the two:

    view.engine.feed(data)            # output of the program, any thread
    on_terminal_view_input(event)     # event.data -> the program: the person typed it
    on_terminal_view_device_reply(event)  # event.data -> the program: nobody typed it
    on_terminal_view_resized(event)   # event.columns, event.lines -> size of the PTY

While `captures_keys` every key belongs to the program, except F8 and ctrl+]. Textual tests the app's priority bindings
before a widget sees a key, so the app's `check_action` must answer False for its priority actions meanwhile.
"""

from __future__ import annotations

from textual import events, on

from ollm_tui.tui.styled_text import app_of
from ollm_tui.tui.terminal import LEAVE_KEY, REVIEW_KEY
from ollm_tui.tui.terminal.canvas import TerminalCanvas
from ollm_tui.tui.terminal.keys_mouse_paste import (
    WHEEL_LINES,
    Action,
    Button,
    MouseAction,
    encode_focus,
    encode_key,
    encode_mouse,
    encode_paste,
    encode_raw_key,
    encode_wheel_keys,
    is_kitty_key,
)
from ollm_tui.tui.terminal.link_view import LinkView
from ollm_tui.tui.terminal.raw_keys import HasPrograms, RawKey
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine

FIND_KEY = "ctrl+f"
"""Searches while older lines are shown; at the bottom it is the program's."""

_BUTTONS = {0: Button.NONE, 1: Button.LEFT, 2: Button.MIDDLE, 3: Button.RIGHT}


class TerminalView(LinkView, can_focus=True):
    """A terminal screen; the program's text and title are never markup."""

    def __init__(
        self, engine: TerminalEngine | None = None, *, classes: str | None = None, gutter: bool = False
    ) -> None:
        super().__init__(engine, classes=classes, gutter=gutter)
        self._pressed = Button.NONE
        self._pointed = (-1, -1)
        self._outer_keys = 0
        """The level of modifyOtherKeys asked of the outer terminal."""

    @property
    def captures_keys(self) -> bool:
        """Whether every key but F8 and ctrl+] belongs to the program now."""
        # Not `has_focus`: that follows with the next message, and a key may come before it.
        return self.screen.focused is self and self.interactive and self.reader is None

    @property
    def takes_keys(self) -> bool:
        """Whether keys but F8 and ctrl+] go to the program and nowhere else."""
        return self.captures_keys and self.frame.back == 0

    # Keys, pastes, focus

    async def _on_key(self, event: events.Key) -> None:
        """Give the program every key but two, before other bindings see it."""
        key = event.key
        if key in (REVIEW_KEY, LEAVE_KEY) or self.reader is not None:
            return
        if self.frame.back > 0 and key == FIND_KEY:
            self.action_ask_find()
        elif (self.frame.back > 0 or not self.interactive) and self._scroll_key(key):
            pass
        elif not self.interactive:
            return
        else:
            self.scroll_to_bottom()
            self.send(self._bytes_of(event))
        event.stop()
        event.prevent_default()

    def send_key(self, key: str) -> None:
        """Send a key that was not typed here."""
        self.send(encode_key(key, None, self.engine.input_modes))

    def _bytes_of(self, event: events.Key) -> bytes:
        if not isinstance(event, RawKey):
            return encode_key(event.key, event.character, self.engine.input_modes)
        if is_kitty_key(event.raw):
            self.engine.screen.keyboard_protocol = True
        return encode_raw_key(event.raw, event.key, event.character, self.engine.input_modes) if event.raw else b""

    def on_paste(self, event: events.Paste) -> None:
        """Paste into the program, unless the person reads."""
        if self.interactive:
            event.stop()
            if self.reader is None:
                self.scroll_to_bottom()
                self.paste(event.text)

    def paste(self, text: str) -> None:
        """Send text as a paste: made safe, bracketed on request."""
        self.send(encode_paste(text, self.engine.input_modes))

    @on(events.Focus)
    @on(events.Blur)
    def _focus_changed(self, event: events.Focus | events.Blur) -> None:
        """Report the focus, or that it is lost."""
        if self.interactive:
            self.answer(encode_focus(isinstance(event, events.Focus), self.engine.input_modes))
        self._modify_outer_keys()
        with self.engine.lock:
            self.engine.screen.dirty.add(self.engine.screen.cursor.y)
        self.frames.schedule()

    def on_terminal_view_wake(self, message: TerminalCanvas.Wake) -> None:
        """Pass on what the program asked of the keyboard."""
        self._modify_outer_keys()

    def _modify_outer_keys(self) -> None:
        level = self.engine.input_modes.modify_keys if self.captures_keys else 0
        app = app_of(self)
        if level != self._outer_keys and isinstance(app, HasPrograms):
            self._outer_keys = level
            app.modify_outer_keys(level)

    # Mouse

    def _report(self, event: events.MouseEvent, action: Action, button: Button) -> bool:
        """Send a mouse action; False when it is ours (no reports, or Shift held)."""
        if self.has_mouse(event):
            return False
        modes = self.engine.input_modes
        offset = event.get_content_offset_capture(self)
        screen = self.engine.screen
        column = min(max(offset.x, 0), screen.columns - 1)
        line = min(max(offset.y, 0), screen.lines - 1)
        event.stop()
        if action is not Action.MOVE or self._pointed != (column, line):  # a move inside a cell is none
            mouse = MouseAction(action, button, column, line, alt=event.meta, ctrl=event.ctrl)
            report = encode_mouse(mouse, modes)
            if action is Action.MOVE and button is Button.NONE:
                self.answer(report)
            else:
                self.send(report)
        self._pointed = (column, line)
        return True

    def on_mouse_down(self, event: events.MouseDown) -> None:
        """Report a press."""
        button = _BUTTONS.get(event.button, Button.NONE)
        if self._report(event, Action.PRESS, button):
            self._pressed = button
            self.capture_mouse()

    def on_mouse_up(self, event: events.MouseUp) -> None:
        """Report the release, or copy what was selected."""
        if self._pressed is not Button.NONE:
            self.release_mouse()
            self._report(event, Action.RELEASE, self._pressed)
            self._pressed = Button.NONE
        else:
            # Every key belongs to the program, so selecting is the one way to copy while it has the focus.
            self.action_copy()

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Report a move."""
        self._report(event, Action.MOVE, self._pressed)

    @on(events.MouseScrollUp)
    @on(events.MouseScrollDown)
    def _wheel(self, event: events.MouseScrollUp | events.MouseScrollDown) -> None:
        """Report the wheel, or scroll."""
        up = isinstance(event, events.MouseScrollUp)
        if self._report(event, Action.PRESS, Button.WHEEL_UP if up else Button.WHEEL_DOWN):
            return
        event.stop()
        if self.interactive and self.reader is None and (keys := encode_wheel_keys(up, self.engine.input_modes)):
            self.send(keys)
        else:
            self.scroll_back(WHEEL_LINES if up else -WHEEL_LINES)

    def _scroll_key(self, key: str) -> bool:
        """Scroll by a key; False when it is no scrolling key."""
        page = max(1, self.engine.screen.lines - 1)
        match key:
            case "pageup" | "pagedown":
                self.scroll_back(page if key == "pageup" else -page)
            case "up" | "down":
                self.scroll_back(1 if key == "up" else -1)
            case "home":
                self.scroll_back(len(self.engine.screen.history))
            case "end" | "escape":
                self.scroll_to_bottom()
            case _:
                return False
        return True
