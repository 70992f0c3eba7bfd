"""What a shell told about itself by OSC 133 and OSC 7: where its prompts and outputs are, how commands ended, its
folder."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from ollm_tui.tui.terminal.emulator.osc import (
    CommandFinished,
    CommandStarted,
    DirectoryChanged,
    PromptStarted,
    TerminalEvent,
)

KEPT_COMMANDS = 1_000
"""Commands of a shell that are remembered; their lines leave the scrollback about then."""


@dataclass
class ShellCommand:
    """One prompt and what was run at it. Lines are numbered for good, as in `Frame`; None is not known yet."""

    prompt: int
    output: int | None = None
    end: int | None = None
    """The line after the output."""
    exit_code: int | None = None


class ShellMarks:
    """Follows the reports of one shell."""

    def __init__(self) -> None:
        self.directory = ""
        """An absolute path in the shell's own words; not to be trusted, and empty while nothing was said."""
        self._commands: deque[ShellCommand] = deque(maxlen=KEPT_COMMANDS)

    def note(self, event: TerminalEvent) -> None:
        """Take a report."""
        match event:
            case DirectoryChanged():
                self.directory = event.path
            case PromptStarted():
                if self._commands and self._commands[-1].output is None:
                    self._commands.pop()  # nothing was run there: an empty line, or a prompt drawn anew
                self._commands.append(ShellCommand(event.line))
            case CommandStarted() if self._commands:
                self._commands[-1].output = event.line
            case CommandFinished() if self._commands and self._commands[-1].output is not None:
                self._commands[-1].end = event.line
                self._commands[-1].exit_code = event.exit_code
            case _:
                pass

    def forget_places(self) -> None:
        """The lines have other numbers now."""
        self._commands.clear()

    @property
    def last_exit_code(self) -> int | None:
        """Of the last command that is over; None where none is, or the shell does not say."""
        ended = (command for command in reversed(self._commands) if command.end is not None)
        return next((command.exit_code for command in ended), None)

    def prompt_before(self, line: int) -> int | None:
        return next((command.prompt for command in reversed(self._commands) if command.prompt < line), None)

    def prompt_after(self, line: int) -> int | None:
        return next((command.prompt for command in self._commands if command.prompt > line), None)

    def output_at(self, line: int) -> tuple[int, int | None] | None:
        """First line of the output of the command whose prompt or output holds `line`, and the line after it (None
        while it runs). Between commands, the one before."""
        for command in reversed(self._commands):
            if command.output is not None and command.prompt <= line:
                return command.output, command.end
        return None
