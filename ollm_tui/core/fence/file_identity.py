"""Recognise protected files by device and inode, whatever their name.

Paths are checked anew each time: a file may have been put in place, or behind a link, a moment ago.

A hard link has the content of a credential without its name. It is recognised while the credential still has its own
name in the workspace, or in the home directory where credentials usually are. Links to credentials elsewhere, or
without their own name, are not recognised. No file is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Generator, Iterable, Iterator
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import TypeAlias

from ollm_tui.core.base import app_dirs
from ollm_tui.core.fence import protected_paths
from ollm_tui.core.fence.protected_paths import ProtectedPatterns, Sensitivity

Identity: TypeAlias = tuple[int, int]
"""Device and inode."""

_MOST_ENTRIES = 10_000
"""Entries of one directory that are looked at."""

_DEPTH = 2
"""Levels looked at below a directory of credentials: down to `.gnupg/private-keys-v1.d`.
Deeper are caches, of which `.kube` keeps thousands."""


INSTALLED = frozenset({b".git", b"node_modules", b".venv", b"__pycache__"})
"""Directories in which nobody keeps credentials of their own."""

MOST_BELOW = 100_000
"""Entries of a workspace that are looked at for credentials with further names."""

UNKNOWN = Sensitivity("ask", "has further names, and too much lies here to tell whether they are of credentials")


def identity_of_linked(path: bytes) -> Identity | None:
    """Return a file that has more than one name; None for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 else None


def linked_credentials(device: int, directories: Iterable[bytes]) -> dict[Identity, Sensitivity]:
    """Return the credentials in these directories (with a slash behind) that have further names on this device."""
    found: dict[Identity, Sensitivity] = {}
    for directory in dict.fromkeys(directories):
        if _device(directory) != device:
            continue
        for path, sensitivity in _places_in(directory):
            identity = identity_of_linked(path)
            if identity is not None:
                found.setdefault(identity, sensitivity)
    return found


class OtherNames:
    """Tells other names of what is protected in some directories, or in the home directory.

    The directories are looked through once a file with further names is asked about: few are, and it takes its time.
    """

    def __init__(self, roots: Iterable[Path], own: ProtectedPatterns | None = None) -> None:
        self._roots = [os.path.join(os.fsencode(root), b"") for root in roots]
        self._own = own if own is not None and own.patterns else None

    def judge(self, path: bytes) -> Sensitivity | None:
        """Return what protects a file under another name of it. Blocks."""
        identity = identity_of_linked(path)
        if identity is None:
            return None
        return self._protected.get(identity, None if self._looked_through else UNKNOWN)

    @cached_property
    def _protected(self) -> dict[Identity, Sensitivity]:
        home = home_dir()
        found = linked_credentials(_device(home) or 0, [home])
        for root in self._roots:
            for path, sensitivity in self._below(root):
                if (identity := identity_of_linked(path)) is not None:
                    found.setdefault(identity, sensitivity)
        return found

    _looked_through = True

    def _below(self, root: bytes) -> Iterator[tuple[bytes, Sensitivity]]:
        waiting, seen = [root], 0
        while waiting:
            directory = waiting.pop()
            parent = directory[len(root) : -1].rpartition(b"/")[2]
            entries = _entries(directory)
            seen += len(entries)
            if seen > MOST_BELOW:
                self._looked_through = False
                return
            for entry in entries:
                sensitivity = self._judged(entry, parent, root)
                if sensitivity is not None:
                    yield from ((path, sensitivity) for path in files_at(entry.path))
                elif entry.name not in INSTALLED and entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path + b"/")

    def _judged(self, entry: os.DirEntry[bytes], parent: bytes, root: bytes) -> Sensitivity | None:
        # Only hidden directories make credentials of names that would not be so elsewhere.
        if _is_sensitive(parent if parent[:1] == b"." else b"", entry.name):
            return protected_paths.CREDENTIALS
        return None if self._own is None else self._own.judge(os.fsdecode(entry.path[len(root) :]))


def protected_by_identity(real: str, root: str, known: Iterable[tuple[str, Sensitivity]]) -> Sensitivity | None:
    """Return what protects a path that is, or is in, one of the `known` places below `root`."""
    within = {_identity(path, follow=False) for path in _upwards(real) if len(path) > len(root)} - {None}
    beneath_root = root.rstrip("/")
    found = [sensitivity for name, sensitivity in known if _identity(f"{beneath_root}/{name}") in within]
    return next((each for each in found if each.decision == "deny"), found[0] if found else None)


def is_own_directory(real: str) -> bool:
    """Return whether a path is in our own directories: a workspace around them does not open policy and approvals."""
    identities = {_identity(path, follow=False) for path in _upwards(real)}
    for directory in (app_dirs.config_dir(), app_dirs.data_dir(), app_dirs.state_dir()):
        identity = _identity(str(directory))
        if identity is None and lies_in(real, os.path.realpath(directory)):
            return True  # not there yet, and this would make it
        if identity is not None and identity in identities:
            return True
    return False


