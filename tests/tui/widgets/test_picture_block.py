"""Pictures as half blocks: every filter of PNG is undone, the picture fits the pane, and nothing else is drawn."""

from __future__ import annotations

import base64
import struct
import zlib

import pytest
from rich.style import Style

from ollm_tui.tui.pictures.raster import Raster
from ollm_tui.tui.styled_text import RolePalette
from ollm_tui.tui.values import CallEntry
from ollm_tui.tui.widgets.block_painting import MAX_SIDE, BlockPainter, PictureBlock, decoded
from ollm_tui.tui.widgets.tool_call_view import call_body

ROWS = [[(10 * x, 20 * y, 7 * x * y % 256) for x in range(8)] for y in range(10)]


def png(rows: list[list[tuple[int, int, int]]], channels: int = 3, side: int | None = None) -> str:
    """The rows with the five filters in turn."""
    flat = [bytes(part for pixel in row for part in (*pixel, 255)[:channels]) for row in rows]
    packed = bytearray()
    above = bytes(len(flat[0]))
    for number, row in enumerate(flat):
        kind = number % 5
        packed.append(kind)
        for at, value in enumerate(row):
            left, corner = (row[at - channels], above[at - channels]) if at >= channels else (0, 0)
            estimate = left + above[at] - corner
            nearest = min((left, above[at], corner), key=lambda each, to=estimate: abs(to - each))
            packed.append((value - (0, left, above[at], (left + above[at]) // 2, nearest)[kind]) & 0xFF)
        above = row
    head = struct.pack(">IIBBBBB", side or len(rows[0]), len(rows), 8, 2 if channels == 3 else 6, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(bytes(packed))), (b"IEND", b""))
    data = b"".join(struct.pack(">I", len(body)) + name + body + b"\0\0\0\0" for name, body in chunks)
    return base64.b64encode(b"\x89PNG\r\n\x1a\n" + data).decode()


def painter() -> BlockPainter:
    palette = RolePalette({"foreground": "#ffffff", "background": "#000000"}, ansi=False)
    return BlockPainter(palette, Style(), dark=True, ansi=False)


@pytest.mark.parametrize("channels", [3, 4])
def test_a_picture_is_drawn_two_pixels_a_cell(channels: int) -> None:
    encoded = png(ROWS, channels)
    assert decoded(encoded) == Raster(8, 10, bytes(part for row in ROWS for pixel in row for part in (*pixel, 255)))
    strips = PictureBlock(encoded).paint(painter(), 40)
    assert [strip.cell_length for strip in strips] == [40] * 5
    assert [strip.text.rstrip() for strip in strips] == ["    " + "▀" * 8] * 5
    style = next(segment.style for segment in strips[1] if "▀" in segment.text)
    assert style is not None and style.color is not None and style.bgcolor is not None
    assert (style.color.triplet, style.bgcolor.triplet) == (ROWS[2][0], ROWS[3][0])


def test_it_is_scaled_down_to_a_narrow_pane() -> None:
    strips = PictureBlock(png(ROWS)).paint(painter(), 9)
    assert {strip.text.rstrip() for strip in strips} == {"    ▀▀▀▀"} and len(strips) in (2, 3)


@pytest.mark.parametrize(
    "encoded",
    [
        *("", "!", base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), base64.b64encode(b"GIF89a").decode()),
        *(png(ROWS)[:120], png(ROWS, side=9), png(ROWS, side=MAX_SIDE + 1)),
    ],
    ids=["empty", "no base64", "no chunk", "no PNG", "cut", "too few bytes", "too large"],
)
def test_what_is_no_such_picture_is_not_drawn(encoded: str) -> None:
    assert PictureBlock(encoded).paint(painter(), 40) == []


def test_a_call_shows_its_picture_below_its_text() -> None:
    entry = CallEntry("c1", "browser", "screenshot", output="Screenshot of a page", picture=png(ROWS))
    assert isinstance(call_body(entry, None)[-1], PictureBlock)
