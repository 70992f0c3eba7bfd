"""The journal in words and diffs, for the command line and the dashboard."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.escape import quote_name
from ollm_tui.core.files.diff import FileDiff, diff_texts
from ollm_tui.core.files.journal import Change, Entry, Journal
from ollm_tui.core.files.journal_states import FileKind, FileState, Place, look_at
from ollm_tui.core.files.journal_undo import Outcome, Step
from ollm_tui.core.files.text_files import decode


def path_of(journal: Journal, place: Place) -> str:
    """Return a path as results show it: relative to the workspace, quoted where it is not plain."""
    inside = place.root == journal.workspace
    return quote_name(place.relative if inside else place.path)


def verb_of(change: Change) -> str:
    """Return what happened to the path, in one word."""
    if change.origin is not None:
        return "moved"
    if change.before.kind is FileKind.ABSENT:
        return "created"
    if change.after.kind is FileKind.ABSENT:
        return "removed"
    return "permissions" if change.before.same(change.after) else "changed"


def line_of(journal: Journal, change: Change) -> str:
    """Return one line about a change."""
    where = path_of(journal, change.place)
    if change.origin is not None:
        where = f"{path_of(journal, change.origin)} → {where}"
    modes = f" {change.before.mode:o} → {change.after.mode:o}" if verb_of(change) == "permissions" else ""
    return f"{verb_of(change)} {where}{modes}"


def status_of(entry: Entry, taken: frozenset[tuple[int, int]]) -> str:
    """Return how much of an entry can be undone, or was."""
    stuck = sum(bool(change.reason) for change in entry.changes)
    done = sum((entry.id, number) in taken for number in range(len(entry.changes)))
    if done:
        return "undone" if done + stuck == len(entry.changes) else "partly undone"
    if entry.state != "done":
        return "not finished"
    if not stuck:
        return ""
    return "cannot be undone" if stuck == len(entry.changes) else f"partly: {stuck} cannot be undone"


def compared(journal: Journal, change: Change, *, back: bool = False) -> FileDiff | str:
    """Return what the change did to the text, or with `back` what undoing it does; words where it is no text."""
    old, new = (change.after, change.before) if back else (change.before, change.after)
    return _diff(journal, path_of(journal, change.place), old, new)


def diff_of(journal: Journal, change: Change) -> str:
    """Return what the change did, as text."""
    found = compared(journal, change)
    return found.as_text() if isinstance(found, FileDiff) else found


def changes_since(journal: Journal, change: Change) -> str:
    """Return what happened to the path after the call: the third side of what cannot simply be undone."""
    try:
        seen = look_at(change.place)
    except OSError as error:
        return error.strerror or str(error)
    now = _text(seen.content, seen.state)
    then = _text(_content(journal, change.after), change.after)
    if now is None or then is None:
        return f"now {_in_words(seen.state)}"
    return diff_texts(path_of(journal, change.place), then, now).as_text()


def summary_of(steps: Sequence[Step], *, ahead: bool = False) -> str:
    """Return in one line what an undo did, or would do."""
    counts = Counter(step.outcome for step in steps)
    words = {
        Outcome.UNDO: "would be undone" if ahead else "undone",
        Outcome.DONE: "as before already",
        Outcome.CHANGED: "changed since, left alone",
        Outcome.IMPOSSIBLE: "cannot be undone",
    }
    return ", ".join(f"{counts[each]:,} {words[each]}" for each in words if counts[each]) or "nothing to undo"


def title_of(steps: Sequence[Step]) -> str:
    """Return the title of the entry that this undo becomes."""
    names = list(dict.fromkeys(step.entry.name for step in steps))
    few = ", ".join(names[:5])
    return f"Undo {few}{f' and {len(names) - 5} more' if len(names) > 5 else ''}"


def _diff(journal: Journal, path: str, old: FileState, new: FileState) -> FileDiff | str:
    before, after = (_text(_content(journal, state), state) for state in (old, new))
    if before is None or after is None or FileKind.DIRECTORY in (old.kind, new.kind):
        return f"{_in_words(old)} → {_in_words(new)}"
    if before == after:
        return f"permissions {old.mode:o} → {new.mode:o}" if old.mode != new.mode else ""
    return diff_texts(path, before, after)


def _content(journal: Journal, state: FileState) -> bytes | None:
    return journal.content(state.digest) if state.kind is FileKind.FILE else None


def _text(content: bytes | None, state: FileState) -> str | None:
    match state.kind:
        case FileKind.ABSENT:
            return ""
        case FileKind.LINK:
            return f"link to {quote_name(state.digest)}\n"
        case FileKind.FILE if content is not None:
            try:
                return decode(content, "", "").text
            except ToolFailure:
                return None
        case _:
            return None


def _in_words(state: FileState) -> str:
    match state.kind:
        case FileKind.ABSENT:
            return "nothing"
        case FileKind.FILE:
            return f"a file of {state.size:,} bytes"
        case FileKind.LINK:
            return f"a link to {quote_name(os.fspath(Path(state.digest)))}"
        case FileKind.DIRECTORY:
            return "a directory"
        case FileKind.OTHER:
            return "something else"
