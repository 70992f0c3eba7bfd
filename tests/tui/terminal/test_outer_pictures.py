"""Pictures that the outer terminal draws: what is sent to it, which cells show it, and when half blocks stay."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from textual.geometry import Offset
from textual.selection import Selection

from ollm_tui.tui.pictures import outer_pictures
from ollm_tui.tui.pictures.outer_pictures import MAX_PICTURES, PLACEHOLDER, OuterPictures, marks, without_placeholders
from ollm_tui.tui.pictures.raster import Raster
from ollm_tui.tui.terminal.terminal_engine import TerminalEngine
from ollm_tui.tui.terminal.view_frame import ViewFrame, ViewState
from tests.e2e.outer import OuterTerminal
from tests.tui.terminal.pictures import kitty, png_of, squares
from tests.tui.terminal.test_strips import PALETTE

SENT = kitty("a=T,f=100,i=7", png_of(squares(6, 4)))
"""Six cells in two lines."""
COMMAND = re.compile(r"\x1b_G([^;\x1b]*)(?:;([^\x1b]*))?\x1b\\")


class Outer:
    """An outer terminal that keeps what it was sent."""

    def __init__(self, version: str = "kitty(0.41.1)", *, colours: bool = True) -> None:
        self.written = ""
        self.pictures = OuterPictures(self._write, colours=colours)
        self.pictures.take_version(version)

    def _write(self, text: str) -> None:
        self.written += text

    def commands(self) -> Iterator[tuple[dict[str, str], str]]:
        for found in COMMAND.finditer(self.written):
            yield dict(item.split("=") for item in found[1].split(",")), found[2] or ""


def engine(outer: Outer) -> TerminalEngine:
    made = TerminalEngine(20, 6)
    made.screen.pictures.outer = outer.pictures
    return made


def drawn(made: TerminalEngine) -> list[str]:
    """The rows as they go to the outer terminal."""
    frame = ViewFrame(made)
    frame.repaint(PALETTE, ViewState())
    return [strip.text for strip in frame.strips]


def test_marks_are_those_of_the_protocol() -> None:
    assert marks()[:10] == "\u0305\u030d\u030e\u0310\u0312\u033d\u033e\u033f\u0346\u034a"
    assert len(set(marks())) == len(marks()) > 250


@pytest.mark.parametrize(
    ("version", "draws"),
    [
        ("kitty(0.28.0)", True), ("kitty(0.41.1)", True), ("kitty(1.0.0)", True), ("ghostty 1.1.3", True),
        ("kitty(0.26.5)", False), ("XTerm(379)", False), ("tmux 3.4", False), ("WezTerm 20240203", False), ("", False),
    ],
)  # fmt: skip
def test_only_terminals_that_draw_them_get_pictures(version: str, draws: bool) -> None:
    outer = Outer(version)
    made = engine(outer)
    made.feed(SENT)
    assert outer.pictures.enabled is draws
    assert bool(outer.written) is draws
    assert ("▀" in made.screen.rows[0].text) is not draws


def test_without_colours_of_24_bits_half_blocks_stay() -> None:
    outer = Outer(colours=False)
    assert outer.pictures.hand_on(Raster(1, 1, b"abcd"), 1, 1) == 0 and not outer.written


def test_the_pixels_are_sent_once_and_each_cell_says_which_part_it_shows() -> None:
    outer = Outer()
    made = engine(outer)
    made.feed(SENT + b"after")
    (keys, _), *further = commands = list(outer.commands())
    assert (keys["a"], keys["U"], keys["q"], keys["c"], keys["r"]) == ("T", "1", "2", "6", "2")
    assert [one["m"] for one, _ in commands] == ["1"] * len(further) + ["0"]
    pixels = zlib.decompress(base64.b64decode("".join(data for _, data in commands)))
    assert pixels == b"".join(bytes((*pixel, 255)) for row in squares(6, 4) for pixel in row)
    first, second = marks()[:2]
    rows = drawn(made)
    assert rows[0].rstrip() == "".join(PLACEHOLDER + first + mark for mark in marks()[:6])
    assert rows[1].rstrip() == "".join(PLACEHOLDER + second + mark for mark in marks()[:6]) + "after"
    style = made.screen.rows[0].expand_styles()[0]
    assert style.fg & 0xFFFFFF == int(keys["i"]) and style.bg < 0


def test_copied_text_has_blanks_in_its_place_and_its_number_erases_it() -> None:
    made = engine(Outer())
    made.feed(SENT + b"after")
    frame = ViewFrame(made)
    frame.repaint(PALETTE, ViewState())
    assert frame.selected_text(Selection(Offset(0, 1), Offset(-1, 1))) == "      after"
    assert without_placeholders("plain") == "plain"
    made.feed(b"\x1b_Ga=d,d=i,i=7\x1b\\")
    assert not any(PLACEHOLDER in row for row in drawn(made))


def test_a_picture_with_more_pixels_than_its_cells_can_show_is_made_smaller() -> None:
    outer = Outer()
    outer.pictures.hand_on(Raster(900, 600, bytes(4 * 900 * 600)), 10, 5)
    ((keys, _),) = outer.commands()
    assert (int(keys["s"]), int(keys["v"])) == (225, 150)


def test_the_oldest_goes_beyond_the_bound_and_all_at_the_end() -> None:
    outer = Outer()
    numbers = [outer.pictures.hand_on(Raster(1, 1, b"abcd"), 1, 1) for _ in range(MAX_PICTURES + 1)]
    assert len(set(numbers)) == len(numbers) and all(0 < number < 1 << 24 for number in numbers)
    gone = [int(keys["i"]) for keys, _ in outer.commands() if keys["a"] == "d"]
    assert gone == numbers[:1]
    outer.written = ""
    outer.pictures.forget()
    assert [int(keys["i"]) for keys, _ in outer.commands()] == numbers[1:]


def test_a_program_cannot_flood_the_outer_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outer_pictures, "BYTES_A_SECOND", 100)
    now = outer_pictures.time.monotonic()
    monkeypatch.setattr(outer_pictures.time, "monotonic", lambda: now)
    outer = Outer()
    small = Raster(1, 1, b"abcd")
    sent = [outer.pictures.hand_on(small, 1, 1) > 0 for _ in range(20)]
    assert sent[0] and not sent[-1]
    now += 1
    assert outer.pictures.hand_on(small, 1, 1)


async def test_the_dashboard_asks_its_terminal_and_hands_a_programs_picture_on(tmp_path: Path) -> None:
    (tmp_path / "picture").write_bytes(SENT)
    terminal = OuterTerminal.start(
        "--provider",
        "offline",
        cwd=tmp_path,
        environment={"PS1": "$ ", "SHELL": "/bin/sh", "TERM": "xterm-kitty"},
    )
    await terminal.comes(b"\x1b[>q")
    terminal.send(b"\x1bP>|kitty(0.41.1)\x1b\\")
    await terminal.sees("OFFLINE")
    await terminal.type("!cat picture; echo and text", "enter")
    await terminal.comes(b"\x1b_Ga=T,U=1,q=2,f=32,o=z,")
    await terminal.comes(PLACEHOLDER.encode())
    assert "kitty" not in terminal.text
    await terminal.type("^q")
    await terminal.comes(b"\x1b_Ga=d,d=I,")
    await terminal.close()
