"""All sessions of this machine: listing, finding, searching and deleting them, and what a crash left behind."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

from ollm_tui.agent.events import (
    AssistantMessageEvent,
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    Event,
    NoticeEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    UserMessageEvent,
)
from ollm_tui.agent.session.log import EVENTS, RUNNING, SessionInUseError
from ollm_tui.agent.session.reading import Opening, event_in, read_opening
from ollm_tui.core.base.escape import visible
from ollm_tui.core.execution.calls import CallToJudge

TITLE_CHARACTERS = 72
EXCERPT_CHARACTERS = 120

READ_BACK = 1_000_000
"""Bytes at the end of a log that tell what was running."""


RECENT_CALLS = 200
RECENT_BYTES = 4_000_000
"""How far back in a log calls are looked for."""
RECENT_SESSIONS = 20
"""Number of sessions they are looked for in."""


class SessionNotFoundError(Exception):
    """No session, or more than one, has the id; the message says which there are."""


@dataclass(frozen=True)
class StoredSession:
    """A session on disk; what stands in its log is read when it is first asked for."""

    folder: Path
    changed: datetime
    size: int

    @property
    def id(self) -> str:
        """Its id, which sorts by the time it began."""
        return self.folder.name

    @property
    def path(self) -> Path:
        """Its log."""
        return self.folder / EVENTS

    @cached_property
    def opening(self) -> Opening:
        """What its first lines tell; empty where they cannot be read."""
        try:
            return read_opening(self.path)
        except OSError:
            return Opening()

    @property
    def title(self) -> str:
        """The first line of the first request; empty where nothing was asked."""
        lines = self.opening.request.strip().splitlines()
        text = visible(lines[0].strip()) if lines else ""
        return text if len(text) <= TITLE_CHARACTERS else f"{text[: TITLE_CHARACTERS - 3].rstrip()}..."

    @property
    def in_use(self) -> bool:
        """Whether a process records it now."""
        with _locked(self.folder / RUNNING) as free:
            return free is False

    @property
    def broken_off(self) -> bool:
        """Whether it has no end, and no process records it."""
        return (self.folder / RUNNING).exists() and not self.in_use


def list_sessions(sessions: Path) -> list[StoredSession]:
    """Return the sessions, the last changed first."""
    found: list[StoredSession] = []
    for path in sessions.glob(f"*/{EVENTS}"):
        try:
            status = path.stat()
        except OSError:
            continue  # deleted just now
        found.append(StoredSession(path.parent, datetime.fromtimestamp(status.st_mtime, UTC), status.st_size))
    return sorted(found, key=lambda one: (one.changed, one.id), reverse=True)


def find_session(sessions: Path, prefix: str) -> StoredSession:
    """Return the one session whose id begins so. Raises SessionNotFoundError."""
    known = list_sessions(sessions)
    found = [one for one in known if one.id == prefix] or [one for one in known if prefix and one.id.startswith(prefix)]
    if len(found) == 1:
        return found[0]
    if found:
        raise SessionNotFoundError(f"{len(found)} sessions begin with {visible(prefix)}: {_some(found)}. Write more.")
    hint = f"The last ones are {_some(known)}" if known else "There is none yet"
    raise SessionNotFoundError(f"There is no session {visible(prefix)}. {hint}; `ollm-tui sessions list` shows them.")


def last_session(sessions: Path, workspace: Path) -> StoredSession:
    """Return the last session of the workspace in which something was asked. Raises SessionNotFoundError."""
    for one in list_sessions(sessions):
        if one.opening.workspace == str(workspace) and one.title:
            return one
    raise SessionNotFoundError(f"There is no earlier session in {workspace}; `ollm-tui sessions list` shows all.")


def recent_calls(folder: Path) -> list[CallToJudge]:
    """Return the last RECENT_CALLS calls of the session and others of its workspace, newest first. Blocks."""
    sessions = list_sessions(folder.parent)
    workspace = next((one.opening.workspace for one in sessions if one.folder == folder), "")
    found: list[CallToJudge] = []
    for session in sessions[:RECENT_SESSIONS]:
        if not workspace or session.opening.workspace != workspace:
            continue
        with suppress(OSError), session.path.open("rb") as file:
            file.seek(max(0, session.size - RECENT_BYTES))
            for line in reversed(file.read().splitlines()):
                event = event_in(line) if b'"tool_call"' in line else False
                if isinstance(event, ToolCallEvent):
                    found.append(CallToJudge(event.name, event.arguments, event.origin, event.call_id))
                    if len(found) == RECENT_CALLS:
                        return found
    return found


def _some(sessions: list[StoredSession]) -> str:
    names = [one.id for one in sessions[:3]]
    return ", ".join(names) + (" ..." if len(sessions) > len(names) else "")


def delete_session(session: StoredSession) -> None:
    """Delete the session with its outputs. Raises OSError, and SessionInUseError while it is recorded."""
    if session.in_use:
        raise SessionInUseError(session.id)
    shutil.rmtree(session.folder)


# -- searching ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hit:
    """A place in a session where the text was found."""

    session: StoredSession
    event_id: int
    time: str
    type: str
    excerpt: str


def search_sessions(sessions: Path, text: str) -> Iterator[Hit]:
    """Yield where the text stands in what was said and done, the last changed session first; case does not count."""
    for session in list_sessions(sessions):
        with suppress(OSError):
            yield from search_session(session, text)


def search_session(session: StoredSession, text: str) -> Iterator[Hit]:
    """Yield where the text stands in one session. Raises OSError."""
    wanted = text.casefold()
    plain = text.lower().encode("utf-8", "replace")
    as_in_log = text.isascii() and json.dumps(text) == f'"{text}"'
    with session.path.open("rb") as file:
        for line in file:
            # Only lines that may have it are read; letters beyond ASCII have cases that bytes do not know.
            if as_in_log and plain not in line.lower():
                continue
            event = event_in(line)
            if not isinstance(event, bool) and (at := (said := words_of(event)).casefold().find(wanted)) >= 0:
                yield Hit(session, event.id, event.time, event.type, _around(said, at))


def first_hit(session: StoredSession, text: str) -> Hit | None:
    """Return where the text stands first; None where it does not, or the log is gone."""
    try:
        return next(search_session(session, text), None)
    except OSError:
        return None


def words_of(event: Event) -> str:
    """Return what an event says to a reader; empty for what is not read."""
    match event:
        case UserMessageEvent(text=text) | NoticeEvent(text=text) | AssistantMessageEvent(text=text):
            return text
        case ToolCallEvent():
            return f"{event.name} {json.dumps(event.arguments, ensure_ascii=False)}"
        case ToolResultEvent():
            return event.result.llm_content
        case _:
            return ""


def _around(text: str, at: int) -> str:
    start = max(0, at - EXCERPT_CHARACTERS // 3)
    piece = text[start : start + EXCERPT_CHARACTERS]
    after = "..." if start + len(piece) < len(text) else ""
    return f"{'...' if start else ''}{visible(' '.join(piece.split()))}{after}"


# -- sessions without an end -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class BrokenOff:
    """A session that ended unexpectedly, and a sentence about it for the person."""

    session_id: str
    """Empty where nothing was asked in it, so that there is nothing to go on with."""
    text: str


def take_broken_off(sessions: Path, workspace: Path) -> BrokenOff | None:
    """Return the last session of the workspace when it had no end; each is named once."""
    broken_off: list[BrokenOff] = []
    for mark in sorted(sessions.glob(f"*/{RUNNING}")):
        with _locked(mark) as free:
            if not free:
                continue  # it runs, or ended just now
            log_path = mark.with_name(EVENTS)
            try:
                opening = read_opening(log_path)
                if opening.workspace == str(workspace):
                    session_id = mark.parent.name if opening.request else ""
                    broken_off.append(BrokenOff(session_id, how_it_broke_off(log_path)))
                    mark.unlink()
            except OSError:
                continue
    return broken_off[-1] if broken_off else None


@contextmanager
def _locked(mark: Path) -> Generator[bool | None]:
    """Hold the lock of a session's mark; False where a process has it, None where there is no mark."""
    try:
        descriptor = os.open(mark, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        yield None
        return
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
    finally:
        os.close(descriptor)


def last_events(path: Path) -> list[Event]:
    """Return the events in the last part of a log. Raises OSError."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - READ_BACK))
        return [event for line in file if not isinstance(event := event_in(line), bool)]


def how_it_broke_off(path: Path) -> str:
    """Return a sentence about the end of a log: when, what was running, the last words. Raises OSError."""
    events = last_events(path)
    busy, time, last = "nothing was running", "", ""
    calls: dict[str, str] = {}
    waiting: set[str] = set()
    for event in events:
        time = event.time or time
        match event:
            case UserMessageEvent():
                busy, last = "a turn was running", event.text
            case AssistantMessageEvent(text=text, task=None) if text.strip():
                last = text
            case TurnFinishedEvent():
                busy = "nothing was running"
                calls.clear()
            case ToolCallEvent():
                calls[event.call_id] = event.name
            case ToolResultEvent():
                calls.pop(event.call_id, None)
            case ConfirmationRequestedEvent():
                waiting.add(event.call_id)
            case ConfirmationSettledEvent():
                waiting.discard(event.call_id)
            case _:
                pass
    if asked := [name for call, name in calls.items() if call in waiting]:
        busy = f"{', '.join(asked)} waited for your answer and did not run"
    if running := [name for call, name in calls.items() if call not in waiting]:
        busy = f"{', '.join(running)} ran; look at what came of it"
    lines = last.strip().splitlines()
    words = f' Its last line: "{visible(lines[-1][:EXCERPT_CHARACTERS])}".' if lines else ""
    return f"The last session ended unexpectedly{_local(time)}: {visible(busy)}.{words}"


def _local(time: str) -> str:
    try:
        return f" at {datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return ""
