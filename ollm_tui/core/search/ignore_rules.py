"""Read the rules of an ignore file with pathspec, as git reads them (001 R4.12, 000 Property 24).

Loads pathspec, so it is imported only once an ignore file with rules in it is met. Names are bytes in git: `?` stands
for one byte, and names need not be valid text. Rules and paths are decoded as Latin-1 here, one character a byte.
"""

from __future__ import annotations

import re
from typing import AnyStr

from pathspec import GitIgnoreSpec
from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

_ANY_PATH = r"[^\x00]+"
_DIRECTORY_MARK = "(?P<ps_d>/)"
"""What pathspec's expression ends with for a rule that ends with a slash."""

_BETWEEN_ZEROS = (("(?:.+/)?", r"(?:[^\x00]+/)?"), ("(?:/.+)?", r"(?:/[^\x00]+)?"), ("[^/]", r"[^/\x00]"))
"""Pieces of pathspec's expressions that would match the zero bytes between names, or stop at a line end in a name.
None of them can come out of a rule's own text, which is escaped and has no slash inside a component."""

_JOINED_STARS = re.compile(r"([^*?\[\\]*[^*?\[\\/])\*\*+(?:(\\?/)(.+)|\Z)", re.DOTALL)
_STARS_ALONE = re.compile(r"(?<![^/])\*\*+(?![^/])")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)

_CLASSES = {
    "alnum": "[0-9A-Za-z]",
    "alpha": "[A-Za-z]",
    "blank": "[ \t]",
    "cntrl": r"[\x00-\x1f\x7f]",
    "digit": "[0-9]",
    "graph": "[!-~]",
    "lower": "[a-z]",
    "print": "[ -~]",
    "punct": r"[!-/:-@\[-`{-~]",
    "space": "[ \t\n\r\f\v]",
    "upper": "[A-Z]",
    "xdigit": "[0-9A-Fa-f]",
}


class GitPattern(GitIgnoreSpecPattern):
    """One line of an ignore file, where pathspec's reading differs from git's made to agree with it.

    - Matches the entry itself, never what lies below it: listings do not enter ignored directories, and git lets
      `!a/` bring back what `a` took without bringing in what `a/*` takes.
    - Only spaces are cut off at the end of a line, and not where an odd number of backslashes stands before them.
    - `[[:alpha:]]`, and a backslash, a slash or an empty range in brackets mean what they mean to git.
    - `a**/b` crosses directories, `***` is `**`, `\\/` is a slash.
    - A rule that can match nothing is none: no error for `\\` at the end.
    """

    __slots__ = ()
    flags = ""

    @classmethod
    def pattern_to_regex(cls, pattern: AnyStr) -> tuple[AnyStr | None, bool | None]:
        """Return the expression for a line, and whether what it matches is ignored; None, None for no rule."""
        assert isinstance(pattern, str)
        line = _without_trailing_spaces(pattern)
        include = not line.startswith("!")
        text = line.removeprefix("!")
        rule = text.removesuffix("/")
        if line.startswith("#") or not rule.removeprefix("/"):
            return None, None
        variants = _as_git_reads(rule.removeprefix("/")) if "/" in rule else [f"**/{rule}"]
        expressions = list(filter(None, map(cls._expression, variants)))
        if not expressions:
            return None, None
        end = "/" if text != rule else "/?"
        return f"{cls.flags}^(?:{'|'.join(expressions)}){end}$", include

    @classmethod
    def _expression(cls, rule: str) -> str | None:
        """Return what a rule (its path from the file's directory) matches; None for nothing."""
        try:
            plain, sets = _without_brackets(rule)
        except ValueError:
            return None
        # pathspec would read a last `**` with a slash behind as the directory itself.
        components = ["**" if _STARS_ALONE.fullmatch(each) else each for each in plain.split("/")]
        if "" in components:
            return None
        if components[-1] == "**":
            components.append("*")
        try:
            # A slash at either end keeps pathspec from taking a leading `#` or `!`, or spaces at the end, for its own.
            expression, _ = super().pattern_to_regex(f"/{'/'.join(components)}/")
        except ValueError:
            return None
        assert expression is not None
        if expression == _DIRECTORY_MARK:
            return _ANY_PATH
        expression = expression.removeprefix("^").removesuffix(_DIRECTORY_MARK)
        for theirs, ours in _BETWEEN_ZEROS:
            expression = expression.replace(theirs, ours)
        for mark, members in sets.items():
            expression = expression.replace(mark, members)
        return expression


