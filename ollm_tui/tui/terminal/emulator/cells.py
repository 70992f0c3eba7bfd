"""Cells: columns of a character, clusters of several code points, styles and the SGR sequences that change them.

A row has one code unit a column. A wide character is followed by `STUB`; a base with combining marks, a joined emoji or
a flag is one private character of plane 16.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from pyte import graphics
from pyte.screens import Char, wcwidth

STUB = "\x00"
"""Stands in the second column of a wide character."""

NARROW = (
    r" -~\xa0-\xac\xae-\u02ff\u0370-\u0377\u037a-\u037f\u0384-\u038a\u038e-\u03a1\u03a3-\u0482\u048a-\u052f"
    r"\u0531-\u0556\u0559-\u058a\u10d0-\u10ff\u1e00-\u1eff\u2010-\u2027\u2030-\u205e\u2074-\u208e\u20a0-\u20bf"
    r"\u2100-\u218b\u2190-\u2193\u2196-\u2319\u2460-\u25fc\u2800-\u28ff\ue0a0-\ue0d7\uff61-\uff9f\ufffd"
)
"""Regular expression class of characters that everybody draws one column wide (a test compares it with the tables)."""
WIDE = (
    r"\u2e80-\u2e99\u2e9b-\u2ef3\u3000-\u3029\u3030-\u303e\u3041-\u3096\u309b-\u30ff\u3105-\u312f\u3131-\u3163"
    r"\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7a3\uff01-\uff60\uffe0-\uffe6\U0001f300-\U0001f320\U0001f3e0-\U0001f3f0"
    r"\U0001f400-\U0001f43e\U0001f442-\U0001f4fc\U0001f5fb-\U0001f64f\U0001f680-\U0001f6c5\U0001f90c-\U0001f93a"
    r"\U0001f947-\U0001f9ff"
)
"""Regular expression class of characters that everybody draws two columns wide and that never join backwards."""

ZWJ = "\u200d"
VS16 = "\ufe0f"
MAX_CLUSTER = 16
"""Code points kept in one cell; further marks are dropped (they would draw over the neighbours anyway)."""
MAX_CLUSTERS = 16_384
"""Different clusters remembered; beyond it a new cluster shows its base character alone."""
_FIRST_CLUSTER = 0x100000
MEMO_LIMIT = 4096
"""Entries of a memo (cells by text, styles by parameters). Beyond it the memo is emptied: nothing hostile grows it."""
_REMEMBERED = 64
"""Characters of a text whose cells are remembered."""
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp"})
"""Categories of zero-width characters that draw nothing but can turn text around or hide in it: never kept."""

_PRIVATE = re.compile("[\U00100000-\U0010ffff]")


def width(char: str) -> int:
    """Return the columns of a code point: 0, 1 or 2; 1 for regional indicators."""
    if "\U0001f1e6" <= char <= "\U0001f1ff":
        return 1
    return max(wcwidth(char), 0)


def is_skin_tone(char: str) -> bool:
    """Whether a character modifies the emoji before it (Fitzpatrick)."""
    return "\U0001f3fb" <= char <= "\U0001f3ff"


def is_pictograph(char: str) -> bool:
    """Whether a character can be part of a joined emoji."""
    return "\u2190" <= char <= "\u2bff" or char >= "\U0001f000"


def joins(before: str, char: str) -> bool:
    """Whether a character extends the emoji before it instead of taking columns."""
    return is_pictograph(char) and is_pictograph(before[0]) and (before[-1] == ZWJ or is_skin_tone(char))


def joined(before: str, char: str) -> str:
    """Return a cell's text with a character of no width, or as it was where that would not be kept."""
    if len(before) >= MAX_CLUSTER or (char != ZWJ and unicodedata.category(char) in _INVISIBLE):
        return before
    composed = unicodedata.normalize("NFC", before + char)
    return composed if len(composed) == 1 else before + char


class ClusterTable:
    """Table that gives each cluster of code points one private character."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self.known_cells: dict[str, str] = {}
        """What `cells_of` returned of late."""

    def cells_of(self, text: str) -> str:
        """Return the cells of a few characters; marks at their beginning, which join nothing, are left out."""
        cells: list[str] = []
        cluster = end = ""
        for char in text:
            columns = width(char)
            if cluster and (columns == 0 or joins(cluster, char)):
                cluster = joined(cluster, char)
            elif columns:
                cells.append(self.intern(cluster) + end)
                cluster, end = char, STUB if columns == 2 else ""
        made = "".join(cells) + self.intern(cluster) + end
        if len(text) <= _REMEMBERED:
            if len(self.known_cells) >= MEMO_LIMIT:
                self.known_cells.clear()
            self.known_cells[text] = made
        return made

    def intern(self, text: str) -> str:
        """Return one character for the text of a cell: itself, a private one, else the base."""
        if len(text) < 2:
            return text
        number = self._numbers.get(text)
        if number is None:
            if len(self.texts) >= MAX_CLUSTERS:
                return text[0]
            number = self._numbers[text] = len(self.texts)
            self.texts.append(text)
        return chr(_FIRST_CLUSTER + number)

    def expand(self, char: str) -> str:
        """Return the code points that a cell's character stands for."""
        number = ord(char) - _FIRST_CLUSTER
        return self.texts[number] if 0 <= number < len(self.texts) else char

    def plain(self, text: str) -> str:
        """Return row text as people read it: no stubs, clusters spelt out."""
        if text.isascii():
            return text.replace(STUB, "") if STUB in text else text
        text = text.replace(STUB, "")
        return _PRIVATE.sub(self._spell, text) if max(text) >= "\U00100000" else text

    def _spell(self, match: re.Match[str]) -> str:
        return self.expand(match[0])


