"""Match approval patterns against commands, and suggest a pattern for one."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from typing import NamedTuple

from ollm_tui.core.policy.shell.program_table import program_key, tables
from ollm_tui.core.policy.shell.risky_options import risky_options, takes_commands
from ollm_tui.core.policy.shell.words import SimpleCommand, Word
from ollm_tui.core.policy.shell.wrappers import changes_state, is_wrapper, runner_start

_PIECES = re.compile(r"'([^']*)'|\"([^\"]*)\"|([^\s'\"]+)|([ \t\n\r\f\v]+)")


class ApprovalKey(NamedTuple):
    """An approval that lasts: the policy file it is written in, and its pattern."""

    file: str
    pattern: str


@dataclass(frozen=True)
class ApprovalCoverage:
    """Whether an approval covers a command, and if not, why."""

    covered: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.covered


_COVERED = ApprovalCoverage(True)
_OTHER_WORDS = ApprovalCoverage(False, "its words do not match")


@dataclass(frozen=True)
class PatternWord:
    """One word of a pattern; `spelled` is its literal start before a wildcard."""

    text: str
    spelled: str
    glob: tuple[str | None, ...] | None
    """Literal characters, `""` for `?` and None for `*`; None altogether for a word without wildcards."""

    @property
    def any_word(self) -> bool:
        """Whether the word is `*` alone."""
        return self.glob == (None,)

    def matches(self, word: Word) -> bool:
        """Return whether the word matches.

        A `$NAME` is matched by `*` alone; a glob by `*`, by itself, or by a pattern as wide as all it matches.
        """
        if self.any_word:
            return True
        if word.variable:
            return False
        if self.glob is None:
            return not word.glob and self.text == word.text
        if word.glob and self.text != word.text and ("" in self.glob or "[" in self.text):
            return False
        return _glob_matches(self.glob, word.text)


@dataclass(frozen=True)
class ApprovalPattern:
    """Globs over the words of one command: `git status *`, `npm run build`, `*`."""

    text: str
    words: tuple[PatternWord, ...]
    open_end: bool
    file: str = field(default="", compare=False)
    """The policy file it stands in; empty for one that holds for the session alone."""

    @classmethod
    def parse(cls, text: str, file: str = "") -> ApprovalPattern:
        """Read a pattern; quotes group words and make `*` and `?` literal. Raises ValueError where it is empty."""
        words = _split(text)
        if not words:
            raise ValueError("an approval pattern needs at least one word, for example: git status *")
        open_end = words[-1].any_word
        return cls(text, tuple(words[:-1] if open_end else words), open_end, file)

    def covers(self, command: SimpleCommand) -> ApprovalCoverage:
        """Return whether it allows the command; never for wrappers and commands not plain."""
        if not command.plain:
            return ApprovalCoverage(False, command.reasons[0])
        if not command.words:
            return ApprovalCoverage(False, "it names no program")
        return self._covers(command, self.words)

    def _covers(self, command: SimpleCommand, own: tuple[PatternWord, ...]) -> ApprovalCoverage:
        words = command.words
        argv = command.argv
        if is_wrapper(argv) or changes_state(argv):
            return ApprovalCoverage(False, f"{argv[0]} runs other commands or changes what they mean")
        if len(words) < len(own) or (len(words) > len(own) and not self.open_end):
            return _OTHER_WORDS
        for mine, theirs in zip(own, words, strict=False):
            if not mine.matches(theirs):
                return _OTHER_WORDS
        for flag in risky_options(command):
            spelled = [
                index < len(own) and _spells(own[index], words[index], first=index == flag.index)
                for index in range(flag.index, flag.end)
            ]
            if not all(spelled):
                return ApprovalCoverage(False, f"{flag.reason}; a pattern has to spell it")
        if self.open_end and takes_commands(command):
            return ApprovalCoverage(
                False, f"{argv[0]} runs what it is fed; only a pattern without * at its end covers that"
            )
        return self._covers_inner(command, own)

    def _covers_inner(self, command: SimpleCommand, own: tuple[PatternWord, ...]) -> ApprovalCoverage:
        """Require the pattern to name and cover a project runner's inner command."""
        argv = command.argv
        runner = tables().runners.get(program_key(argv[0]))
        start = runner_start(argv, runner) if runner is not None else None
        if start is None:
            return _COVERED
        for index in range(start + 1):
            if index >= len(own) or own[index].text != argv[index] or own[index].glob is not None:
                return ApprovalCoverage(
                    False, f"{argv[0]} runs {argv[start]}; a pattern has to spell all words up to that"
                )
        inner = SimpleCommand(command.words[start:], command.source)
        return self._covers(inner, own[start:])


