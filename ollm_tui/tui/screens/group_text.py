"""Text around the list of similar questions, as styled lines; no widgets."""

from __future__ import annotations

from ollm_tui.core.base.escape import visible
from ollm_tui.tui.question_groups import QuestionGroup
from ollm_tui.tui.styled_text import StyledLine, TextRole, line

HEAD_CHARACTERS = 300
"""So much of a fact fits into the head; the list has every question whole."""

ESC = ("Esc", TextRole.ACCENT)


def head_lines(group: QuestionGroup) -> list[StyledLine]:
    """Return what the questions have in common."""
    first = group.oldest
    preview = first.details.preview
    facts = [("What", group.pattern.text), ("Why", first.request.reason)]
    if preview is not None and preview.kind == "command":
        cwd = "the workspace itself" if preview.cwd == "." else preview.cwd
        facts.insert(1, ("Where", f"{cwd}, {preview.place.value}"))
    rows = [
        line((f"{name:<6} ", TextRole.MUTED), visible(text[:HEAD_CHARACTERS]), hang=7, prose=True)
        for name, text in facts
    ]
    warnings = preview.warnings if preview is not None else ()
    return rows + [line((f"! {visible(one)}", TextRole.WARNING), hang=2, prose=True) for one in warnings]


def reason_keys(left: int) -> StyledLine:
    """Return the keys while a reason is typed for the questions that are left."""
    if not left:
        return line("These questions have ended: what you type decides nothing.   ", ESC, " back")
    return line(("Enter", TextRole.ACCENT), f" denies {counted(left)} with this reason   ", ESC, " back")


def list_keys(targets: int, unread: int, newer: int, again: str, *, chosen: bool, ready: bool) -> list[StyledLine]:
    """Return what the keys would decide, and the keys; `again` is what one more press of its key would do."""
    role = TextRole.ACCENT if ready else TextRole.MUTED
    if again:
        key = "y" if again == "approve" else "n"
        said = (f"Press {key} again: {again} {counted(targets)}", TextRole.ERROR)
    elif not targets:
        said = ("What you chose has ended; space chooses others", TextRole.WARNING)
    elif unread:
        said = (f"Scroll on: {unread} of {targets} not shown in full yet", TextRole.WARNING)
    else:
        said = (f"{'Chosen' if chosen else 'All'}: {counted(targets)}", TextRole.MUTED)
    keys = [("y", " approve  "), ("n", " deny  "), ("r", " why  "), ("A", " rule  ")]
    more = (("m", TextRole.ACCENT), f" {newer} more since  ") if newer else ()
    return [
        line(said),
        line(
            *(part for key, words in keys for part in ((key, role), words)),
            *(("space", TextRole.ACCENT), " choose  ", *more, ESC, " later"),
        ),
    ]


def counted(count: int) -> str:
    """Return so many questions in words."""
    return f"{count} question{'s' if count > 1 else ''}"
