"""Pixels in memory, and what each half of a cell shows of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

MAX_PIXELS = 4_000_000
"""Pixels of a picture; a larger one is refused before any is made."""
MAX_SIDE = 20_000
TOO_LARGE = "too large: more than 4 million pixels, or a side above 20,000"
CLEAR = -1
"""Colour of a half block that nothing is drawn in."""

_SAMPLES = 3
"""Points a side that are looked at of the pixels behind a half block: a mean of nine costs the same at every size."""
_HALF_SEEN = 128


class PictureError(ValueError):
    """A picture that is not drawn; the message is a few plain words of ours, nothing of the picture's."""


@dataclass(frozen=True)
class Raster:
    """Pixels, row after row, four bytes each: red, green, blue, and how much is seen."""

    width: int
    height: int
    pixels: bytes

    def crop(self, left: int, top: int, width: int, height: int) -> Raster:
        """Return a part; 0 as width or height means up to the edge.

        Raises:
            PictureError: Nothing of the picture is in it.
        """
        right = min(self.width, left + width) if width else self.width
        bottom = min(self.height, top + height) if height else self.height
        if left >= right or top >= bottom:
            raise PictureError("no pixels asked for")
        rows = ((y * self.width + left, y * self.width + right) for y in range(top, bottom))
        return Raster(right - left, bottom - top, b"".join(self.pixels[4 * a : 4 * b] for a, b in rows))


def check_size(width: int, height: int, max_side: int = MAX_SIDE) -> None:
    """Refuse a size that is empty or too large.

    Raises:
        PictureError: It is.
    """
    if width <= 0 or height <= 0:
        raise PictureError("no pixels")
    if width > max_side or height > max_side or width * height > MAX_PIXELS:
        raise PictureError(TOO_LARGE)


def half_blocks(raster: Raster, columns: int, halves: int) -> Iterator[list[tuple[int, int]]]:
    """Yield the rows of cells, each cell as the colours of its upper and lower half.

    Args:
        raster: The picture.
        columns: Its width in cells.
        halves: Its height in half cells; half a cell is about square.

    Yields:
        0xRRGGBB each, or `CLEAR`.
    """
    across = [_points(column, columns, raster.width) for column in range(columns)]
    for upper in range(0, halves, 2):
        above = _line(raster, across, _points(upper, halves, raster.height))
        below = [CLEAR] * columns
        if upper + 1 < halves:
            below = _line(raster, across, _points(upper + 1, halves, raster.height))
        yield list(zip(above, below, strict=True))


def _points(number: int, count: int, length: int) -> list[int]:
    """Return the pixels to look at, for one of `count` parts of a length."""
    start = number * length // count
    span = max(1, (number + 1) * length // count - start)
    points = min(_SAMPLES, span)
    return [start + (2 * point + 1) * span // (2 * points) for point in range(points)]


def _line(raster: Raster, across: list[list[int]], down: list[int]) -> list[int]:
    pixels = raster.pixels
    starts = [y * raster.width for y in down]
    colours: list[int] = []
    for points in across:
        red = green = blue = seen = 0
        for start in starts:
            for x in points:
                at = 4 * (start + x)
                if pixels[at + 3] >= _HALF_SEEN:
                    red += pixels[at]
                    green += pixels[at + 1]
                    blue += pixels[at + 2]
                    seen += 1
        if 2 * seen < len(points) * len(starts) or not seen:
            colours.append(CLEAR)
        else:
            colours.append(red // seen << 16 | green // seen << 8 | blue // seen)
    return colours
