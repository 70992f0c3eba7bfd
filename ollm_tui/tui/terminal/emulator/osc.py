"""Operating system commands (xterm ctlseqs): titles, links, clipboard, colours, shell integration."""

from __future__ import annotations

import base64
import binascii
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import takewhile
from urllib.parse import unquote, urlsplit

from pyte import graphics

MAX_TITLE = 256
MAX_LINK = 2_048
MAX_LINKS = 4_096
"""Hyperlinks kept by a screen; beyond it the oldest is dropped."""
MAX_CLIPBOARD = 100_000
"""Characters of base64 a program may put on the clipboard."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class TitleSet:
    """OSC 0 and 2: the window title without controls. Untrusted, never markup."""

    title: str


@dataclass(frozen=True)
class BellRang:
    """BEL."""


@dataclass(frozen=True)
class DirectoryChanged:
    """OSC 7: the shell's directory, absolute, and the host it named, if any."""

    host: str
    path: str


class MarkKind(StrEnum):
    """What a shell marks (OSC 133), by its letter."""

    PROMPT = "A"
    TYPING = "B"
    """The prompt is complete, the command line begins."""
    OUTPUT = "C"
    """The command runs."""
    END = "D"


@dataclass(frozen=True)
class ShellMark:
    """OSC 133: where a part begins; `line` as in `Grid.scrolled`, `exit_code` of an end if reported."""

    mark: MarkKind
    line: int
    exit_code: int | None = None
    column: int = field(default=0, compare=False)
    """Drawn characters of the line before it."""
    at: float = field(default=0.0, compare=False)
    """Monotonic seconds."""


@dataclass(frozen=True)
class ClipboardWrite:
    """OSC 52: text for the clipboard, from a screen that allows it."""

    text: str


TerminalEvent = TitleSet | BellRang | DirectoryChanged | ShellMark | ClipboardWrite
"""What a program reported, beside what it drew."""


def clean_title(text: str) -> str:
    """Return a title as one short line without controls or direction marks."""
    return _CONTROL.sub("", text)[:MAX_TITLE]


