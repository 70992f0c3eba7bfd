"""A second terminal to compare with: @xterm/headless under node, where both are installed.

`nox -s tests` installs it where there is npm. By hand:
npm install --prefix DIR @xterm/headless && NODE_PATH=DIR/node_modules python -m pytest tests/tui/terminal
"""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import unicodedata
from dataclasses import dataclass
from pathlib import Path

from ollm_tui.tui.terminal.emulator import cells
from ollm_tui.tui.terminal.emulator.cells import CellStyle

DRIVER = Path(__file__).with_name("xterm.cjs")
MISSING = "node with @xterm/headless is not installed"

FLAGS = (
    cells.BOLD,
    cells.DIM,
    cells.ITALIC,
    cells.UNDERLINE,
    cells.REVERSE,
    cells.HIDDEN,
    cells.STRIKE,
    cells.OVERLINE,
)
"""In the order of the driver's."""


@dataclass(frozen=True)
class Screen:
    """What xterm.js shows; positions count from zero. Styles have no links and no kinds of underline."""

    rows: tuple[str, ...]
    looks: list[list[CellStyle]]
    back: tuple[str, ...]
    cursor: tuple[int, int]
    replies: tuple[str, ...]


class Xterm:
    """One node process that shows one stream of bytes after the other, each on a new terminal."""

    def __init__(self) -> None:
        """Raises FileNotFoundError when node or the package is not there."""
        node = shutil.which("node")
        if node is None:
            raise FileNotFoundError(MISSING)
        self._process = subprocess.Popen(
            [node, str(DRIVER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        )
        greeting = self._read()
        if not greeting:
            self.close()
            raise FileNotFoundError(MISSING)
        self.version: str = json.loads(greeting)["version"]

    def show(self, data: bytes, columns: int, lines: int) -> Screen | None:
        """What it shows of these bytes; None when it raised an exception, as it does now and then."""
        self._ask({"columns": columns, "lines": lines, "scrollback": 100}, data)
        answer = json.loads(self._read())
        if "error" in answer:
            return None
        looks = [
            [CellStyle(fg, bg, sum(FLAGS[number] for number in flags)) for fg, bg, flags in line]
            for line in answer["looks"]
        ]
        rows = tuple(unicodedata.normalize("NFC", row) for row in answer["rows"])
        return Screen(
            rows, looks, tuple(answer["back"]), (answer["cursor"][0], answer["cursor"][1]), tuple(answer["replies"])
        )

    def seconds(self, data: bytes, columns: int, lines: int, scrollback: int, piece: int) -> float:
        """CPU seconds it needs to take the data in, in pieces of so many bytes."""
        self._ask({"columns": columns, "lines": lines, "scrollback": scrollback, "piece": piece}, data)
        seconds: float = json.loads(self._read())["seconds"]
        return seconds

    def close(self) -> None:
        self._process.communicate()

    def _ask(self, job: dict[str, int], data: bytes) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps({**job, "data": base64.b64encode(data).decode()}) + "\n")
        self._process.stdin.flush()

    def _read(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()