def lies_in(path: str, directory: str) -> bool:
    """Return whether a real path is the directory or below it; by text, since making paths of them takes longer."""
    return path == directory or path.startswith(directory.rstrip("/") + "/")


def home_dir() -> bytes:
    """Return where most credentials of a person lie; ends with a slash."""
    return os.path.join(os.path.expanduser(b"~"), b"")


def _places_in(directory: bytes) -> Iterator[tuple[bytes, Sensitivity]]:
    for entry in _entries(directory):
        sensitivity = protected_paths.judge_reading([os.fsdecode(entry.name)])
        if sensitivity is not None:
            yield from ((path, sensitivity) for path in files_at(entry.path))
    for place in protected_paths.DEEPER_CREDENTIALS:
        yield from ((path, protected_paths.CREDENTIALS) for path in files_at(directory + os.fsencode(place)))


def files_at(path: bytes, depth: int = _DEPTH) -> Iterator[bytes]:
    """Yield the file itself, or those in a directory."""
    yield path
    if depth and os.path.isdir(path) and not os.path.islink(path):
        for entry in _entries(path):
            yield from files_at(entry.path, depth - 1)


def _entries(directory: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(directory) as entries:
            return list(islice(entries, _MOST_ENTRIES))
    except OSError:
        return []


def _device(directory: bytes) -> int | None:
    try:
        return os.stat(directory).st_dev
    except OSError:
        return None


def _upwards(path: str) -> Generator[str]:
    """Yield the path and every directory around it, up to the root of the file system."""
    while path != "/":
        yield path
        path = path[: path.rfind("/")] or "/"
    yield path


def _identity(path: str, *, follow: bool = True) -> Identity | None:
    try:
        status = os.stat(path, follow_symlinks=follow)
    except (OSError, ValueError):
        return None
    return status.st_dev, status.st_ino


class CredentialFilter:
    """Leaves out and counts what nobody may read without being asked; paths are absolute bytes."""

    def __init__(self, start: bytes, boundary: bytes, own: ProtectedPatterns | None) -> None:
        self.skipped = 0
        self._start = start
        self._boundary = boundary
        self._own = own if own is not None and own.patterns else None
        self._harmless: set[bytes] = set()
        places = (boundary, *_directories_between(boundary, start), home_dir())
        self._linked: set[Identity] = set(linked_credentials(os.lstat(start).st_dev, places))
        """Credentials that have further names, which are then left out too."""
        self._everywhere = OtherNames([Path(os.fsdecode(boundary))], own)

    def meet(self, directory: bytes, files: list[bytes]) -> set[bytes]:
        """Return the credentials among all files of a directory, and remember those that have other names."""
        found = self._sensitive(directory, files)
        self._linked.update(filter(None, (identity_of_linked(directory + name) for name in found)))
        return found

    def kept(self, directory: bytes, names: list[bytes], sensitive: set[bytes] | None = None) -> list[bytes]:
        """Return the names that may be listed; `sensitive` is what `meet` found among them."""
        sensitive = self._sensitive(directory, names) if sensitive is None else sensitive
        kept = [name for name in names if name not in sensitive] if sensitive else names
        if self._own is not None and directory.startswith(self._boundary):
            parent = os.fsdecode(directory[len(self._boundary) :])
            kept = [name for name in kept if self._own.judge(parent + os.fsdecode(name)) is None]
        self.skipped += len(names) - len(kept)
        return kept

    def without_other_names(self, directory: bytes, paths: list[bytes]) -> list[bytes]:
        """Return the paths below a directory that are no hard links to credentials, as far as those have been met."""
        if not self._linked:
            return paths
        kept = [path for path in paths if identity_of_linked(directory + path) not in self._linked]
        self.skipped += len(paths) - len(kept)
        return kept

    def readable(self, directory: bytes, paths: list[bytes]) -> list[bytes]:
        """Return the paths below a directory whose contents may be shown: those that are no other names, met or not."""
        kept = [path for path in paths if self._everywhere.judge(directory + path) is None]
        self.skipped += len(paths) - len(kept)
        return kept

    def _sensitive(self, directory: bytes, names: list[bytes]) -> set[bytes]:
        # Only hidden directories (`.docker`, `.config`) make credentials of names that would not be so elsewhere.
        parent = directory[len(self._start) : -1].rpartition(b"/")[2]
        if parent[:1] == b".":
            return {name for name in names if _is_sensitive(parent, name)}
        if self._harmless.issuperset(names):
            return set()
        found = {name for name in names if name not in self._harmless and _is_sensitive(b"", name)}
        self._harmless.update(name for name in names if name not in found)
        return found


@lru_cache(maxsize=32_768)
def _is_sensitive(parent: bytes, name: bytes) -> bool:
    return protected_paths.judge_reading(os.fsdecode(parent + b"/" + name).split("/")) is not None


def _directories_between(boundary: bytes, start: bytes) -> list[bytes]:
    """Return those below `boundary` on the way to `start`, which is the last one."""
    names = start[len(boundary) :].split(b"/")[:-1] if start.startswith(boundary) else []
    return [boundary + b"/".join(names[: index + 1]) + b"/" for index in range(len(names))]
