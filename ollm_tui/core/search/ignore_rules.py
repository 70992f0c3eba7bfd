"""One line of an ignore file, read as git reads it (001 R4.12, 000 Property 24)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class IgnoreRule:
    """One line of an ignore file. `parts` are its components as expressions over bytes, None standing for `**`."""

    negative: bool
    directories_only: bool
    anchored: bool
    """It has a slash: it matches paths from the file's own folder, not names at any depth."""
    parts: tuple[bytes | None, ...]

    @property
    def path_expression(self) -> bytes:
        """Matches the whole path relative to the rule file's folder (anchored rules)."""
        *folder, last = self.parts
        return _folder_expression(folder) + (rb"[^\x00]+" if last is None else last)

    @property
    def name_expression(self) -> bytes:
        """Matches the last name of whatever this rule can match."""
        last = self.parts[-1]
        return rb"[^/\x00]+" if last is None else last

    @property
    def folder_expression(self) -> bytes:
        """Matches folders (with their slash, empty for the rule file's own) in which this rule can match something."""
        *folder, last = self.parts
        return _folder_expression([*folder, None] if last is None else folder)


def parse(data: bytes) -> list[IgnoreRule]:
    """The rules of a file, in its order. Lines that can match nothing are left out; none is an error."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    lines = data.split(b"\n")
    return [rule for line in lines for rule in _rules_of(line.removesuffix(b"\r"))]


_SIMPLE_SET = re.compile(rb"\[!?[0-9A-Za-z_]+\]")
_NOT_COMMON = re.compile(rb"[^\n -~]|[\[\]{}?\\]|[^/\n!]\*\*|\*\*[^/\n]")


def is_common(data: bytes) -> bool:
    """Whether a file keeps to what all readers of ignore files understand alike, ripgrep too.

    Ripgrep takes braces for a choice, knows no `[[:alpha:]]`, and gives up at bytes that are no text.
    """
    plain = _SIMPLE_SET.sub(b"s", data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n"))
    rules = b"\n".join(line for line in plain.split(b"\n") if not (line.startswith(b"#") and line.isascii()))
    return _NOT_COMMON.search(rules) is None


def _rules_of(line: bytes) -> Iterator[IgnoreRule]:
    """One rule as a rule; none for what can match nothing, and two for what git reads in two ways."""
    if line.startswith(b"#"):
        return
    pattern = _without_trailing_spaces(line)
    negative = pattern.startswith(b"!")
    pattern = pattern[negative:]
    directories_only = pattern.endswith(b"/")
    pattern = pattern.removesuffix(b"/")
    anchored = b"/" in pattern
    if anchored:
        pattern = pattern.removeprefix(b"/")
    if not pattern:
        return
    for variant in _as_git_reads(pattern) if anchored else [pattern]:
        components = _components(variant)
        if components is not None:
            parts = tuple(None if anchored and _is_any_depth(text) else expression for text, expression in components)
            yield IgnoreRule(negative, directories_only, anchored, parts)


_JOINED_STARS = re.compile(rb"([^*?\[\\]*[^*?\[\\/])\*\*+(?:(\\?/)(.+)|\Z)", re.DOTALL)


def _as_git_reads(pattern: bytes) -> list[bytes]:
    """Git compares what stands before the first wildcard by itself, so that `**` right behind it may cross folders as
    if a slash stood before it: `a**/b` means `ab` and every b somewhere in an `a*`.
    """
    match = _JOINED_STARS.fullmatch(pattern)
    if match is None:
        return [pattern]
    before, slash, behind = match.groups()
    if slash is None:
        return [before + b"*", before + b"*/**"]
    far = before + b"*/**/" + behind
    if slash != b"/":  # only a plain slash is left out with the stars before it
        return [far]
    near = before + behind
    return [*_as_git_reads(near), far] if behind.startswith(b"**") else [near, far]


def _is_any_depth(component: bytes) -> bool:
    return len(component) > 1 and not component.strip(b"*")


def _without_trailing_spaces(line: bytes) -> bytes:
    kept = len(line.rstrip(b" "))
    if kept == len(line):
        return line
    backslashes = kept - len(line[:kept].rstrip(b"\\"))
    return line[: kept + 1] if backslashes % 2 else line[:kept]


def _components(pattern: bytes) -> list[tuple[bytes, bytes]] | None:
    """Each component as written and as an expression; None for a pattern that matches nothing (`[a`, a last `\\`)."""
    components: list[tuple[bytes, bytes]] = []
    expression, start, position = b"", 0, 0
    while position < len(pattern):
        char = pattern[position : position + 1]
        if char == b"\\" and position + 1 == len(pattern):
            return None
        if char == b"/" or pattern[position : position + 2] == rb"\/":
            components.append((pattern[start:position], expression))
            position += 1 if char == b"/" else 2
            expression, start = b"", position
        elif char == b"*":
            while pattern[position : position + 1] == b"*":
                position += 1
            expression += rb"[^/\x00]*"
        elif char == b"?":
            expression, position = expression + rb"[^/\x00]", position + 1
        elif char == b"[":
            parsed = _bracket(pattern, position)
            if parsed is None:
                return None
            expression, position = expression + parsed[0], parsed[1]
        else:
            if char == b"\\":
                position += 1
                char = pattern[position : position + 1]
            expression, position = expression + _escape(char), position + 1
    components.append((pattern[start:], expression))
    return components


_CLASSES = {
    b"alnum": rb"[0-9A-Za-z]",
    b"alpha": rb"[A-Za-z]",
    b"blank": rb"[ \t]",
    b"cntrl": rb"[\x00-\x1f\x7f]",
    b"digit": rb"[0-9]",
    b"graph": rb"[!-~]",
    b"lower": rb"[a-z]",
    b"print": rb"[ -~]",
    b"punct": rb"[!-/:-@\[-`{-~]",
    b"space": rb"[ \t\n\r\f\v]",
    b"upper": rb"[A-Z]",
    b"xdigit": rb"[0-9A-Fa-f]",
}


def _bracket(pattern: bytes, start: int) -> tuple[bytes, int] | None:
    """The set that begins at `start` as an expression, and where it ends; None where it is malformed."""
    position = start + 1
    negated = pattern[position : position + 1] in (b"!", b"^")
    position += negated
    members: set[int] = set()
    previous: int | None = None
    first = True
    while True:
        if position >= len(pattern):
            return None
        char = pattern[position]
        if char == 0x5D and not first:
            break
        first = False
        following = pattern[position + 1 : position + 2]
        if char == 0x5C:
            if not following:
                return None
            previous, position = following[0], position + 2
            members.add(previous)
        elif char == 0x2D and previous is not None and following not in (b"", b"]"):
            position += 1
            if following == b"\\":
                position += 1
                if position >= len(pattern):
                    return None
            members.update(range(previous, pattern[position] + 1))
            previous, position = None, position + 1
        elif char == 0x5B and following == b":":
            end = pattern.find(b"]", position + 2)
            if end < 0:
                return None
            if end - position < 3 or pattern[end - 1 : end] != b":":
                members.add(char)
                previous, position = char, position + 1
                continue
            known = _CLASSES.get(pattern[position + 2 : end - 1])
            if known is None:
                return None
            members.update(byte for byte in range(256) if re.fullmatch(known, bytes([byte])))
            previous, position = None, end + 1
        else:
            members.add(char)
            previous, position = char, position + 1
    # Neither a slash nor the separator of names is ever matched, whatever the set says.
    chosen = (set(range(256)) - members if negated else members) - {0x2F, 0}
    if not chosen:
        return None
    return b"[" + b"".join(b"\\x%02x" % byte for byte in sorted(chosen)) + b"]", position + 1


def _escape(char: bytes) -> bytes:
    return char if char.isalnum() or char in b"_-" else b"\\x%02x" % char[0]


def _folder_expression(parts: Sequence[bytes | None]) -> bytes:
    return b"".join(rb"(?:[^/\x00]+/)*" if part is None else part + b"/" for part in parts)
