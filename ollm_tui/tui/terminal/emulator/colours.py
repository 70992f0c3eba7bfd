"""The colours of a terminal that its program asks for and sets (OSC 4, 10, 11, 104, 110, 111)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from pyte import graphics

FOREGROUND, BACKGROUND = 256, 257
"""Numbers of the text's and the background's colour, behind the 256 of the palette."""

_RGB = re.compile("rgb:([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})/([0-9a-fA-F]{1,4})")
_HASH = re.compile("#([0-9a-fA-F]{6})")
_NUMBER = re.compile("[0-9]{1,3}")
_DYNAMIC = {"10": FOREGROUND, "11": BACKGROUND, "110": FOREGROUND, "111": BACKGROUND}


class Colours:
    """Colours by number, as 24 bits."""

    def __init__(self) -> None:
        self.theme: Mapping[int, int] = {FOREGROUND: 0xE0E0E0, BACKGROUND: 0x121212}
        """The sixteen, the text's and the background's as the view draws them."""
        self.own: dict[int, int] = {}
        """What the program set in their place."""

    def command(self, code: str, body: str) -> Iterator[str]:
        """Run one of these OSCs; yields what is answered."""
        if code == "4":
            fields = body.split(";")
            for field, spec in zip(fields[::2], fields[1::2], strict=False):
                if (number := _palette_number(field)) is not None:
                    yield from self._set(number, spec, f"4;{number}")
        elif code == "104":
            for number in map(_palette_number, body.split(";")) if body else range(FOREGROUND):
                self.own.pop(-1 if number is None else number, None)
        elif code in ("10", "11"):
            yield from self._set(_DYNAMIC[code], body, code)
        else:
            self.own.pop(_DYNAMIC[code], None)

    def _set(self, number: int, spec: str, name: str) -> Iterator[str]:
        if spec == "?":
            colour = self.own.get(number, self.theme.get(number))
            if colour is None:
                colour = int(graphics.FG_BG_256[number], 16)
            levels = "/".join(f"{level:02x}{level:02x}" for level in colour.to_bytes(3, "big"))
            yield f"\x1b]{name};rgb:{levels}\x1b\\"
        elif (colour := colour_from(spec)) is not None:
            self.own[number] = colour


def colour_from(text: str) -> int | None:
    """Parse a colour as X11 writes it: `rgb:RR/GG/BB` with 1 to 4 digits each, or `#RRGGBB`."""
    if match := _HASH.fullmatch(text):
        return int(match[1], 16)
    if match := _RGB.fullmatch(text):
        red, green, blue = (int(digits, 16) * 255 // (16 ** len(digits) - 1) for digits in match.groups())
        return red << 16 | green << 8 | blue
    return None


def _palette_number(field: str) -> int | None:
    return int(field) if _NUMBER.fullmatch(field) and int(field) < FOREGROUND else None
