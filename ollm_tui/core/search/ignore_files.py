"""The rules of `.gitignore` and exclude files, read as git reads them (001 R4.12, 000 Property 24).

Names are bytes here, as in git: a rule's `?` stands for one byte, and names need not be valid text.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from ollm_tui.core.base.regex import BytesPattern, compile_bytes
from ollm_tui.core.search.ignore_rules import IgnoreRule, parse

MAX_RULE_FILE_BYTES = 10_000_000
"""Of a larger file only this much is read."""

_ANSWERS_KEPT = 50_000
"""Folders whose answers a chain remembers."""

_CHUNK = 200
"""Rules compiled into one expression, so that a huge ignore file stays within RE2's memory."""


@dataclass(frozen=True)
class _Block:
    """Neighbouring rules of one sign, compiled together: the first block with a match, from the last, decides."""

    negative: bool
    names: tuple[BytesPattern, ...]
    paths: tuple[BytesPattern, ...]

    def matches(self, names: Collection[bytes], folder: bytes) -> set[bytes]:
        """Which of these names match, in `folder` (relative to the rule file's, with a slash or empty)."""
        found = _found(self.names, names)
        if self.paths:
            paths = _found(self.paths, [folder + name for name in names])
            found.update(path[len(folder) :] for path in paths)
        return found


class IgnoreFile:
    """The rules of one ignore file; `folder` is the absolute path its paths are relative to, with a slash behind."""

    def __init__(self, folder: bytes, rules: Sequence[IgnoreRule], *, ignore_case: bool = False) -> None:
        self.folder = folder
        self.ignore_case = ignore_case
        self._for_directories = list(self._compile(rules))
        self._for_files = list(self._compile([rule for rule in rules if not rule.directories_only]))
        self.names = [rule.name_expression for rule in rules if not rule.anchored]
        self._by_folder: dict[bytes, list[bytes]] = {}
        self._by_wild_folder: list[tuple[BytesPattern, bytes]] = []
        for rule in rules:
            if rule.anchored:
                self._index(rule)

    def decide(self, folder: bytes, undecided: set[bytes], *, directories: bool) -> set[bytes]:
        """Which of these entries of `folder` (absolute) are ignored; those some rule speaks of leave `undecided`."""
        relative = folder[len(self.folder) :]
        ignored: set[bytes] = set()
        for block in self._for_directories if directories else self._for_files:
            if not undecided:
                break
            matched = block.matches(undecided, relative)
            undecided -= matched
            if not block.negative:
                ignored |= matched
        return ignored

    def names_in(self, folder: bytes) -> list[bytes]:
        """Expressions for the names that anchored rules may match directly in `folder` (absolute, with a slash)."""
        if not self._by_folder and not self._by_wild_folder:
            return []
        relative = folder[len(self.folder) :]
        found = self._by_folder.get(relative.lower() if self.ignore_case else relative, [])
        if not self._by_wild_folder:
            return found
        return found + [name for pattern, name in self._by_wild_folder if pattern.fullmatch(relative)]

    def _index(self, rule: IgnoreRule) -> None:
        expression = rule.folder_expression
        literal = _literal(expression)
        if literal is not None:
            key = literal.lower() if self.ignore_case else literal
            self._by_folder.setdefault(key, []).append(rule.name_expression)
        else:
            pattern = compile_bytes(expression, utf_8=False, ignore_case=self.ignore_case)
            self._by_wild_folder.append((pattern, rule.name_expression))

    def _compile(self, rules: Sequence[IgnoreRule]) -> Iterator[_Block]:
        remaining = list(rules)
        while remaining:
            negative = remaining[-1].negative
            block: list[IgnoreRule] = []
            while remaining and remaining[-1].negative == negative:
                block.append(remaining.pop())
            yield _Block(
                negative,
                names=self._between_zeros(rule.name_expression for rule in block if not rule.anchored),
                paths=self._between_zeros(rule.path_expression for rule in block if rule.anchored),
            )

    def _between_zeros(self, expressions: Iterable[bytes]) -> tuple[BytesPattern, ...]:
        return _compile_any(expressions, ignore_case=self.ignore_case)