def without_private(text: str) -> str:
    """Replace characters that would be taken for clusters (plane 16) by U+FFFD."""
    return _PRIVATE.sub("\ufffd", text)


DEFAULT_COLOUR = -1
"""The theme's own colour."""
RGB = 0x1000000
"""Bit that marks a colour as 24-bit red-green-blue; below it the number is a palette index 0-255."""

BOLD, DIM, ITALIC, UNDERLINE, BLINK, REVERSE, HIDDEN, STRIKE, OVERLINE, DOUBLE_UNDERLINE = (1 << n for n in range(10))
PROTECTED = 1 << 10
"""DECSCA: selective erasing leaves the cell alone. No SGR sets or resets it, and nothing shows it."""

PICTURE = 1 << 11
"""The cell shows two pixels of a picture; the bits from `PICTURE_NUMBER` on are the picture's number, if it has one."""
PICTURE_NUMBER = 12


class CellStyle(NamedTuple):
    """How a cell is drawn; a tuple, as floods make one a colour."""

    fg: int = DEFAULT_COLOUR
    bg: int = DEFAULT_COLOUR
    flags: int = 0
    link: int = 0
    """Number of an OSC 8 hyperlink in the screen's link table; 0 for none."""


DEFAULT = CellStyle()

_ON = {1: BOLD, 2: DIM, 3: ITALIC, 5: BLINK, 6: BLINK, 7: REVERSE, 8: HIDDEN, 9: STRIKE, 53: OVERLINE}
_OFF = {
    22: BOLD | DIM,
    23: ITALIC,
    24: UNDERLINE | DOUBLE_UNDERLINE,
    25: BLINK,
    27: REVERSE,
    28: HIDDEN,
    29: STRIKE,
    55: OVERLINE,
}
_FLAGS = {code: (0, flag) for code, flag in _ON.items()} | {code: (flags, 0) for code, flags in _OFF.items()}
_FLAGS[21] = (UNDERLINE, DOUBLE_UNDERLINE)
"""SGR codes of flags: which they reset, and which they set."""
_FOREGROUND = {39: DEFAULT_COLOUR} | {30 + n: n for n in range(8)} | {90 + n: 8 + n for n in range(8)}
_BACKGROUND = {code + 10: colour for code, colour in _FOREGROUND.items()}
_NUMBER = re.compile(r"[0-9]{1,9}")
_BYTES = {str(number): number for number in range(256)}


class StyleMemo(dict[tuple[CellStyle, str], CellStyle]):
    """Cache of what SGR parameters make of a style; emptied when full."""

    def apply(self, style: CellStyle, parameters: str) -> CellStyle:
        """Return the style after `CSI parameters m`; malformed parameters change nothing."""
        key = (style, parameters)
        known = self.get(key)
        if known is not None:
            return known
        if len(self) >= MEMO_LIMIT:
            self.clear()
        self[key] = changed = apply_sgr(style, parameters)
        return changed


def apply_sgr(style: CellStyle, parameters: str) -> CellStyle:
    """Return the style after `CSI parameters m`, with colon sub-parameters (ISO 8613-6)."""
    fg, bg, flags, link = style
    fields = parameters.split(";")
    colour = _plain_colour(fields)
    if colour is not None:  # `_replace` takes twice as long
        return CellStyle(colour, bg, flags, link) if fields[0] == "38" else CellStyle(fg, colour, flags, link)
    index = 0
    while index < len(fields):
        head, colon, rest = fields[index].partition(":")
        index += 1
        code = _number(head)
        if code in (38, 48, 58):  # 58, the colour of the underline, is skipped
            colour = _colour_from_colons(rest.split(":")) if colon else _colour_from(fields[index : index + 4])
            index += 0 if colon else _colour_length(fields, index)
            if colour is not None:
                fg, bg = colour if code == 38 else fg, colour if code == 48 else bg
        elif code == 4:
            flags = _underlined(flags, rest if colon else "1")
        elif colon:
            continue
        elif code == 0:
            fg, bg, flags = DEFAULT_COLOUR, DEFAULT_COLOUR, flags & PROTECTED
        elif code in _FLAGS:
            reset, added = _FLAGS[code]
            flags = flags & ~reset | added
        elif code in _FOREGROUND:
            fg = _FOREGROUND[code]
        elif code in _BACKGROUND:
            bg = _BACKGROUND[code]
    return canonical(CellStyle(fg, bg, flags, link))


