"""PNG of every kind, and sixel's colours."""

from __future__ import annotations

import pytest

from ollm_tui.tui.pictures.png import decode_png
from ollm_tui.tui.pictures.raster import PictureError
from ollm_tui.tui.pictures.sixel import decode_sixel
from tests.tui.terminal.pictures import png

WHITE, BLACK = b"\xff\xff\xff\xff", b"\0\0\0\xff"


@pytest.mark.parametrize(
    ("data", "pixels"),
    [
        (png(2, 1, b"\x40", kind=0, depth=1), BLACK + WHITE),
        (png(2, 1, b"\xc0", kind=0, depth=2), WHITE + BLACK),
        (png(2, 1, b"\x0f", kind=0, depth=4), BLACK + WHITE),
        (png(2, 1, b"\x00\xff", kind=0), BLACK + WHITE),
        (png(2, 1, b"\x00\x01\xff\xfe", kind=0, depth=16), BLACK + WHITE),
        (png(2, 1, b"\x00\x07\xff\x08", kind=4), b"\0\0\0\x07\xff\xff\xff\x08"),
        (png(2, 1, b"\x10", kind=3, depth=4, PLTE=b"abcdef", tRNS=b"\x05"), b"def\xffabc\x05"),
        (png(1, 1, b"a0b0c0d0", kind=6, depth=16), b"abcd"),
    ],
    ids=["1 bit", "2 bits", "4 bits", "grey", "16 bits", "grey with alpha", "palette", "RGBA of 16 bits"],
)
def test_each_kind_of_png_is_read(data: bytes, pixels: bytes) -> None:
    assert decode_png(data).pixels == pixels


def test_interlaced_ones_are_refused_in_words() -> None:
    data = bytearray(png(1, 1, b"abc"))
    data[28] = 1
    with pytest.raises(PictureError, match="interlaced"):
        decode_png(bytes(data))


def test_sixel_colours_come_as_parts_of_red_green_blue_or_as_hue_and_light() -> None:
    raster = decode_sixel("q#5;2;100;0;50#5@#6;1;120;50;100@#6;1;0;50;100@")
    assert (raster.width, raster.height) == (3, 1)
    assert raster.pixels == bytes((255, 0, 128, 255, 255, 0, 0, 255, 0, 0, 255, 255))


def test_what_sixel_draws_later_lies_above() -> None:
    raster = decode_sixel("q#1;2;100;0;0#2;2;0;100;0#1!3~$#2?@-#1~")
    assert (raster.width, raster.height) == (3, 12)
    red, green = b"\xff\0\0\xff", b"\0\xff\0\xff"
    assert raster.pixels[:12] == red + green + red
    assert raster.pixels[12 * 6 : 12 * 7] == red + bytes(8)
