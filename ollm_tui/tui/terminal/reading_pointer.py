"""The pointer of reading a terminal: moves over scrollback and screen, and selects."""

from __future__ import annotations

from enum import StrEnum

from textual.geometry import Offset
from textual.selection import Selection

from ollm_tui.tui.terminal.view_frame import ViewFrame


class Move(StrEnum):
    """Where the pointer goes, by the word that key bindings use."""

    UP = "up"
    DOWN = "down"
    LEFT = "left"
    RIGHT = "right"
    PAGE_UP = "page_up"
    PAGE_DOWN = "page_down"
    OLDEST = "oldest"
    NEWEST = "newest"
    LINE_START = "line_start"
    LINE_END = "line_end"


class ReadingPointer:
    """A position: line (numbered as in `ViewFrame`) and drawn character."""

    def __init__(self, frame: ViewFrame) -> None:
        self._frame = frame
        with frame.engine.lock:
            screen = frame.engine.screen
            bottom = screen.scrolled - frame.back + screen.lines - 1
            self.line = bottom if frame.back else screen.scrolled + screen.cursor.y
            self.column = 0 if frame.back else screen.cursor.x
        self._wanted_column = self.column
        """The column that vertical moves try to keep."""
        self._mark: tuple[int, int] | None = None
        self._whole_lines = False
        self._clamp()

    @property
    def position(self) -> tuple[int, int]:
        """Line and column."""
        return self.line, self.column

    def move(self, move: Move) -> None:
        """Move one step, as far as there is text."""
        page = max(1, self._frame.engine.screen.lines - 1)
        oldest, newest = self._frame.bounds()
        match move:
            case Move.UP:
                self._go_to_line(self.line - 1)
            case Move.DOWN:
                self._go_to_line(self.line + 1)
            case Move.PAGE_UP:
                self._frame.scroll(page)
                self._go_to_line(self.line - page)
            case Move.PAGE_DOWN:
                self._frame.scroll(-page)
                self._go_to_line(self.line + page)
            case Move.OLDEST:
                self._go_to_line(oldest)
            case Move.NEWEST:
                self._go_to_line(newest)
            case Move.LEFT:
                self._go_to_column(self.column - 1)
            case Move.RIGHT:
                self._go_to_column(self.column + 1)
            case Move.LINE_START:
                self._go_to_column(0)
            case Move.LINE_END:
                self._go_to_column(len(self._frame.line_text(self.line)) - 1)

    def go(self, line: int, column: int = 0) -> None:
        """Go to a position; scroll it to the middle when it is out of sight."""
        self.line, self.column = line, column
        self._wanted_column = column
        self._clamp(centred=True)

    def toggle_mark(self) -> None:
        """Begin a selection at the pointer, or end it."""
        self._mark = self.position if self._mark is None else None
        self._whole_lines = False

    def mark_lines(self) -> None:
        """Select whole lines, from the pointer or the mark there is."""
        self._mark = self._mark or self.position
        self._whole_lines = True

    def select(self, first: int, last: int) -> None:
        """Select whole lines and go to the first."""
        self.go(first)
        self._mark, self._whole_lines = (last, 0), True

    @property
    def selection(self) -> Selection | None:
        """From the mark to the pointer, both included; None without a mark."""
        if self._mark is None:
            return None
        (first, start), (last, end) = sorted((self._mark, self.position))
        if self._whole_lines:
            start, end = 0, len(self._frame.line_text(last))
        return Selection(Offset(start, first), Offset(end + 1, last))

    def _go_to_line(self, line: int) -> None:
        self.line, self.column = line, self._wanted_column
        self._clamp()

    def _go_to_column(self, column: int) -> None:
        self.column = column
        self._clamp()
        self._wanted_column = self.column

    def _clamp(self, *, centred: bool = False) -> None:
        """Move the pointer to where text is, and scroll it into sight."""
        oldest, newest = self._frame.bounds()
        self.line = min(max(self.line, oldest), newest)
        self.column = max(0, min(self.column, len(self._frame.line_text(self.line)) - 1))
        self._frame.reveal(self.line, centred=centred)
