"""What lies in a folder, remembered as long as the folder says that it has not changed.

An agent lists the same tree again and again; asking a folder for its time stamps costs a twentieth of reading it.
"""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from typing import NamedTuple

NAMES_KEPT = 500_000
"""Names remembered in all; with more of them everything is forgotten and begun anew."""

_SETTLED = 2_000_000_000
"""Nanoseconds without a change before a folder's time stamps are trusted: some file systems count in whole seconds,
so that a second change could leave them as they are.
"""


class Entries(NamedTuple):
    """Regular files, links and directories, unsorted; pipes, sockets and devices are nobody's files."""

    files: list[bytes]
    links: list[bytes]
    directories: list[bytes]


@dataclass(frozen=True)
class _Stamp:
    device: int
    inode: int
    modified: int
    changed: int


class FolderEntries:
    """Reads folders; may be used from several threads. The lists it gives are not to be changed."""

    def __init__(self, names_kept: int = NAMES_KEPT) -> None:
        self._names_kept = names_kept
        self._names = 0
        self._known: dict[bytes, tuple[_Stamp, Entries]] = {}

    def of(self, path: bytes) -> Entries:
        """Raises OSError."""
        status = os.stat(path)
        stamp = _Stamp(status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known[0] == stamp:
            return known[1]
        # A folder of /proc or /sys has no size, and its time stamps do not tell changes.
        settled = status.st_size > 0 and max(stamp.modified, stamp.changed) + _SETTLED < time.time_ns()
        entries = _read(path)
        if settled:
            self._remember(path, stamp, entries)
        return entries

    def _remember(self, path: bytes, stamp: _Stamp, entries: Entries) -> None:
        self._names += 1 + sum(map(len, entries))
        if self._names > self._names_kept:
            self._known, self._names = {}, 0
        self._known[path] = (stamp, entries)


def _read(path: bytes) -> Entries:
    files: list[bytes] = []
    links: list[bytes] = []
    directories: list[bytes] = []
    with os.scandir(path) as entries:
        for entry in entries:
            if entry.is_file(follow_symlinks=False):
                files.append(entry.name)
            elif entry.is_dir(follow_symlinks=False):
                directories.append(entry.name)
            elif entry.is_symlink():
                links.append(entry.name)
    return Entries(files, links, directories)
