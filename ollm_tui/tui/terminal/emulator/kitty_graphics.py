"""Kitty's graphics protocol: what a command says, its pieces put together, pictures kept for later.

Only pixels that come with the command are taken: what a program writes must not make the terminal open files.
https://sw.kovidgoyal.net/kitty/graphics-protocol/
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from dataclasses import dataclass, field

from ollm_tui.tui.pictures.png import decode_png
from ollm_tui.tui.pictures.raster import PictureError, Raster, check_size

MAX_PICTURE = 8_000_000
"""Characters of a picture as it is sent."""
TOO_LONG = "larger than 8 MB"
MAX_STORED = 16_000_000
"""Bytes of pixels kept under numbers; beyond it the oldest picture goes."""
ANONYMOUS = 1 << 32
"""The number of a picture that its program gave none: the first beyond those it can give."""

_ITEM = re.compile(r"([A-Za-z])=([A-Za-z]|-?[0-9]{1,10})")
_MORE = frozenset({"m", "q"})
"""Keys of a command that only goes on with the picture before it."""


@dataclass(frozen=True)
class GraphicsCommand:
    """The keys of a command, without what is drawn."""

    keys: dict[str, str]

    @classmethod
    def parse(cls, text: str) -> GraphicsCommand:
        """Read `key=value,...`; what has another form is left out."""
        items = (_ITEM.fullmatch(item) for item in text[:1_024].split(","))
        return cls({item[1]: item[2] for item in items if item})

    def number(self, key: str) -> int:
        """Return a key's number, 0 where it has none."""
        value = self.keys.get(key, "0")
        return min(max(0, int(value)), ANONYMOUS - 1) if not value.isalpha() else 0

    @property
    def action(self) -> str:
        """What is to be done: transmit (t), and draw (T), put (p), delete (d), only ask (q)."""
        return self.keys.get("a", "t")

    @property
    def goes_on(self) -> bool:
        """Whether this is a further piece of a picture."""
        return self.keys.keys() <= _MORE

    @property
    def draws(self) -> bool:
        """Whether a person expects to see something."""
        return self.action in ("T", "p")

    def answer(self, words: str) -> str:
        """Return what the program is told; empty where it did not ask, or not for this."""
        quiet = self.number("q")
        names = [f"{key}={self.number(key)}" for key in "iIp" if self.number(key)]
        if not (self.number("i") or self.number("I")) or quiet >= 2 or (quiet == 1 and words == "OK"):
            return ""
        return f"\x1b_G{','.join(names)};{words}\x1b\\"


@dataclass
class Pieces:
    """Base64 that comes in pieces, up to `MAX_PICTURE` characters."""

    parts: list[str] = field(default_factory=list[str])
    size: int = 0

    def add(self, piece: str) -> None:
        """Take a piece.

        Raises:
            PictureError: The whole is larger than `MAX_PICTURE`.
        """
        self.size += len(piece)
        if self.size > MAX_PICTURE:
            self.parts.clear()
            raise PictureError(TOO_LONG)
        self.parts.append(piece)

    def data(self) -> bytes:
        """Return the bytes, also where the padding at the end is missing.

        Raises:
            PictureError: It is no base64.
        """
        text = "".join(self.parts).rstrip("=\r\n")
        try:
            return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
        except (binascii.Error, ValueError) as error:
            raise PictureError("damaged base64") from error


@dataclass
class Transmission:
    """A picture on its way: the command that began it, and the pieces that came."""

    command: GraphicsCommand
    pieces: Pieces = field(default_factory=Pieces)

    def decode(self) -> Raster:
        """Return the pixels.

        Raises:
            PictureError: They are damaged, too many, or of a format not known.
        """
        data = self.pieces.data()
        command = self.command
        form = command.number("f") or 32
        if command.keys.get("o") == "z":
            data = _inflated(data, MAX_PICTURE if form == 100 else self._expected(form))
        if form == 100:
            return decode_png(data)
        if len(data) < self._expected(form):
            raise PictureError("fewer pixels than its size says")
        width, height = command.number("s"), command.number("v")
        if form == 32:
            return Raster(width, height, data[: 4 * width * height])
        pixels = bytearray(b"\xff" * (4 * width * height))
        for channel in range(3):
            pixels[channel::4] = data[channel : 3 * width * height : 3]
        return Raster(width, height, bytes(pixels))

    def _expected(self, form: int) -> int:
        if form not in (24, 32):
            raise PictureError("format not known")
        width, height = self.command.number("s"), self.command.number("v")
        check_size(width, height)
        return width * height * form // 8


def _inflated(data: bytes, limit: int) -> bytes:
    unpacker = zlib.decompressobj()
    try:
        unpacked = unpacker.decompress(data, limit)
    except zlib.error as error:
        raise PictureError("damaged zlib data") from error
    if unpacker.unconsumed_tail and unpacker.decompress(unpacker.unconsumed_tail, 1):
        raise PictureError("unpacks to more than its size says")
    return unpacked


class PictureStore:
    """Pictures under the numbers their programs gave them, the oldest dropped first."""

    def __init__(self) -> None:
        self._rasters: dict[int, Raster] = {}
        self._size = 0

    def keep(self, number: int, raster: Raster) -> None:
        """Keep a picture, in place of one with the same number."""
        self.drop(number)
        self._rasters[number] = raster
        self._size += len(raster.pixels)
        while self._size > MAX_STORED:
            self.drop(next(iter(self._rasters)))

    def find(self, number: int) -> Raster:
        """Return a picture.

        Raises:
            KeyError: There is none with this number.
        """
        return self._rasters[number]

    def drop(self, number: int | None) -> None:
        """Forget a picture; None for all."""
        numbers = list(self._rasters) if number is None else [number]
        for each in numbers:
            if (raster := self._rasters.pop(each, None)) is not None:
                self._size -= len(raster.pixels)
