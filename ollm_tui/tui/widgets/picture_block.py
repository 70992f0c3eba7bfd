"""A small picture in the conversation: two pixels a cell, drawn as half blocks."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ollm_tui.tui.pictures.png import decode_png
from ollm_tui.tui.pictures.raster import CLEAR, Raster, half_blocks
from ollm_tui.tui.widgets.block_painting import BlockPainter

INDENT = 4
MAX_SIDE = 400
"""Pixels; a larger picture is not drawn here."""


@dataclass(frozen=True)
class PictureBlock:
    """A picture as PNG in base64; scaled down where the pane is narrower."""

    encoded: str

    def paint(self, painter: BlockPainter, width: int) -> list[Strip]:
        """Draw the picture; nothing where it cannot be decoded."""
        raster = decoded(self.encoded)
        if raster is None:
            return []
        columns = min(raster.width, max(1, width - INDENT - 1))
        cells = max(1, round(raster.height * columns / raster.width / 2))
        strips: list[Strip] = []
        for row in half_blocks(raster, columns, 2 * cells):
            segments = [Segment("▀", painter.base + _style(upper, lower)) for upper, lower in row]
            strip = Strip([Segment(" " * INDENT, painter.base), *segments]).simplify()
            strips.append(strip.crop_extend(0, width, painter.base))
        return strips

    def estimate(self, width: int) -> int:
        """Return the rows of a picture as wide as the pane."""
        return max(1, min(width, 96) * 5 // 16)


@lru_cache(maxsize=8)
def decoded(encoded: str) -> Raster | None:
    """Return the pixels of a small PNG; None for anything else."""
    try:
        raster = decode_png(base64.b64decode(encoded, validate=True), MAX_SIDE)
    except (binascii.Error, ValueError):
        return None
    return raster


@lru_cache(maxsize=4096)
def _style(upper: int, lower: int) -> Style:
    return Style(color=_colour(upper), bgcolor=_colour(lower))


def _colour(colour: int) -> Color | None:
    return None if colour == CLEAR else Color.from_rgb(colour >> 16, colour >> 8 & 0xFF, colour & 0xFF)
