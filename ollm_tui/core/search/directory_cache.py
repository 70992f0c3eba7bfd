"""What lies in a directory, remembered as long as the directory says that it has not changed.

An agent lists the same tree again and again; asking a directory for its time stamps costs a twentieth of reading it.
"""

from __future__ import annotations

import os
import time
from itertools import islice
from typing import NamedTuple

from ollm_tui.core.fence.dir_handle import DirHandle, is_settled

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