class IgnoreChain:
    """The rule files that speak about a folder, the strongest first; says which of its entries are ignored."""

    def __init__(self, files: tuple[IgnoreFile, ...] = ()) -> None:
        self.files = files
        self._filters: dict[tuple[bytes, ...], tuple[BytesPattern, ...]] = {}
        self._answers: dict[tuple[bytes, bool], tuple[Sequence[bytes], frozenset[bytes]]] = {}

    def with_stronger(self, file: IgnoreFile) -> IgnoreChain:
        """The chain for a folder with a rule file of its own; the same object for the same files."""
        return _chain_of(self, file)

    def ignored(self, folder: bytes, names: Sequence[bytes], *, directories: bool) -> frozenset[bytes]:
        """Which of these entries of `folder` (absolute, with a slash) are ignored.

        The answer is remembered for the very list of names it was given for, which must not change afterwards.
        """
        if not self.files or not names:
            return frozenset()
        key = (folder, directories)
        known = self._answers.get(key)
        if known is not None and known[0] is names:
            return known[1]
        answer = frozenset(self._judge(folder, names, directories=directories))
        if len(self._answers) > _ANSWERS_KEPT:
            self._answers.clear()
        self._answers[key] = (names, answer)
        return answer

    def _judge(self, folder: bytes, names: Sequence[bytes], *, directories: bool) -> set[bytes]:
        """All names go through one expression at once; only those it finds are looked at rule by rule."""
        undecided = _found(self._filter(folder), names)
        ignored: set[bytes] = set()
        for file in self.files:
            if not undecided:
                break
            ignored |= file.decide(folder, undecided, directories=directories)
        return ignored

    def _filter(self, folder: bytes) -> tuple[BytesPattern, ...]:
        here = tuple(name for file in self.files for name in file.names_in(folder))
        patterns = self._filters.get(here)
        if patterns is None:
            names = [name for file in self.files for name in file.names] + list(here)
            ignore_case = any(file.ignore_case for file in self.files)
            patterns = _compile_any(dict.fromkeys(names), ignore_case=ignore_case)
            self._filters[here] = patterns
        return patterns


@lru_cache(maxsize=2048)
def rule_file(folder: bytes, data: bytes, ignore_case: bool) -> IgnoreFile | None:
    """The rules in a file's content, None where it has none; the same object for the same content."""
    rules = parse(data)
    return IgnoreFile(folder, rules, ignore_case=ignore_case) if rules else None


@lru_cache(maxsize=2048)
def _chain_of(weaker: IgnoreChain, file: IgnoreFile) -> IgnoreChain:
    return IgnoreChain((file, *weaker.files))


NO_RULES = IgnoreChain()


def _compile_any(expressions: Iterable[bytes], *, ignore_case: bool) -> tuple[BytesPattern, ...]:
    """Expressions that together find what any of `expressions` matches in names that stand between zero bytes."""
    every = list(expressions)
    chunks = (every[start : start + _CHUNK] for start in range(0, len(every), _CHUNK))
    return tuple(
        compile_bytes(rb"(?:\x00(?:%b)\x00)+" % b"|".join(chunk), utf_8=False, ignore_case=ignore_case)
        for chunk in chunks
    )


def _found(patterns: Iterable[BytesPattern], names: Collection[bytes]) -> set[bytes]:
    """The names that any of the patterns matches. One pass over all of them: a call for each would cost far more.

    Neighbours come as one match for the same reason.
    """
    blob = b"\0" + b"\0\0".join(names) + b"\0"
    found: set[bytes] = set()
    for pattern in patterns:
        for match in pattern.finditer(blob):
            start, end = match.span()
            found.update(blob[start + 1 : end - 1].split(b"\0\0"))
    return found


def _literal(expression: bytes) -> bytes | None:
    """The one text an expression of ours matches; None where it matches several."""
    if re.search(rb"[\[(*]", expression):
        return None
    return re.sub(rb"\\x([0-9a-f]{2})", lambda match: bytes([int(match[1], 16)]), expression)
