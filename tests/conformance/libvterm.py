"""libvterm's test scripts: what is pushed, and what the cursor, the cells, the pen and the replies must be then.

Only what can be seen of a terminal is checked. Lines about libvterm's own callbacks (putglyph, damage, erase, ...) and
its encoders of keys and mouse are passed over.
"""

from __future__ import annotations

import re
import unicodedata
from pathlib import Path

from pyte import modes as mo

from ollm_tui.tui.terminal.emulator import cells
from ollm_tui.tui.terminal.emulator.cells import RGB, CellStyle
from tests.conformance.counts import Counts
from tests.tui.terminal.screens import Terminal, terminal

COLUMNS, LINES = 80, 25
OTHERWISE = {
    "11state_movecursor [Vertical Position Backward]": "neither xterm nor VTE has VPB",
    "13state_edit [IL]": "xterm goes to the first column",
    "13state_edit [DECRQSS on DECSCA]": "xterm answers 1 or 0",
    "16state_resize [Resize shrink": "lines are wrapped again",
    "26state_query [DA]": "we are a VT220",
    "26state_query [XTVERSION]": "each terminal tells its own name",
    "26state_query [DECCPR]": "xterm names the page too",
    "26state_query [DECRQSS on SGR": "xterm begins with 0",
    "26state_query [S8C1T": "answers in UTF-8 have no C1",
    "28state_dbl_wh [Double Width, Single Height] cursor": "lines of double width are drawn single, as in VTE",
    "30state_pen [Font Selection]": "a terminal in a terminal has one font",
    "30state_pen [Super/Subscript]": "a terminal in a terminal has one size of letters",
    "30state_pen [Underline]": "Textual draws no curly underline",
    "30state_pen [Bold+ANSI": "libvterm's own setting",
    "61screen_unicode [10 comb": "a cell keeps 16 code points",
    "61screen_unicode [40 comb": "a cell keeps 16 code points",
    "64screen_pen [Font]": "a terminal in a terminal has one font",
    "64screen_pen [Super/subscript]": "a terminal in a terminal has one size of letters",
}
"""Where we follow xterm and VTE instead, and what cannot be drawn in a terminal: the checks' names as they begin."""
SCROLLBACK = ["ABCDE"] * LINES
"""What libvterm's harness has above the screen whenever a script asks for a scrollback."""
DEFAULT_COLOURS = ("rgb(240,240,240)", "rgb(0,0,0)")
DARK, LIGHT = (0, 224), (64, 255)
"""Levels of libvterm's eight first and eight bright colours."""

_LITERAL = re.compile(r'"((?:[^"\\]|\\.)*)"(?:\s*x\s*(\d+))?')
_ESCAPE = re.compile(r"\\(x\{([0-9a-fA-F]+)\}|x([0-9a-fA-F]{1,2})|.)")
_LETTERS = {"e": "\x1b", "n": "\n", "r": "\r", "t": "\t", "b": "\b", "a": "\a", "f": "\f", "0": "\0"}
_CELL = re.compile(r"\{(.*?)\} width=(\d) attrs=\{(.*?)\}(?: dwl)?(?: dhl-\w+)? fg=(\S+) bg=(\S+)")
_ATTRIBUTES = {"B": cells.BOLD, "I": cells.ITALIC, "K": cells.BLINK, "R": cells.REVERSE, "S": cells.STRIKE}
_PEN = {"bold": "B", "italic": "I", "blink": "K", "reverse": "R", "strike": "S"}


ONLY = {"font": "0", "small": "off", "baseline": "normal"}
"""What a terminal in a terminal has no choice of: scripts that reset these are met, those that set them are not."""

Cell = tuple[str, int, str, str, str]
"""Characters, columns, attributes, foreground, background."""


