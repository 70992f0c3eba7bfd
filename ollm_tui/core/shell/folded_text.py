"""Folding terminal output into text for the model: progress bars and control sequences resolved.

A line model and not a screen: lines are as long as the program made them, tabs stay tabs, and what has scrolled
off can no longer change, so memory is bounded whatever comes.
"""

from __future__ import annotations

import codecs
import re

from ollm_tui.core.shell.text_rows import WINDOW, OpenRows, Settle

_MAX_SEQUENCE = 256
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
_MAX_DEVICE_STRING = 8_000_000
"""As large a picture as the terminal draws (sixel, kitty's, iTerm2's): nothing of it is text for the model."""
_HARMLESS = bytes(byte for byte in range(256) if byte in b"\t\r\n" or (byte >= 32 and byte not in (0x7F, 0xC2)))
"""Bytes that are no control character and, in UTF-8, begin none."""

_ALTERNATE = frozenset({47, 1047, 1049})


class FoldedText:
    """Takes a terminal's bytes in any pieces and gives the text a person would have seen go by in the end.

    `settle` gets text that can no longer change, in order; `rest()` is what may still change.
    """

    def __init__(self, settle: Settle, window: int = WINDOW) -> None:
        self._rows = OpenRows(settle, window)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._held = ""
        """The begun sequence or line end that the next bytes complete."""
        self._string_end: re.Pattern[str] | None = None
        """What ends the string sequence that the output is inside of."""
        self._string_length = 0

    def feed(self, data: bytes) -> None:
        """Take the next bytes; characters and sequences may be split anywhere."""
        text = self._decoder.decode(data)
        if self._rows.at_end and not self._held and self._string_end is None and _is_plain(data):
            self._rows.append(text.replace("\r\n", "\n"))
        else:
            self._take(text)

    def rest(self) -> str:
        """Return the text after the settled one, as it is now."""
        return self._rows.text()

    def let_go(self) -> int:
        """Forget a character, sequence or line end that has only begun; return how many of the last bytes it is."""
        begun = len(self._decoder.getstate()[0]) + len(self._held.encode())
        self._decoder.reset()
        self._held = ""
        return begun

    def finish(self) -> None:
        """Settle everything: no more will come."""
        self._take(self._decoder.decode(b"", True))
        self._held = ""
        self._rows.finish()

    def _take(self, text: str) -> None:
        if self._held:
            text, self._held = self._held + text, ""
        if self._string_end is not None:
            text = self._after_string(self._string_end, text)
        if text.endswith("\r"):
            text, self._held = text[:-1], "\r"
        text = text.replace("\r\n", "\n")
        if "\x1b[" in text:
            text = _SGR.sub("", text)
        if self._rows.at_end:
            # Most output is plain lines: what comes before the first control character goes in one piece.
            control = _CONTROL.search(text)
            plain = len(text) if control is None else text.rfind("\n", 0, control.start()) + 1
            self._rows.append(text[:plain])
            text = text[plain:]
        start = 0
        while start < len(text):
            start = self._line(text, start)

    def _line(self, text: str, start: int) -> int:
        """Take one line of `text`, its newline included; return where the next starts."""
        end = text.find("\n", start)
        line_end = len(text) if end < 0 else end
        if self._rows.column is None and _CONTROL.search(text, start, line_end) is None:
            self._rows.write_at_end(text[start:line_end])
        else:
            resume = self._tokens(text, start, line_end)
            if resume > line_end:
                return resume
        if end < 0:
            return len(text)
        self._rows.newline()
        return end + 1

    def _tokens(self, text: str, start: int, end: int) -> int:
        while start < end:
            token = _TOKEN.match(text, start, end)
            if token is None:
                return end
            start = token.end()
            match token.lastgroup:
                case "text":
                    self._rows.write(token.group())
                case "control":
                    self._control(token.group())
                case "esc":
                    self._escape(token.group()[-1] if len(token.group()) == 2 else "")
                case "string":
                    device = token.group()[-1] == "P"
                    ending = _DEVICE_STRING_END if device else _LINE_STRING_END
                    start = len(text) - len(self._after_string(ending, text[start:]))
                case "unfinished":
                    if end == len(text) and len(token.group()) <= _MAX_SEQUENCE:
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
        left = _MAX_DEVICE_STRING - self._string_length
        if len(text) > left:
            self._string_end, self._string_length = None, 0
            return text[left:]
        self._string_length += len(text)
        self._string_end = ending
        # The terminator may be split between two reads.
        self._held = "\x1b" if text.endswith("\x1b") else ""
        return ""

    def _control(self, control: str) -> None:
        rows = self._rows
        match control:
            case "\r":
                rows.move_to(rows.row, 0)
            case "\b":
                rows.move_to(rows.row, rows.position - 1)
            case "\t" if rows.column is None:
                rows.write_at_end("\t")
            case "\t":
                rows.move_to(rows.row, (rows.position // 8 + 1) * 8)
            case "\x0b" | "\x0c" | "\x84" | "\x85":
                rows.newline()
            case "\x8d":
                rows.move_to(rows.row - 1, rows.position)
            case _:
                pass

    def _escape(self, final: str) -> None:
        rows = self._rows
        match final:
            case "7":
                rows.save_cursor()
            case "8":
                rows.restore_cursor()
            case "D" | "E":
                rows.newline()
            case "M":
                rows.move_to(rows.row - 1, rows.position)
            case "c":
                rows.reset()
            case _:
                pass

    def _sequence(self, final: str, params: str) -> None:
        rows = self._rows
        if params[:1] in ("?", "<", "=", ">"):
            if params[0] == "?" and final in "hl":
                modes = {int(mode) for mode in params[1:].split(";") if mode.isdecimal()}
                if modes & _ALTERNATE:
                    rows.switch_screen(alternate=final == "h")
            return
        numbers = [int(part) if part.isdecimal() else 0 for part in params.split(";")]
        first, second = numbers[0], numbers[1] if len(numbers) > 1 else 1
        count, row, column = max(1, first), rows.row, rows.position
        moves = {
            "A": (row - count, column),
            "B": (row + count, column),
            "C": (row, column + count),
            "D": (row, column - count),
            "E": (row + count, 0),
            "F": (row - count, 0),
            "G": (row, count - 1),
            "H": (count - 1, max(1, second) - 1),
            "`": (row, count - 1),
            "a": (row, column + count),
            "d": (count - 1, column),
            "f": (count - 1, max(1, second) - 1),
        }
        if final in moves:
            rows.move_to(*moves[final])
        elif final == "s":
            rows.save_cursor()
        elif final == "u":
            rows.restore_cursor()
        else:
            rows.edit(final, first)


def _is_plain(data: bytes) -> bool:
    """Whether there are only text and line ends; may say no. Many times faster than a pattern."""
    return not data.translate(None, _HARMLESS) and data.count(b"\r") == data.count(b"\r\n")


def fold(data: bytes) -> str:
    """Return the whole of an output as text."""
    pieces: list[str] = []
    folded = FoldedText(pieces.append)
    folded.feed(data)
    folded.finish()
    return "".join(pieces)
