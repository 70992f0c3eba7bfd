"""Foreign text made safe to show: nothing in it can move the cursor, hide, or reorder what stands beside it."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from functools import lru_cache

MARKS_PER_BASE = 4
"""Combining marks kept on one base character; more of them paint over the lines above."""

_NOT_PLAIN = re.compile(r"[^\x20-\x7e]+")
_NOT_PLAIN_BLOCK = re.compile(r"[^\n\t\x20-\x7e]+")
_HIDDEN_CATEGORIES = frozenset({"Cf", "Co", "Cn", "Cs", "Zl", "Zp"})
# Drawn as nothing or as a blank although Unicode files them under letters, marks and symbols.
_BLANK_LOOKING = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0")
_SHOWN_CONTROLS = {"\n": "⏎", "\t": "⇥", "\r": "␍", "\x1b": "␛"}
_GIT_ESCAPES = {
    "\a": "\\a",
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\v": "\\v",
    "\f": "\\f",
    "\r": "\\r",
    '"': '\\"',
    "\\": "\\\\",
}
_GIT_QUOTED = re.compile(rb'"((?:[^"\\]|\\(?:[abtnvfr"\\]|[0-3][0-7]{2}))*)"')
_GIT_ESCAPE = re.compile(rb'\\([abtnvfr"\\]|[0-3][0-7]{2})')
_GIT_UNESCAPES = {escape[1:].encode(): character.encode() for character, escape in _GIT_ESCAPES.items()}


def visible(text: str) -> str:
    """`text` on one line, for names, commands and messages: line ends, controls and invisible characters get a mark."""
    if text.isascii() and text.isprintable():
        return text
    return _NOT_PLAIN.sub(_show_run, text.replace("\r\n", "\n"))


def visible_block(text: str) -> str:
    """As `visible`, for texts of several lines: line ends and tabs stay as they are."""
    return _NOT_PLAIN_BLOCK.sub(_show_run, text.replace("\r\n", "\n"))


def visible_blanks(text: str) -> str:
    """As `visible`, with blanks marked too: for telling tabs from spaces and seeing what trails a line."""
    return visible(text).replace("⇥", "→").replace(" ", "·")


def quote_name(name: str) -> str:
    """Return a file name as git prints it; undecodable bytes come out as octal, so it is always valid Unicode."""
    if all(_is_plain(character) for character in name):
        return name
    return f'"{"".join(map(_escaped, name))}"'


def unquote_name(text: str) -> str:
    """Return the name that `quote_name` or git printed as `text`. Raises ValueError for anything else."""
    match = _GIT_QUOTED.fullmatch(os.fsencode(text))
    if match is None or b"\\" not in match[1]:
        raise ValueError(f"not a quoted name: {visible(text)}")
    return os.fsdecode(_GIT_ESCAPE.sub(_unescaped, match[1]))


def _show_run(run: re.Match[str]) -> str:
    shown: list[str] = []
    marks = 0
    for character in run[0]:
        if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me"):
            marks += 1
            excess = marks > MARKS_PER_BASE or character in _BLANK_LOOKING
            shown.append(_code_point(character) if excess else character)
            continue
        marks = 0
        shown.append(_shown(character))
    return "".join(shown)


@lru_cache(maxsize=4096)
def _shown(character: str) -> str:
    if character in _SHOWN_CONTROLS:
        return _SHOWN_CONTROLS[character]
    category = unicodedata.category(character)
    if category == "Cc":
        return f"\\x{ord(character):02x}"
    if _is_hidden(character, category):
        return _code_point(character)
    return character


def _is_hidden(character: str, category: str) -> bool:
    return (
        category in _HIDDEN_CATEGORIES
        or (category == "Zs" and character != " ")
        or character in _BLANK_LOOKING
        or 0xE0000 <= ord(character) <= 0xE01EF
    )


def _code_point(character: str) -> str:
    return f"⟨U+{ord(character):04X}⟩"


@lru_cache(maxsize=4096)
def _is_plain(character: str) -> bool:
    if character in _GIT_ESCAPES:
        return False
    category = unicodedata.category(character)
    return category != "Cc" and not _is_hidden(character, category)


def _escaped(character: str) -> str:
    if character in _GIT_ESCAPES:
        return _GIT_ESCAPES[character]
    if _is_plain(character):
        return character
    try:
        raw = os.fsencode(character)
    except UnicodeEncodeError:  # a lone surrogate that stands for no byte: no file can be called so
        raw = character.encode("utf-8", "surrogatepass")
    return "".join(f"\\{byte:03o}" for byte in raw)


def _unescaped(escape: re.Match[bytes]) -> bytes:
    known = _GIT_UNESCAPES.get(escape[1])
    return known if known is not None else bytes([int(escape[1], 8)])


def quoted_unless_plain(text: str) -> str:
    """Return `text`, or its JSON string where it would be ambiguous; no two texts look the same."""
    if text and text.isprintable() and text == text.strip() and not text.startswith('"'):
        return text
    quoted = json.dumps(text, ensure_ascii=False)
    return "".join(letter if letter.isprintable() else json.dumps(letter)[1:-1] for letter in quoted)


_ZERO_WIDTH_JOINER = "\u200d"
_MARKS = frozenset({"Mn", "Me", "Mc"})


def is_boundary(text: str, index: int) -> bool:
    """Return whether a cut before `text[index]` splits no grapheme (Unicode's annex 29, without prepends)."""
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
    """Return the last boundary at or before `index`."""
    index = min(max(index, 0), len(text))
    while not is_boundary(text, index):
        index -= 1
    return index


def boundary_after(text: str, index: int) -> int:
    """Return the first boundary at or after `index`."""
    index = min(max(index, 0), len(text))
    while not is_boundary(text, index):
        index += 1
    return index


def _continues(char: str) -> bool:
    """Return whether it belongs to the character before: marks, joiners, skin tones, tags."""
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
    """Return whether a cut would split a flag, which is a pair of regional indicators."""
    if not (_is_regional(text[index]) and _is_regional(text[index - 1])):
        return False
    start = index
    while start > 0 and _is_regional(text[start - 1]):
        start -= 1
    return (index - start) % 2 == 1


def _is_regional(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"
