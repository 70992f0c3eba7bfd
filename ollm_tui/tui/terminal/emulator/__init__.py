"""The terminal engine: `LiveScreen` and `LiveStream`, used as pyte's `Screen` and `ByteStream` are.

    screen = LiveScreen(80, 24)
    stream = LiveStream(screen)
    stream.feed(b"...")
    screen.display, screen.cursor, screen.dirty, screen.scrollback

No input raises and no input grows memory without bound. Each screen class adds a subject to the one before:
`scrollback`, `scrolling`, `writing`, `line_blocks`, `cursor_editing`, `rectangles`, `alternate_screen`,
`terminal_modes`, `live_screen`.
"""

from __future__ import annotations

from ollm_tui.tui.terminal.emulator.live_screen import LiveScreen
from ollm_tui.tui.terminal.emulator.live_stream import LiveStream
from ollm_tui.tui.terminal.emulator.scrollback import SCROLLBACK_LINES

__all__ = ["SCROLLBACK_LINES", "LiveScreen", "LiveStream"]
