"""Error messages for edits that match nowhere or more than once (001 R3.6)."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from pydantic import JsonValue

from ollm_tui.core.base.errors import EditTargetAmbiguous, EditTargetNotFound
from ollm_tui.core.base.escape import visible_blanks
from ollm_tui.core.tools.edit_matching import AmbiguousEdit, Edit, NoEditMatch, Text

_NEAREST = 3
_MOST_COMPARED = 4_000
"""Most lines that are compared with the target."""
_WIDTH = 160
_LINES_NAMED = 20


def not_found(shown: str, number: int, count: int, wanted: Edit, text: Text, miss: NoEditMatch) -> EditTargetNotFound:
    """Return the error for a missing target, quoting the nearest lines."""
    said = [f"Edit {number} of {count}: the target is not in {shown}. Nothing was written."]
    if miss.elsewhere:
        bounds = f"{wanted.start_line or 1} to {wanted.end_line or len(text.starts)}"
        said[0] = (
            f"Edit {number} of {count}: the target is not in lines {bounds} of {shown}, but at "
            f"{_named(miss.elsewhere)}. Nothing was written; send startLine and endLine that contain it, or neither."
        )
        near: Sequence[int] = miss.elsewhere
        wrong, line = 1, ""
    elif miss.inexact:
        said.append(f"It would be there but for white space at {_named(miss.inexact)} (· is a space, → a tab):")
        near, wrong, line = miss.inexact, 1, _first_line(wanted.target)
    else:
        difference = _first_difference(text, wanted.target)
        if difference is not None:
            near, wrong, line = difference
            said.append(f"Its beginning is there, but its line {wrong} is another one (· is a space, → a tab):")
        else:
            near = _nearest(text, wanted.target)
            if near:
                said.append("The nearest lines to its first one (· is a space, → a tab):")
            wrong, line = 1, _first_line(wanted.target)
    said += [f"  {number}: {_cut(text.lines[number - 1])}" for number in near[:_NEAREST]]
    if not miss.elsewhere:
        said.append(f"The target's {'first line' if wrong == 1 else f'line {wrong}'}: {_cut(line)}")
        said.append("Read the file again and send the target exactly as it stands there, white space included.")
    details: dict[str, JsonValue] = {"path": shown, "edit": number, "nearest": list[JsonValue](near[:_NEAREST])}
    return EditTargetNotFound("\n".join(said), details)


def ambiguous(shown: str, number: int, count: int, found: AmbiguousEdit) -> EditTargetAmbiguous:
    """Return the error for a target that occurs more than once."""
    tie = " The line hint is equally near to two of them." if found.hint_was_a_tie else ""
    return EditTargetAmbiguous(
        f"Edit {number} of {count}: the target is in {shown} {found.count} times, at "
        f"{_named(found.lines, found.count)}.{tie} Nothing was written; send more of the text around the one you mean, "
        "or its line as lineHint.",
        {"path": shown, "edit": number, "count": found.count, "lines": list[JsonValue](found.lines[:_LINES_NAMED])},
    )


def _named(lines: Sequence[int], count: int = 0) -> str:
    count = max(count, len(lines))
    shown = lines[:_LINES_NAMED]
    different = list(dict.fromkeys(shown))
    listed = ", ".join(map(str, different))
    rest = count - len(shown)
    return f"{'line' if len(different) == 1 else 'lines'} {listed}{f' and {rest:,} more' if rest > 0 else ''}"


def _first_line(target: str) -> str:
    lines = target.splitlines() or [""]
    return next((line for line in lines if line.strip()), lines[0])


def _first_difference(text: Text, target: str) -> tuple[list[int], int, str] | None:
    """Return where the longest partial match ends: the file's line, and the target's line there."""
    wanted = Text(target).lines
    best: tuple[int, int] | None = None
    first = wanted[0].strip()
    if len(wanted) < 2 or not first:
        return None
    starts = [index for index, line in enumerate(text.lines) if line.strip() == first]
    for start in starts[:_MOST_COMPARED]:
        pairs = zip(wanted, text.lines[start : start + len(wanted)], strict=False)
        fitting = next((index for index, (one, other) in enumerate(pairs) if one.strip() != other.strip()), 0)
        if fitting and (best is None or fitting > best[0]):
            best = fitting, start
    if best is None:
        return None
    fitting, start = best
    return [start + fitting + 1], fitting + 1, wanted[fitting]


def _nearest(text: Text, target: str) -> list[int]:
    wanted = _first_line(target).strip()[:_WIDTH]
    if not wanted:
        return []
    holding = [number for number, line in enumerate(text.lines, 1) if wanted in line]
    if holding:
        return holding[:_NEAREST]
    candidates = _candidates(text, wanted)
    matcher = difflib.SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    rated: list[tuple[float, int]] = []
    for number, line in candidates:
        matcher.set_seq1(line.strip()[:_WIDTH])
        if matcher.real_quick_ratio() > 0.6 and matcher.quick_ratio() > 0.6 and (ratio := matcher.ratio()) > 0.6:
            rated.append((-ratio, number))
    return [number for _, number in sorted(rated)[:_NEAREST]]


def _candidates(text: Text, wanted: str) -> list[tuple[int, str]]:
    """Return the lines to compare; in long files those sharing a word."""
    lines = list(enumerate(text.lines, 1))
    if len(lines) <= _MOST_COMPARED:
        return lines
    words = [word for word in wanted.split() if len(word) > 2] or [wanted]
    return [(number, line) for number, line in lines if any(word in line for word in words)][:_MOST_COMPARED]


def _cut(line: str) -> str:
    return visible_blanks(line if len(line) <= _WIDTH else f"{line[:_WIDTH]}…")
