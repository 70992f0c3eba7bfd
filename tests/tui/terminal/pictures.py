"""Pictures as programs send them: sixel, kitty's graphics, iTerm2's files, made from rows of pixels."""

from __future__ import annotations

import base64
import struct
import zlib

Pixel = tuple[int, int, int]
Rows = list[list[Pixel]]

RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


def squares(columns: int, lines: int, side: int = 10) -> Rows:
    """Squares in red and blue, one for each half cell."""
    colours = (RED, BLUE)
    return [[colours[(x // side + y // side) % 2] for x in range(columns * side)] for y in range(lines * side)]


def sixel(rows: Rows) -> bytes:
    """The rows as libsixel writes them: a register a colour, runs counted, each band colour by colour."""
    registers = sorted({pixel for row in rows for pixel in row})
    out = [f'\x1bPq"1;1;{len(rows[0])};{len(rows)}']
    out += [f"#{n};2;" + ";".join(str(round(part / 2.55)) for part in rgb) for n, rgb in enumerate(registers)]
    for top in range(0, len(rows), 6):
        band = rows[top : top + 6]
        for number, colour in enumerate(registers):
            columns = [sum(1 << y for y, row in enumerate(band) if row[x] == colour) for x in range(len(rows[0]))]
            if any(columns):
                out.append(f"#{number}{_counted(columns)}$")
        out.append("-")
    return "".join([*out, "\x1b\\"]).encode()


def _counted(columns: list[int]) -> str:
    out: list[str] = []
    start = 0
    for x in range(1, len(columns) + 1):
        if x == len(columns) or columns[x] != columns[start]:
            sign = chr(63 + columns[start])
            out.append(f"!{x - start}{sign}" if x - start > 3 else sign * (x - start))
            start = x
    return "".join(out)


def png(width: int, height: int, samples: bytes, *, kind: int = 2, depth: int = 8, **more: bytes) -> bytes:
    """A PNG whose rows have no filter; `samples` are those of all rows, further chunks come by their names."""
    stride = len(samples) // height if height else 0
    raw = b"".join(b"\0" + samples[y * stride : (y + 1) * stride] for y in range(height))
    chunks = {"IHDR": struct.pack(">IIBBBBB", width, height, depth, kind, 0, 0, 0), **more}
    chunks |= {"IDAT": zlib.compress(raw), "IEND": b""}
    body = (struct.pack(">I4s", len(data), name.encode()) + data + b"\0\0\0\0" for name, data in chunks.items())
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def png_of(rows: Rows) -> bytes:
    return png(len(rows[0]), len(rows), bytes_of(rows))


def bytes_of(rows: Rows) -> bytes:
    return bytes(part for row in rows for pixel in row for part in pixel)


def kitty(keys: str, data: bytes = b"", *, piece: int = 4_096) -> bytes:
    """A graphics command, in pieces of base64 as the protocol has them."""
    encoded = base64.b64encode(data)
    pieces = [encoded[at : at + piece] for at in range(0, len(encoded), piece)] or [b""]
    out = bytearray()
    for number, part in enumerate(pieces):
        more = int(number < len(pieces) - 1)
        head = f"{keys},m={more}" if number == 0 else f"m={more}"
        out += f"\x1b_G{head};".encode() + part + b"\x1b\\"
    return bytes(out)


def iterm(data: bytes, options: str = "inline=1") -> bytes:
    return f"\x1b]1337;File={options}:".encode() + base64.b64encode(data) + b"\x07"
