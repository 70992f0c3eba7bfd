"""Folding terminal output into text for the model: progress bars and control sequences resolved.

A line model and not a screen: lines are as long as the program made them, tabs stay tabs, and what has scrolled
off can no longer change, so memory is bounded whatever comes.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable
from typing import TypeAlias

from ollm_tui.core.shell.text_rows import Row, cells_of, column_at_end, overwritten, rendered, with_cells

WINDOW = 40
"""Lines that a program can still go back to: the height of the terminals that commands are given."""

LONGEST_ROW = 16_384
"""Characters of one line that are held for rewriting; what is longer settles in pieces."""

_LONGEST_SEQUENCE = 256
_SGR = re.compile(r"\x1b\[[0-9;:]*m")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_TOKEN = re.compile(
    r"""
      (?P<text>[^\x00-\x1f\x7f-\x9f]+)
    | (?P<csi>(?:\x1b\[|\x9b)(?P<params>[0-?]*)(?P<middle>[ -/]*)(?P<final>[@-~]))
    | (?P<string>\x1b[\]PX^_])
    | (?P<esc>\x1b[ -/]*[0-Z\\`-~])
    | (?P<unfinished>(?:\x1b\[|\x9b)[0-?]*[ -/]*\Z|\x1b[ -/]*\Z)
    | (?P<control>[\x00-\x1f\x7f-\x9f])
    """,
    re.VERBOSE,
)
_LINE_STRING_END = re.compile(r"\x07|\x1b\\|\x9c|\x18|\x1a|(?=\n)")
"""Titles, links and the like have no newlines: one that was never closed must not swallow the rest of the output."""

_DEVICE_STRING_END = re.compile(r"\x07|\x1b\\|\x9c|\x18|\x1a")
_LONGEST_DEVICE_STRING = 1_000_000
_HARMLESS = bytes(byte for byte in range(256) if byte in b"\t\r\n" or (byte >= 32 and byte not in (0x7F, 0xC2)))
"""Bytes that are no control character and, in UTF-8, begin none."""

_ALTERNATE = frozenset({47, 1047, 1049})

Settle: TypeAlias = Callable[[str], None]


class FoldedText:
    """Takes a terminal's bytes in any pieces and gives the text a person would have seen go by in the end.

    `settle` gets text that can no longer change, in order; `rest()` is what may still change.
    """

    def __init__(self, settle: Settle, window: int = WINDOW) -> None:
        self._settle = settle
        self._window = window
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._rows: list[Row] = [""]
        self._row = 0
        self._column: int | None = None
        """Cell the next character goes to; None is the end of the row, wherever that is."""
        self._saved: tuple[int, int] = (0, 0)
        self._main: tuple[list[Row], int, int | None] | None = None
        """The ordinary screen while a program shows its other one."""
        self._held = ""
        self._string_end: re.Pattern[str] | None = None
        """What ends the string sequence that the output is inside of."""
        self._string_length = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes; characters and sequences may be split anywhere."""
        text = self._decoder.decode(data)
        if self._at_end() and not self._held and self._string_end is None and _is_plain(data):
            self._append(text.replace("\r\n", "\n"))
        else:
            self._take(text)

    def rest(self) -> str:
        """Return the text after the settled one, as it stands now."""
        rows = self._rows if self._main is None else [*self._main[0], *self._rows]
        return "\n".join(map(rendered, rows))

    def let_go(self) -> int:
        """Forget a character or a sequence that has only begun; returns how many of the last bytes it is."""
        begun = len(self._decoder.getstate()[0]) + len(self._held.encode())
        self._decoder.reset()
        self._held = ""
        return begun

    def finish(self) -> None:
        """Settle everything: no more will come."""
        self._take(self._decoder.decode(b"", True))
        self._held = ""
        while len(self._rows) - 1 > self._row and not self._rows[-1]:
            # Blank lines that the cursor was only sent over.
            self._rows.pop()
        self._settle(self.rest())
        self._start_screen()
        self._main = None

    def _start_screen(self) -> None:
        self._rows = [""]
        self._row, self._column = 0, None

    def _take(self, text: str) -> None:
        if self._held:
            text, self._held = self._held + text, ""
        if self._string_end is not None:
            text = self._after_string(self._string_end, text)
        text = text.replace("\r\n", "\n")
        if "\x1b[" in text:
            text = _SGR.sub("", text)
        if self._at_end():
            # Most output is plain lines: what comes before the first control character goes in one piece.
            control = _CONTROL.search(text)
            plain = len(text) if control is None else text.rfind("\n", 0, control.start()) + 1
            self._append(text[:plain])
            text = text[plain:]
        start = 0
        while start < len(text):
            start = self._line(text, start)

    def _at_end(self) -> bool:
        return self._column is None and self._row == len(self._rows) - 1

    def _line(self, text: str, start: int) -> int:
        """Take one line of `text`, its newline included; returns where the next starts."""
        end = text.find("\n", start)
        line_end = len(text) if end < 0 else end
        if self._column is None and _CONTROL.search(text, start, line_end) is None:
            self._write_at_end(text[start:line_end])
        else:
            resume = self._tokens(text, start, line_end)
            if resume > line_end:
                return resume
        if end < 0:
            return len(text)
        self._newline()
        return end + 1

    def _tokens(self, text: str, start: int, end: int) -> int:
        while start < end:
            token = _TOKEN.match(text, start, end)
            if token is None:
                return end
            start = token.end()
            match token.lastgroup:
                case "text":
                    self._write(token.group())
                case "control":
                    self._control(token.group())
                case "esc":
                    self._escape(token.group()[-1] if len(token.group()) == 2 else "")
                case "string":
                    device = token.group()[-1] == "P"
                    ending = _DEVICE_STRING_END if device else _LINE_STRING_END
                    start = len(text) - len(self._after_string(ending, text[start:]))
                case "unfinished":
                    if end == len(text) and len(token.group()) <= _LONGEST_SEQUENCE:
                        self._held = token.group()
                case _:
                    if not token.group("middle"):
                        self._sequence(token.group("final"), token.group("params"))
        return start

    def _after_string(self, ending: re.Pattern[str], text: str) -> str:
        """Return what follows a title, a link or another string sequence; nothing while it has not ended."""
        found = ending.search(text)
        if found is not None:
            self._string_end, self._string_length = None, 0
            return text[found.end() :]
        left = _LONGEST_DEVICE_STRING - self._string_length
        if len(text) > left:
            self._string_end, self._string_length = None, 0
            return text[left:]
        self._string_length += len(text)
        self._string_end = ending
        # The terminator may be split between two reads.
        self._held = "\x1b" if text.endswith("\x1b") else ""
        return ""

    def _append(self, plain: str) -> None:
        """Text and newlines only, with the cursor at the very end."""
        if not plain:
            return
        breaks = plain.count("\n")
        if breaks >= self._window and self._main is None:
            cut = len(plain)
            for _ in range(self._window):
                cut = plain.rfind("\n", 0, cut)
            self._settle("\n".join(map(rendered, self._rows)) + plain[: cut + 1])
            self._rows = list[Row](plain[cut + 1 :].split("\n"))
        else:
            first, *others = plain.split("\n")
            self._write_at_end(first)
            self._rows.extend(others)
            self._scroll()
        self._row = len(self._rows) - 1
        self._bound_row()

    def _newline(self) -> None:
        self._row += 1
        if self._row == len(self._rows):
            self._rows.append("")
            self._scroll()
        self._move_to(self._row, 0)

    def _scroll(self) -> None:
        excess = len(self._rows) - self._window
        if excess > 0:
            if self._main is None:
                self._settle("".join(f"{rendered(row)}\n" for row in self._rows[:excess]))
            del self._rows[:excess]
            self._row = max(0, self._row - excess)

    def _write_at_end(self, text: str) -> None:
        row = self._rows[self._row]
        self._rows[self._row] = row + text if isinstance(row, str) else row + cells_of(text, len(row))
        self._bound_row()

    def _bound_row(self) -> None:
        row = self._rows[self._row]
        if len(row) <= LONGEST_ROW or self._column is not None:
            return
        if self._main is None and self._row == len(self._rows) - 1:
            self._settle("\n".join(map(rendered, self._rows)))
            self._start_screen()
        else:
            self._rows[self._row] = row[:LONGEST_ROW]

    def _write(self, text: str) -> None:
        if self._column is None:
            self._write_at_end(text)
            return
        column = min(self._column, LONGEST_ROW)
        self._rows[self._row], column = overwritten(self._rows[self._row], column, text)
        self._column = None if column >= column_at_end(self._rows[self._row]) else column

    def _move_to(self, row: int, column: int) -> None:
        self._row = max(0, min(row, self._window - 1))
        while self._row >= len(self._rows):
            self._rows.append("")
        column = max(0, min(column, LONGEST_ROW))
        end = column_at_end(self._rows[self._row])
        self._column = None if column == end else column

    def _position(self) -> int:
        return column_at_end(self._rows[self._row]) if self._column is None else self._column

    def _control(self, control: str) -> None:
        match control:
            case "\r":
                self._move_to(self._row, 0)
            case "\b":
                self._move_to(self._row, self._position() - 1)
            case "\t":
                if self._column is None:
                    self._write_at_end("\t")
                else:
                    self._move_to(self._row, (self._column // 8 + 1) * 8)
            case "\x0b" | "\x0c" | "\x84" | "\x85":
                self._newline()
            case "\x8d":
                self._move_to(self._row - 1, self._position())
            case _:
                pass

    def _escape(self, final: str) -> None:
        match final:
            case "7":
                self._saved = (self._row, self._position())
            case "8":
                self._move_to(*self._saved)
            case "D" | "E":
                self._newline()
            case "M":
                self._move_to(self._row - 1, self._position())
            case "c":
                self._erase_rows(0, len(self._rows))
                self._move_to(0, 0)
            case _:
                pass

    def _sequence(self, final: str, params: str) -> None:
        if params[:1] in ("?", "<", "=", ">"):
            self._private_mode(final, params)
            return
        numbers = [int(part) if part.isdecimal() else 0 for part in params.split(";")]
        first = numbers[0]
        count = max(1, first)
        column = self._position()
        match final:
            case "A" | "F":
                self._move_to(self._row - count, 0 if final == "F" else column)
            case "B" | "E":
                self._move_to(self._row + count, 0 if final == "E" else column)
            case "C" | "a":
                self._move_to(self._row, column + count)
            case "D":
                self._move_to(self._row, column - count)
            case "G" | "`":
                self._move_to(self._row, count - 1)
            case "d":
                self._move_to(count - 1, column)
            case "H" | "f":
                self._move_to(count - 1, max(1, numbers[1] if len(numbers) > 1 else 1) - 1)
            case "s":
                self._saved = (self._row, column)
            case "u":
                self._move_to(*self._saved)
            case _:
                self._edit(final, first, count, column)

    def _private_mode(self, final: str, params: str) -> None:
        if params[0] == "?" and final in "hl":
            modes = {int(mode) for mode in params[1:].split(";") if mode.isdecimal()}
            if modes & _ALTERNATE:
                self._switch_screen(final == "h")

    def _edit(self, final: str, first: int, count: int, column: int) -> None:
        """Handle the sequences that change text instead of moving."""
        row = self._rows[self._row]
        match final:
            case "K" if first == 0:
                self._rows[self._row] = with_cells(row)[:column]
            case "K":
                keep = [] if first == 2 else with_cells(row)[column + 1 :]
                self._rows[self._row] = [" "] * (column + 1) + keep if keep else []
            case "J" if first == 0:
                self._rows[self._row] = with_cells(row)[:column]
                self._erase_rows(self._row + 1, len(self._rows))
            case "J" if first == 1:
                self._erase_rows(0, self._row)
            case "J" if first == 2:
                self._erase_rows(0, len(self._rows))
            case "X":
                self._rows[self._row], _ = overwritten(row, column, " " * min(count, LONGEST_ROW))
            case "P":
                cells = with_cells(row)
                self._rows[self._row] = cells[:column] + cells[column + count :]
            case "@":
                cells = with_cells(row)
                self._rows[self._row] = cells[:column] + [" "] * min(count, LONGEST_ROW) + cells[column:]
            case "L":
                inserted: list[Row] = [""] * min(count, self._window)
                self._rows[self._row : self._row] = inserted
                del self._rows[self._window :]
            case "M":
                del self._rows[self._row : self._row + count]
            case _:
                return
        self._move_to(self._row, column)

    def _erase_rows(self, start: int, end: int) -> None:
        if end == len(self._rows):
            # Blank lines at the end are no text: nothing is left of them.
            del self._rows[max(start, self._row + 1) :]
            end = len(self._rows)
        for index in range(start, end):
            self._rows[index] = ""

    def _switch_screen(self, alternate: bool) -> None:
        if alternate and self._main is None:
            self._main = (self._rows, self._row, self._column)
            self._start_screen()
        elif not alternate and self._main is not None:
            self._rows, self._row, self._column = self._main
            self._main = None


def _is_plain(data: bytes) -> bool:
    """Whether there is nothing but text and line ends; may say no where there is. Many times faster than a pattern."""
    return not data.translate(None, _HARMLESS) and data.count(b"\r") == data.count(b"\r\n")


def fold(data: bytes) -> str:
    """Return the whole of an output as text."""
    pieces: list[str] = []
    folded = FoldedText(pieces.append)
    folded.feed(data)
    folded.finish()
    return "".join(pieces)
