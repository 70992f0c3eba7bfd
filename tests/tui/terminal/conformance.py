"""Reads `tests/data/terminal/conformance.toml`: what the screen must be after a program wrote something."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from functools import cache

from ollm_tui.tui.terminal.emulator import cells
from ollm_tui.tui.terminal.emulator.cells import DEFAULT, RGB, CellStyle
from tests import DATA_DIR
from tests.tui.terminal.screens import Terminal, terminal

DATA = DATA_DIR / "terminal" / "conformance.toml"
COLUMNS, LINES = 10, 5

_FLAGS = {
    "bold": cells.BOLD,
    "dim": cells.DIM,
    "italic": cells.ITALIC,
    "underline": cells.UNDERLINE,
    "double": cells.DOUBLE_UNDERLINE,
    "reverse": cells.REVERSE,
    "hidden": cells.HIDDEN,
    "strike": cells.STRIKE,
    "overline": cells.OVERLINE,
    "protected": cells.PROTECTED,
}
_PICTURE = re.compile("[\u2400-\u241f␡]")
_LOOK = re.compile(r"(\d+),(\d+)(?:-(\d+))? (.+)")


@dataclass(frozen=True)
class Fixture:
    """One line of the file; `alone` says why xterm.js shows something else."""

    group: str
    about: str
    output: str
    columns: int
    rows: tuple[str, ...]
    cursor: tuple[int, int]
    looks: tuple[str, ...]
    back: tuple[str, ...]
    replies: tuple[str, ...]
    alone: str

    def styles(self) -> list[list[CellStyle]]:
        """The style every cell must have."""
        cells = [[DEFAULT] * self.columns for _ in range(LINES)]
        for look in self.looks:
            match = _LOOK.fullmatch(look)
            assert match is not None, look
            line, first, last, words = match.groups()
            for x in range(int(first) - 1, int(last or first)):
                cells[int(line) - 1][x] = _style(words.split())
        return cells

    def played(self, *pieces: bytes) -> Terminal:
        return terminal(self.columns, LINES, *pieces)


def _style(words: list[str]) -> CellStyle:
    numbers = {"fg": DEFAULT.fg, "bg": DEFAULT.bg, "link": DEFAULT.link}
    flags = 0
    for word in words:
        name, has_number, value = word.partition("=")
        if has_number:
            numbers[name] = RGB | int(value[1:], 16) if value.startswith("#") else int(value)
        else:
            flags |= _FLAGS[name]
    return CellStyle(numbers["fg"], numbers["bg"], flags, numbers["link"])


def _controls(text: str) -> str:
    """Text with control pictures as the controls they picture."""
    return _PICTURE.sub(lambda match: "\x7f" if match[0] == "␡" else chr(ord(match[0]) - 0x2400), text)


@cache
def fixtures() -> list[Fixture]:
    return [
        Fixture(
            group,
            line["about"],
            _controls(line["in"]),
            line.get("columns", COLUMNS),
            tuple(line["rows"] + [""] * (LINES - len(line["rows"]))),
            (line["at"][0], line["at"][1]),
            tuple(line.get("looks", ())),
            tuple(line.get("back", ())),
            tuple(_controls(reply) for reply in line.get("replies", ())),
            line.get("alone", ""),
        )
        for group, lines in tomllib.loads(DATA.read_text(encoding="utf-8")).items()
        for line in lines
    ]
