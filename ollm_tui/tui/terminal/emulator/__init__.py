"""The terminal engine: `LiveScreen` and `LiveStream`, used as pyte's `Screen` and `ByteStream` are.

    screen = LiveScreen(80, 24)
    stream = LiveStream(screen)
    stream.feed(b"...")
    screen.display, screen.cursor, screen.dirty, screen.scrollback

No input raises and no input grows memory without bound. The parts, from the bottom: `widths`, `styles`, `rows`,
`grid`, `writing`, `editing`, `modes`, `screen` (each screen class adds a subject to the one before), `sequences`
and `stream`.
"""

from __future__ import annotations

from ollm_tui.tui.terminal.emulator.grid import SCROLLBACK_LINES
from ollm_tui.tui.terminal.emulator.live_screen import LiveScreen
from ollm_tui.tui.terminal.emulator.live_stream import LiveStream

__all__ = ["SCROLLBACK_LINES", "LiveScreen", "LiveStream"]
