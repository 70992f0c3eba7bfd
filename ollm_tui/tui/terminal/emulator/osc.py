"""Operating system commands: what a program says about its title, folder, commands, links and clipboard."""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

MAX_TITLE = 256
MAX_LINK = 2_048
MAX_LINKS = 4_096
"""Hyperlinks remembered by a screen; the oldest is forgotten beyond it."""
MAX_CLIPBOARD = 100_000
"""Characters of base64 a program may put on the clipboard."""

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


@dataclass(frozen=True)
class TitleSet:
    """OSC 0 and 2: the window title, controls removed. Untrusted text: never hand it to markup."""

    title: str


@dataclass(frozen=True)
class BellRang:
    """BEL."""


@dataclass(frozen=True)
class DirectoryChanged:
    """OSC 7: the shell's folder as an absolute path, and the host it named (may be empty)."""

    host: str
    path: str


@dataclass(frozen=True)
class PromptStarted:
    """OSC 133;A: a shell prompt begins. `line` counts from the first line that ever left the screen."""

    line: int


@dataclass(frozen=True)
class CommandTyped:
    """OSC 133;B: the prompt is complete, the person's command begins."""

    line: int


@dataclass(frozen=True)
class CommandStarted:
    """OSC 133;C: the command runs, its output begins."""

    line: int


@dataclass(frozen=True)
class CommandFinished:
    """OSC 133;D: the command ended; `exit_code` is None when the shell did not say."""

    line: int
    exit_code: int | None


@dataclass(frozen=True)
class ClipboardWrite:
    """OSC 52: the program wants this text on the clipboard. Sent only to a screen that allows it."""

    text: str


TerminalEvent = (
    TitleSet
    | BellRang
    | DirectoryChanged
    | PromptStarted
    | CommandTyped
    | CommandStarted
    | CommandFinished
    | ClipboardWrite
)
"""What a program told the terminal, beside what it drew."""


def clean_title(text: str) -> str:
    """A title as one short line without controls or direction marks."""
    return _CONTROL.sub("", text)[:MAX_TITLE]


def directory_from(uri: str) -> DirectoryChanged | None:
    """OSC 7's `file://host/path`; None when it is something else."""
    try:
        parts = urlsplit(uri)
    except ValueError:
        return None
    path = unquote(parts.path)
    if parts.scheme != "file" or not path.startswith("/") or _CONTROL.search(path):
        return None
    return DirectoryChanged(_CONTROL.sub("", parts.netloc), path)


def command_mark(body: str, line: int) -> TerminalEvent | None:
    """OSC 133 (shell integration): `A`, `B`, `C` and `D[;exit code]`, options behind them ignored."""
    kind, _, rest = body.partition(";")
    match kind:
        case "A":
            return PromptStarted(line)
        case "B":
            return CommandTyped(line)
        case "C":
            return CommandStarted(line)
        case "D":
            code = rest.partition(";")[0]
            return CommandFinished(line, int(code) if re.fullmatch(r"-?[0-9]{1,9}", code) else None)
        case _:
            return None


def clipboard_from(body: str) -> str | None:
    """OSC 52's `selection;base64` as text; None for a request to read it, too much of it, or nonsense."""
    _, _, payload = body.partition(";")
    if payload == "?" or not payload or len(payload) > MAX_CLIPBOARD:
        return None
    try:
        return base64.b64decode(payload, validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return None


class LinkTable:
    """The hyperlinks of a screen by number; styles hold the number, so a link costs its text once."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._uris: dict[int, str] = {}
        self._next = 1

    def intern(self, uri: str) -> int:
        """The number of a link; 0 (no link) for one that is empty, too long, or of a scheme nobody should open."""
        if not 0 < len(uri) <= MAX_LINK or _CONTROL.search(uri):
            return 0
        if not uri.startswith(("http://", "https://", "mailto:", "file://")):
            return 0
        number = self._numbers.get(uri)
        if number is None:
            number, self._next = self._next, self._next + 1
            self._numbers[uri] = number
            self._uris[number] = uri
            if len(self._uris) > MAX_LINKS:
                oldest = next(iter(self._uris))
                del self._numbers[self._uris.pop(oldest)]
        return number

    def uri(self, number: int) -> str | None:
        """The link behind a number; None when there is none or it was forgotten."""
        return self._uris.get(number)
