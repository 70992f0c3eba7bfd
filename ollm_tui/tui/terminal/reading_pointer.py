"""Pointer over scrollback and screen with which a person reads a terminal; no widget."""

from __future__ import annotations

from enum import StrEnum

from textual.geometry import Offset
from textual.selection import Selection

from ollm_tui.tui.terminal.emulator.osc import ShellMarks
from ollm_tui.tui.terminal.view_frame import ViewFrame


class Move(StrEnum):
    """Where the pointer goes, or what it marks, by the word that key bindings use."""

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
    PROMPT_BEFORE = "prompt_before"
    PROMPT_AFTER = "prompt_after"
    MARK = "mark"
    MARK_LINES = "mark_lines"
    SELECT_OUTPUT = "select_output"


class ReadingPointer:
    """A position: line (numbered as in `ViewFrame`) and drawn character."""

    def __init__(self, frame: ViewFrame, marks: ShellMarks) -> None:
        self._frame = frame
        self._shell_marks = marks
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

    @property
    def at_bottom(self) -> bool:
        """Whether it is on the last visible line."""
        return self._frame.row_of(self.line) >= self._frame.engine.screen.lines - 1

    def move(self, move: Move) -> str:
        """Move one step as far as there is text, or mark; return why that is not possible."""
        match move:
            case Move.PROMPT_BEFORE | Move.PROMPT_AFTER:
                marks = self._shell_marks
                before = move is Move.PROMPT_BEFORE
                line = marks.prompt_before(self.line) if before else marks.prompt_after(self.line)
                if line is None:
                    return "There is no further prompt: a shell has to report them."
                self.go(line)
            case Move.MARK:
                self.toggle_mark()
            case Move.MARK_LINES:
                self._mark = self._mark or self.position
                self._whole_lines = True
            case Move.SELECT_OUTPUT:
                return self._select_output()
            case _:
                self._step(move)
        return ""

    def _step(self, move: Move) -> None:
        page = max(1, self._frame.engine.screen.lines - 1)
        oldest, newest = self._frame.bounds()
        lines = {Move.UP: -1, Move.DOWN: 1, Move.PAGE_UP: -page, Move.PAGE_DOWN: page}
        if move in lines:
            if move in (Move.PAGE_UP, Move.PAGE_DOWN):
                self._frame.scroll(-lines[move])
            self.line, self.column = self.line + lines[move], self._wanted_column
            self._clamp()
        elif move in (Move.OLDEST, Move.NEWEST):
            self.line, self.column = oldest if move is Move.OLDEST else newest, self._wanted_column
            self._clamp()
        else:
            last = len(self._frame.line_text(self.line)) - 1
            steps = {Move.LEFT: self.column - 1, Move.RIGHT: self.column + 1, Move.LINE_START: 0, Move.LINE_END: last}
            self.column = steps[move]
            self._clamp()
            self._wanted_column = self.column

    def go(self, line: int, column: int = 0) -> None:
        """Go to a position; scroll it to the middle when it is out of sight."""
        self.line, self.column = line, column
        self._wanted_column = column
        self._clamp(centred=True)

    def toggle_mark(self) -> None:
        """Begin a selection at the pointer, or end it."""
        self._mark = self.position if self._mark is None else None
        self._whole_lines = False

    def _select_output(self) -> str:
        """Select the output of the command here, and go to its first line."""
        output = self._shell_marks.output_at(self.line)
        oldest, newest = self._frame.bounds()
        first, end = (newest + 1, None) if output is None else output
        last = newest if end is None else end - 1
        if last < max(first, oldest):
            return "There is no output of a shell command here."
        self.go(max(first, oldest))
        self._mark, self._whole_lines = (min(last, newest), 0), True
        return ""

    @property
    def selection(self) -> Selection | None:
        """From the mark to the pointer, both included; None without a mark."""
        if self._mark is None:
            return None
        (first, start), (last, end) = sorted((self._mark, self.position))
        if self._whole_lines:
            start, end = 0, len(self._frame.line_text(last))
        return Selection(Offset(start, first), Offset(end + 1, last))

    def _clamp(self, *, centred: bool = False) -> None:
        """Move the pointer to where text is, and scroll it into sight."""
        oldest, newest = self._frame.bounds()
        self.line = min(max(self.line, oldest), newest)
        self.column = max(0, min(self.column, len(self._frame.line_text(self.line)) - 1))
        self._frame.reveal(self.line, centred=centred)
