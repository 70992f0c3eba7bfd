"""Characters that make a command line look like something else: control, invisible and look-alike ones."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

_UNUSUAL = re.compile(r"[^\t\n -~]")
_FOREIGN_WORD = re.compile(r"[^\W\d_]{2,}")
_INVISIBLE = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0" + "".join(map(chr, range(0xFE00, 0xFE10))))
"""Drawn as nothing although their category says letter, mark or symbol."""

_DASHES = frozenset("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\ufe58\ufe63\uff0d\u02d7\u058a\u1806")
_HARMLESS_COMPATIBILITY = frozenset("\u2026\u2122\u00aa\u00ba\u00b2\u00b3\u00b9\u2460")
"""Fold to ASCII, yet nobody reads them as shell syntax: ellipsis, trade mark, ordinals, superscripts."""

_REFUSED_CATEGORIES = {
    "Cc": "a control character",
    "Cf": "an invisible format character",
    "Zl": "a line separator",
    "Zp": "a paragraph separator",
    "Zs": "a blank that is no space",
    "Cs": "half a surrogate pair",
    "Co": "a private-use character",
    "Cn": "an unassigned character",
}
_LOOK_ALIKE_SCRIPTS = ("CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU", "DESERET")


def character_problems(line: str) -> tuple[str, ...]:
    """Why a line cannot be shown or read faithfully; empty for ordinary text, whatever its language."""
    if line.isascii() and line.isprintable():
        return ()
    unusual = set(_UNUSUAL.findall(line))
    if not unusual:
        return ()
    found: dict[str, None] = {}
    for char in sorted(unusual):
        problem = _problem_of(char)
        if problem:
            found[f"it holds {problem} (U+{ord(char):04X})"] = None
    if _has_leading_dash(line):
        found["it holds a dash that only looks like the start of an option"] = None
    for word in _FOREIGN_WORD.findall(line):
        if not word.isascii() and _mixes_scripts(word):
            found["a word mixes letters of scripts that look alike"] = None
            break
    return tuple(found)


def reads_bytes_alike(environment: Mapping[str, str]) -> bool:
    """Whether a shell started in this environment takes the line's characters for the ones that were judged.

    In an old multi-byte locale the last byte of a letter and a backslash behind it are one character, and the quote
    behind that ends what was judged as quoted. Matters for lines with letters beyond ASCII alone.
    """
    locale = environment.get("LC_ALL") or environment.get("LC_CTYPE") or environment.get("LANG") or "C"
    return locale in ("C", "POSIX") or locale.lower().partition("@")[0].endswith((".utf-8", ".utf8"))


def _problem_of(char: str) -> str:
    refused = _REFUSED_CATEGORIES.get(unicodedata.category(char))
    if refused:
        return refused
    if char in _INVISIBLE:
        return "an invisible character"
    if char not in _HARMLESS_COMPATIBILITY:
        folded = unicodedata.normalize("NFKC", char)
        if folded != char and folded.isascii():
            return f"a character that looks like {folded!r}"
    return ""


def _has_leading_dash(line: str) -> bool:
    for index, char in enumerate(line):
        starts_word = line[max(index - 1, 0) : index].strip("'\" \t\n") == ""
        if char in _DASHES and starts_word and line[index + 1 : index + 2].strip():
            return True
    return False


def _mixes_scripts(word: str) -> bool:
    scripts = {unicodedata.name(char, "").split(" ", 1)[0] for char in word}
    return "LATIN" in scripts and not scripts.isdisjoint(_LOOK_ALIKE_SCRIPTS)
