"""A directory that stays open while it is listed and searched: all that lies below it is opened from there.

A directory that was listed may be a link to anywhere a moment later. Opened by its path it would show what lies there;
opened from here, beneath and without links, it is the directory that was meant or nothing.

An agent lists the same tree again and again, so entries are cached; a directory's time stamps cost a twentieth of it.
"""

from __future__ import annotations

import os
import stat
import time
import weakref
from collections import OrderedDict
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from ollm_tui.core.fence.openat import O_PATH, open_from

_DIRECTORIES_KEPT = 32
"""Directories that stay open, as the files of one are mostly asked for together."""

_DIRECTORY = O_PATH | os.O_DIRECTORY

SETTLED = 2_000_000_000
"""Nanoseconds without a change before a directory's time stamps are trusted: some file systems count in whole seconds,
so that a second change could leave them as they are.
"""

_OWN_DESCRIPTORS = b"/proc/self/fd/"


def is_settled(status: os.stat_result, moment: int) -> bool:
    """Return whether a directory had not changed for some time before a moment (nanoseconds since 1970)."""
    # A directory of /proc or /sys has no size, and its time stamps do not tell changes.
    return status.st_size > 0 and max(status.st_mtime_ns, status.st_ctime_ns) + SETTLED < moment


class DirHandle:
    """An open directory, for one thread at a time; `path` is where it was found, absolute with a slash behind."""

    def __init__(self, path: bytes, descriptor: int) -> None:
        """Take the descriptor over."""
        self.path = path if path.endswith(b"/") else path + b"/"
        self._descriptor = descriptor
        self._directories: OrderedDict[bytes, int] = OrderedDict()
        self._closing = weakref.finalize(self, _close, descriptor, self._directories)

    @classmethod
    def at(cls, path: bytes) -> DirHandle:
        """Open a directory by a path in which no tool can change anything. Raises OSError."""
        return cls(path, os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))

    def again(self) -> DirHandle:
        """Open the same directory for another thread. Raises OSError."""
        return DirHandle(self.path, os.dup(self._descriptor))

    @property
    def place(self) -> bytes | None:
        """A path that leads a child process here whatever has become of `path`; None where the system has none."""
        return _OWN_DESCRIPTORS + b"%d" % self._descriptor if os.path.isdir(_OWN_DESCRIPTORS) else None

    def unchanged(self, directories: Iterable[bytes], moment: int) -> frozenset[bytes]:
        """Return the directories below that have the same entries as at `moment`, by their change time."""
        known = {b"": is_settled(os.fstat(self._descriptor), moment)}

        def is_unchanged(directory: bytes) -> bool:
            answer = known.get(directory)
            if answer is None:
                above = directory[: directory.rfind(b"/", 0, -1) + 1]
                answer = known[directory] = is_unchanged(above) and self._is_settled_directory(directory, moment)
            return answer

        return frozenset(directory for directory in directories if is_unchanged(directory))

    def _is_settled_directory(self, relative: bytes, moment: int) -> bool:
        try:
            status = os.stat(relative[:-1], dir_fd=self._descriptor, follow_symlinks=False)
        except OSError:
            return False
        return stat.S_ISDIR(status.st_mode) and is_settled(status, moment)

    def open(self, relative: bytes, flags: int) -> int:
        """Open a path below; the caller closes it. Raises OSError, also where a part of it has become a link."""
        return open_from(self._descriptor, os.fsdecode(relative.rstrip(b"/")), flags)

    def open_directory(self, relative: bytes) -> int:
        """Return a descriptor of a directory for the caller to close, cheap for neighbours. Raises OSError."""
        if not relative:
            return self.open(relative, os.O_RDONLY | os.O_DIRECTORY)
        name = relative.rfind(b"/", 0, -1) + 1
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.open(relative[name:-1], flags, dir_fd=self.directory(relative[:name]))

    def open_file(self, relative: bytes) -> int:
        """As `open`, for reading, cheap for neighbours; never waits for a pipe."""
        name = relative.rfind(b"/") + 1
        return os.open(
            relative[name:],
            os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_NOFOLLOW | os.O_CLOEXEC,
            dir_fd=self.directory(relative[:name]),
        )

    def directory(self, relative: bytes) -> int:
        """Return a directory below for `dir_fd`, which stays open for a while. Raises OSError."""
        kept = self._directories.get(relative)
        if kept is None:
            if len(self._directories) >= _DIRECTORIES_KEPT:
                os.close(self._directories.popitem(last=False)[1])
            kept = self._directories[relative] = self.open(relative, _DIRECTORY)
        return kept


def _close(descriptor: int, directories: OrderedDict[bytes, int]) -> None:
    for each in (descriptor, *directories.values()):
        os.close(each)


NAMES_KEPT = 500_000
"""Names remembered in all; with more of them everything is forgotten and begun anew."""

_PIECE = 4096
"""Entries taken at once, so that a directory of a million does not need a million objects."""


class DirectoryEntries(NamedTuple):
    """Regular files, links and directories, unsorted; pipes, sockets and devices are nobody's files."""

    files: list[bytes]
    links: list[bytes]
    directories: list[bytes]


class _Stamp(NamedTuple):
    device: int
    inode: int
    modified: int
    changed: int


class DirectoryCache:
    """Reads directories; may be used from several threads. The lists it gives are not to be changed."""

    def __init__(self, names_kept: int = NAMES_KEPT) -> None:
        self._names_kept = names_kept
        self._names = 0
        self._known: dict[bytes, tuple[_Stamp, DirectoryEntries]] = {}

    def of(self, handle: DirHandle, relative: bytes) -> DirectoryEntries:
        """Return what lies in a directory of `handle`. Raises OSError."""
        path = handle.path + relative
        known = self._known.get(path)
        if known is not None and known[0] == _stamp_of(os.stat(path)):
            return known[1]
        descriptor = handle.open_directory(relative)
        try:
            status = os.fstat(descriptor)
            stamp = _stamp_of(status)
            settled = is_settled(status, time.time_ns())
            entries = _read(descriptor)
        finally:
            os.close(descriptor)
        if settled:
            self._remember(path, stamp, entries)
        return entries

    def _remember(self, path: bytes, stamp: _Stamp, entries: DirectoryEntries) -> None:
        self._names += 1 + sum(map(len, entries))
        if self._names > self._names_kept:
            self._known, self._names = {}, 0
        self._known[path] = (stamp, entries)


def _stamp_of(status: os.stat_result) -> _Stamp:
    return _Stamp(status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)


def _read(descriptor: int) -> DirectoryEntries:
    files: list[str] = []
    links: list[str] = []
    directories: list[str] = []
    with os.scandir(descriptor) as entries:
        while piece := list(islice(entries, _PIECE)):
            found = [entry.name for entry in piece if entry.is_file(follow_symlinks=False)]
            files += found
            if len(found) < len(piece):
                directories += [entry.name for entry in piece if entry.is_dir(follow_symlinks=False)]
                links += [entry.name for entry in piece if entry.is_symlink()]
    return DirectoryEntries(_as_bytes(files), _as_bytes(links), _as_bytes(directories))


def _as_bytes(names: list[str]) -> list[bytes]:
    """Return all at once: one by one would cost as much as reading them."""
    return os.fsencode("\0".join(names)).split(b"\0") if names else []