def directory_from(uri: str) -> DirectoryChanged | None:
    """Parse OSC 7's `file://host/path`; None when it is something else."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or not path.startswith("/") or _CONTROL.search(path):
        return None
    return DirectoryChanged(_CONTROL.sub("", parts.netloc), path)


def shell_mark(body: str, line: int, column: int, at: float) -> ShellMark | None:
    """Parse OSC 133: `A`, `B`, `C` and `D[;exit code]`, other options ignored."""
    kind, _, rest = body.partition(";")
    if kind not in ("A", "B", "C", "D"):
        return None
    code = re.fullmatch(r"(-?[0-9]{1,9})(;.*)?", rest, re.DOTALL) if kind == "D" else None
    return ShellMark(MarkKind(kind), line, int(code[1]) if code else None, column, at)


def clipboard_from(body: str) -> str | None:
    """Decode OSC 52's `selection;base64`; None for queries, too much, or nonsense."""
    _, _, payload = body.partition(";")
    if payload == "?" or not payload or len(payload) > MAX_CLIPBOARD:
        return None
    try:
        return base64.b64decode(payload, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


class LinkTable:
    """The hyperlinks (OSC 8) of a screen by number, bounded."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self.uris: dict[int, str] = {}
        self._next = 1

    def intern(self, uri: str) -> int:
        """Return a link's number; 0 (none) for empty, too long or unsafe ones."""
        if not 0 < len(uri) <= MAX_LINK or _CONTROL.search(uri):
            return 0
        if not uri.startswith(("http://", "https://", "mailto:", "file://")):
            return 0
        number = self._numbers.get(uri)
        if number is None:
            number, self._next = self._next, self._next + 1
            self._numbers[uri] = number
            self.uris[number] = uri
            if len(self.uris) > MAX_LINKS:
                oldest = next(iter(self.uris))
                del self._numbers[self.uris.pop(oldest)]
        return number

    def uri(self, number: int) -> str | None:
        """Return the link of a number; None when there is none."""
        return self.uris.get(number)


MAX_COMMANDS = 1_000
"""Commands kept of a shell; older ones' lines have left the scrollback."""


@dataclass
class ShellCommand:
    """A prompt and what was run at it; line numbers as in `Grid.scrolled`."""

    prompt: int
    typed: tuple[int, int] | None = None
    """Line and drawn characters where its own text begins."""
    output: int | None = None
    end: int | None = None
    """The line after the output."""
    exit_code: int | None = None
    began: float = 0.0
    seconds: float | None = None
    """How long it ran."""


class ShellMarks:
    """Prompts, outputs, exit codes and directory as one shell reports them (OSC 133, 7)."""

    def __init__(self) -> None:
        self.directory = ""
        """An absolute path as the shell reports it: untrusted; empty while unknown."""
        self._commands: deque[ShellCommand] = deque(maxlen=MAX_COMMANDS)

    def handle(self, event: TerminalEvent) -> None:
        """Record a report."""
        last = self._commands[-1] if self._commands else None
        match event:
            case DirectoryChanged():
                self.directory = event.path
            case ShellMark(MarkKind.PROMPT, line):
                if last is not None and last.output is None:
                    self._commands.pop()  # nothing was run there: an empty line, or a redrawn prompt
                self._commands.append(ShellCommand(line))
            case ShellMark(MarkKind.TYPING, line) if last is not None and last.output is None:
                last.typed = line, event.column
            case ShellMark(MarkKind.OUTPUT, line) if last is not None:
                last.output, last.began = line, event.at
            case ShellMark(MarkKind.END, line, code) if last is not None and last.output is not None:
                last.end, last.exit_code, last.seconds = line, code, event.at - last.began
            case _:
                pass

    def forget_lines(self) -> None:
        """Forget the commands: their lines have other numbers now."""
        self._commands.clear()

    @property
    def last_exit_code(self) -> int | None:
        """Of the last finished command; None when unknown."""
        ended = (command for command in reversed(self._commands) if command.end is not None)
        return next((command.exit_code for command in ended), None)

    @property
    def at_prompt(self) -> bool:
        """Whether the shell waits for a command."""
        return bool(self._commands) and self._commands[-1].output is None

    def command_at(self, line: int) -> ShellCommand | None:
        """Return the command whose prompt is at or last before `line`."""
        return next((command for command in reversed(self._commands) if command.prompt <= line), None)

    def commands_from(self, line: int) -> Iterator[ShellCommand]:
        """Yield the commands whose prompts are at `line` or below, the last first."""
        return takewhile(lambda command: command.prompt >= line, reversed(self._commands))

    def prompt_before(self, line: int) -> int | None:
        """Return the line of the last prompt before `line`."""
        return next((command.prompt for command in reversed(self._commands) if command.prompt < line), None)

    def prompt_after(self, line: int) -> int | None:
        """Return the line of the first prompt after `line`."""
        return next((command.prompt for command in self._commands if command.prompt > line), None)

    def output_at(self, line: int) -> tuple[int, int | None] | None:
        """Return the output of the command at or before `line`.

        Returns:
            Its first line, and the line after it (None while it runs).
        """
        for command in reversed(self._commands):
            if command.output is not None and command.prompt <= line:
                return command.output, command.end
        return None


FOREGROUND, BACKGROUND = 256, 257
"""Numbers of the text's and the background's colour, behind the 256 of the palette."""

_RGB = re.compile("rgb:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_HASH = re.compile("#([0-9a-fA-F]{6})")
_NUMBER = re.compile("[0-9]{1,3}")
_DYNAMIC = {"10": FOREGROUND, "11": BACKGROUND, "110": FOREGROUND, "111": BACKGROUND}


class Colours:
    """Colours by number, as 24 bits."""

    def __init__(self) -> None:
        self.theme: Mapping[int, int] = {FOREGROUND: 0xE0E0E0, BACKGROUND: 0x121212}
        """The sixteen, the text's and the background's as the view draws them."""
        self.own: dict[int, int] = {}
        """What the program set in their place."""

    def command(self, code: str, body: str) -> Iterator[str]:
        """Run one of these OSCs; yields what is answered."""
        if code == "4":
            fields = body.split(";")
            for field, spec in zip(fields[::2], fields[1::2], strict=False):
                if (number := _palette_number(field)) is not None:
                    yield from self._set(number, spec, f"4;{number}")
        elif code == "104":
            for number in map(_palette_number, body.split(";")) if body else range(FOREGROUND):
                self.own.pop(-1 if number is None else number, None)
        elif code in ("10", "11"):
            yield from self._set(_DYNAMIC[code], body, code)
        else:
            self.own.pop(_DYNAMIC[code], None)

    def _set(self, number: int, spec: str, name: str) -> Iterator[str]:
        if spec == "?":
            colour = self.own.get(number, self.theme.get(number))
            if colour is None:
                colour = int(graphics.FG_BG_256[number], 16)
            levels = "/".join(f"{level:02x}{level:02x}" for level in colour.to_bytes(3, "big"))
            yield f"\x1b]{name};rgb:{levels}\x1b\\"
        elif (colour := colour_from(spec)) is not None:
            self.own[number] = colour


def colour_from(text: str) -> int | None:
    """Parse a colour as X11 writes it: `rgb:RR/GG/BB` with 1 to 4 digits each, or `#RRGGBB`."""
    if match := _HASH.fullmatch(text):
        return int(match[1], 16)
    if match := _RGB.fullmatch(text):
        red, green, blue = (int(digits, 16) * 255 // (16 ** len(digits) - 1) for digits in match.groups())
        return red << 16 | green << 8 | blue
    return None


def _palette_number(field: str) -> int | None:
    return int(field) if _NUMBER.fullmatch(field) and int(field) < FOREGROUND else None
