"""Whether the small languages of sed, awk and jq stay within reading: an allowlist, anything unusual counts as more."""

from __future__ import annotations

import re


def _expression(mark: str) -> str:
    """A regular expression up to its delimiter, for sed.

    A delimiter in brackets ends it for one sed and not for another, so that what one takes for a replacement another
    takes for commands (`s/[/]/p;s/e;#/x/`): brackets that hold one, or a backslash before one, are not judged at all.
    """
    one = rf"(?:\[:[a-z]+:\]|\\[^\]\[{mark}\\\n]|[^\]\[{mark}\\\n])"
    brackets = rf"\[(?:\^|(?!\^))(?:\]{one}*|{one}+)\]"  # a `]` in the first place is one of them and closes nothing
    return rf"(?:[^\[{mark}\\\n]|\\[^\n]|{brackets})"


def _last_part(mark: str) -> str:
    """`s/[^/]*$//`, which everybody writes: a sed for which brackets end nothing reads `/` as a flag, and refuses."""
    one = _expression(mark)
    return rf"s{mark}{one}{{0,2000}}\[\^?{mark}\]{one}{{0,2000}}{mark}{mark}[gpiI0-9]{{0,8}}"


_ADDRESS = rf"(?:[0-9]+|\$|/{_expression('/')}*/I?)"
_RANGE = rf"(?:{_ADDRESS}(?:,(?:{_ADDRESS}|[+~][0-9]+))?\s*!?\s*)?"
_MARKS = ("/", r"\|", "#", ",", "@", ":", "!")
_SUBSTITUTION = "|".join(
    [
        rf"s{mark}{_expression(mark)}{{0,2000}}{mark}(?:[^{mark}\\\n]|\\[^\n]){{0,2000}}{mark}[gpiI0-9]{{0,8}}"
        for mark in _MARKS
    ]
    + [_last_part(mark) for mark in _MARKS]
)
_TRANSLATION = r"y/(?:[^/\\\n]|\\[^\n])*/(?:[^/\\\n]|\\[^\n])*/"
_SED_COMMAND = re.compile(rf"\s*{_RANGE}(?:[pdqQ=lnNgGhHxD]|{_SUBSTITUTION}|{_TRANSLATION})\s*(?:[;\n]+|\Z)")
_MAX_SCRIPT = 2_000

_AWK_FORBIDDEN = re.compile(
    r"[>|@`]|\\\n|\b(?:system|getline|close|fflush|ARGV|ARGC|ARGIND|ENVIRON|SYMTAB|FUNCTAB|PROCINFO|load|include|"
    r"print_to|BEGINFILE|ENDFILE|nextfile|extension)\b"
)
_AWK_COMPARISON = re.compile(r"\A[\w$ \t+\-*%().!<>=&|,]+(?=\{|\Z)|\bif[ \t]*\([\w$ \t+\-*%.!<>=&|,]*\)", re.ASCII)
"""Where `>` can only compare: in a pattern before the first action and in an `if`, without strings in them."""

_JQ_FORBIDDEN = re.compile(
    r"\b(?:include|import|input_filename|env|modulemeta|getpath_file|debug|stderr|halt)\b|\$ENV|\$__"
)


def sed_is_harmless(script: str) -> bool:
    """Whether a sed script only prints, deletes, substitutes and moves text: no w, r, e, no labels, no blocks."""
    if len(script) > _MAX_SCRIPT:
        return False
    position = 0
    while position < len(script):
        command = _SED_COMMAND.match(script, position)
        if command is None:
            return not script[position:].strip()
        position = command.end()
    return True


def awk_is_harmless(program: str) -> bool:
    """Whether an awk program neither starts commands nor writes or chooses files."""
    if len(program) > _MAX_SCRIPT:
        return False
    compared = _AWK_COMPARISON.sub(lambda found: found[0].replace(">", "<"), program)
    return not _AWK_FORBIDDEN.search(compared.replace("||", " "))


def jq_is_harmless(program: str) -> bool:
    """Whether a jq filter loads no modules and reads no environment."""
    return len(program) <= _MAX_SCRIPT and not _JQ_FORBIDDEN.search(program)
