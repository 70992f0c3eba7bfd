"""PNG to pixels (ISO/IEC 15948), every kind but interlaced; no more is unpacked than the size that it states."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import accumulate

from ollm_tui.tui.pictures.raster import MAX_PIXELS, MAX_SIDE, PictureError, Raster, check_size

SIGNATURE = b"\x89PNG\r\n\x1a\n"

_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
_DEPTHS = {0: (1, 2, 4, 8, 16), 2: (8, 16), 3: (1, 2, 4, 8), 4: (8, 16), 6: (8, 16)}
_PALETTE = 3
_OPAQUE = b"\xff"
_DAMAGED = "damaged PNG"
_low_byte = (255).__and__


@dataclass(frozen=True)
class _Header:
    width: int
    height: int
    depth: int
    kind: int

    @property
    def step(self) -> int:
        """Bytes from a sample to the one left of it, for the filters."""
        return max(1, _CHANNELS[self.kind] * self.depth // 8)

    @property
    def stride(self) -> int:
        return (self.width * _CHANNELS[self.kind] * self.depth + 7) // 8


def decode_png(data: bytes, max_side: int = MAX_SIDE) -> Raster:
    """Return a PNG's pixels.

    Raises:
        PictureError: It is none, damaged, interlaced, or too large.
    """
    try:
        chunks = list(_chunks(data))
        header = _header_of(chunks[0], max_side)
        raw = _unpacked(chunks, header)
    except (struct.error, zlib.error, IndexError) as error:
        raise PictureError(_DAMAGED) from error
    pixels_of = _reader(header, dict(chunks))
    return Raster(header.width, header.height, b"".join(map(pixels_of, _rows(raw, header))))


def _chunks(data: bytes) -> Iterator[tuple[bytes, bytes]]:
    if not data.startswith(SIGNATURE):
        raise PictureError("not a PNG")
    at = len(SIGNATURE)
    while at + 8 <= len(data):
        length, name = struct.unpack(">I4s", data[at : at + 8])
        yield name, data[at + 8 : at + 8 + length]
        at += length + 12  # its checksum, too


def _header_of(chunk: tuple[bytes, bytes], max_side: int) -> _Header:
    name, content = chunk
    width, height, depth, kind, _, _, interlaced = struct.unpack(">IIBBBBB", content)
    if name != b"IHDR" or depth not in _DEPTHS.get(kind, ()):
        raise PictureError(_DAMAGED)
    check_size(width, height, max_side)
    if interlaced:
        raise PictureError("interlaced PNG cannot be drawn here")
    return _Header(width, height, depth, kind)


def _unpacked(chunks: list[tuple[bytes, bytes]], header: _Header) -> bytes:
    size = header.height * (1 + header.stride)
    if size > 5 * MAX_PIXELS:
        raise PictureError("too large: more than 20 MB of pixels")
    packed = b"".join(content for name, content in chunks if name == b"IDAT")
    raw = zlib.decompressobj().decompress(packed, size)
    if len(raw) != size:
        raise PictureError(_DAMAGED)
    return raw


def _rows(raw: bytes, header: _Header) -> Iterator[bytes]:
    """Undo the filter of each row (section 9)."""
    stride = header.stride
    above = bytes(stride)
    for start in range(0, len(raw), stride + 1):
        above = _unfiltered(raw[start], raw[start + 1 : start + 1 + stride], above, header.step)
        yield above


def _unfiltered(kind: int, row: bytes, above: bytes, step: int) -> bytes:
    match kind:
        case 0:
            return row
        case 1:
            return _by_channel(row, above, step, lambda part, _: bytes(map(_low_byte, accumulate(part))))
        case 2:
            return _sum(row, above)
        case 3:
            return _by_channel(row, above, step, _average)
        case 4:
            return _by_channel(row, above, step, _paeth)
        case _:
            raise PictureError(_DAMAGED)


def _by_channel(row: bytes, above: bytes, step: int, undo: Callable[[bytes, bytes], bytes]) -> bytes:
    whole = bytearray(len(row))
    for channel in range(step):
        whole[channel::step] = undo(row[channel::step], above[channel::step])
    return bytes(whole)


def _sum(row: bytes, above: bytes) -> bytes:
    """Add bytes pairwise, all at once: seven bits of each as one large number, the eighth without its carry."""
    a, b = int.from_bytes(row), int.from_bytes(above)
    low, high = int.from_bytes(b"\x7f" * len(row)), int.from_bytes(b"\x80" * len(row))
    return ((a & low) + (b & low) ^ (a ^ b) & high).to_bytes(len(row))


def _average(part: bytes, above: bytes) -> bytes:
    left = 0
    whole = bytearray()
    for value, up in zip(part, above, strict=True):
        left = (value + (left + up) // 2) & 0xFF
        whole.append(left)
    return bytes(whole)


def _paeth(part: bytes, above: bytes) -> bytes:
    left = corner = 0
    whole = bytearray()
    for value, up in zip(part, above, strict=True):
        to_left, to_up = up - corner, left - corner
        to_corner = abs(to_left + to_up)
        to_left, to_up = abs(to_left), abs(to_up)
        if to_left > to_up or to_left > to_corner:
            left = up if to_up <= to_corner else corner
        left = (value + left) & 0xFF
        corner = up
        whole.append(left)
    return bytes(whole)


def _reader(header: _Header, chunks: dict[bytes, bytes]) -> Callable[[bytes], bytes]:
    """Return what makes pixels of a row's samples."""
    width, channels = header.width, _CHANNELS[header.kind]
    tables = _palette_of(chunks) if header.kind == _PALETTE else None
    unpack = _unpacker(header)

    def pixels_of(row: bytes) -> bytes:
        samples = unpack(row)[: width * channels]
        if channels == 4:
            return samples
        whole = bytearray(_OPAQUE * (4 * width))
        if tables is not None:
            for channel, table in enumerate(tables):
                whole[channel::4] = samples.translate(table)
            return bytes(whole)
        for channel in range(3):
            whole[channel::4] = samples[channel::3] if channels == 3 else samples[::channels]
        if channels == 2:
            whole[3::4] = samples[1::2]
        return bytes(whole)

    return pixels_of


def _unpacker(header: _Header) -> Callable[[bytes], bytes]:
    """Return what makes bytes of samples with another number of bits."""
    depth = header.depth
    if depth == 16:
        return lambda row: row[::2]
    if depth == 8:
        return lambda row: row
    top = (1 << depth) - 1
    factor = 1 if header.kind == _PALETTE else 255 // top
    shifts = range(8 - depth, -1, -depth)
    spread = [bytes((byte >> shift & top) * factor for shift in shifts) for byte in range(256)]
    return lambda row: b"".join(map(spread.__getitem__, row))


def _palette_of(chunks: dict[bytes, bytes]) -> tuple[bytes, bytes, bytes, bytes]:
    entries = chunks.get(b"PLTE", b"")
    red, green, blue = (entries[channel::3][:256].ljust(256, b"\0") for channel in range(3))
    return red, green, blue, chunks.get(b"tRNS", b"")[:256].ljust(256, _OPAQUE)
