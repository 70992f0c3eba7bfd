"""What a command wrote, byte by byte: the end of it in memory, all of it on disk once it no longer fits."""

from __future__ import annotations

import errno
import logging
import os
import secrets
import threading
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, TypeAlias

BACKLOG = 262_144
"""Bytes kept in memory: what a terminal that is attached late is shown."""

MOST_ON_DISK = 268_435_456
"""Bytes of one file; what a command writes beyond is counted and not kept."""

_READ = 262_144
log = logging.getLogger(__name__)


class LogDirectory(Protocol):
    """Gives the place for logs; made when the first one is needed."""

    def __call__(self) -> Path:
        """Return the directory."""
        ...


class LogFile:
    """A file of its own that is only appended to. Trouble with the disk ends the file, never the command."""

    def __init__(self, folder: LogDirectory, name: str, most: int = MOST_ON_DISK) -> None:
        self._folder = folder
        self._name = name
        self._most = most
        self._descriptor: int | None = None
        self._failed = False
        self.path: Path | None = None
        self.size = 0

    def write(self, data: bytes) -> int:
        """Append as much as fits; returns how many bytes that were."""
        if self._failed:
            return 0
        data = data[: self._most - self.size]
        try:
            if self._descriptor is None:
                self._open()
            written = _write_all(self._descriptor, data) if self._descriptor is not None else 0
        except OSError as error:
            log.warning("The log of a command ends early: %s", error)
            self._failed = True
            return 0
        self.size += written
        return written

    def read(self, start: int, length: int) -> bytes:
        """Bytes from `start`; fewer at the end, none where the file is gone."""
        if self.path is None:
            return b""
        try:
            return read_log(self.path, start, length)
        except OSError:
            return b""

    def make_sure(self, size: int) -> Path:
        """Return the file, with `size` bytes in it or as many as it may take. Raises OSError where that is not so."""
        if self.path is None and not self._failed:
            self._open()
        if self.path is None or self.size < min(size, self._most):
            raise OSError(errno.EIO, "the output could not be written to a file", str(self.path or self._folder()))
        return self.path

    @property
    def room(self) -> int:
        """Bytes it may still take."""
        return self._most - self.size

    def close(self) -> None:
        """Close the file."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None
        self._failed = True

    def _open(self) -> None:
        path = self._folder() / f"{self._name}-{secrets.token_hex(4)}.log"
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        self._descriptor = os.open(path, flags, 0o600)
        self.path = path


class OutputLog:
    """All output of one command. Appended to by one thread, read by others: the owner holds a lock around each call."""

    def __init__(self, folder: LogDirectory, name: str) -> None:
        self._file = LogFile(folder, name)
        self._recent: deque[bytes] = deque()
        self._recent_size = 0
        self._on_disk = False
        self.size = 0
        """Bytes written by the command so far."""

    @property
    def path(self) -> Path | None:
        """Where all of it can be read; None while it is small enough for memory."""
        return self._file.path

    def append(self, data: bytes) -> None:
        """Add bytes; long outputs go to disk."""
        if not self._on_disk and self._recent_size + len(data) > BACKLOG:
            self._spill()
        if self._on_disk:
            self._file.write(data)
        self.size += len(data)
        self._recent.append(data)
        self._recent_size += len(data)
        while self._recent_size - len(self._recent[0]) >= BACKLOG:
            self._recent_size -= len(self._recent.popleft())

    def to_disk(self) -> tuple[Path, int]:
        """Have all of it in its file, however short; returns the file and how much more that may take.

        Raises OSError where the disk does not take it.
        """
        if not self._on_disk:
            self._spill()
        return self._file.make_sure(self.size), self._file.room

    def backlog(self) -> bytes:
        """Return the last bytes, from the start of a line where some were left out."""
        recent = b"".join(self._recent)
        if self._recent_size == self.size:
            return recent
        return recent[recent.find(b"\n") + 1 :]

    def pieces(self, start: int) -> Iterator[bytes]:
        """Return the bytes from `start` to what is the end now; what is kept nowhere is passed over.

        Going through them needs no lock.
        """
        return self._pieces(start, self.size - self._recent_size, b"".join(self._recent))

    def _pieces(self, start: int, in_memory_from: int, recent: bytes) -> Iterator[bytes]:
        while start < in_memory_from:
            piece = self._file.read(start, min(_READ, in_memory_from - start))
            if not piece:
                break
            yield piece
            start += len(piece)
        rest = recent[max(0, start - in_memory_from) :]
        if rest:
            yield rest

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _spill(self) -> None:
        self._on_disk = True
        if self._recent:
            self._file.write(b"".join(self._recent))


@dataclass(frozen=True)
class KeptOutput:
    """A file with the text that was too long to show; `described` is how people are pointed to it."""

    path: Path
    described: str


class Capture:
    """Takes settled text for an excerpt and, from the moment it is too much to show, for a file with all of it."""

    def __init__(self, feed: Callable[[str], None], most_chars: int, folder: LogDirectory, name: str) -> None:
        self._feed = feed
        self._room = most_chars
        self._file = LogFile(folder, name)
        self._early: list[str] = []
        self._wanted = 0

    def take(self, text: str) -> None:
        """Take the next text."""
        self._feed(text)
        self._room -= len(text)
        self._early.append(text)
        if self._room < 0:
            self._spill()

    def finish(self) -> KeptOutput | None:
        """Write what is not written yet; None where the disk does not take it."""
        self._spill()
        path = self._file.path
        if path is None:
            return None
        whole = self._file.size == self._wanted
        return KeptOutput(path, str(path) if whole else f"{path} (the first {self._file.size} of {self._wanted} bytes)")

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


def _write_all(descriptor: int, data: bytes) -> int:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
    return len(data)


OnBytes: TypeAlias = Callable[[bytes], None]


class Broadcast:
    """Published to by the command's thread; all other methods may be called from any thread. `of` names the command
    in our log."""

    def __init__(self, kept: OutputLog, of: str, listener: OnBytes | None = None) -> None:
        self._kept = kept
        self._of = of
        self._order = threading.RLock()
        """Held while bytes are handed on, so that a late listener gets the backlog and then all that follows."""
        self._lock = threading.Lock()
        self._listeners: tuple[OnBytes, ...] = () if listener is None else (listener,)

    @property
    def size(self) -> int:
        """Bytes written so far."""
        return self._kept.size

    def attach(self, listener: OnBytes) -> Callable[[], None]:
        """Hand `listener` the backlog now and every further byte as it comes, from the command's thread."""
        with self._order:
            backlog = self._kept.backlog()
            if backlog:
                listener(backlog)
            with self._lock:
                self._listeners = (*self._listeners, listener)

        return lambda: self.detach(listener)

    def detach(self, listener: OnBytes) -> None:
        """Stop handing bytes to a listener."""
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)

    def pieces(self, start: int) -> Iterator[bytes]:
        """Return what was written from byte `start` up to now, in pieces. Reads the disk."""
        with self._order:
            return self._kept.pieces(start)

    def publish(self, data: bytes) -> None:
        """Keep bytes and hand them to all listeners."""
        with self._order:
            self._kept.append(data)
            for listener in self._listeners:
                try:
                    listener(data)
                except Exception:  # whoever listens may fail; the command must be read on, or it would hang
                    log.exception("A listener of command %s failed and is dropped", self._of)
                    self.detach(listener)

    def to_disk(self) -> tuple[Path, int]:
        """As `OutputLog.to_disk`."""
        return self._kept.to_disk()

    def close(self) -> None:
        """After the last byte."""
        self._kept.close()
