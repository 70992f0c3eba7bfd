"""Command lines within settings and within the code of other languages: for deny and ask rules alone.

A rule that denies may then deny what only looks like its command (`print("rm x")`); an allow never comes from here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from ollm_tui.core.policy.shell_tables import program_key, tables

MAX_LITERALS = 20
"""Strings of one piece of code that are tried as the beginning of a command."""

_DECLARING = frozenset({"export", "declare", "typeset", "local", "readonly"})
_SETTING = re.compile(
    r"(?:[\w.-]*[._])?(?:pager(?:\.[\w-]+)?|editor|visual|browser|command|askpass|shell|rsh|ssh|sshcommand|external(?:_diff)?"
    r"|textconv|fsmonitor|cmd|driver|helper|program|clean|smudge|process|uploadpack|receivepack|gitproxy|difffilter|wrapper"
    r"|lessopen|lessclose|ps[0-4]|config_value_[0-9]+|cc|cxx|ld)\+?=(.*)",
    re.IGNORECASE | re.DOTALL | re.ASCII,
)
"""Variables and git settings whose value is run as a command (`GIT_PAGER`, `PROMPT_COMMAND`, `core.sshCommand`)."""

_SETS = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=", re.ASCII)
_LITERAL = re.compile(r"\"((?:[^\"\\]|\\.)*)\"|'((?:[^'\\]|\\.)*)'|`([^`]*)`", re.DOTALL)
_RUNNING = re.compile(r"(?:!|\b(?:shell|spawn|exec|system|pipe|qx)\b)[\s({\[/|]*([^\n]+)")


def set_commands(argv: tuple[str, ...]) -> Iterator[str]:
    """The commands that a line puts into variables or settings: before a program, by `export`, `env`, `make`, `git`."""
    key = program_key(argv[0])
    known = tables()
    wrapper, flagged = known.wrappers.get(key), known.flagged.get(key)
    if key == "git":
        settings = [*argv[1:], *map("=".join, pairwise(argv[1:]))]  # also `git config KEY VALUE`
    elif key in _DECLARING or (wrapper and wrapper.assignments) or (flagged and flagged.assigned):
        settings = list(argv[1:])
    elif _SETS.match(argv[0]):
        settings = list(argv)
    else:
        return
    for setting in settings:
        found = _SETTING.match(setting)
        if found is not None and found[1]:
            yield found[1].strip("\"'")


def within_code(code: str) -> Iterator[str]:
    """What a program in another language may hand to a shell: its strings, and what follows `!`, `shell`, `exec`."""
    literals = [found[found.lastindex or 0] for found in _LITERAL.finditer(code)][:MAX_LITERALS]
    yield from literals
    yield from (" ".join(literals[start:]) for start in range(len(literals) - 1))
    yield from _RUNNING.findall(code)
