"""Read-only forms of `find`, `test` and `printf`, whose words are small languages of their own."""

from __future__ import annotations

import re

from ollm_tui.core.policy.shell_reading import NotReading
from ollm_tui.core.policy.shell_tables import tables
from ollm_tui.core.policy.shell_words import Word

_PRINTF_CONVERSION = re.compile(r"%(?:%|[-+ #0']*(?:[0-9]+|\*)?(?:\.(?:[0-9]+|\*)?)?[diouxXeEfFgGaAcsbq])")
_PRINTF_TIME = re.compile(r"%\([^)]*\)T")


def find_paths(argv: tuple[str, ...]) -> list[str]:
    """The starting points and the files compared with; raises NotReading at an action or an unknown test."""
    known = tables().word_lists
    alone, with_value, with_path = known["find_alone"], known["find_value"], known["find_path"]
    paths: list[str] = []
    index = 1
    while index < len(argv) and argv[index] == "-P":
        index += 1
    while index < len(argv) and not (argv[index].startswith("-") or argv[index] in ("!", "(", ")", ",")):
        paths.append(argv[index])
        index += 1
    if not paths:
        paths.append(".")
    while index < len(argv):
        word = argv[index]
        index += 1
        if word in alone:
            continue
        if word not in with_value and word not in with_path:
            raise NotReading(f"{word} is not among the tests that only look")
        if index >= len(argv):
            raise NotReading(f"{word} lacks its value")
        if word in with_path:
            paths.append(argv[index])
        index += 1
    return paths


def test_paths(argv: tuple[str, ...]) -> list[str]:
    """The operands of `test` or `[`, each taken for a path; raises NotReading at operators that evaluate (`-v`)."""
    paths: list[str] = []
    known = tables().word_lists["test"]
    if argv[0] == "[" and argv[-1] != "]":
        raise NotReading("its closing ] is missing")
    for word in argv[1:-1] if argv[0] == "[" else argv[1:]:
        if word in known:
            continue
        if word.startswith("-") and not word.lstrip("-").isdigit():
            raise NotReading(f"{word} is not among the tests that only look")
        if word:
            paths.append(word)
    return paths


def printf_problem(words: tuple[Word, ...]) -> str:
    """Why this `printf` may do more than print (`-v` and `%n` set variables), or an empty string."""
    index = 1
    if len(words) > 1 and words[1].text == "--":
        index = 2
    if index >= len(words):
        return ""
    form = words[index]
    if form.variable or form.text.startswith("-"):
        return f"{form.shown} is no format that can be judged"
    left = _PRINTF_TIME.sub("", form.text)
    if "%" in _PRINTF_CONVERSION.sub("", left):
        return f"the format {form.text} holds a conversion that may set a variable"
    return ""
