"""The files to index: what of each changes when it does, and its content as far as a person wrote it."""

from __future__ import annotations

import os
import stat
import time
from itertools import chain
from typing import TypeAlias

from ollm_tui.core.search.listing import ListedDirectory, Listing

MOST_BYTES = 1_000_000
"""Of a file; larger ones are data."""
LONGEST_LINE = 5_000
"""Bytes of a line in a file that a person wrote."""
_COARSE_NS = 12_000_000
"""Nanoseconds in which some kernels give two changes the same time."""

_FEW = 8
"""Files of a directory that are looked at by their whole path: opening it costs more than that many longer ways."""

_Stamp: TypeAlias = tuple[int, int, int]
"""Time of the last change, which nobody can set back, size, inode."""
_Seen: TypeAlias = dict[bytes, tuple[list[bytes], "list[_Stamp | None]"]]
"""Of each directory its files and what was seen of them."""


class FileStates:
    """What was seen of each file below a directory; for one thread at a time. All methods block.

    A further look costs little more than asking the system for each file.
    """

    def __init__(self) -> None:
        self._seen: _Seen = {}

    def look(self, listing: Listing) -> dict[bytes, str | None]:
        """Look at each file; return those that are not as the last time. Raises OSError for the directory itself.

        Returns:
            What changes when the file does, by path; None for one that is gone.
        """
        seen: _Seen = {}
        for directory in listing.directories():
            prefix = directory.path[len(listing.start) :]
            seen[prefix] = directory.files, _stamps(listing, prefix, directory)
        last, self._seen = self._seen, seen
        changed: dict[bytes, str | None] = {}
        for prefix, now in seen.items():
            if last.get(prefix) != now:
                old, new = _by_path(prefix, last.get(prefix)), _by_path(prefix, now)
                changed.update(dict.fromkeys(path for path in old if path not in new))
                changed.update((path, state) for path, state in new.items() if old.get(path) != state)
        if len(last) > len(seen.keys() & last.keys()):
            for prefix in last.keys() - seen.keys():
                changed.update(dict.fromkeys(_by_path(prefix, last[prefix])))
        return changed

    @property
    def by_path(self) -> dict[bytes, str]:
        """Of each file that can be read what changes when it does, as of the last look."""
        found: dict[bytes, str] = {}
        for prefix, seen in self._seen.items():
            found |= _by_path(prefix, seen)
        return found

    def wait_until_settled(self) -> None:
        """Wait until what changes from now on has another time than what was seen: a moment at most."""
        stamps = chain.from_iterable(stamps for _, stamps in self._seen.values())
        latest = max(filter(None, stamps), default=(0, 0, 0))[0]  # of tuples that begin with the time
        if abs(time.time_ns() - latest) < _COARSE_NS:
            time.sleep(_COARSE_NS / 1e9)


def _by_path(prefix: bytes, seen: tuple[list[bytes], list[_Stamp | None]] | None) -> dict[bytes, str]:
    """Return what changes when a file does, for those of one directory."""
    return {
        prefix + name: f"{stamp[0]} {stamp[1]} {stamp[2]}"
        for name, stamp in zip(*(seen or ((), ())), strict=True)
        if stamp is not None
    }


def _stamps(listing: Listing, prefix: bytes, directory: ListedDirectory) -> list[_Stamp | None]:
    """Return what was seen of each of a directory's files; None for one that is gone."""
    look = os.lstat
    names = directory.files
    try:
        if len(names) < _FEW:
            return [
                (status.st_ctime_ns, status.st_size, status.st_ino)
                for name in names
                for status in (look(directory.path + name),)
            ]
        descriptor = listing.handle.directory(prefix or b".")
        return [
            (status.st_ctime_ns, status.st_size, status.st_ino)
            for name in names
            for status in (look(name, dir_fd=descriptor),)
        ]
    except OSError:
        return [_stamp(directory.path + name) for name in names]


def _stamp(path: bytes) -> _Stamp | None:
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return status.st_ctime_ns, status.st_size, status.st_ino


def content_of(listing: Listing, path: bytes) -> bytes:
    """Return a file's content; empty for what nobody wrote by hand: too large, binary, without line ends."""
    directory, _, name = path.rpartition(b"/")
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NOCTTY
    try:
        descriptor = os.open(name, flags, dir_fd=listing.handle.directory(directory + b"/" if directory else b""))
    except OSError:
        return b""
    with open(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > MOST_BYTES:
            return b""
        data = file.read(MOST_BYTES)
    if b"\0" in data or max(map(len, data.split(b"\n"))) > LONGEST_LINE:
        return b""
    return data
