"""Look at every file of a workspace by its status, before and after a command, to know what the command changed."""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

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
