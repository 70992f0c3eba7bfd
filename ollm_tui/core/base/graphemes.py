"""Where a text may be cut without tearing apart what a reader sees as one character."""

from __future__ import annotations

import unicodedata

_ZERO_WIDTH_JOINER = "\u200d"
_MARKS = frozenset({"Mn", "Me", "Mc"})


def is_boundary(text: str, index: int) -> bool:
    """Whether a cut before `text[index]` splits no grapheme (Unicode's annex 29, without prepends)."""
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before < "\u0300" and after < "\u0300":
        return not (before == "\r" and after == "\n")
    return not (
        _continues(after)
        or before == _ZERO_WIDTH_JOINER
        or _is_surrogate_pair(before, after)
        or _is_hangul_syllable(before, after)
        or _splits_flag(text, index)
    )


def boundary_before(text: str, index: int) -> int:
    """The last boundary at or before `index`."""
    index = min(max(index, 0), len(text))
    while not is_boundary(text, index):
        index -= 1
    return index


def boundary_after(text: str, index: int) -> int:
    """The first boundary at or after `index`."""
    index = min(max(index, 0), len(text))
    while not is_boundary(text, index):
        index += 1
    return index


def _continues(char: str) -> bool:
    """Marks, joiners, skin tones and tag characters belong to what stands before them."""
    return (
        char == _ZERO_WIDTH_JOINER
        or char == "\u200c"
        or "\U0001f3fb" <= char <= "\U0001f3ff"
        or "\U000e0020" <= char <= "\U000e007f"
        or unicodedata.category(char) in _MARKS
    )


def _is_surrogate_pair(before: str, after: str) -> bool:
    return "\ud800" <= before <= "\udbff" and "\udc00" <= after <= "\udfff"


def _is_hangul_syllable(before: str, after: str) -> bool:
    leading, vowel = "\u1100" <= before <= "\u115f", "\u1160" <= before <= "\u11a7"
    trailing, syllable = "\u11a8" <= before <= "\u11ff", "\uac00" <= before <= "\ud7a3"
    if leading:
        return "\u1100" <= after <= "\u11a7" or "\uac00" <= after <= "\ud7a3"
    if vowel or (syllable and (ord(before) - 0xAC00) % 28 == 0):
        return "\u1160" <= after <= "\u11ff"
    return (trailing or syllable) and "\u11a8" <= after <= "\u11ff"


def _splits_flag(text: str, index: int) -> bool:
    """Flags are pairs of regional indicators: inside a run only every second place is a boundary."""
    if not (_is_regional(text[index]) and _is_regional(text[index - 1])):
        return False
    start = index
    while start > 0 and _is_regional(text[start - 1]):
        start -= 1
    return (index - start) % 2 == 1


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
