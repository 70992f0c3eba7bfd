"""Columns of a character, and clusters of several code points in one cell.

A row has one code unit a column. A wide character is followed by `STUB`; a base with combining marks, a joined emoji or
a flag is one private character of plane 16.
"""

from __future__ import annotations

import re
import unicodedata

from pyte.screens import wcwidth

STUB = "\x00"
"""Stands in the second column of a wide character."""

NARROW = r" -~\xa0-\xac\xae-\u02ff\u0370-\u0377\u0400-\u0482\u2500-\u25fc\u2800-\u28ff\ue0a0-\ue0d7\ufffd"
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


class ClusterTable:
    """Table that gives each cluster of code points one private character."""

    def __init__(self) -> None:
        self._texts: list[str] = []
        self._numbers: dict[str, int] = {}

    def intern(self, text: str) -> str:
        """Return one character for `text`: its NFC, a private one, else the base."""
        composed = unicodedata.normalize("NFC", text)
        if len(composed) == 1:
            return composed
        number = self._numbers.get(text)
        if number is None:
            if len(self._texts) >= MAX_CLUSTERS:
                return text[0]
            number = self._numbers[text] = len(self._texts)
            self._texts.append(text)
        return chr(_FIRST_CLUSTER + number)

    def expand(self, char: str) -> str:
        """Return the code points that a cell's character stands for."""
        number = ord(char) - _FIRST_CLUSTER
        return self._texts[number] if 0 <= number < len(self._texts) else char

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
