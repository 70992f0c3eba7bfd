"""The person's hand in an agent's command: that they typed, interrupted or took it over, as the model is told."""

from __future__ import annotations

import codecs
import re
import termios
from collections import deque
from dataclasses import dataclass, field

from ollm_tui.core.base.escape import visible

KEPT_LINES = 10
"""Typed lines that are told; of more, the last ones."""

KEPT_CHARACTERS = 200
"""Characters of one typed line that are told."""

_LOCAL_MODES = 3
"""Where termios.tcgetattr keeps the flag word that has ECHO and ISIG."""

_KEY = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.|.)?", re.DOTALL)
"""An arrow or function key, and the marks around a paste: nothing that ends up in a line."""

_ERASE, _ERASE_WORD, _ERASE_LINE, _INTERRUPT = ("\x7f", "\x08"), "\x17", "\x15", "\x03"


@dataclass(frozen=True)
class TerminalInput:
    """Bytes on their way into a command. Never printed: a password may be among them."""

    data: bytes = field(repr=False)
    by_person: bool
    """False for what the terminal itself answers to a program's questions."""


@dataclass(frozen=True)
class PersonsHand:
    """What the person did at a command's terminal."""

    typed: bool = False
    unseen: bool = False
    """Some of it was typed while the terminal showed nothing of it, as for a password; that part is kept nowhere."""
    lines: tuple[str, ...] = ()
    """The last lines typed while the terminal showed them, safe to print."""
    interrupted: bool = False
    took_over: bool = False

    def for_model(self) -> tuple[str, ...]:
        """One note for each thing they did."""
        notes: list[str] = []
        if self.took_over:
            notes.append("the person took this command over in its terminal; its time limits no longer hold")
        if self.lines:
            notes.append("the person typed into its terminal: " + ", ".join(f'"{line}"' for line in self.lines))
        if self.unseen:
            notes.append("the person typed into its terminal; what is not told, since its echo was off")
        if self.typed and not (self.lines or self.unseen or self.interrupted):
            notes.append("the person pressed keys in its terminal")
        if self.interrupted:
            notes.append("the person interrupted it with Ctrl+C")
        return tuple(notes)


NO_HAND = PersonsHand()


class TypedLines:
    """Makes lines of keys as the terminal's own line editing does; only the last lines are kept."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._done: deque[str] = deque(maxlen=KEPT_LINES)
        self._line = ""

    def feed(self, data: bytes) -> None:
        for character in _KEY.sub("", self._decoder.decode(data)):
            if character in "\r\n":
                self._done.append(self._line)
                self._line = ""
            elif character in _ERASE:
                self._line = self._line[:-1]
            elif character == _ERASE_WORD:
                self._line = re.sub(r"\S*\s*\Z", "", self._line)
            elif character in (_ERASE_LINE, _INTERRUPT):
                self._line = ""
            elif character >= " " and len(self._line) < KEPT_CHARACTERS:
                self._line += character

    @property
    def lines(self) -> tuple[str, ...]:
        """The kept lines, the one that is not ended yet last."""
        lines = (*self._done, self._line) if self._line else tuple(self._done)
        return tuple(visible(line) for line in lines[-KEPT_LINES:])


@dataclass(frozen=True)
class LineModes:
    """What a terminal does with a key at this moment."""

    echo: bool = False
    signals: bool = False
    """Whether Ctrl+C interrupts."""


def line_modes(terminal: int) -> LineModes:
    """How the terminal behind a descriptor is set; where it does not say, as if nothing were shown."""
    try:
        local = int(termios.tcgetattr(terminal)[_LOCAL_MODES])
    except (OSError, termios.error):
        return LineModes()
    return LineModes(echo=bool(local & termios.ECHO), signals=bool(local & termios.ISIG))
