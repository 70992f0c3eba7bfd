"""A session on disk: its append-only log of events, and full texts of cut outputs."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import aiofiles
from pydantic import ValidationError

from ollm_tui.agent.events import (
    UNLOGGED,
    ConfirmationRequestedEvent,
    ConfirmationSettledEvent,
    Event,
    NoticeEvent,
    SessionStartedEvent,
    ToolCallEvent,
    ToolResultEvent,
    TurnFinishedEvent,
    UserMessageEvent,
    as_line,
    read_event,
)
from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.secrets import mask

log = logging.getLogger(__name__)

OUTPUT_LIFETIME = timedelta(days=7)
"""How long full texts without a session stay."""

EVENTS = "events.jsonl"
RUNNING = "running"
"""A file that stands beside the log, locked, while its session runs; one that nobody holds had no end."""

READ_BACK = 1_000_000
"""Bytes at the end of a log that tell what was running."""


class OutputDirectory:
    """Keeps full texts as files, which `read_file` and `grep` may read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def save(self, name: str, text: str) -> Path:
        """Write the text to a new file and return its path; raise OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:80] or "output"
        path = self.folder / f"{stem}-{secrets.token_hex(3)}.txt"
        async with aiofiles.open(path, "xb", opener=_for_the_owner_alone) as file:
            await file.write(text.encode("utf-8", "surrogateescape"))
        return path


def _for_the_owner_alone(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def prune_loose_outputs(folder: Path, clock: Clock) -> None:
    """Remove full texts and raw command logs without a session that are older than OUTPUT_LIFETIME."""
    oldest = (clock.now() - OUTPUT_LIFETIME).timestamp()
    for path in folder.glob("*"):
        try:
            if path.stat().st_mtime < oldest:
                path.unlink()
        except OSError as error:
            log.warning("an old output stays: %s", error)


class SessionLog:
    """The events of one session, one JSON object a line, each written at once: a killed process leaves whole lines.

    A line that the disk takes a part of is taken back. After an error each further event is tried, in a folder made
    anew where it is gone; the first that is written stands behind a notice of how many are missing, and why.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / EVENTS
        self.error = ""
        """Why the session is not recorded now, for the person; empty while it is."""
        self._listeners: list[Callable[[str], None]] = []
        self._descriptor: int | None = None
        self._closed = False
        self._running: int | None = None
        self._written = self._missing = 0
        try:
            self._open()
            self._running = _hold(folder / RUNNING)
        except OSError as error:
            self.error = self._not_recorded(error)

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with a sentence for the person when recording stops, and when it goes on."""
        self._listeners.append(listener)

    def write(self, event: Event) -> None:
        """Append an event; deltas are left out, since a later event has the whole."""
        if self._closed or isinstance(event, UNLOGGED):
            return
        try:
            self._open_again_if_gone()
            events = [event]
            if self._missing:
                text = f"{_events(self._missing)} missing here. {self.error or 'The log was removed.'}"
                events.insert(0, NoticeEvent(id=event.id, time=event.time, text=text))
            self._append("".join(f"{mask(as_line(each))}\n" for each in events).encode("utf-8", "surrogatepass"))
        except OSError as error:
            self._missing += 1
            if not self.error:
                self._change(self._not_recorded(error), self._not_recorded(error))
            return
        if self.error:
            self._change("", f"The session is recorded again; {_events(self._missing)} missing in {self.path}.")
        self._written, self._missing = self._written + 1, 0

    def sync(self) -> None:
        """Sync the log to disk; blocks, for the end of a turn."""
        if self._descriptor is not None:
            try:
                os.fsync(self._descriptor)
            except OSError as error:
                log.warning("%s could not be synced: %s", self.path, error)

    def close(self, *, ended: bool = True) -> None:
        """Close the log; later events are not written. A session that has not `ended` is named by the next start."""
        self._closed = True
        self._let_go()
        if self._running is not None:
            if ended:
                (self.folder / RUNNING).unlink(missing_ok=True)
            os.close(self._running)
            self._running = None

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _open_again_if_gone(self) -> None:
        """Open a log that was removed anew; what is written to a removed file nobody finds again."""
        if self._descriptor is not None and not os.fstat(self._descriptor).st_nlink:
            self._let_go()
            self._missing, self._written = self._missing + self._written, 0
        if self._descriptor is None:
            self._open()

    def _append(self, data: bytes) -> None:
        assert self._descriptor is not None
        before = os.fstat(self._descriptor).st_size
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
        except OSError:
            if len(rest) < len(data):
                with suppress(OSError):
                    os.ftruncate(self._descriptor, before)
            raise

    def _not_recorded(self, error: OSError) -> str:
        reason = error.strerror or str(error)
        return f"The session is not recorded: {self.path}: {reason}. Free space or repair the folder to go on."

    def _change(self, error: str, sentence: str) -> None:
        self.error = error
        for listener in self._listeners:
            listener(sentence)

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _events(count: int) -> str:
    return "1 event is" if count == 1 else f"{count} events are"


def _hold(path: Path) -> int:
    """Create the file and lock it for as long as this process lives."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    with suppress(OSError):  # a file system without locks
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    return descriptor


def take_broken_off(sessions: Path, workspace: Path) -> str:
    """Return a sentence about the last session of the workspace when it had no end; each is named once."""
    broken_off: list[str] = []
    for mark in sorted(sessions.glob(f"*/{RUNNING}")):
        try:
            descriptor = os.open(mark, os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            continue  # ended just now
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            log_path = mark.with_name(EVENTS)
            if _workspace_of(log_path) == str(workspace):
                broken_off.append(_how_it_broke_off(log_path))
                mark.unlink()
        except OSError:
            continue  # it runs
        finally:
            os.close(descriptor)
    return broken_off[-1] if broken_off else ""


def _workspace_of(path: Path) -> str:
    with path.open("rb") as file:
        first = _event(file.readline())
    return first.workspace if isinstance(first, SessionStartedEvent) else ""


def _how_it_broke_off(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - READ_BACK))
        events = [event for line in file if (event := _event(line)) is not None]
    busy, time = "nothing was running", ""
    calls: dict[str, str] = {}
    waiting: set[str] = set()
    for event in events:
        time = event.time or time
        match event:
            case UserMessageEvent():
                busy = "a turn was running"
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
    return f"The last session ended unexpectedly{_local(time)}: {visible(busy)}. All that was shown is in {path}."


def _event(line: bytes) -> Event | None:
    try:
        return read_event(line)
    except ValidationError:  # cut by the end, or of another version
        return None


def _local(time: str) -> str:
    try:
        return f" at {datetime.fromisoformat(time).astimezone():%Y-%m-%d %H:%M:%S}"
    except ValueError:
        return ""


def sessions_folder() -> Path:
    """Return the folder of all sessions."""
    return state_dir() / "sessions"


def new_session_id(clock: Clock) -> str:
    """Return a unique id that sorts by time."""
    return f"{clock.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
