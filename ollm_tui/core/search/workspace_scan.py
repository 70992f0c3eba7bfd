"""Files by their status: what a command changed in a workspace, and what the index has not seen yet."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain
from operator import attrgetter
from typing import NamedTuple, TypeAlias

from ollm_tui.core.base.app_dirs import config_dir, data_dir, state_dir
from ollm_tui.core.fence.dir_handle import DirHandle
from ollm_tui.core.fence.protected_paths import holds_credentials
from ollm_tui.core.search.listing import ListedDirectory, Listing, ListingOptions, directory_cache
from ollm_tui.core.search.listing_scope import with_slash

MOST_SCANNED = 50_000
"""Files looked at; of a larger workspace only so many are compared, and the entry says so."""
KEPT_BYTES = 1_000_000
"""Files up to this size are kept before a command may change them, but for credentials."""
_COARSE_NS = 12_000_000
"""Nanoseconds in which some kernels give two changes the same time."""


@dataclass
class WorkspaceScan:
    """What lies below a root, by path from there."""

    files: dict[bytes, os.stat_result] = field(default_factory=dict[bytes, os.stat_result])
    """Regular files and links."""
    targets: dict[bytes, str] = field(default_factory=dict[bytes, str])
    """Where links lead."""
    directories: dict[bytes, int] = field(default_factory=dict[bytes, int])
    """With their permissions."""
    ignored: dict[bytes, os.stat_result] = field(default_factory=dict[bytes, os.stat_result])
    """What ignore rules leave out; what lies in such a directory is not looked at."""
    cut: bool = False
    """There is more than was looked at."""

    def changed(self, after: WorkspaceScan) -> list[bytes]:
        """Return the files that are other ones after, or gone, or new, in order."""
        old, new = self.files, after.files
        changed = [path for path, seen in old.items() if (now := new.get(path)) is None or is_changed(seen, now)]
        return sorted([*changed, *(path for path in new if path not in old)])


def is_changed(before: os.stat_result, after: os.stat_result) -> bool:
    """Return whether a file was written, renamed or replaced in between: nobody can set the change time back."""
    if before.st_ctime_ns != after.st_ctime_ns:
        return True
    return (before.st_ino, before.st_size) != (after.st_ino, after.st_size)


def not_kept(roots: Iterable[str], files: Iterable[tuple[bytes, int]]) -> int:
    """Return how many files, by real path and size, undo could not bring back once a command has deleted them."""
    kept: set[bytes] = set()
    for root in roots:
        start, listing = _listing(root)
        kept.update(start + path for path in listing.files(links=True))
    return sum(
        size > KEPT_BYTES or path not in kept or holds_credentials(os.fsdecode(path).split("/")) for path, size in files
    )


def _listing(root: str) -> tuple[bytes, Listing]:
    start = with_slash(os.fsencode(root))
    own = [with_slash(os.fsencode(os.path.realpath(each))) for each in (config_dir(), data_dir(), state_dir())]
    options = ListingOptions(include_hidden=True, off_limits=own)  # a home directory as workspace holds them
    return start, Listing(DirHandle.at(start), start, options)


def scan_workspace(root: str) -> WorkspaceScan:
    """Return what lies below the root now. Blocks. Raises OSError where the root cannot be read."""
    scan = WorkspaceScan()
    start, listing = _listing(root)
    handle = listing.handle
    for directory in listing.directories():
        relative = directory.path[len(start) :]
        try:
            descriptor = handle.directory(relative or b".")
            if relative:
                scan.directories[relative[:-1]] = stat.S_IMODE(os.fstat(descriptor).st_mode)
            _add(scan, relative, directory, descriptor)
            _add_ignored(scan, relative, directory, descriptor, directory_cache.of(handle, relative))
        except OSError:
            continue  # it went away meanwhile
        if len(scan.files) >= MOST_SCANNED:
            scan.cut = True
            break
    latest = max((seen.st_ctime_ns for seen in scan.files.values()), default=0)
    if time.time_ns() - latest < _COARSE_NS:
        time.sleep(_COARSE_NS / 1e9)  # so that whatever changes from now on has another time
    return scan


def _add(scan: WorkspaceScan, prefix: bytes, directory: ListedDirectory, descriptor: int) -> None:
    files, look = scan.files, os.stat
    for name in directory.files:
        try:
            files[prefix + name] = look(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            continue
    for name in directory.links:
        try:
            scan.targets[prefix + name] = os.readlink(os.fsdecode(name), dir_fd=descriptor)
            files[prefix + name] = look(name, dir_fd=descriptor, follow_symlinks=False)
        except OSError:
            continue


def _add_ignored(
    scan: WorkspaceScan, prefix: bytes, directory: ListedDirectory, descriptor: int, whole: Sequence[list[bytes]]
) -> None:
    for names, listed in zip(whole, (directory.files, directory.links, directory.directories), strict=True):
        if len(names) != len(listed):
            for name in set(names).difference(listed, (b".git",)):
                try:
                    scan.ignored[prefix + name] = os.stat(name, dir_fd=descriptor, follow_symlinks=False)
                except OSError:
                    continue


MOST_BYTES = 1_000_000
"""Of a file; larger ones are data."""
LONGEST_LINE = 5_000
"""Bytes of a line in a file that a person wrote."""
_Stamp: TypeAlias = tuple[int, int, int]
"""Time of the last change, which nobody can set back, size, inode."""
_stamp_of = attrgetter("st_ctime_ns", "st_size", "st_ino")


class _Seen(NamedTuple):
    """The files of a directory, and what was seen of them."""

    names: list[bytes]
    paths: list[bytes]
    """Whole ones: opening the directory costs more than that many longer ways."""
    stamps: list[_Stamp | None]
    """None for a file that is gone."""


class FileStates:
    """What was seen of each file below a directory; for one thread at a time. All methods block.

    A further look costs little more than asking the system for each file.
    """

    def __init__(self) -> None:
        self._seen: dict[bytes, _Seen] = {}

    def look(self, listing: Listing) -> dict[bytes, str | None]:
        """Look at each file; return those that are not as the last time. Raises OSError for the directory itself.

        Returns:
            What changes when the file does, by path; None for one that is gone.
        """
        last, seen = self._seen, dict[bytes, _Seen]()
        changed: dict[bytes, str | None] = {}
        for directory in listing.directories():
            prefix = directory.path[len(listing.start) :]
            before = last.get(prefix)
            now = _look(directory, before)
            seen[prefix] = now
            if now is not before:
                old, new = _by_path(prefix, before), _by_path(prefix, now)
                changed.update(dict.fromkeys(path for path in old if path not in new))
                changed.update((path, state) for path, state in new.items() if old.get(path) != state)
        if len(last) > len(seen.keys() & last.keys()):
            for prefix in last.keys() - seen.keys():
                changed.update(dict.fromkeys(_by_path(prefix, last[prefix])))
        self._seen = seen
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
        stamps = chain.from_iterable(seen.stamps for seen in self._seen.values())
        latest = max(filter(None, stamps), default=(0, 0, 0))[0]  # of tuples that begin with the time
        if abs(time.time_ns() - latest) < _COARSE_NS:
            time.sleep(_COARSE_NS / 1e9)


def _by_path(prefix: bytes, seen: _Seen | None) -> dict[bytes, str]:
    """Return what changes when a file does, for those of one directory."""
    if seen is None:
        return {}
    return {
        prefix + name: f"{stamp[0]} {stamp[1]} {stamp[2]}"
        for name, stamp in zip(seen.names, seen.stamps, strict=True)
        if stamp is not None
    }


def _look(directory: ListedDirectory, before: _Seen | None) -> _Seen:
    """Look at each file of a directory; return `before` where all are as they were."""
    names = directory.files
    known = before is not None and before.names == names
    paths = before.paths if before is not None and known else [directory.path + name for name in names]
    stamps: list[_Stamp | None]
    try:
        stamps = list(map(_stamp_of, map(os.lstat, paths)))  # without a line of Python for each file
    except OSError:
        stamps = [_stamp(path) for path in paths]
    return before if before is not None and known and before.stamps == stamps else _Seen(names, paths, stamps)


def _stamp(path: bytes) -> _Stamp | None:
    try:
        return _stamp_of(os.lstat(path))
    except OSError:
        return None


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