class Script:
    """One test file on one terminal."""

    def __init__(self, name: str, counts: Counts) -> None:
        self.name = name
        self.counts = counts
        self.about = ""
        self.made: Terminal = terminal(COLUMNS, LINES)
        self.expected: list[bytes] | None = None
        self.scrollback: list[str] = []
        self.default = DEFAULT_COLOURS

    def run(self, text: str) -> None:
        for line in text.splitlines():
            if line.strip() == "__END__":
                break
            self.line(line.strip())
        self._settle_replies()

    def line(self, line: str) -> None:
        if match := re.match(r"\$SEQ\s+(\d+)\s+(\d+):\s*(.*)", line):
            for number in range(int(match[1]), int(match[2]) + 1):
                self.line(match[3].replace("\\#", str(number)))
        elif match := re.match(r"\$REP\s+(\d+):\s*(.*)", line):
            for _ in range(int(match[1])):
                self.line(match[2])
        elif line.startswith("!"):
            self._settle_replies()
            self.about = line[1:]
        elif line.startswith("?"):
            self._assertion(line[1:])
        elif line.startswith("output ") and self.expected is not None:
            self.expected.append(literal(line[7:]))
        elif line[:1].isupper():
            self._command(line)

    def _command(self, line: str) -> None:
        self._settle_replies()
        word, _, rest = line.partition(" ")
        if word == "INIT" or word == "RESET":
            size = (COLUMNS, LINES) if word == "INIT" else (self.made.screen.columns, self.made.screen.lines)
            self.made = terminal(*size)
        elif word == "PUSH":
            self.expected = []
            self.made.feed(literal(rest))
        elif word == "RESIZE":
            lines, columns = rest.split(",")
            self.made.screen.history.clear()
            self.made.screen.history.extend(self.scrollback)
            self.made.screen.resize(int(lines), int(columns))
        elif word == "WANTSCREEN" and "b" in rest:
            self.scrollback = [] if rest.startswith("-") else SCROLLBACK
        elif word == "SETDEFAULTCOL":
            given = rest.split()
            self.default = (given[0], given[1] if len(given) > 1 else self.default[1])

    def _settle_replies(self) -> None:
        for expected in self.expected or ():
            actual = self.made.replies.pop(0).encode() if self.made.replies else b""
            self._check("output", expected, actual)
        self.expected = None
        self.made.replies.clear()

    def _check(self, what: str, expected: object, actual: object) -> None:
        self.counts.check(f"{self.name} [{self.about}] {what}", expected, actual)

    def _assertion(self, line: str) -> None:
        question, _, answer = line.partition("=")
        kind, _, where = question.strip().partition(" ")
        answer = answer.strip()
        match kind:
            case "cursor":
                y, x = self.made.cursor
                self._check(kind, answer, f"{y},{min(x, self.made.screen.columns - 1)}")
            case "screen_row":
                self._check(question.strip(), _characters(kind, answer).rstrip(), self.made.lines[int(where)])
            case "lineinfo":
                self._check(question.strip(), answer, self._line_info(int(where)))
            case "screen_eol":
                y, x = map(int, where.split(","))
                self._check(question.strip(), answer, str(int(not self.made.lines[y][x:])))
            case "screen_attrs_extent":
                self._check(question.strip(), answer, self._extent(where))
            case "screen_chars" | "screen_text":
                self._check(question.strip(), _characters(kind, answer), self._text(where))
            case "screen_cell":
                self._check(question.strip(), _cell(answer), self._cell(where))
            case "pen":
                self._check(question.strip(), answer, self._pen(where))
            case _:  # what only libvterm's own interface has
                pass

    def _text(self, where: str) -> str:
        top, left, bottom, right = map(int, where.split(","))
        screen = self.made.screen
        parts = [screen.rows[y].text.ljust(right)[left:right] for y in range(top, bottom)]
        return "\n".join(unicodedata.normalize("NFC", screen.clusters.plain(part)).rstrip() for part in parts)

    def _cell(self, where: str) -> Cell:
        y, x = map(int, where.split(","))
        screen = self.made.screen
        text = screen.rows[y].text.ljust(x + 2)
        shown = unicodedata.normalize("NFC", screen.clusters.expand(text[x])).strip()
        style = self.made.style(y, x)
        if mo.DECSCNM in screen.mode:
            style = style._replace(flags=style.flags ^ cells.REVERSE)
        foreground, background = self.default
        return _seen(
            shown,
            2 if text[x + 1] == cells.STUB else 1,
            _attributes(style),
            foreground if style.fg < 0 else _rgb(style.fg),
            background if style.bg < 0 else _rgb(style.bg),
        )

    def _line_info(self, y: int) -> str:
        return "cont" if y > 0 and self.made.screen.rows[y - 1].wrapped else ""

    def _extent(self, where: str) -> str:
        """First and last column around a cell that look the same, as libvterm writes it: `y,first-y+1,last`."""
        y, x = map(int, where.split(","))
        looks = [self.made.style(y, column) for column in range(self.made.screen.columns)]
        first = last = x
        while first > 0 and looks[first - 1] == looks[x]:
            first -= 1
        while last + 1 < len(looks) and looks[last + 1] == looks[x]:
            last += 1
        return f"{y},{first}-{y + 1},{last}"

    def _pen(self, name: str) -> str:
        style = self.made.screen.cursor.style
        if name in _PEN:
            return "on" if _PEN[name] in _attributes(style) else "off"
        if name == "underline":
            return "2" if style.flags & cells.DOUBLE_UNDERLINE else str(int(bool(style.flags & cells.UNDERLINE)))
        if name in ONLY:
            return ONLY[name]
        colour = style.fg if name == "foreground" else style.bg
        default = "rgb(240,240,240,is_default_fg)" if name == "foreground" else "rgb(0,0,0,is_default_bg)"
        return default if colour < 0 else _rgb(colour) if colour >= RGB else f"idx({colour})"


