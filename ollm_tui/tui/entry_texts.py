"""The texts of conversation entries: what is copied and searched, and what entries far from the screen leave out."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING

from ollm_tui.core.bus.states import CallState
from ollm_tui.tui.values import AnswerEntry, CallEntry, Entry, NoteEntry, UserEntry

if TYPE_CHECKING:
    from ollm_tui.agent.events import LoggedResult
    from ollm_tui.core.base.results import JsonObject

REASON_CHARACTERS = 44
"""Of a failure's reason in the line of its call; the whole is in its body."""

COUNTED = {
    "delete_file": ("deleted", "entry", "entries"),
    "format_code": ("files", "file", "files"),
    "glob": ("total", "file", "files"),
    "grep": ("total", "match", "matches"),
    "install_package": ("installed", "package", "packages"),
    "ls": ("entries", "entry", "entries"),
    "memory_search": ("results", "entry", "entries"),
    "read_file": ("totalLines", "line", "lines"),
    "read_many_files": ("files", "file", "files"),
    "search_code": ("matches", "place", "places"),
    "web_search": ("results", "result", "results"),
    "write_todos": ("todos", "todo", "todos"),
}
"""What of a tool's data says how much came of a call, and the words for one and for many."""

KEPT_CHARACTERS = 400
"""A shorter text stays in memory: reading it back costs more than it takes."""


def source_of(entry: Entry) -> str:
    """Return what copying an entry puts on the clipboard."""
    match entry:
        case UserEntry() | AnswerEntry():
            return entry.text
        case NoteEntry():
            return f"{entry.text}\n{entry.body}".rstrip()
        case CallEntry():
            return entry.output or entry.arguments or entry.summary


def has_words(entry: Entry, folded_words: str) -> bool:
    """Return whether the text of an entry has words in it, given in folded case."""
    summary = f"{entry.tool} {entry.summary}" if isinstance(entry, CallEntry) else ""
    return folded_words in f"{summary}\n{source_of(entry)}".casefold()


def is_stored(entry: Entry) -> bool:
    """Return whether the entry's text is in the log alone."""
    return not isinstance(entry, NoteEntry) and entry.stored


def text_size(entry: Entry) -> int:
    """Return about how many characters an entry keeps in memory."""
    match entry:
        case UserEntry() | NoteEntry():
            return len(entry.text)
        case AnswerEntry():
            return len(entry.text) + len(entry.reasoning)
        case CallEntry():
            shown = 0 if entry.preview is None else KEPT_CHARACTERS + 1
            return len(entry.output) + len(entry.arguments) + len(entry.picture) + shown


def without_text(entry: Entry) -> Entry:
    """Return an entry whose long text is in the log alone; as it is where the log does not have it."""
    if isinstance(entry, NoteEntry) or entry.logged is None or text_size(entry) <= KEPT_CHARACTERS:
        return entry
    match entry:
        case UserEntry():
            return replace(entry, text="", stored=True)
        case AnswerEntry():
            return replace(entry, text="", reasoning="", stored=True)
        case CallEntry() if entry.state is CallState.DONE:
            return replace(entry, arguments="", output="", preview=None, picture="", stored=True)
        case CallEntry():
            return entry


def picture_of(data: JsonObject | None) -> str:
    """Return the small picture among what a call reports to programs."""
    picture = None if data is None else data.get("picture")
    return picture if isinstance(picture, str) else ""


def result_words(tool: str, result: LoggedResult) -> str:
    """Return in a few words what came of a call: what it found or changed, or why it failed; often there is nothing."""
    data = result.data or {}
    if result.error is not None:
        if counts := _test_counts(data):
            return counts
        reason = re.split(r"\n|(?<=[.!?])\s", result.error.message.strip(), maxsplit=1)[0].removesuffix(".")
        if result.exit_code is not None and "passed" not in data:
            return ""  # its line has the code, which says as much
        return reason if len(reason) <= REASON_CHARACTERS else f"{reason[: REASON_CHARACTERS - 1]}…"
    match data:
        case {"diff": {"added": int(added), "removed": int(removed)}}:
            return f"+{added} -{removed}"
        case {"passed": int()}:
            return _test_counts(data)
        case {"pid": int(), "id": str(job)} if data.keys().isdisjoint(("exitCode", "signal")):
            return f"job {job}"
        case {"status": int(status)}:
            return str(status)
        case _:
            key, one, many = COUNTED.get(tool, ("", "", ""))
            found = data.get(key)
            count = len(found) if isinstance(found, list) else found
            return f"{count:,} {one if count == 1 else many}" if isinstance(count, int) else ""


def _test_counts(data: JsonObject) -> str:
    """Return how many tests failed and passed; empty for what ran none."""
    counts = {word: data.get(word) for word in ("failed", "errors", "passed")}
    return ", ".join(f"{count} {word}" for word, count in counts.items() if isinstance(count, int) and count)


_encode = json.JSONEncoder(ensure_ascii=False).encode


def arguments_text(arguments: JsonObject) -> str:
    """Return a call's arguments as JSON, one a line."""
    if any(isinstance(value, dict | list) for value in arguments.values()) or not arguments:
        return json.dumps(arguments, indent=2, ensure_ascii=False)
    # Indenting is Python's slow encoder, and thousands of calls come at once where a session is gone on with.
    return "{\n" + ",\n".join(f"  {_encode(name)}: {_encode(value)}" for name, value in arguments.items()) + "\n}"
