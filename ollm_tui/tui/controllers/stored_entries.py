"""Texts of entries that are in the session's log alone: read back for the screen, and searched there."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ConfirmationRequestedEvent,
    Event,
    ToolCallEvent,
    ToolResultEvent,
    UserMessageEvent,
)
from ollm_tui.agent.session.reading import MAX_LINE, event_in
from ollm_tui.tui.entry_texts import arguments_text, has_words, picture_of
from ollm_tui.tui.protocol import PostUpdate, intents
from ollm_tui.tui.protocol.updates import ConversationUpdate, FoundUpdate
from ollm_tui.tui.values import AnswerEntry, CallEntry, EntriesRead, Entry, NoteEntry, UserEntry

LOST = "[This text was in the session's log, and is no longer there: {path}]"

ID = re.compile(rb'^\{"id":(\d+),')
"""How a line of the log begins."""

READ_ON = 65_536
"""Bytes before an event that are read rather than searched."""


class StoredEntriesController:
    """Handler of intents about entries whose text is in the log alone."""

    def __init__(self, log_path: Callable[[], Path], post: PostUpdate) -> None:
        self._log_path = log_path
        self._post = post

    async def handle(self, intent: intents.EntryIntent) -> None:
        """Read in a thread, and answer; an answer that comes after another session was opened is dropped."""
        path = self._log_path()
        match intent:
            case intents.ReadEntries(entries):
                read = await asyncio.to_thread(read_back, path, entries)
                if path == self._log_path():
                    self._post(ConversationUpdate(EntriesRead(read)))
            case intents.FindEntry(words, entries, otherwise):
                found = await asyncio.to_thread(first_with, path, entries, words)
                if path == self._log_path():
                    self._post(FoundUpdate(words, otherwise if found is None else found.id))
            case _:
                pass


def read_back(path: Path, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Return the entries with their texts; where the log has one no more, its text says so."""
    read: dict[str, Entry] = {}
    try:
        for entry, event in _events_of(path, entries):
            read[entry.id] = _with_text(read.get(entry.id, entry), event)
    except OSError:
        pass  # what is not in `read` is lost
    return tuple(read.get(entry.id) or _lost(entry, path) for entry in entries)


def first_with(path: Path, entries: Sequence[Entry], words: str) -> Entry | None:
    """Return the first of the entries, in their order, whose text in the log has the words."""
    wanted = words.casefold()
    # Only lines that may have them are read; other letters have cases that bytes do not know.
    plain = json.dumps(words)[1:-1].lower().encode() if words.isascii() else b""
    found: set[str] = set()
    try:
        for entry, event in _events_of(path, entries, plain):
            if has_words(_with_text(entry, event), wanted):
                found.add(entry.id)
    except OSError:
        pass
    return next((entry for entry in entries if entry.id in found), None)


def _with_text(entry: Entry, event: Event) -> Entry:
    """Return an entry with the part of its text that an event has."""
    match entry, event:
        case UserEntry(), UserMessageEvent():
            return replace(entry, text=event.text, stored=False)
        case AnswerEntry(), AssistantMessageEvent():
            return replace(entry, text=event.text, reasoning=event.reasoning, stored=False)
        case CallEntry(), ToolCallEvent():
            return replace(entry, arguments=arguments_text(event.arguments), stored=False)
        case CallEntry(), ConfirmationRequestedEvent():
            return replace(entry, preview=event.request.details.preview, stored=False)
        case CallEntry(), ToolResultEvent():
            output = event.result.return_display or event.result.llm_content
            return replace(entry, output=output, picture=picture_of(event.result.data), stored=False)
        case _:
            return entry


def _lost(entry: Entry, path: Path) -> Entry:
    words = LOST.format(path=path)
    match entry:
        case UserEntry() | AnswerEntry():
            return replace(entry, text=words, stored=False, logged=None)
        case CallEntry():
            return replace(entry, output=words, stored=False, logged=None)
        case NoteEntry():
            return entry


def _events_of(path: Path, entries: Sequence[Entry], having: bytes = b"") -> Iterator[tuple[Entry, Event]]:
    """Yield the events that the entries came from, with their entries; only lines `having` those lower-case bytes."""
    messages: dict[int, Entry] = {}
    calls: dict[str, list[CallEntry]] = {}
    for entry in entries:
        if isinstance(entry, CallEntry):
            calls.setdefault(entry.id, []).append(entry)
        elif not isinstance(entry, NoteEntry) and entry.logged is not None:
            messages[entry.logged.first] = entry
    spans = [entry.logged for entry in entries if not isinstance(entry, NoteEntry) and entry.logged is not None]
    if not spans:
        return
    last = max(span.last for span in spans)
    for event in _events_from(path, min(span.first for span in spans), having):
        if event.id > last:
            return
        if event.id in messages:
            yield messages[event.id], event
        elif isinstance(event, ToolCallEvent | ToolResultEvent | ConfirmationRequestedEvent):
            for call in calls.get(event.call_id, ()):
                if call.logged is not None and call.logged.first <= event.id <= call.logged.last:
                    yield call, event


def _events_from(path: Path, first: int, having: bytes) -> Iterator[Event]:
    with path.open("rb") as file:
        low, high = 0, file.seek(0, 2)
        while high - low > READ_ON:
            middle = (low + high) // 2
            file.seek(middle)
            file.readline(MAX_LINE)  # the rest of a line
            at = file.tell()
            line = file.readline(MAX_LINE)
            while line and not ID.match(line):
                at = file.tell()
                line = file.readline(MAX_LINE)
            if not (found := ID.match(line)) or int(found[1]) >= first:
                high = middle
            elif at >= high:
                break  # a line longer than what is left
            else:
                low = at
        file.seek(low)
        while line := file.readline(MAX_LINE):
            if having in line.lower() and not isinstance(event := event_in(line), bool) and event.id >= first:
                yield event