def suggest_pattern(command: SimpleCommand) -> str | None:
    """Return the narrowest sensible pattern for an approved command, if there is one.

    Two or three words that name the action and `*`; where that would not cover the command, its exact words. None for
    deletions, wrappers, and words that a pattern cannot spell.
    """
    if not command.plain or not command.words:
        return None
    argv = command.argv
    key = program_key(argv[0])
    known = tables()
    if (
        key in known.deleting
        or key in known.privileged
        or any(word in known.risky_sub.get(key, ()) for word in argv[1:3])
    ):
        return None
    if any(flag.effect == "deletes" for flag in risky_options(command)):
        return None
    count = _arity(argv)
    if count and all(word.literal for word in command.words[:count]):
        prefix = " ".join(_pattern_word(word) for word in argv[:count])
        if not _leads_nowhere(argv) and ApprovalPattern.parse(f"{prefix} *").covers(command):
            return f"{prefix} *"
    if not all(word.literal for word in command.words) or len(command.text) > 200:
        return None
    exact = " ".join(_pattern_word(word) for word in argv)
    return exact if ApprovalPattern.parse(exact).covers(command) else None


def _leads_nowhere(argv: tuple[str, ...]) -> bool:
    """Return whether the program has sub-commands, so that its name with `*` is too wide."""
    return len(argv) == 1 and argv[0] in tables().two_words


def _arity(argv: tuple[str, ...]) -> int:
    """Return how many words name the action; 0 where only the exact command fits."""
    known = tables()
    name, rest = argv[0], argv[1:]
    key = program_key(name)
    flagged = known.flagged.get(key)
    deeds = known.three_words.get(key, frozenset())
    if key in known.exact_only:
        return 0
    if "/" in name or (flagged is not None and flagged.operand):
        return 3 if rest[1:] and rest[0] in deeds else 0
    if not rest:
        return 1
    runner = known.runners.get(key)
    start = runner_start(argv, runner) if runner is not None else None
    if start is not None:
        return start + 1
    if rest[1:] and (rest[0] in deeds or "*" in deeds):
        return 3
    if key in known.two_words or (flagged is not None and flagged.commands is not None):
        return 0 if rest[0].startswith("-") else 2
    return 1


def _pattern_word(value: str) -> str:
    if value and not any(char in value for char in " \t\n\r\f\v'\"*?"):
        return value
    return f"'{value}'" if "'" not in value else f'"{value}"'


def _spells(mine: PatternWord, theirs: Word, *, first: bool) -> bool:
    """Return whether the pattern spells this word: literally, or an option up to its value."""
    if mine.glob is None:
        return mine.text == theirs.text
    if not first or not mine.spelled.startswith("-"):
        return False
    name = theirs.text.split("=", 1)[0]
    if theirs.text.startswith("--") or "=" in theirs.text:
        return mine.spelled.startswith(name + "=")
    return len(mine.spelled) >= 2 and theirs.text.startswith(mine.spelled)


@cache
def _split(text: str) -> list[PatternWord]:
    words: list[PatternWord] = []
    pieces: list[tuple[str, bool]] = []
    position = 0

    def finish() -> None:
        if pieces:
            words.append(_pattern(pieces))
            pieces.clear()

    while position < len(text):
        match = _PIECES.match(text, position)
        if match is None:  # a quote without a partner stands for itself
            pieces.append((text[position], True))
            position += 1
            continue
        position = match.end()
        single, double, bare, blank = match.groups()
        if blank is not None:
            finish()
        elif bare is not None:
            pieces.append((bare, False))
        else:
            pieces.append((single if single is not None else double, True))
    finish()
    return words


def _pattern(pieces: list[tuple[str, bool]]) -> PatternWord:
    text = "".join(piece for piece, _ in pieces)
    if all(literal or not ("*" in piece or "?" in piece) for piece, literal in pieces):
        return PatternWord(text, text, None)
    glob: list[str | None] = []
    for piece, literal in pieces:
        for char in piece:
            if literal or char not in "*?":
                glob.append(char)
            elif char == "?":
                glob.append("")
            elif not glob or glob[-1] is not None:
                glob.append(None)
    wildcard = next(index for index, part in enumerate(glob) if not part)
    return PatternWord(text, text[:wildcard], tuple(glob))


def _glob_matches(glob: tuple[str | None, ...], text: str) -> bool:
    """Match in at most len(glob) x len(text) steps: a failed stretch goes back to the last `*` alone."""
    here = there = 0
    star, resume = -1, 0
    while there < len(text):
        part = glob[here] if here < len(glob) else "\0\0"
        if part is None:
            star, resume = here, there
            here += 1
        elif part in ("", text[there]):
            here += 1
            there += 1
        elif star >= 0:
            resume += 1
            here, there = star + 1, resume
        else:
            return False
    return all(part is None for part in glob[here:])
