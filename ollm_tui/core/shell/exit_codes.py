"""Exit codes that are answers: 1 from a search or a comparison says "no", not that something went wrong."""

from __future__ import annotations

import re

_ANSWERING = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "[", "[["})
_WORD = re.compile(r"""(?:[^\s'"\\;&|()<>]|\\.|'[^']*'|"(?:[^"\\]|\\.)*")+""", re.DOTALL)
_SEPARATOR = re.compile(r"&&|\|\||;|\||&(?![>\d])|\n")
_REDIRECTION = re.compile(r"\d*(?:&>>?|[<>]&?|>>|<<<?)")
_COMMENT = re.compile(r"#[^\n]*")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_MARKS = str.maketrans("", "", "'\"\\")


def is_an_answer(command: str, exit_code: int | None) -> bool:
    """Whether `exit_code` of the line is the "no" of its last command."""
    return exit_code == 1 and last_command_word(command) in _ANSWERING


def last_command_word(command: str) -> str | None:
    """The name of the last simple command of a line, without its directory; None where that can not be told.

    A plain reading of words, quotes and separators. Where it goes wrong (here-documents, compound commands) the name
    is one that answers nothing, and the exit code stays an error.
    """
    words: list[str] = []
    ended = False
    position = 0
    while position < len(command):
        rest = command[position]
        separator = _SEPARATOR.match(command, position)
        if separator is not None:
            ended = True
            position = separator.end()
        elif rest == "#" and (position == 0 or command[position - 1].isspace() or command[position - 1] in ";&|("):
            comment = _COMMENT.match(command, position)
            position = len(command) if comment is None else comment.end()
        elif (word := _WORD.match(command, position)) is not None:
            if ended:
                words, ended = [], False
            words.append(word.group())
            position = word.end()
        elif (redirection := _REDIRECTION.match(command, position)) is not None:
            target = _WORD.match(command, redirection.end() + len(_blanks(command, redirection.end())))
            position = redirection.end() if target is None else target.end()
        else:
            position += 1
    for word in words:
        if not _ASSIGNMENT.match(word):
            return word.translate(_MARKS).rpartition("/")[2] or None
    return None


def _blanks(text: str, start: int) -> str:
    end = start
    while end < len(text) and text[end] in " \t":
        end += 1
    return text[start:end]
