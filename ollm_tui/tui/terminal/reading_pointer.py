"""Reading a terminal with keys: a pointer that moves over scrollback and screen, and a selection from a mark to it."""

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
    """The pointer, as line (numbered for good, as in `ViewFrame`) and drawn character.."""

    def __init__(self, frame: ViewFrame) -> None:
        self._frame = frame
        with frame.engine.lock:
            screen = frame.engine.screen
            bottom = screen.scrolled - frame.back + screen.lines - 1
            self.line = bottom if frame.back else screen.scrolled + screen.cursor.y
            self.column = 0 if frame.back else screen.cursor.x
        self._wanted = self.column
        """The column that moves up and down try to keep."""
        self._mark: tuple[int, int] | None = None
        self._whole_lines = False
        self._settle()

    @property
    def place(self) -> tuple[int, int]:
        return self.line, self.column

    def move(self, move: Move) -> None:
        """One step. At the border nothing happens."""
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
        """To a place, brought to the middle of the view where it was out of sight."""
        self.line, self.column = line, column
        self._wanted = column
        self._settle(centred=True)

    def toggle_mark(self) -> None:
        """Begin a selection at the pointer, or end it."""
        self._mark = self.place if self._mark is None else None
        self._whole_lines = False

    def mark_lines(self) -> None:
        """Begin a selection of whole lines at the pointer, or make that of the one there is."""
        self._mark = self._mark or self.place
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
        (first, start), (last, end) = sorted((self._mark, self.place))
        if self._whole_lines:
            start, end = 0, len(self._frame.line_text(last))
        return Selection(Offset(start, first), Offset(end + 1, last))

    def _go_to_line(self, line: int) -> None:
        self.line, self.column = line, self._wanted
        self._settle()

    def _go_to_column(self, column: int) -> None:
        self.column = column
        self._settle()
        self._wanted = self.column

    def _settle(self, *, centred: bool = False) -> None:
        """Bring the pointer to where text is, and the view to the pointer."""
        oldest, newest = self._frame.bounds()
        self.line = min(max(self.line, oldest), newest)
        self.column = max(0, min(self.column, len(self._frame.line_text(self.line)) - 1))
        self._frame.reveal(self.line, centred=centred)
