"""Say which entries of a directory its ignore files leave out (001 R4.12, 000 Property 24).

The rules are pathspec's (`ignore_rules`). It judges one path at a time, which takes longer than reading the directory,
so all names of a directory first go through one expression made of its patterns: most match nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

from ollm_tui.core.base.regex import compile_bytes

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_RULE_FILE_BYTES = 10_000_000
"""Of a larger file only this much is read."""

_ANSWERS_KEPT = 50_000
"""Directories whose answers a chain remembers."""

_CHUNK = 200
"""Rules compiled into one expression, so that a huge ignore file stays within RE2's memory."""

_HAS_RULE = re.compile(rb"^[^#\s]", re.MULTILINE)
_SIMPLE_SET = re.compile(rb"\[!?[0-9A-Za-z_]+\]")
_NOT_COMMON = re.compile(rb"[^\n -~]|[\[\]{}?\\]|[^/\n!]\*\*|\*\*[^/\n]")


def is_common(data: bytes) -> bool:
    """Return whether ripgrep reads the file as git does: no braces, no `[[:alpha:]]`, no bytes that are not text."""
    plain = _SIMPLE_SET.sub(b"s", data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n"))
    rules = b"\n".join(line for line in plain.split(b"\n") if not (line.startswith(b"#") and line.isascii()))
    return _NOT_COMMON.search(rules) is None


class IgnoreFile:
    """The rules of one ignore file, for paths below `directory` (absolute, with a slash behind)."""

    def __init__(self, directory: bytes, rules: GitIgnoreSpec, *, ignore_case: bool = False) -> None:
        from ollm_tui.core.search.ignore_rules import expressions  # loads pathspec

        self.directory = directory
        self._rules = rules
        negative = list(expressions(rules, ignored=False))
        self._any = _compile_any([*expressions(rules, ignored=True), *negative], ignore_case=ignore_case)
        self._negative = _compile_any(negative, ignore_case=ignore_case)

    def decide(
        self, directory: bytes, names: Sequence[bytes], *, directories: bool
    ) -> tuple[frozenset[bytes], frozenset[bytes]]:
        """Return the entries of `directory` (absolute) that some rule speaks of, and those of them that are ignored."""
        before, behind = directory[len(self.directory) :], b"/" if directories else b""
        found = _found(self._any, names, before, behind)
        if not found or not self._negative:
            return found, found
        # Where rules of both signs match, the last one decides.
        kept = {
            name
            for name in _found(self._negative, list(found), before, behind)
            if not self._rules.check_file((before + name + behind).decode("latin-1")).include
        }
        return found, found - kept


class IgnoreChain:
    """The rule files that speak about a directory, the strongest first; says which of its entries are ignored."""

    def __init__(self, files: tuple[IgnoreFile, ...] = ()) -> None:
        self.files = files
        self._answers: dict[tuple[bytes, bool], tuple[Sequence[bytes], frozenset[bytes]]] = {}

    def with_stronger(self, file: IgnoreFile) -> IgnoreChain:
        """Return the chain for a directory with a rule file of its own; the same object for the same files."""
        return _chain_of(self, file)

    def ignored(self, directory: bytes, names: Sequence[bytes], *, directories: bool) -> frozenset[bytes]:
        """Return which of these entries are ignored; remembered for the very list of names, which must not change."""
        if not self.files or not names:
            return frozenset()
        key = (directory, directories)
        known = self._answers.get(key)
        if known is not None and known[0] is names:
            return known[1]
        undecided, answer = names, frozenset[bytes]()
        for file in self.files:
            decided, ignored = file.decide(directory, undecided, directories=directories)
            if decided:
                answer |= ignored
                undecided = [name for name in undecided if name not in decided]
                if not undecided:
                    break
        if len(self._answers) > _ANSWERS_KEPT:
            self._answers.clear()
        self._answers[key] = (names, answer)
        return answer


@lru_cache(maxsize=2048)
def rule_file(directory: bytes, data: bytes, ignore_case: bool) -> IgnoreFile | None:
    """Return the rules in a file's content, None where it has none; the same object for the same content."""
    if _HAS_RULE.search(data) is None:
        return None
    from ollm_tui.core.search.ignore_rules import parse  # loads pathspec, which most directories do not need

    return IgnoreFile(directory, parse(data, ignore_case=ignore_case), ignore_case=ignore_case)


@lru_cache(maxsize=2048)
def _chain_of(weaker: IgnoreChain, file: IgnoreFile) -> IgnoreChain:
    return IgnoreChain((file, *weaker.files))


NO_RULES = IgnoreChain()


def _compile_any(expressions: Sequence[bytes], *, ignore_case: bool) -> tuple[re.Pattern[bytes], ...]:
    """Return expressions that find what any of `expressions` matches among names between zero bytes."""
    chunks = (expressions[start : start + _CHUNK] for start in range(0, len(expressions), _CHUNK))
    return tuple(
        compile_bytes(rb"(?:\x00(?:%b)\x00)+" % b"|".join(chunk), utf_8=False, ignore_case=ignore_case)
        for chunk in chunks
    )


def _found(
    patterns: Iterable[re.Pattern[bytes]], names: Sequence[bytes], before: bytes, behind: bytes
) -> frozenset[bytes]:
    """Return the names that any pattern matches, in one pass over all: a call for each would cost far more."""
    between = behind + b"\0\0" + before
    blob = b"\0" + before + between.join(names) + behind + b"\0"
    start, end = len(before) + 1, -len(behind) - 1
    return frozenset(
        name
        for pattern in patterns
        for match in pattern.finditer(blob)
        for name in blob[match.start() + start : match.end() + end].split(between)
    )
