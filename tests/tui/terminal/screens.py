"""Screens for the tests of the terminal engine."""

from __future__ import annotations

from dataclasses import dataclass, field

from ollm_tui.tui.terminal.emulator import LiveScreen, LiveStream
from ollm_tui.tui.terminal.emulator.cells import CellStyle, ClusterTable
from ollm_tui.tui.terminal.emulator.osc import TerminalEvent
from ollm_tui.tui.terminal.emulator.screen_rows import ScreenRow
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.terminal_view import TerminalView


@dataclass
class Terminal:
    """A screen with its stream, and everything it answered and reported."""

    screen: LiveScreen
    stream: LiveStream
    replies: list[str] = field(default_factory=list)
    events: list[TerminalEvent] = field(default_factory=list)

    def feed(self, *pieces: bytes | str) -> Terminal:
        for piece in pieces:
            self.stream.feed(piece.encode() if isinstance(piece, str) else piece)
        return self

    @property
    def lines(self) -> list[str]:
        return [line.rstrip() for line in self.screen.display]

    @property
    def cursor(self) -> tuple[int, int]:
        return self.screen.cursor.y, self.screen.cursor.x

    def style(self, y: int, x: int) -> CellStyle:
        return self.screen.rows[y].style_at(x)

    def scrolled_back(self) -> list[str]:
        return list(self.screen.scrollback)


def terminal(columns: int = 20, lines: int = 5, *output: bytes | str, scrollback: int = 100) -> Terminal:
    screen = LiveScreen(columns, lines, scrollback)
    made = Terminal(screen, LiveStream(screen))
    screen.on_reply = made.replies.append
    screen.on_event = made.events.append
    return made.feed(*output)


def everything(made: Terminal) -> object:
    """All of a screen that a person or a program could ever notice."""
    screen = made.screen
    return (
        [_cells(row, screen.clusters) for row in screen.rows],
        [row.wrapped for row in screen.rows],
        [_cells(line, screen.clusters) for line in screen.history],
        (screen.cursor.y, screen.cursor.x, screen.cursor.hidden, screen.cursor.style, screen.cursor_shape),
        sorted(screen.mode),
        screen.margins,
        sorted(screen.tabstops),
        screen.title,
        screen.scrolled,
        screen.input_modes,
        made.replies,
        list(made.events),
    )


def _cells(line: ScreenRow | str, clusters: ClusterTable) -> list[tuple[str, CellStyle]]:
    row = ScreenRow(line) if isinstance(line, str) else line
    cells = [(clusters.expand(unit), row.style_at(x)) for x, unit in enumerate(row.text)]
    while cells and cells[-1] == (" ", CellStyle()):
        cells.pop()
    return cells


def whole_text(engine: TerminalEngine) -> list[str]:
    """Scrollback and screen as lines without trailing blanks."""
    with engine.lock:
        return [line.rstrip() for line in (*engine.screen.scrollback, *engine.screen.display)]


def shown(view: TerminalView) -> list[str]:
    """The lines as drawn, without trailing blanks."""
    return [strip.text.rstrip() for strip in view.frame.strips]
