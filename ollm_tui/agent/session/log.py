"""A session on disk: its append-only log of events, and full texts of cut outputs."""

from __future__ import annotations

import fcntl
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from pathlib import Path

import aiofiles

from ollm_tui.agent.events import UNLOGGED, Event, NoticeEvent, as_line
from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.fence.secrets import mask

log = logging.getLogger(__name__)

OUTPUT_LIFETIME = timedelta(days=7)
"""How long full texts without a session stay."""

EVENTS = "events.jsonl"
RUNNING = "running"
"""A file that stands beside the log, locked, while its session runs; one that nobody holds had no end."""

LOCK_ATTEMPTS = 5
LOCK_PAUSE = 0.02
"""Seconds: whoever only looks whether a session runs holds its lock for a moment."""


class SessionInUseError(Exception):
    """Another process records this session; the message says what to do."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"The session {session_id} is open in another window or command. Go on there, or with a fork of it."
        )
        self.session_id = session_id


class OutputDirectory:
    """Keeps full texts as files, which `read_file` and `grep` may read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    async def save(self, name: str, text: str) -> Path:
        """Write the text to a new file and return its path; raise OSError."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        stem = re.sub(r"[^A-Za-z0-9_-]", "_", name)[:80] or "output"
        path = self.folder / f"{stem}-{secrets.token_hex(3)}.txt"
        async with aiofiles.open(path, "xb", opener=for_the_owner_alone) as file:
            await file.write(text.encode("utf-8", "surrogateescape"))
        return path


def for_the_owner_alone(path: str, flags: int) -> int:
    """Open a file that nobody else may read."""
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

    Raises:
        SessionInUseError: The session is recorded by another process.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / EVENTS
        self.error = ""
        """Why the session is not recorded now, for the person; empty while it is."""
        self._listeners: list[Callable[[str], None]] = []
        self._descriptor: int | None = None
        self._closed = False
        self._lock = threading.Lock()
        """Held while another session takes the place of this one, in a thread."""
        self._written = self._missing = 0
        self._running: int | None = self._begin()

    def move_to(self, folder: Path) -> None:
        """End this session, and record another one; raises SessionInUseError, and then this one goes on."""
        with self._lock:
            before, running = self.folder, self._running
            self._let_go()
            self.folder, self.path = folder, folder / EVENTS
            try:
                self._running = self._begin()
            except SessionInUseError:
                self.folder, self.path = before, before / EVENTS
                raise
            self._written = self._missing = 0
        _end(before, running)

    def subscribe(self, listener: Callable[[str], None]) -> None:
        """Call `listener` with a sentence for the person when recording stops, and when it goes on."""
        self._listeners.append(listener)

    def write(self, event: Event) -> None:
        """Append an event; deltas are left out, since a later event has the whole."""
        if not self._closed and not isinstance(event, UNLOGGED):
            with self._lock:
                self._write(event)

    def _write(self, event: Event) -> None:
        try:
            self._open_again_if_gone()
            events = [event]
            if self._missing:
                text = f"{_events(self._missing)} missing here. {self.error or 'The log was gone.'}"
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
        if ended:
            _end(self.folder, self._running)
        elif self._running is not None:
            os.close(self._running)
        self._running = None

    def _begin(self) -> int | None:
        """Take the session's lock and open its log; return what holds the lock."""
        running: int | None = None
        self.error = ""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            running = _hold(self.folder / RUNNING)
            self._open()
        except OSError as error:
            self.error = self._not_recorded(error)
        return running

    def _open(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            self._append(b"\n")  # a process that was killed, or a full disk, left half a line

    def _open_again_if_gone(self) -> None:
        """Open a log anew that was removed, or its file system detached; nobody finds what is written there."""
        if self._descriptor is not None and not self._is_there(self._descriptor):
            self._let_go()
            self._missing, self._written = self._missing + self._written, 0
        if self._descriptor is None:
            self._open()

    def _is_there(self, descriptor: int) -> bool:
        try:
            return os.path.samestat(os.stat(self.path), os.fstat(descriptor))
        except FileNotFoundError:
            return False

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
    for attempt in range(LOCK_ATTEMPTS + 1):
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            if attempt < LOCK_ATTEMPTS:
                time.sleep(LOCK_PAUSE)
            continue
        except OSError:  # a file system without locks
            return descriptor
        if os.fstat(descriptor).st_nlink:
            return descriptor
        os.close(descriptor)  # whoever held it before has just removed it
    raise SessionInUseError(path.parent.name)


def _end(folder: Path, running: int | None) -> None:
    if running is not None:
        (folder / RUNNING).unlink(missing_ok=True)
        os.close(running)


def sessions_folder() -> Path:
    """Return the folder of all sessions."""
    return state_dir() / "sessions"


def new_session_id(clock: Clock) -> str:
    """Return a unique id that sorts by time."""
    return f"{clock.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
