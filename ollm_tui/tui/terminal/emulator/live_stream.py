"""Bytes to screen calls: a regular expression cuts tokens, a table maps sequences.

The grammar is ECMA-48's and xterm's: sequences are recognised by form, so unknown ones are ignored whole and never
shown as text. A sequence may be cut anywhere between two feeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from itertools import product

from pyte import ByteStream, Screen

from ollm_tui.tui.terminal.emulator.cells import NARROW
from ollm_tui.tui.terminal.emulator.inline_pictures import is_picture
from ollm_tui.tui.terminal.emulator.kitty_graphics import MAX_PICTURE, TOO_LONG
from ollm_tui.tui.terminal.emulator.live_screen import CONTROLS, ESCAPES, SEQUENCES, LiveScreen

SLICE = 65_536
"""Bytes parsed at a time, however much is fed."""
MAX_CSI = 256
"""Characters of a control sequence; a longer one is ignored."""
MAX_STRING = 262_144
"""Characters of an OSC that are kept; a longer one is ignored. Other strings keep `MAX_CONTROL_STRING`, and those that
carry a picture `MAX_PICTURE`."""
MAX_CONTROL_STRING = 4_096

_MIXED = r"[^\x00-\x1f\x7f-\x9f]"
_TOKEN = re.compile(
    rf"([{NARROW}]++)(?!{_MIXED})"  # 1
    rf"|(\r\n)"  # 2
    rf"|((?:\x1b\[[0-9;:]{{0,{MAX_CSI}}}+m[{NARROW}]*+)++)"  # 3: SGR, and the text behind each
    rf"|\x1b\[([<-?]?[0-9;:]{{0,{MAX_CSI}}}+[ -/]{{0,8}}[@-~])([{NARROW}]*+)"  # 4 5: and the text behind it
    rf"|({_MIXED}+)"  # 6
    rf"|([\x00-\x06\x10-\x17\x19\x1c-\x1f\x7f]+|[\x07-\x0f\x18\x1a])"  # 7: those without effect come in runs
    rf"|\x1b([ -/][0-~]|[0-OQ-WYZ\\`-jl-~])"  # 8: all but the beginnings of strings and control sequences
    rf"|(\x1b)"  # 9: what is none of these
)
_TEXT, _LINE_END, _STYLED, _CSI, _OTHER, _CONTROL, _SHORT = 1, 2, 3, 5, 6, 7, 8
_PARTS = re.compile(r"([<-?]?)([0-9;:]*)([ -/]*)(.)")
"""A control sequence without its beginning: private prefix, parameters, intermediates, final byte."""
MAX_KNOWN = 8_192
"""Control sequences whose meaning is remembered: every place of a screen, and more."""

_BLOCK = re.compile(rf"(?:[{NARROW}]*+(?:\x1b\[[0-9;:]{{0,{MAX_CSI}}}+m[{NARROW}]*+)*+\r\n){{2,4000}}+")
"""Finished lines of narrow text and SGR; possessive, so that no match costs one pass."""

_ESCAPE = re.compile(r"\x1b([ -/]{0,8})([0-~])")
_UNFINISHED = re.compile(r"\x1b[ -/]{0,8}")
_CANCELLED = re.compile(r"\x1b[ -/]{1,8}[\x18\x1a]")
_CSI_START = re.compile(r"\x1b\[([^\x18\x1a\x1b@-~\x80-\U0010ffff]*)")
_STRING_END = re.compile("[\x07\x18\x1a\x1b]")
_CSI_END = re.compile("[\x18\x1a\x1b@-~\x80-\U0010ffff]")
_C0 = re.compile("[\x00-\x17\x19\x1c-\x1f\x7f]+")
_C1 = re.compile("[\x80-\x9f]")
_STRING_KINDS = {"]": "OSC", "P": "DCS", "X": "SOS", "^": "PM", "_": "APC", "k": "TITLE"}


class LiveStream(ByteStream):
    """A parser that feeds a `LiveScreen`: UTF-8, bad bytes become U+FFFD, never raises."""

    def attach(self, screen: Screen) -> None:
        """Use `screen`.

        Raises:
            TypeError: It is not a `LiveScreen`.
        """
        if not isinstance(screen, LiveScreen):
            raise TypeError(f"{type(self).__name__} feeds a LiveScreen, not {type(screen).__name__}")
        self.listener = screen
        self._screen = screen
        self._tail = ""
        self._string: str | None = None
        self.string_parts: list[str] = []
        self._string_size = 0
        self._string_limit = 0
        self._skipping_csi = False
        self._no_block_before = 0
        self._controls: dict[str, Callable[[], None]] = {key: getattr(screen, name) for key, name in CONTROLS.items()}
        self._escapes: dict[str, Callable[[], None]] = {key: getattr(screen, name) for key, name in ESCAPES.items()}
        for mode, code in product("()", map(chr, range(0x30, 0x7F))):
            self._escapes[mode + code] = partial(screen.define_charset, code, mode)
        self._sequences = _sequences_of(screen)
        self._known: dict[str, tuple[Callable[..., None], tuple[int, ...]]] = {}

    def feed(self, data: bytes) -> None:
        """Parse a program's output, cut anywhere."""
        if self.listener is None:
            raise RuntimeError("the stream has no screen; attach one first")
        for start in range(0, len(data), SLICE):
            text = self.utf8_decoder.decode(data[start : start + SLICE])
            if not text.isascii():
                text = _C1.sub(_to_7_bit, text)
            if self._tail:
                text, self._tail = self._tail + text, ""
            self._run(text)

    def _run(self, text: str) -> None:
        position = 0
        length = len(text)
        screen = self._screen
        self._no_block_before = 0
        if self._string is not None or self._skipping_csi:
            position = self._resume(text)
        elif screen.cursor.x == 0:
            position = self._block(text, 0)
        while position < length:
            text, position = self._tokens(text, position)
            if len(text) != length:  # a sequence was rewritten: positions in the text have changed
                length = len(text)
                self._no_block_before = 0

    def _tokens(self, text: str, position: int) -> tuple[str, int]:
        """Run tokens up to what is none, or was taken as a block; return the text and the new position."""
        screen = self._screen
        for match in _TOKEN.finditer(text, position):
            kind = match.lastindex
            if kind == _TEXT:
                screen.draw_narrow(match[1])
            elif kind == _STYLED:
                screen.draw_styled(match[3])
            elif kind == _CSI:
                call, numbers = self._known.get(match[4]) or self._look_up(match[4])
                call(*numbers)
                screen.last_run = ""
                if match[5]:
                    screen.draw_narrow(match[5])
            elif kind == _LINE_END:
                screen.next_row()
                screen.last_run = ""
                end = match.end()
                position = self._block(text, end)
                if position > end:
                    return text, position
            elif kind == _OTHER:
                screen.draw_mixed(match[6])
            elif kind == _CONTROL:
                self._run_controls(match[7])
            elif kind == _SHORT:
                self._escapes.get(match[8], _ignore)()
                screen.last_run = ""
            else:
                return self._run_escape(text, match.start())
        return text, len(text)

    def _block(self, text: str, position: int) -> int:
        """Take as many finished lines as possible at once; return the new position."""
        if position < self._no_block_before or not self._screen.accepts_blocks():
            return position
        match = _BLOCK.match(text, position)
        if match is None:
            return position
        lines = match[0].split("\r\n")
        lines.pop()
        taken = self._screen.write_block(lines)
        if taken == len(lines):
            return match.end()
        self._no_block_before = match.end()  # or each line would scan the same text again
        return position + sum(map(len, lines[:taken])) + 2 * taken

    def _look_up(self, sequence: str) -> tuple[Callable[..., None], tuple[int, ...]]:
        """Return what a control sequence calls, and with what; remember it."""
        parts = _PARTS.fullmatch(sequence)
        assert parts is not None, sequence
        prefix, parameters, intermediates, final = parts.groups()
        entry = self._sequences.get(prefix + intermediates + final)
        if entry is None or len(sequence) > MAX_CSI:
            return _ignore, ()
        call, arity = entry
        if len(self._known) >= MAX_KNOWN:
            self._known.clear()
        known = self._known[sequence] = call, _numbers(parameters)[:arity]
        return known

    def _run_escape(self, text: str, position: int) -> tuple[str, int]:
        """Handle what is no token: escapes, strings, sequences cut short or malformed."""
        match = _ESCAPE.match(text, position)
        if match is None:
            return self._unfinished_escape(text, position)
        intermediates, final = match.groups()
        if not intermediates and final == "[":
            return self._run_irregular_csi(text, position)
        position = match.end()
        self._screen.last_run = ""
        if not intermediates and final in _STRING_KINDS:
            self._string = _STRING_KINDS[final]
            self.string_parts.clear()
            self._string_size = 0
            self._string_limit = MAX_STRING if self._string == "OSC" else MAX_CONTROL_STRING
            return text, self._resume_string(text, position)
        self._escapes.get(intermediates + final, _ignore)()
        return text, position

    def _unfinished_escape(self, text: str, position: int) -> tuple[str, int]:
        """Handle ESC without a final byte: run controls in between, keep the rest."""
        if text[position] != "\x1b":
            return text, position + 1
        controls = _C0.match(text, position + 1)
        if controls:
            return controls[0] + "\x1b" + text[controls.end() :], 0
        if cancelled := _CANCELLED.match(text, position):
            return text, cancelled.end()
        if _UNFINISHED.fullmatch(text, position):
            self._tail = text[position:]
            return text, len(text)
        return text, position + 1

    def _run_irregular_csi(self, text: str, position: int) -> tuple[str, int]:
        """Handle a control sequence that is unfinished, has controls inside, or is malformed."""
        match = _CSI_START.match(text, position)
        body = match[1] if match else ""
        end = match.end() if match else position + 2
        controls = "".join(_C0.findall(body))
        if controls:
            return controls + "\x1b[" + _C0.sub("", body) + text[end:], 0
        if end == len(text):
            if len(body) > MAX_CSI:
                self._skipping_csi = True
            else:
                self._tail = text[position:]
            return text, end
        # Malformed: a final byte ends it without effect, CAN and SUB cancel it, ESC and text begin something new.
        return text, end + 1 if text[end] <= "~" and text[end] != "\x1b" else end

    def _resume(self, text: str) -> int:
        if self._string is not None:
            return self._resume_string(text, 0)
        end = _CSI_END.search(text)
        stop = len(text) if end is None else end.start()
        for control in _C0.findall(text[:stop]):
            self._run_controls(control)
        if end is None:
            return stop
        self._skipping_csi = False
        return stop if end[0] == "\x1b" or end[0] > "~" else end.end()

    def _run_controls(self, controls: str) -> None:
        self._screen.last_run = ""
        for control in controls:
            call = self._controls.get(control)
            if call is not None:
                call()

    def _resume_string(self, text: str, position: int) -> int:
        """Collect a string up to ST, BEL (OSC and titles only), CAN, SUB or any other escape sequence."""
        start = position
        while True:
            end = _STRING_END.search(text, position)
            if end is None:
                self._collect(text[start:])
                return len(text)
            position = end.end()
            if end[0] == "\x07" and self._string not in ("OSC", "TITLE"):
                continue
            break
        if end[0] == "\x1b" and position == len(text):
            self._collect(text[start : end.start()])
            self._tail = "\x1b"
            return len(text)
        self._collect(text[start : end.start()])
        finished = end[0] == "\x07" or text[end.start() : end.start() + 2] == "\x1b\\"
        self._finish_string(complete=finished, cancelled=end[0] in "\x18\x1a")
        if end[0] == "\x1b":
            return position + 1 if finished else end.start()
        return position

    def _collect(self, piece: str) -> None:
        before = self._string_size
        self._string_size += len(piece)
        if before <= self._string_limit < self._string_size and self._begins_picture(piece):
            self._string_limit = MAX_PICTURE
        if self._string_size <= self._string_limit:
            self.string_parts.append(piece)
        else:
            self.string_parts.clear()

    def _begins_picture(self, piece: str) -> bool:
        head = "".join([*self.string_parts, piece[:64]])[:64]
        return is_picture(self._string or "", head)

    def _finish_string(self, *, complete: bool, cancelled: bool) -> None:
        kind, self._string = self._string, None
        body = "".join(self.string_parts)
        self.string_parts.clear()
        too_long = self._string_size > self._string_limit
        if too_long or not complete:
            if too_long and self._string_limit == MAX_PICTURE:
                self._screen.pictures.refuse(TOO_LONG)
            elif not cancelled and is_picture(kind or "", body[:64]):
                self._screen.pictures.refuse("cut short")
            return
        if kind == "OSC":
            self._screen.operating_system_command(body)
        elif kind == "DCS":
            self._screen.device_control(body)
        elif kind == "TITLE":
            self._screen.set_title(body)
        elif kind == "APC" and is_picture(kind, body):
            self._screen.pictures.run_command(body)


def _to_7_bit(match: re.Match[str]) -> str:
    """Return a C1 control in its two-character form (ECMA-48 5.3)."""
    return "\x1b" + chr(ord(match[0]) - 0x40)


def _ignore() -> None:
    """Do nothing, for sequences nobody knows."""


def _numbers(parameters: str) -> tuple[int, ...]:
    """Return the parameters as numbers: empty is 0, sub-parameters dropped, large ones capped."""
    if not parameters:
        return ()
    heads = [field.partition(":")[0] for field in parameters.split(";")]
    return tuple(min(int(head), 9999) if head else 0 for head in heads)


def _sequences_of(screen: LiveScreen) -> dict[str, tuple[Callable[..., None], int]]:
    """Return what each control sequence calls, with how many parameters."""
    table: dict[str, tuple[Callable[..., None], int]] = {}
    for key, (name, arity) in SEQUENCES.items():
        call: Callable[..., None] = getattr(screen, name)
        table[key] = (partial(call, private=True), arity) if key.startswith("?") else (call, arity)
    return table
