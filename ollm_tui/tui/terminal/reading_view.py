"""Reading a terminal with keys: moving, search, selection, copying."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.selection import Selection

from ollm_tui.tui.bindings import KeyGroup, register_keys
from ollm_tui.tui.styled_text import copy_text
from ollm_tui.tui.terminal.canvas import TerminalCanvas, ViewMessage
from ollm_tui.tui.terminal.emulator.osc import ShellMarks
from ollm_tui.tui.terminal.emulator.terminal_modes import MouseReports
from ollm_tui.tui.terminal.reading_pointer import Move, ReadingPointer
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.text_search import SearchRun, TextMatch
from ollm_tui.tui.terminal.view_frame import ViewState


def reading_key(keys: str, action: str, name: str, words: str, short: str = "") -> Binding:
    """Return a key of reading mode: `words` are for the help, `short` is for the footer."""
    return Binding(keys, action, short or words, id=f"terminal.{name}", tooltip=words, show=False)


@register_keys(KeyGroup.READING)
class ReadingView(TerminalCanvas):
    """A canvas; while `reader` is set, keys read and lines stay."""

    BINDINGS: ClassVar[list[BindingType]] = [
        reading_key("up,k", f"move('{Move.UP}')", "up", "Reading: a line up"),
        reading_key("down,j", f"move('{Move.DOWN}')", "down", "Reading: a line down"),
        reading_key("left,h", f"move('{Move.LEFT}')", "left", "Reading: a character left"),
        reading_key("right,l", f"move('{Move.RIGHT}')", "right", "Reading: a character right"),
        reading_key("pageup", f"move('{Move.PAGE_UP}')", "page_up", "Reading: a page up"),
        reading_key("pagedown", f"move('{Move.PAGE_DOWN}')", "page_down", "Reading: a page down"),
        reading_key("home,g", f"move('{Move.OLDEST}')", "oldest", "Reading: to the oldest line"),
        reading_key("end,G", f"move('{Move.NEWEST}')", "newest", "Reading: to the newest line"),
        reading_key("0", f"move('{Move.LINE_START}')", "line_start", "Reading: to the start of the line"),
        reading_key("dollar_sign", f"move('{Move.LINE_END}')", "line_end", "Reading: to the end of the line"),
        reading_key(
            "left_square_bracket",
            f"move('{Move.PROMPT_BEFORE}')",
            "prompt_before",
            "Reading: to the previous shell prompt",
        ),
        reading_key(
            "right_square_bracket", f"move('{Move.PROMPT_AFTER}')", "prompt_after", "Reading: to the next shell prompt"
        ),
        reading_key("space,v", f"move('{Move.MARK}')", "mark", "Reading: begin a selection here, or end it", "Select"),
        reading_key("V", f"move('{Move.MARK_LINES}')", "mark_lines", "Reading: select whole lines from here"),
        reading_key(
            "o", f"move('{Move.SELECT_OUTPUT}')", "select_output", "Reading: select the output of the command here"
        ),
        reading_key("c,y", "copy", "copy", "Reading: copy what is selected"),
        reading_key("slash", "ask_find", "find", "Search the terminal, also with the search key", "Search"),
        reading_key("n", "found(1)", "find_next", "Reading: next hit of the search"),
        reading_key("N", "found(-1)", "find_previous", "Reading: previous hit of the search"),
        reading_key("escape,q", "done", "done", "Reading: end the search, the selection, then the reading", "Back"),
    ]

    @dataclass
    class ReadingChanged(ViewMessage):
        """Reading began or ended, the pointer moved, a selection or match changed."""

    @dataclass
    class FindAsked(ViewMessage):
        """The person wants to search: ask for a query and call `find`."""

    def __init__(self, engine: TerminalEngine | None = None, *, classes: str | None = None) -> None:
        super().__init__(engine, classes=classes)
        self.marks = ShellMarks()
        self.reader: ReadingPointer | None = None
        self._had_selection = False

        def go_to(match: TextMatch) -> None:
            if self.reader is not None:
                self.reader.go(match.line, match.start)
                self._pointer_moved(self.reader)

        self.search = SearchRun(self, self.engine, go_to, self._changed)

    @property
    def allow_select(self) -> bool:
        """Whether text can be selected: not while the program has the mouse."""
        return self.reader is not None or self.engine.input_modes.mouse is MouseReports.OFF

    @property
    def selected_text(self) -> str:
        """The text selected by mouse or keys."""
        selection = self.text_selection
        return "" if selection is None else self.frame.selected_text(selection)

    def read(self) -> None:
        """Stop following the program; keys move the pointer."""
        if self.reader is None:
            self.frame.keeps_position = True
            self.reader = ReadingPointer(self.frame, self.marks)
            self._changed()

    def end_reading(self) -> None:
        """Follow the program again; keys are its own."""
        if self.reader is not None:
            self.reader = None
            self.frame.keeps_position = False
            self.search.stop()
            self.scroll_to_bottom()
            self._changed()

    def clear_selection(self) -> None:
        """Select nothing."""
        if self.text_selection is not None:
            self.screen.clear_selection()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the reading keys only while reading."""
        match action:
            case "move" | "copy" | "done":
                return self.reader is not None
            case "ask_find":
                return self.reader is not None or not self.interactive
            case "found":
                return bool(self.search.matches.found)
            case _:
                return super().check_action(action, parameters)

    # Moving and selecting

    def action_move(self, move: str) -> None:
        """Move or mark with the pointer; say why where that is not possible."""
        if self.reader is None:
            return
        if problem := self.reader.move(Move(move)):
            self.notify(problem, markup=False)
        else:
            self._pointer_moved(self.reader)

    def action_copy(self) -> None:
        """Copy the selected text."""
        if text := self.selected_text:
            copy_text(self, text)

    def action_done(self) -> None:
        """End the search, else the selection, else the reading."""
        if self.search.active:
            self.search.stop()
        elif self.reader is not None and self.reader.selection is not None:
            self.reader.toggle_mark()
            self.clear_selection()
        elif self.text_selection is not None:
            self.clear_selection()
        else:
            self.end_reading()

    def on_resize(self, event: events.Resize) -> None:
        """Forget line numbers before the engine rewraps them."""
        if self.follow_size and self.content_size.width != self.engine.screen.columns:
            self.marks.forget_lines()
            self.clear_selection()
            if self.reader is not None:
                self.reader = ReadingPointer(self.frame, self.marks)

    def selection_updated(self, selection: Selection | None) -> None:
        """Draw a selection, and tell of its begin and end."""
        super().selection_updated(selection)
        if (selection is not None) is not self._had_selection:
            self._had_selection = selection is not None
            self._changed()

    def _pointer_moved(self, pointer: ReadingPointer) -> None:
        """Show where the pointer is, and what it selects."""
        if (selection := pointer.selection) is not None:
            self.screen.selections = {self: selection}
        self._changed()

    def _changed(self) -> None:
        self.frames.schedule()
        self.post_message(self.ReadingChanged(self))

    # Search

    def action_ask_find(self) -> None:
        """Ask for a query."""
        self.post_message(self.FindAsked(self))

    def find(self, query: str) -> None:
        """Search from the pointer towards older lines, and read; empty finds nothing."""
        self.read()
        if self.reader is not None:
            self.search.start(query, self.reader.position)

    def action_found(self, step: int) -> None:
        """Go to the next match (-1: the previous), cyclically."""
        if self.reader is not None:
            self.search.step(step, self.reader.position)

    def on_terminal_view_wake(self, message: TerminalCanvas.Wake) -> None:
        """Search the new output."""
        self.search.output_arrived()

    def on_terminal_view_reported(self, message: TerminalCanvas.Reported) -> None:
        """Record what the shell reports."""
        self.marks.handle(message.event)

    def view_state(self) -> ViewState:
        """Add matches and pointer to what is drawn over the screen."""
        pointer = None if self.reader is None else self.reader.position
        return replace(
            super().view_state(),
            shows_cursor=self.interactive and self.reader is None,
            matches=self.search.matches,
            current=self.search.current,
            pointer=pointer,
        )
