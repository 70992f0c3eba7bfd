"""Pictures handed on to the outer terminal, which draws them at cells of ours (kitty's Unicode placeholders).

The cells are text: they scroll, are covered and go as text does. kitty from 0.28 on and Ghostty draw them.
https://sw.kovidgoyal.net/kitty/graphics-protocol/#unicode-placeholders
"""

from __future__ import annotations

import base64
import os
import random
import re
import threading
import time
import unicodedata
import zlib
from collections import deque
from collections.abc import Callable
from functools import cache

from ollm_tui.tui.pictures.raster import Raster

PLACEHOLDER = "\U0010eeee"
"""The character of a cell that shows a part of a picture; its marks say which, its colour of which picture."""
MAX_PICTURES = 64
"""Pictures that the outer terminal keeps for us; beyond it the oldest goes, and its cells become blank."""
BYTES_A_SECOND = 4_000_000
"""What is handed on in a second; what comes beyond it is drawn as half blocks."""
CELL_PIXELS = (20, 40)
"""Pixels of a cell, more than most have: a picture with more of them is made smaller before it is sent."""

_CHUNK = 4_096
_TERMINALS = ("xterm-kitty", "xterm-ghostty")
_VERSION = re.compile(r"(?:kitty\((\d+)\.(\d+)|ghostty)", re.IGNORECASE)
_KITTY_DRAWS = (0, 28)
_PLACED = re.compile(f"{PLACEHOLDER}..")
_MARKS = (
    "0305 030D-030E 0310 0312 033D-033F 0346 034A-034C 0350-0352 0357 035B 0363-036F 0483-0487 0592-0595 0597-0599"
    " 059C-05A1 05A8-05A9 05AB-05AC 05AF 05C4 0610-0617 0657-065B 065D-065E 06D6-06DC 06DF-06E2 06E4 06E7-06E8"
    " 06EB-06EC 0730 0732-0733 0735-0736 073A 073D 073F-0741 0743 0745 0747 0749-074A 07EB-07F1 07F3 0816-0819"
    " 081B-0823 0825-0827 0829-082D 0951 0953-0954 0F82-0F83 0F86-0F87 135D-135F 17DD 193A 1A17 1A75-1A7C 1B6B"
    " 1B6D-1B73 1CD0-1CD2 1CDA-1CDB 1CE0 1DC0-1DC1 1DC3-1DC9 1DCB-1DCC 1DD1-1DE6 1DFE 20D0-20D1 20D4-20D7 20DB-20DC"
    " 20E1 20E7 20E9 20F0 2CEF-2CF1 2DE0-2DFF A66F A67C-A67D A6F0-A6F1 A8E0-A8F1"
)
"""Marks that stand for a row or column, by number (kitty's rowcolumn-diacritics.txt; its last ones are left out)."""


@cache
def marks() -> str:
    """Return the mark of each row or column; more have no mark."""
    found: list[str] = []
    for part in _MARKS.split():
        first, _, last = part.partition("-")
        found += [chr(code) for code in range(int(first, 16), int(last or first, 16) + 1)]
    return "".join(mark for mark in found if unicodedata.combining(mark) == 230)


def placeholders(columns: int, line: int) -> list[str]:
    """Return the cells of a picture's line."""
    return [PLACEHOLDER + marks()[line] + mark for mark in marks()[:columns]]


def without_placeholders(text: str) -> str:
    """Return copied text with a blank for each cell of a picture."""
    return _PLACED.sub(" ", text) if PLACEHOLDER in text else text


def version_query() -> str:
    """Return what asks the outer terminal for its version (XTVERSION), where one that draws them may answer."""
    return "\x1b[>q" if os.environ.get("TERM") in _TERMINALS else ""


class OuterPictures:
    """Hands pictures on, from any thread; none until the outer terminal is known to draw them."""

    def __init__(self, write: Callable[[str], None], *, colours: bool) -> None:
        """`colours`: whether ours reach it as they are, which say what picture a cell shows."""
        self.enabled = False
        self._write = write
        self._colours = colours
        self._lock = threading.Lock()
        self._numbers: deque[int] = deque()
        self._last = random.randrange(1 << 24)  # other programs number their pictures in the same window
        self._second = 0.0
        self._sent = 0

    def take_version(self, version: str) -> None:
        """Take what the outer terminal says it is."""
        match = _VERSION.match(version)
        draws = match is not None and (match[1] is None or (int(match[1]), int(match[2])) >= _KITTY_DRAWS)
        self.enabled = draws and self._colours

    def hand_on(self, raster: Raster, columns: int, lines: int) -> int:
        """Send a picture for so many cells; return its number, 0 where it has to be drawn otherwise."""
        if not self.enabled or columns > len(marks()) or lines > len(marks()):
            return 0
        small = _smaller(raster, columns * CELL_PIXELS[0], lines * CELL_PIXELS[1])
        data = base64.b64encode(zlib.compress(small.pixels, 1)).decode()
        with self._lock:
            if not self._may_send(len(data)):
                return 0
            self._last = number = self._last % 0xFFFFFF + 1
            self._numbers.append(number)
            gone = self._numbers.popleft() if len(self._numbers) > MAX_PICTURES else 0
            self._write((_deletion(gone) if gone else "") + _transmission(small, number, columns, lines, data))
        return number

    def forget(self) -> None:
        """Have the outer terminal forget what was sent."""
        with self._lock:
            self._write("".join(map(_deletion, self._numbers)))
            self._numbers.clear()

    def _may_send(self, size: int) -> bool:
        now = time.monotonic()
        if now - self._second >= 1:
            self._second, self._sent = now, 0
        self._sent += size
        return self._sent <= BYTES_A_SECOND


def _smaller(raster: Raster, width: int, height: int) -> Raster:
    """Return every second, third, ... pixel where there are more than can be seen."""
    step = max(1, raster.width // width, raster.height // height)
    if step == 1:
        return raster
    pixels = memoryview(raster.pixels).cast("I")
    rows = [pixels[y * raster.width : (y + 1) * raster.width : step].tobytes() for y in range(0, raster.height, step)]
    return Raster(len(rows[0]) // 4, len(rows), b"".join(rows))


def _transmission(raster: Raster, number: int, columns: int, lines: int, data: str) -> str:
    size = f"s={raster.width},v={raster.height},c={columns},r={lines}"
    head = f"a=T,U=1,q=2,f=32,o=z,i={number},{size},"
    chunks = [data[at : at + _CHUNK] for at in range(0, len(data), _CHUNK)]
    last = len(chunks) - 1
    return "".join(
        f"\x1b_G{'' if at else head}m={int(at < last)}{',q=2' if at else ''};{chunk}\x1b\\"
        for at, chunk in enumerate(chunks)
    )


def _deletion(number: int) -> str:
    return f"\x1b_Ga=d,d=I,i={number},q=2\x1b\\"
