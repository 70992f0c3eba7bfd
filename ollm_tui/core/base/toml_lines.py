"""On which line of a TOML file something stands, to tell a person where a fault is."""

from __future__ import annotations

import re
from collections.abc import Sequence

_HEADING = re.compile(r"\s*\[{1,2}([^\[\]]+)\]")
_ENTRY = re.compile(r"\s*([\w.\"' -]+?)\s*=")


def line_of_key(text: str, keys: Sequence[str]) -> int | None:
    """Return the first line that belongs to the key, else to the nearest table around it; None where there is neither.

    Near enough for a person: texts of several lines are not told from keys.
    """
    lines = _keyed_lines(text)
    for length in range(len(keys), 0, -1):
        wanted = tuple(keys[:length])
        found = next((number for number, here in lines if here[:length] == wanted), None)
        if found is not None:
            return found
    return None


def _keyed_lines(text: str) -> list[tuple[int, tuple[str, ...]]]:
    lines: list[tuple[int, tuple[str, ...]]] = []
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if heading := _HEADING.match(line):
            table = _names(heading[1])
            lines.append((number, table))
        elif entry := _ENTRY.match(line):
            lines.append((number, (*table, *_names(entry[1]))))
    return lines


def _names(dotted: str) -> tuple[str, ...]:
    return tuple(name.strip().strip("\"'") for name in dotted.split("."))
