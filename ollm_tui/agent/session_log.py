"""A session on disk: its append-only log of events, and full texts of cut outputs."""

from __future__ import annotations

import logging
import os
import re
import secrets
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import aiofiles

from ollm_tui.agent.events import UNLOGGED, Event, as_line
from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.clock import Clock
from ollm_tui.core.fence.secrets import mask

log = logging.getLogger(__name__)

OUTPUT_LIFETIME = timedelta(days=7)
"""How long full texts without a session stay."""


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
    """The events of one session, one JSON object a line, each written at once.

    A whole line reaches the system with one write, so a killed process leaves whole lines. When the disk is full the
    session goes on unrecorded and `on_error` is called once.
    """

    def __init__(self, folder: Path, on_error: Callable[[str], None]) -> None:
        """Create the folder and open the log; raise OSError."""
        self.folder = folder
        self.path = folder / "events.jsonl"
        self._on_error = on_error
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._descriptor: int | None = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write(self, event: Event) -> None:
        """Append an event; deltas are left out, since a later event has the whole."""
        if self._descriptor is None or isinstance(event, UNLOGGED):
            return
        line = (mask(as_line(event)) + "\n").encode("utf-8", "surrogatepass")
        try:
            written = os.write(self._descriptor, line)
            if written < len(line):
                raise OSError("the disk took only a part of it")
        except OSError as error:
            self.close()
            self._on_error(f"The session is no longer recorded: {self.path}: {error.strerror or error}.")

    def sync(self) -> None:
        """Sync the log to disk; blocks, for the end of a turn."""
        if self._descriptor is not None:
            os.fsync(self._descriptor)

    def close(self) -> None:
        """Close the log; later events are not written."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def sessions_folder() -> Path:
    """Return the folder of all sessions."""
    return state_dir() / "sessions"


def new_session_id(clock: Clock) -> str:
    """Return a unique id that sorts by time."""
    return f"{clock.now():%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
