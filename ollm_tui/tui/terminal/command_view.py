"""Outcomes of a shell's commands: a dot for each, and keys for them."""

from __future__ import annotations

import math
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import events
from textual.binding import BindingType
from textual.geometry import Offset, Region
from textual.selection import Selection
from textual.strip import Strip

from ollm_tui.tui.bindings import KeyGroup, register_keys
from ollm_tui.tui.durations import duration_text
from ollm_tui.tui.styled_text import RolePalette, TextRole
from ollm_tui.tui.terminal.canvas import TerminalCanvas
from ollm_tui.tui.terminal.emulator.osc import ShellCommand
from ollm_tui.tui.terminal.keys_mouse_paste import encode_paste
from ollm_tui.tui.terminal.reading_pointer import Move
from ollm_tui.tui.terminal.reading_view import ReadingView, reading_key
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine

GUTTER = 1
"""Columns left of a shell's own."""
RUNNING, DONE, FAILED = ("○", TextRole.ACCENT), ("•", TextRole.OK), ("●", TextRole.ERROR)
"""Different dots: not everybody has the colours."""


@register_keys(KeyGroup.READING, 2)
class CommandView(ReadingView):
    """A view with a gutter, where it shows a shell that reports its commands (OSC 133)."""

    BINDINGS: ClassVar[list[BindingType]] = [
        reading_key("O", "copy_output", "copy_output", "Reading: copy the output of the command here"),
        reading_key("r", "run_again", "run_again", "Reading: type the command here again, without Enter"),
    ]

    def __init__(
        self, engine: TerminalEngine | None = None, *, classes: str | None = None, gutter: bool = False
    ) -> None:
        super().__init__(engine, classes=classes)
        self.dot_columns = GUTTER if gutter else 0
        self._dot_words = ""
        """What the tooltip says of a dot."""
        if gutter:
            self.styles.padding = (0, 0, 0, GUTTER)

    @property
    def told_of_command(self) -> str:
        """What became of the command at the reading pointer; empty where none is known."""
        return "" if self.reader is None else outcome_words(self.marks.command_at(self.reader.line))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable the keys of commands while reading."""
        if action in ("copy_output", "run_again"):
            return self.reader is not None
        return super().check_action(action, parameters)

    def action_copy_output(self) -> None:
        """Copy the output of the command at the pointer."""
        self.action_move(Move.SELECT_OUTPUT)
        if self.reader is not None and self.reader.selection is not None:
            self.action_copy()

    def action_run_again(self) -> None:
        """Type the command at the pointer again; Enter is the person's."""
        command = None if self.reader is None else self.marks.command_at(self.reader.line)
        text = "" if command is None else self._line_of(command)
        if not text:
            self.notify("There is no shell command here.", markup=False)
        elif "\n" in text:
            self.notify("That command has several lines: select and copy it.", markup=False)
        elif not self.interactive or not self.marks.at_prompt:
            self.notify("The shell is not at its prompt.", markup=False)
        else:
            self.end_reading()
            self.send(encode_paste(text, self.engine.input_modes))

    def _line_of(self, command: ShellCommand) -> str:
        if command.typed is None or command.output is None:
            return ""
        line, column = command.typed
        return self.frame.selected_text(Selection(Offset(column, line), Offset(-1, command.output - 1))).strip()

    # The gutter

    def render_lines(self, crop: Region) -> list[Strip]:
        """Draw the lines, with the dots of the commands that begin there."""
        strips = super().render_lines(crop)
        left, above = self.gutter.left - GUTTER, self.gutter.top  # a border may stand around it
        if not self.dot_columns or not crop.x <= left < crop.right:
            return strips
        top = -self.frame.row_of(0)
        commands = (command for command in self.marks.commands_from(top) if command.output is not None)
        dots = {command.prompt - top + above: _dot(command) for command in commands}
        background = RichStyle(bgcolor=self.rich_style.bgcolor)
        palette = RolePalette.of(self)
        for number, y in enumerate(crop.line_range):
            if y in dots:
                text, role = dots[y]
                strip, x = strips[number], left - crop.x
                dot = Strip([Segment(text, palette.style(role) + background)], GUTTER)
                strips[number] = Strip.join([strip.crop(0, x), dot, strip.crop(x + GUTTER)])
        return strips

    def on_terminal_view_reported(self, message: TerminalCanvas.Reported) -> None:
        """Draw the gutter anew."""
        if self.dot_columns:
            self.refresh(Region(-GUTTER, 0, GUTTER, self.content_size.height))

    def on_mouse_move(self, event: events.MouseMove) -> None:
        """Say in words what the dot under the mouse means."""
        if not self.dot_columns:
            return
        line = event.y - self.gutter.top - self.frame.row_of(0)
        command = self.marks.command_at(line) if event.x == self.gutter.left - GUTTER else None
        words = outcome_words(command) if command is not None and command.prompt == line else ""
        if words != self._dot_words:
            self._dot_words = words
            self.tooltip = words or None


def outcome_words(command: ShellCommand | None) -> str:
    """Return exit code and duration: `exit 1, 2.3 s`."""
    if command is None or command.output is None:
        return ""
    if command.end is None:
        return "running"
    code = "" if command.exit_code is None else f"exit {command.exit_code}"
    lasted = "" if command.seconds is None else duration_text(math.ceil(1000 * command.seconds))
    return ", ".join(part for part in (code, lasted) if part)


def _dot(command: ShellCommand) -> tuple[str, TextRole]:
    if command.end is None:
        return RUNNING
    return FAILED if command.exit_code else DONE