def run(folder: Path) -> Counts:
    """Every check of every script that can be seen from outside."""
    counts = Counts(OTHERWISE)
    for path in sorted(folder.glob("*.test")):
        Script(path.stem, counts).run(path.read_text(encoding="utf-8"))
    return counts


def literal(text: str) -> bytes:
    """The bytes of a Perl string as the scripts use it: escapes, and `x N` for repeated."""
    made = b""
    for match in _LITERAL.finditer(text):
        body = _ESCAPE.sub(_unescape, match[1])
        made += body.encode("latin-1" if body.isascii() or max(body) < "\u0100" else "utf-8") * int(match[2] or 1)
    return made


def _unescape(match: re.Match[str]) -> str:
    if code := match[2] or match[3]:
        return chr(int(code, 16))
    return _LETTERS.get(match[1], match[1])


def _characters(kind: str, answer: str) -> str:
    """What is asserted of some cells: a string, or the numbers of its characters or bytes."""
    if answer.startswith('"'):
        return literal(answer).decode()
    codes = [int(code, 16) for code in answer.split(",") if code.strip()]
    return unicodedata.normalize("NFC", bytes(codes).decode() if kind == "screen_text" else "".join(map(chr, codes)))


def _cell(answer: str) -> Cell | str:
    match = _CELL.search(answer)
    if match is None:
        return answer
    shown = "".join(chr(int(code, 16)) for code in match[1].split(",") if code)
    return _seen(unicodedata.normalize("NFC", shown), int(match[2]), match[3].replace("U1", "U"), match[4], match[5])


def _seen(shown: str, width: int, attributes: str, foreground: str, background: str) -> Cell:
    """A cell as a person sees it: the foreground of a blank without attributes shows nowhere."""
    return shown, width, attributes, foreground if shown or attributes else "", background


def _attributes(style: CellStyle) -> str:
    underline = "U2" if style.flags & cells.DOUBLE_UNDERLINE else "U" if style.flags & cells.UNDERLINE else ""
    letters = {letter for letter, flag in _ATTRIBUTES.items() if style.flags & flag}
    return "".join(underline if letter == "U" else letter for letter in "BUIKRS" if letter == "U" or letter in letters)


def _rgb(colour: int) -> str:
    if colour >= RGB:
        levels = (colour >> 16 & 0xFF, colour >> 8 & 0xFF, colour & 0xFF)
    else:
        low, high = DARK if colour < 8 else LIGHT
        levels = tuple(high if colour >> bit & 1 else low for bit in range(3))
    return f"rgb({','.join(map(str, levels))})"
