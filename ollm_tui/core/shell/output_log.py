"""The output of a command: its end in memory, all of it on disk once it no longer fits."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

BACKLOG = 262_144
"""Bytes held in memory: what a terminal that is attached late is shown."""

MAX_LOG_BYTES = 268_435_456
"""Bytes of one file; what a command writes beyond is counted and not saved."""

_READ = 262_144
log = logging.getLogger(__name__)


LogDirectory: TypeAlias = Callable[[], Path]
"""Gives the directory for logs; made when the first one is needed."""


class OutputFile:
    """A new file that is only appended to. A disk error ends the file, never the command."""

    def __init__(self, folder: LogDirectory, name: str, max_size: int = MAX_LOG_BYTES) -> None:
        self._folder = folder
        self._name = name
        self._max_size = max_size
        self._descriptor: int | None = None
        self._failed = False
        self.path: Path | None = None
        self.size = 0
        self.error = ""
        """Why it ends early, as a clause."""

    def write(self, data: bytes) -> None:
        """Append as much as fits."""
        if self._failed:
            return
        view = memoryview(data)[: self.room]
        try:
            descriptor = self._open()
            written = 0
            while written < len(view):
                written += os.write(descriptor, view[written:])
            self.size += written
        except OSError as error:
            log.warning("The log of a command ends early: %s", error)
            self._failed = True
            where = self.path or error.filename
            self.error = f"its output beyond the last {BACKLOG} bytes is lost: {where}: {error.strerror or error}"

    def read(self, start: int, length: int) -> bytes:
        """Return bytes from `start`; fewer at the end, none where the file is gone."""
        try:
            return b"" if self.path is None else read_log(self.path, start, length)
        except OSError:
            return b""

    def make_sure(self, size: int) -> Path:
        """Return the file, with `size` bytes in it or as many as it may take. Raises OSError where that is not so."""
        if not self._failed:
            self._open()
        if self.path is None or self.size < min(size, self._max_size):
            raise OSError(errno.EIO, "the output could not be written to a file", str(self.path or self._folder()))
        return self.path

    @property
    def room(self) -> int:
        """Bytes it may still take."""
        return self._max_size - self.size

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._failed = True

    def _open(self) -> int:
        if self._descriptor is None:
            path = self._folder() / f"{self._name}-{secrets.token_hex(4)}.log"
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._descriptor = os.open(path, flags, 0o600)
            self.path = path
        return self._descriptor


OnBytes: TypeAlias = Callable[[bytes], None]


class OutputLog:
    """All output of one command, and who listens to it.

    `publish` is called by the command's thread; everything else may be called from any thread.
    """

    def __init__(self, folder: LogDirectory, name: str, listener: OnBytes | None = None) -> None:
        self._name = name
        self._file = OutputFile(folder, name)
        self._recent: deque[bytes] = deque()
        self._recent_size = 0
        self._on_disk = False
        self.size = 0
        """Bytes written by the command so far."""
        self._order = threading.RLock()
        """Held while bytes are handed on, so that a late listener gets the backlog and then all that follows."""
        self._lock = threading.Lock()
        self._listeners: tuple[OnBytes, ...] = () if listener is None else (listener,)

    @property
    def path(self) -> Path | None:
        """Its file; None while all of it is in memory."""
        return self._file.path

    @property
    def error(self) -> str:
        """Why what is on disk ends early; empty where it does not."""
        return self._file.error

    def attach(self, listener: OnBytes) -> Callable[[], None]:
        """Hand `listener` the last bytes now and every further one as it comes; return how to stop.

        It is called in other threads. A slow listener slows the command down; one that raises is dropped.
        """
        with self._order:
            backlog = b"".join(self._recent)
            if self._recent_size < self.size:  # some were left out: begin with a whole line
                backlog = backlog[backlog.find(b"\n") + 1 :]
            if backlog:
                listener(backlog)
            with self._lock:
                self._listeners = (*self._listeners, listener)
        return lambda: self.detach(listener)

    def detach(self, listener: OnBytes) -> None:
        """Stop handing bytes to a listener."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

    def publish(self, data: bytes) -> None:
        """Save bytes, long outputs on disk, and hand them to all listeners."""
        with self._order:
            if not self._on_disk and self._recent_size + len(data) > BACKLOG:
                self._spill()
            if self._on_disk:
                self._file.write(data)
            self.size += len(data)
            self._recent.append(data)
            self._recent_size += len(data)
            while self._recent_size - len(self._recent[0]) >= BACKLOG:
                self._recent_size -= len(self._recent.popleft())
            for listener in self._listeners:
                try:
                    listener(data)
                except Exception:  # whoever listens may fail; the command must be read on, or it would hang
                    log.exception("A listener of command %s failed and is dropped", self._name)
                    self.detach(listener)

    def pieces(self, start: int) -> Iterator[bytes]:
        """Return the bytes from `start` to what is the end now, in pieces; reads the disk."""
        with self._order:
            return self._pieces(start, self.size - self._recent_size, b"".join(self._recent))

    def _pieces(self, start: int, in_memory_from: int, recent: bytes) -> Iterator[bytes]:
        while start < in_memory_from and (piece := self._file.read(start, min(_READ, in_memory_from - start))):
            yield piece
            start += len(piece)
        rest = recent[max(0, start - in_memory_from) :]
        if rest:
            yield rest

    def to_disk(self) -> tuple[Path, int]:
        """Write all of it to its file, however short; return the file and how much more that may take.

        Raises OSError where the disk does not take it.
        """
        if not self._on_disk:
            self._spill()
        return self._file.make_sure(self.size), self._file.room

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _spill(self) -> None:
        self._on_disk = True
        if self._recent:
            self._file.write(b"".join(self._recent))


class FullText:
    """Settled text for an excerpt and, once that is too much to show, for a file with all of it."""

    def __init__(self, feed: Callable[[str], None], max_chars: int, folder: LogDirectory, name: str) -> None:
        self._feed = feed
        self._room = max_chars
        self._file = OutputFile(folder, name)
        self._early: list[str] = []
        self._wanted = 0

    def take(self, text: str) -> None:
        """Take the next text."""
        self._feed(text)
        self._room -= len(text)
        self._early.append(text)
        if self._room < 0:
            self._spill()

    def finish(self) -> tuple[Path, str] | None:
        """Write the rest; return the file and its description, None where the disk does not take it."""
        self._spill()
        path, size = self._file.path, self._file.size
        if path is None:
            return None
        return path, str(path) if size == self._wanted else f"{path} (the first {size} of {self._wanted} bytes)"

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _spill(self) -> None:
        data = "".join(self._early).encode("utf-8", "replace")
        self._early = []
        self._wanted += len(data)
        self._file.write(data)


def read_log(path: Path, start: int, length: int) -> bytes:
    """Bytes of a log from `start`; fewer at its end. Never follows a link. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        return os.pread(descriptor, length, start)
    finally:
        os.close(descriptor)
