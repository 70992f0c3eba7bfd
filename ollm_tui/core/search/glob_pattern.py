"""Glob patterns over paths: `*` and `?` within a name, `**` across directories, `[...]`, `{a,b}`, backslash."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

from ollm_tui.core.base.regex import RegexError, compile_bytes

MAX_ALTERNATIVES = 1000
"""So many patterns may one with braces stand for."""

_MAGIC = re.compile(r"[*?\[{\\]")
_SUFFIX = re.compile(r"\*\*/\*([^/*?\[{\\]+)")


class InvalidGlobError(ValueError):
    """A pattern that cannot be used; says why."""


class GlobPattern:
    """A compiled pattern. Case counts; the whole path must match. Raises InvalidGlob."""

    def __init__(self, pattern: str) -> None:
        if not pattern.strip():
            raise InvalidGlobError("the pattern is empty")
        if "\0" in pattern:
            raise InvalidGlobError("the pattern contains a NUL character, which no path can")
        self.text = pattern
        self.alternatives = _expanded(pattern)
        self._everything = pattern in ("**", "**/*")
        suffix = _SUFFIX.fullmatch(pattern)
        self._ending = suffix[1].encode("utf-8", "surrogateescape") if suffix is not None else None
        try:
            self._pattern = _compiled(self.alternatives)
        except RegexError as error:
            raise InvalidGlobError(f"the pattern is too large ({error.reason})") from None

    @property
    def prefix(self) -> tuple[bytes, ...]:
        """The directories that all matches lie in."""
        directories = [_literal_directories(alternative) for alternative in self.alternatives]
        shared: list[bytes] = []
        for names in zip(*directories, strict=False):
            if len(set(names)) > 1:
                break
            shared.append(names[0])
        return tuple(shared)

    @property
    def max_depth(self) -> int | None:
        """Directories above the deepest possible match; None where there is no limit."""
        if any(_is_any_depth(name) for alternative in self.alternatives for name in alternative.split("/")):
            return None
        return max(alternative.count("/") for alternative in self.alternatives)

    def matching(self, paths: Sequence[bytes]) -> Sequence[bytes]:
        """Return those of the paths that match, in their order."""
        # The patterns that are used most need no expression.
        if self._everything:
            return paths
        if self._ending is not None:
            ending = self._ending
            return [path for path in paths if path.endswith(ending)]
        return list(_matching(self._pattern, paths))


def has_magic(pattern: str) -> bool:
    """Return whether a text means more than one path as a pattern."""
    return _MAGIC.search(pattern) is not None


def _matching(pattern: re.Pattern[bytes], paths: Sequence[bytes]) -> Iterator[bytes]:
    """One pass over all of the paths, each between two zero bytes; neighbours come as one match."""
    blob = b"\0" + b"\0\0".join(paths) + b"\0"
    if blob.isascii() or _is_utf_8(blob):
        for match in pattern.finditer(blob):
            start, end = match.span()
            yield from blob[start + 1 : end - 1].split(b"\0\0")
        return
    for path in paths:
        # A byte that is no text counts as one character, so that `*` and `?` find such names too.
        readable = path.decode("utf-8", "replace").encode()
        if pattern.fullmatch(b"\0" + readable + b"\0"):
            yield path


def _is_utf_8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _compiled(alternatives: Iterable[str]) -> re.Pattern[bytes]:
    expression = "|".join(_translated(alternative) for alternative in alternatives)
    return compile_bytes(rb"(?:\x00(?:%b)\x00)+" % expression.encode("utf-8", "replace"), utf_8=True)


def _expanded(pattern: str) -> list[str]:
    """Return the patterns without braces that a pattern stands for. Braces without a comma are literal."""
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(waiting) + len(done) > MAX_ALTERNATIVES:
            raise InvalidGlobError(f"the braces stand for more than {MAX_ALTERNATIVES} patterns")
        current = waiting.pop()
        braces = _first_braces(current)
        if braces is None:
            done.append(current)
            continue
        start, end, choices = braces
        waiting += [current[:start] + choice + current[end:] for choice in choices]
    return done


def _first_braces(pattern: str) -> tuple[int, int, list[str]] | None:
    """Return the first braces with a comma in them: where they are, and what they offer."""
    opened: list[tuple[int, list[int]]] = []
    best: tuple[int, int, list[str]] | None = None
    position = 0
    while position < len(pattern):
        char = pattern[position]
        if char == "\\":
            position += 1
        elif char == "[":
            position = _class_end(pattern, position) or position
        elif char == "{":
            opened.append((position, []))
        elif char == "," and opened:
            opened[-1][1].append(position)
        elif char == "}" and opened:
            start, commas = opened.pop()
            if commas and (best is None or start < best[0]):
                bounds = [start, *commas, position]
                choices = [pattern[left + 1 : right] for left, right in pairwise(bounds)]
                best = (start, position + 1, choices)
        position += 1
    return best


def _class_end(pattern: str, start: int) -> int | None:
    """Return where the set that opens at `start` closes; None where it does not."""
    position = start + 1
    if pattern[position : position + 1] in ("!", "^"):
        position += 1
    if pattern[position : position + 1] == "]":
        position += 1
    while position < len(pattern) and pattern[position] not in "]/":
        position += 2 if pattern[position] == "\\" else 1
    return position if position < len(pattern) and pattern[position] == "]" else None


def _translated(pattern: str) -> str:
    names = pattern.split("/")
    out = ""
    for index, name in enumerate(names):
        last = index == len(names) - 1
        if _is_any_depth(name):
            out += r"[^\x00]*" if last else r"(?:[^/\x00]+/)*"
        else:
            out += _translated_name(name) + ("" if last else "/")
    return out


def _is_any_depth(name: str) -> bool:
    return len(name) > 1 and not name.strip("*")


def _translated_name(name: str) -> str:
    out, position = "", 0
    while position < len(name):
        char = name[position]
        if char == "*":
            out += r"[^/\x00]*"
        elif char == "?":
            out += r"[^/\x00]"
        elif char == "[" and (end := _class_end(name, position)) is not None:
            out += _translated_class(name[position + 1 : end])
            position = end
        elif char == "\\" and position + 1 < len(name):
            position += 1
            out += _escaped(name[position])
        else:
            out += _escaped(char)
        position += 1
    return out


def _translated_class(body: str) -> str:
    negated = body[0] in "!^"
    members: list[str] = []
    chars = re.findall(r"\\(.)|(.)", body[negated:], re.DOTALL)
    plain = [escaped or char for escaped, char in chars]
    position = 0
    while position < len(plain):
        is_range = position + 2 < len(plain) and chars[position + 1][1] == "-"
        if is_range:
            if plain[position] <= plain[position + 2]:
                members.append(f"{_escaped(plain[position])}-{_escaped(plain[position + 2])}")
            position += 3
        else:
            members.append(_escaped(plain[position]))
            position += 1
    if negated:
        return rf"[^/\x00{''.join(members)}]"
    return f"[{''.join(members)}]" if members else r"[^\x{0}-\x{10FFFF}]"


def _escaped(char: str) -> str:
    return char if char.isascii() and char.isalnum() else rf"\x{{{ord(_storable(char)):x}}}"


def _storable(char: str) -> str:
    """Return U+FFFD for a surrogate, which stands for a byte that is no text."""
    return "\ufffd" if "\ud800" <= char <= "\udfff" else char


def _literal_directories(pattern: str) -> list[bytes]:
    directories: list[bytes] = []
    for name in pattern.split("/")[:-1]:
        if has_magic(name):
            break
        directories.append(name.encode("utf-8", "surrogateescape"))
    return directories
