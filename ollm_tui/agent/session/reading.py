"""Reading a session's log back: every whole line counts, whatever stands around it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import JsonValue, ValidationError

from ollm_tui.agent.events import Event, SessionStartedEvent, UserMessageEvent, as_line, read_event
from ollm_tui.agent.session.log import EVENTS, for_the_owner_alone

MAX_LINE = 64_000_000
"""Bytes of one line that are read; a longer one is damage."""

OPENING_LINES = 200
"""Lines of a log in which its first message is looked for."""


@dataclass(frozen=True)
class LoggedEvents:
    """The events of a log in their order, and how many of its lines could not be read."""

    events: tuple[Event, ...] = ()
    damaged: int = 0

    @property
    def last_id(self) -> int:
        """The highest id; 0 where there is none."""
        return max((event.id for event in self.events), default=0)

    @property
    def started(self) -> SessionStartedEvent | None:
        """The first event that names session, workspace and model."""
        return next((event for event in self.events if isinstance(event, SessionStartedEvent)), None)


@dataclass(frozen=True)
class Opening:
    """What the first lines of a log tell; empty where they are missing."""

    workspace: str = ""
    provider: str = ""
    model: str = ""
    time: str = ""
    request: str = ""
    """The person's first message."""
    forked_from: str = ""


def read_log(path: Path) -> LoggedEvents:
    """Return what the log holds; types of another version are left out, damaged lines counted. Raises OSError."""
    events: list[Event] = []
    damaged = 0
    with path.open("rb") as file:
        while line := file.readline(MAX_LINE):
            event = event_in(line)
            if isinstance(event, bool):
                damaged += event
            else:
                events.append(event)
    return LoggedEvents(tuple(events), damaged)


def event_in(line: bytes) -> Event | bool:
    """Return a line's event; else whether the line is damaged, rather than empty or of a type not known here."""
    try:
        return read_event(line)
    except ValidationError as error:
        if not line.strip():
            return False
        errors = error.errors(include_input=False, include_url=False)
        if any(one["type"] == "union_tag_invalid" for one in errors):
            return False
        extra = [one["loc"] for one in errors if one["type"] == "extra_forbidden"]
        return _without(line, extra) if len(extra) == len(errors) else True


def read_opening(path: Path) -> Opening:
    """Return what the log's first lines tell. Raises OSError."""
    opening = Opening()
    with path.open("rb") as file:
        for _, line in zip(range(OPENING_LINES), file, strict=False):
            match event_in(line):
                case SessionStartedEvent() as begun if not opening.time:
                    opening = Opening(
                        begun.workspace, begun.provider, begun.model, begun.time, forked_from=begun.forked_from or ""
                    )
                case UserMessageEvent(text=text, time=time):
                    return replace(opening, time=opening.time or time, request=text)
                case _:
                    pass
    return opening


def _without(line: bytes, places: list[tuple[int | str, ...]]) -> Event | bool:
    """Read a line of a newer version without the members that are not known here."""
    value: JsonValue = json.loads(line)
    for place in places:
        at: JsonValue = value
        for step in place[1:-1]:  # the first step is the event's type
            if isinstance(at, dict):
                at = at.get(str(step))
            elif isinstance(at, list) and isinstance(step, int):
                at = at[step]
        if isinstance(at, dict):
            at.pop(str(place[-1]), None)
    try:
        return read_event(json.dumps(value))
    except ValidationError:
        return True


def lineage(folder: Path) -> list[Path]:
    """Return the folders of the session and of those it was forked from, the newest first, also of deleted ones."""
    found = [folder]
    while name := _forked_from(found[-1]):
        above = folder.parent / name
        if above in found or above.parent != folder.parent or name in (".", ".."):
            break
        found.append(above)
    return found


def _forked_from(folder: Path) -> str:
    try:
        return read_opening(folder / EVENTS).forked_from
    except OSError:
        return ""


def copied_until(folder: Path) -> str:
    """Return the time of the last event that a fork has from another session. Raises OSError."""
    last = b""
    with (folder / EVENTS).open("rb") as lines:
        for line in lines:
            event = event_in(line) if last and b'"session_started"' in line else False
            if isinstance(event, SessionStartedEvent) and event.session_id == folder.name:
                break  # the fork begins
            last = line
    event = event_in(last)
    return "" if isinstance(event, bool) else event.time


def fork_log(source: Path, folder: Path, before: int | None = None) -> None:
    """Begin a session in `folder` with the lines of another one, up to the event `before`. Raises OSError.

    Damaged lines stay behind. The first line says which session it is a fork of.
    """
    folder.mkdir(parents=True, mode=0o700)
    begun = False
    with source.open("rb") as lines, open(folder / EVENTS, "xb", opener=for_the_owner_alone) as copy:
        for line in lines:
            event = event_in(line)
            if event is True:
                continue
            if event and before is not None and event.id >= before:
                break
            if event and not begun:
                begun = True
                named = event if isinstance(event, SessionStartedEvent) else _UNNAMED
                named = named.model_copy(update={"session_id": folder.name, "forked_from": source.parent.name})
                copy.write(as_line(named).encode() + b"\n")
                if named.type == event.type:
                    continue
            copy.write(line if line.endswith(b"\n") else line + b"\n")


_UNNAMED = SessionStartedEvent(session_id="", workspace="", provider="", model="", version="")
"""Stands for the first event of a log that has none."""