def _plain_colour(fields: list[str]) -> int | None:
    """Return the colour of an SGR that sets one and nothing else, the commonest that are new; None for others."""
    if len(fields) < 3 or fields[0] not in ("38", "48"):
        return None
    try:
        if len(fields) == 5 and fields[1] == "2":
            return RGB | _BYTES[fields[2]] << 16 | _BYTES[fields[3]] << 8 | _BYTES[fields[4]]
        return _BYTES[fields[2]] if len(fields) == 3 and fields[1] == "5" else None
    except KeyError:
        return None


def sgr_of(style: CellStyle) -> str:
    """Return the parameters of the SGR that sets a style, as xterm reports them."""
    codes = ["0", *(str(code) for code, flag in sorted(_ON.items()) if style.flags & flag and code != 6)]
    if style.flags & (UNDERLINE | DOUBLE_UNDERLINE):
        codes.append("21" if style.flags & DOUBLE_UNDERLINE else "4")
    for colour, code in ((style.fg, 30), (style.bg, 40)):
        if colour >= RGB:
            codes.append(f"{code + 8}:2::{colour >> 16 & 0xFF}:{colour >> 8 & 0xFF}:{colour & 0xFF}")
        elif colour >= 16:
            codes.append(f"{code + 8}:5:{colour}")
        elif colour >= 0:
            codes.append(str(code + colour if colour < 8 else code + 52 + colour))
    return ";".join(codes)


def canonical(style: CellStyle) -> CellStyle:
    """Return the style, `DEFAULT` itself where it equals that: rows compare by identity."""
    return DEFAULT if style == DEFAULT else style


def _number(text: str) -> int:
    match = _NUMBER.fullmatch(text)
    return int(match[0]) if match else (0 if not text else -1)


def _underlined(flags: int, kind: str) -> int:
    flags &= ~(UNDERLINE | DOUBLE_UNDERLINE)
    if kind == "0":
        return flags
    return flags | (DOUBLE_UNDERLINE if kind == "2" else UNDERLINE)


def _colour_from(fields: list[str]) -> int | None:
    """Return the colour in the fields behind `38;`, `48;` or `58;`."""
    if fields[:1] == ["5"] and len(fields) >= 2:
        index = _number(fields[1])
        return index if 0 <= index <= 255 else None
    if fields[:1] == ["2"] and len(fields) >= 4:
        red, green, blue = _number(fields[1]), _number(fields[2]), _number(fields[3])
        if 0 <= red <= 255 and 0 <= green <= 255 and 0 <= blue <= 255:
            return RGB | red << 16 | green << 8 | blue
    return None


def _colour_length(fields: list[str], index: int) -> int:
    """Return how many fields a semicolon colour at `index` takes, valid or not."""
    kind = fields[index] if index < len(fields) else ""
    return {"5": 2, "2": 4}.get(kind, 1)


def _colour_from_colons(fields: list[str]) -> int | None:
    """Return the colour of `2:r:g:b`, `2:<colour space>:r:g:b[:...]` or `5:n`."""
    if fields[0] == "2" and len(fields) >= 5:
        return _colour_from(["2", *fields[2:5]])
    return _colour_from(fields)


_ANSI_NAMES = [graphics.FG_ANSI[30 + n] for n in range(8)] + [graphics.FG_AIXTERM[90 + n] for n in range(8)]


def colour_name(colour: int) -> str:
    """Return a colour as pyte spells it: `default`, a name, or six hexadecimal digits."""
    if colour == DEFAULT_COLOUR:
        return "default"
    if colour >= RGB:
        return f"{colour & 0xFFFFFF:06x}"
    return _ANSI_NAMES[colour] if colour < 16 else graphics.FG_BG_256[colour]


def as_char(data: str, style: CellStyle, *, reverse: bool = False) -> Char:
    """Return a cell in pyte's form; `reverse` inverts it once more (DECSCNM)."""
    flags = style.flags
    return Char(
        data,
        colour_name(style.fg),
        colour_name(style.bg),
        bold=bool(flags & BOLD),
        italics=bool(flags & ITALIC),
        underscore=bool(flags & (UNDERLINE | DOUBLE_UNDERLINE)),
        strikethrough=bool(flags & STRIKE),
        reverse=bool(flags & REVERSE) != reverse,
        blink=bool(flags & BLINK),
    )
