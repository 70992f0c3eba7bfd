"""A small picture in the conversation: two pixels a cell, drawn as half blocks, which every terminal can show."""

from __future__ import annotations

import base64
import binascii
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip

from ollm_tui.tui.widgets.block_painting import BlockPainter

INDENT = 4
MAX_SIDE = 400
"""Pixels; a larger picture is not decoded here."""

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_CHANNELS = {2: 3, 6: 4}

Pixel = tuple[int, int, int]


@dataclass(frozen=True)
class PictureBlock:
    """A picture as PNG in base64; scaled down where the pane is narrower."""

    encoded: str

    def paint(self, painter: BlockPainter, width: int) -> list[Strip]:
        """Draw the picture; nothing where it cannot be decoded."""
        rows = decoded(self.encoded)
        if not rows:
            return []
        columns = min(len(rows[0]), max(1, width - INDENT - 1))
        cells = max(1, round(len(rows) * columns / len(rows[0]) / 2))
        strips: list[Strip] = []
        for cell in range(cells):
            upper, lower = (rows[(2 * cell + half) * len(rows) // (2 * cells)] for half in (0, 1))
            sampled = [column * len(upper) // columns for column in range(columns)]
            segments = [Segment("▀", _style(upper[at], lower[at])) for at in sampled]
            strip = Strip([Segment(" " * INDENT, painter.base), *segments]).simplify()
            strips.append(strip.crop_extend(0, width, painter.base))
        return strips

    def estimate(self, width: int) -> int:
        """Return the rows of a picture as wide as the pane."""
        return max(1, min(width, 96) * 5 // 16)


@lru_cache(maxsize=8)
def decoded(encoded: str) -> tuple[tuple[Pixel, ...], ...]:
    """Return the rows of a PNG with eight bits a channel, without interlacing; empty for anything else."""
    try:
        data = base64.b64decode(encoded, validate=True)
        chunks = list(_chunks(data))
        width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[0][1])
        channels = _CHANNELS.get(kind, 0)
        if not channels or depth != 8 or interlaced or not (0 < width <= MAX_SIDE and 0 < height <= MAX_SIDE):
            return ()
        size = height * (1 + width * channels)
        packed = b"".join(content for name, content in chunks if name == b"IDAT")
        raw = zlib.decompressobj().decompress(packed, size)
        return tuple(_rows(raw, width, channels)) if len(raw) == size else ()
    except (binascii.Error, struct.error, zlib.error, IndexError, ValueError):
        return ()


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not data.startswith(_SIGNATURE):
        raise ValueError("not a PNG")
    at = len(_SIGNATURE)
    while at + 8 <= len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        yield name, data[at + 8 : at + 8 + length]
        at += length + 12  # its checksum, too


def _rows(raw: bytes, width: int, channels: int) -> Iterator[tuple[Pixel, ...]]:
    """Undo the filter of each row (PNG, section 9)."""
    stride = width * channels
    above = bytearray(stride)
    for start in range(0, len(raw), stride + 1):
        kind, row = raw[start], bytearray(raw[start + 1 : start + 1 + stride])
        for at in range(stride):
            left = row[at - channels] if at >= channels else 0
            corner = above[at - channels] if at >= channels else 0
            match kind:
                case 0:
                    break
                case 1:
                    predicted = left
                case 2:
                    predicted = above[at]
                case 3:
                    predicted = (left + above[at]) // 2
                case _:
                    predicted = _paeth(left, above[at], corner)
            row[at] = (row[at] + predicted) & 0xFF
        yield tuple((row[at], row[at + 1], row[at + 2]) for at in range(0, stride, channels))
        above = row


def _paeth(left: int, above: int, corner: int) -> int:
    estimate = left + above - corner
    return min((left, above, corner), key=lambda each: abs(estimate - each))


@lru_cache(maxsize=4096)
def _style(upper: Pixel, lower: Pixel) -> Style:
    return Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower))