class CaselessGitPattern(GitPattern):
    """The same in a repository with `core.ignorecase`."""

    __slots__ = ()
    flags = "(?i)"


def parse(data: bytes, *, ignore_case: bool = False) -> GitIgnoreSpec:
    """Return the rules of a file, in its order. No text is an error."""
    lines = data.removeprefix(b"\xef\xbb\xbf").decode("latin-1").split("\n")
    factory = CaselessGitPattern if ignore_case else GitPattern
    return GitIgnoreSpec.from_lines([line.removesuffix("\r") for line in lines], factory, backend="re2")


def _as_git_reads(rule: str) -> list[str]:
    """Return the rules a path rule stands for: `a**/b` means `ab` and every b somewhere in an `a*`."""
    match = _JOINED_STARS.fullmatch(rule)
    if match is None:
        return [rule]
    before, slash, behind = match.groups()
    if slash is None:
        return [f"{before}*", f"{before}*/**"]
    far = f"{before}*/**/{behind}"
    if slash != "/":  # only a plain slash is left out with the stars before it
        return [far]
    near = before + behind
    return [*_as_git_reads(near), far] if behind.startswith("**") else [near, far]


def _without_trailing_spaces(line: str) -> str:
    kept = len(line.rstrip(" "))
    if kept == len(line):
        return line
    backslashes = kept - len(line[:kept].rstrip("\\"))
    return line[: kept + 1] if backslashes % 2 else line[:kept]


def _without_brackets(rule: str) -> tuple[str, dict[str, str]]:
    """Return the rule with a mark for each bracket, and their expressions. Raises ValueError for a malformed one."""
    plain, position = "", 0
    sets: dict[str, str] = {}
    while position < len(rule):
        char = rule[position]
        if char == "\\":
            escaped = rule[position + 1 : position + 2]
            plain, position = plain + ("/" if escaped == "/" else char + escaped), position + 2
        elif char == "[":
            mark = chr(0xF0000 + len(sets))
            sets[mark], position = _bracket(rule, position + 1)
            plain += mark
        else:
            plain, position = plain + char, position + 1
    return plain, sets


_MEMBER = re.compile(
    r"""
      \[:(?P<class>[^\]]*):\]
    | (?P<malformed>\[:[^\]]*\Z)
    | (?P<first>\\.|[^\\]) (?:-(?P<last>\\.|[^\]\\]))?
    """,
    re.VERBOSE | re.DOTALL,
)


def _bracket(rule: str, position: int) -> tuple[str, int]:
    """Return the expression for the set whose bracket opens before `position`, and where it ends. Raises ValueError."""
    negated = rule[position : position + 1] in ("!", "^")
    position += negated
    start = position
    members: set[int] = set()
    while rule[position : position + 1] != "]" or position == start:
        match = _MEMBER.match(rule, position)
        if match is None or match["malformed"] is not None:
            raise ValueError("a bracket that does not close")
        position = match.end()
        if match["class"] is not None:
            members.update(code for code in range(256) if re.fullmatch(_class(match["class"]), chr(code)))
        else:
            first = ord(match["first"][-1])
            members.update((first, *range(first, ord((match["last"] or match["first"])[-1]) + 1)))
    # Neither a slash nor the separator of names is ever matched, whatever the set says.
    chosen = (set(range(256)) - members if negated else members) - {0x2F, 0}
    if not chosen:
        raise ValueError("a bracket that matches nothing")
    return "[" + "".join(rf"\x{code:02x}" for code in sorted(chosen)) + "]", position + 1


def _class(name: str) -> str:
    if name not in _CLASSES:
        raise ValueError(f"no character class {name}")
    return _CLASSES[name]


def expressions(rules: GitIgnoreSpec, *, ignored: bool) -> list[bytes]:
    """Return what the rules of one sign match, over bytes, without anchors and flags."""
    found: list[bytes] = []
    for pattern in rules.patterns:
        regex: re.Pattern[str] | None = pattern.regex  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]  # pathspec: Pattern[Unknown]
        if regex is not None and pattern.include is ignored:
            found.append(regex.pattern[regex.pattern.index("^") + 1 : -1].encode("latin-1"))
    return found
