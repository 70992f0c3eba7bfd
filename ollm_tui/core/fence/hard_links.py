"""Credentials under other names: files with several hard links, compared with the places where credentials are kept.

A hard link has the content of a credential without its name. It is recognised while the credential still has its own
name in a known place: directly in one of the given folders, in a folder of credentials there (`.ssh`), or at one of
the deeper places that `protected` names. What cannot be recognised: links to credentials that lie elsewhere, or that
have lost their own name. Only names and status are asked for, no file is opened.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeAlias

from ollm_tui.core.fence import protected_paths
from ollm_tui.core.fence.protected_paths import Sensitivity

Identity: TypeAlias = tuple[int, int]
"""Device and inode."""

_MOST_ENTRIES = 10_000
"""Entries of one folder that are looked at."""

_DEPTH = 2
"""Levels looked at below a folder of credentials: its files, and those in its folders (`.gnupg/private-keys-v1.d`).
What lies deeper are caches, of which `.kube` keeps thousands."""


def identity_of_linked(path: bytes) -> Identity | None:
    """A file that has more than one name; None for anything else."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISREG(status.st_mode) and status.st_nlink > 1 else None


def linked_credentials(device: int, folders: Iterable[bytes]) -> dict[Identity, Sensitivity]:
    """The credentials kept in these folders (with a slash behind) that have further names on this device, where alone
    links to them can be.
    """
    found: dict[Identity, Sensitivity] = {}
    for folder in dict.fromkeys(folders):
        if _device(folder) != device:
            continue
        for path, sensitivity in _places_in(folder):
            identity = identity_of_linked(path)
            if identity is not None:
                found.setdefault(identity, sensitivity)
    return found


def home_folder() -> bytes:
    """Where most credentials of a person lie; ends with a slash."""
    return os.path.join(os.path.expanduser(b"~"), b"")


def _places_in(folder: bytes) -> Iterator[tuple[bytes, Sensitivity]]:
    for entry in _entries(folder):
        sensitivity = protected_paths.judge_reading([os.fsdecode(entry.name)])
        if sensitivity is not None:
            yield from ((path, sensitivity) for path in _files_at(entry.path, _DEPTH))
    for place in protected_paths.DEEPER_CREDENTIALS:
        yield from ((path, protected_paths.CREDENTIALS) for path in _files_at(folder + os.fsencode(place), _DEPTH))


def _files_at(path: bytes, depth: int) -> Iterator[bytes]:
    """The file itself, or those in a folder."""
    yield path
    if depth and os.path.isdir(path) and not os.path.islink(path):
        for entry in _entries(path):
            yield from _files_at(entry.path, depth - 1)


def _entries(folder: bytes) -> list[os.DirEntry[bytes]]:
    try:
        with os.scandir(folder) as entries:
            return list(islice(entries, _MOST_ENTRIES))
    except OSError:
        return []


def _device(folder: bytes) -> int | None:
    try:
        return os.stat(folder).st_dev
    except OSError:
        return None
