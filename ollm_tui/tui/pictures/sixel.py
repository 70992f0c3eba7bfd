"""Sixel to pixels (DEC STD 070, chapter 9): bands six pixels high, drawn one colour after the other.

What one colour draws in a band is laid over the rest as large numbers, all pixels at once, so a picture costs by its
passes and not by its pixels.
"""

from __future__ import annotations

import colorsys
import re

from ollm_tui.tui.pictures.raster import MAX_PIXELS, MAX_SIDE, TOO_LARGE, PictureError, Raster, check_size

BAND = 6
MAX_WORK = 60_000_000
"""Columns drawn in one colour after the other, in all bands: a few seconds at most."""
_WORK_OF_PASS = 64

_START = re.compile(r"[0-9;]*q")
_TOKEN = re.compile(r'#([0-9;]*)|"([0-9;]*)|(\$)|(-)|((?:![0-9]{1,6}[?-~]|[?-~])+)|[^#"$!?-~-]+|!')
_COLOUR, _SIZE, _RETURN, _NEXT, _PIXELS = 1, 2, 3, 4, 5
_REPEATED = re.compile(r"!([0-9]+)(.)")
_SEEN = bytes(1) + b"\xff" * 255
_MASKS = [bytes(255 if 63 <= code <= 126 and code - 63 >> bit & 1 else 0 for code in range(256)) for bit in range(BAND)]
_VT340 = "000 37d c22 2c2 c2c 2cc cc2 777 444 559 955 595 959 599 995 ccc"
_DEFAULTS = {number: bytes(17 * int(digit, 16) for digit in rgb) for number, rgb in enumerate(_VT340.split())}


def is_sixel(head: str) -> bool:
    """Whether a device control string with this beginning is a picture."""
    return _START.match(head) is not None


def decode_sixel(body: str) -> Raster:
    """Return the pixels of a device control string; those that nothing draws are clear.

    Raises:
        PictureError: It is too large, or draws nothing.
    """
    start = _START.match(body)
    if start is None:
        raise PictureError("not a sixel picture")
    picture = _SixelPicture()
    for token in _TOKEN.finditer(body, start.end()):
        match token.lastindex:
            case 1:
                picture.take_colour(_numbers(token[_COLOUR]))
            case 2:
                picture.take_size(_numbers(token[_SIZE]))
            case 3:
                picture.x = 0
            case 4:
                picture.end_band()
            case 5:
                picture.draw(token[_PIXELS])
            case _:
                pass
    return picture.finish()


class _SixelPicture:
    """What was drawn up to now: finished rows, and a band of colour numbers (0 is clear)."""

    def __init__(self) -> None:
        self.x = 0
        self._colours = dict(_DEFAULTS)
        self._register = 0
        self._numbers: dict[tuple[int, bytes], int] = {}
        """The number in this band of a register with a colour: registers may change between two bands."""
        self._band = [bytearray() for _ in range(BAND)]
        self._rows: list[bytes] = []
        self._width = 0
        self._height = 0
        self._work = 0

    def take_colour(self, numbers: list[int]) -> None:
        """Select a colour register, and set it where a colour follows."""
        self._register = numbers[0]
        if len(numbers) >= 5:
            _, system, first, second, third = numbers[:5]
            if system == 1:
                hue, light, full = (first + 240) % 360 / 360, min(second, 100) / 100, min(third, 100) / 100
                parts = colorsys.hls_to_rgb(hue, light, full)
            else:
                parts = tuple(min(part, 100) / 100 for part in (first, second, third))
            self._colours[self._register % 1024] = bytes(round(255 * part) for part in parts)

    def take_size(self, numbers: list[int]) -> None:
        """Take the size that the picture states; it is a promise, nothing is made for it."""
        if len(numbers) >= 4 and numbers[2] and numbers[3]:
            check_size(numbers[2], numbers[3])
            self._height = numbers[3]

    def draw(self, pixels: str) -> None:
        """Draw columns of six pixels in the selected colour."""
        repeated = _REPEATED.findall(pixels)
        if repeated:
            if sum(int(count) for count, _ in repeated) > MAX_SIDE:
                raise PictureError("too wide")
            pixels = _REPEATED.sub(lambda match: match[2] * int(match[1]), pixels)
        end = self.x + len(pixels)
        self._check(end)
        drawn = pixels.lstrip("?")
        start = end - len(drawn)
        drawn = drawn.rstrip("?")
        self._work += _WORK_OF_PASS + len(pixels) // 32 + len(drawn)
        if self._work > MAX_WORK:
            raise PictureError("too much to draw")
        if drawn:
            self._lay(drawn.encode(), start)
        self.x = end

    def _lay(self, sixels: bytes, start: int) -> None:
        count = len(sixels)
        end = start + count
        number = self._number()
        for bit, row in enumerate(self._band):
            mask = sixels.translate(_MASKS[bit])
            if 255 not in mask:
                continue
            if len(row) < end:
                row.extend(bytes(end - len(row)))
            chosen = int.from_bytes(mask)
            before = int.from_bytes(row[start:end])
            colour = int.from_bytes(bytes((number,)) * count)
            row[start:end] = (before ^ (before ^ colour) & chosen).to_bytes(count)

    def end_band(self) -> None:
        """Make pixels of the band, and begin the next one."""
        self._check(self._width)
        colours = bytearray(3 * 256)
        for (_, colour), number in self._numbers.items():
            colours[3 * number : 3 * number + 3] = colour
        tables = (*(bytes(colours[channel::3]) for channel in range(3)), _SEEN)
        for row in self._band:
            pixels = bytearray(4 * len(row))
            for channel, table in enumerate(tables):
                pixels[channel::4] = row.translate(table)
            self._rows.append(bytes(pixels))
        self._band = [bytearray() for _ in range(BAND)]
        self._numbers.clear()
        self.x = 0

    def finish(self) -> Raster:
        """Return the whole."""
        if any(self._band):
            self.end_band()
        rows = self._rows
        while rows and len(rows) > self._height and not rows[-1]:
            rows.pop()
        check_size(self._width, len(rows))
        return Raster(self._width, len(rows), b"".join(row.ljust(4 * self._width, b"\0") for row in rows))

    def _check(self, width: int) -> None:
        self._width = max(self._width, width)
        height = len(self._rows) + BAND
        if self._width > MAX_SIDE or height > MAX_SIDE or self._width * height > MAX_PIXELS:
            raise PictureError(TOO_LARGE)

    def _number(self) -> int:
        colour = self._colours.get(self._register % 1024, _DEFAULTS[0])
        # Beyond 255 different ones in a band the last number is shared: no picture made by a program has that many.
        return self._numbers.setdefault((self._register, colour), min(len(self._numbers) + 1, 255))


def _numbers(text: str) -> list[int]:
    return [int(part[:9] or 0) for part in text.split(";")]
