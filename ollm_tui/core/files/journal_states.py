"""What lies at a path at one moment, as the journal records it: kind, mode, content. Links are never followed."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from ollm_tui.core.fence.openat import O_PATH, open_beneath

MOST_BYTES = 32_000_000
"""Content of a larger file is not kept; such a file is recognised by inode, size and time."""
_BLOCK = 1 << 20


class FileKind(StrEnum):
    """What a path is."""

    ABSENT = "absent"
    FILE = "file"
    DIRECTORY = "directory"
    LINK = "link"
    OTHER = "other"


@dataclass(frozen=True)
class FileState:
    """A path at one moment. `digest` is of the content, or a link's target.

    Of a directory it is the inode where it may go to the trash whole; else any directory counts as the same, as
    whatever lies in it by now moves back with it.
    """

    kind: FileKind = FileKind.ABSENT
    mode: int = 0
    digest: str = ""
    size: int = 0

    def same(self, other: FileState) -> bool:
        """Return whether both are the same but for the permissions."""
        if self.kind is FileKind.DIRECTORY and not (self.digest and other.digest):
            return other.kind is FileKind.DIRECTORY
        return (self.kind, self.digest) == (other.kind, other.digest)


ABSENT = FileState()


class Place(NamedTuple):
    """A path below a directory that no tool can swap; both as the file system has them."""

    root: str
    relative: str

    @property
    def path(self) -> str:
        """The absolute path."""
        return f"{self.root}/{self.relative}"


Signature = tuple[int, int, int, int]
"""Modification time, size, inode, change time: whoever changes a file changes one of them."""


class Sighting(NamedTuple):
    """What was found at a path: its state, the content where it was read, and what identifies the file."""

    state: FileState
    content: bytes | None = None
    signature: Signature | None = None
    device: int = 0


NOTHING = Sighting(ABSENT)


def signature_of(status: os.stat_result) -> Signature:
    """Return what changes with the file."""
    return status.st_mtime_ns, status.st_size, status.st_ino, status.st_ctime_ns


def state_of(status: os.stat_result, digest: str) -> FileState:
    """Return the state of a file or link whose content or target is known from elsewhere."""
    if stat.S_ISLNK(status.st_mode):
        return FileState(FileKind.LINK, 0, digest)
    kind = FileKind.FILE if stat.S_ISREG(status.st_mode) else FileKind.OTHER
    return FileState(kind, stat.S_IMODE(status.st_mode), digest, status.st_size)


def digest_of(content: bytes) -> str:
    """Return the name of a content in the journal."""
    return hashlib.blake2b(content, digest_size=32).hexdigest()


@contextmanager
def opened_parent(place: Place) -> Generator[tuple[int, str]]:
    """Open the directory of a path beneath its root, and give the name in it. Raises OSError."""
    parent, _, name = place.relative.rpartition("/")
    try:
        directory = open_beneath(place.root, parent, os.O_RDONLY | os.O_DIRECTORY)
    except PermissionError:  # it may be entered and written without being readable
        directory = open_beneath(place.root, parent, O_PATH | os.O_DIRECTORY)
    try:
        yield directory, name
    finally:
        os.close(directory)


def look_at(place: Place, *, by_inode: bool = False) -> Sighting:
    """Return what lies there now; a directory is told from others only `by_inode`. Raises OSError."""
    try:
        with opened_parent(place) as (directory, name):
            return look_in(directory, name, by_inode=by_inode)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV):
            return NOTHING  # also behind a part of the path that has become a link: that is another place
        raise


def look_in(directory: int, name: str, *, by_inode: bool = False) -> Sighting:
    """As `look_at`, in an open directory. Raises OSError."""
    status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    mode, size = stat.S_IMODE(status.st_mode), status.st_size
    signature, device = signature_of(status), status.st_dev
    match stat.S_IFMT(status.st_mode):
        case stat.S_IFREG if size > MOST_BYTES:
            digest = f"unread:{status.st_ino}:{size}:{status.st_mtime_ns}"
            return Sighting(FileState(FileKind.FILE, mode, digest, size), None, signature, device)
        case stat.S_IFREG:
            content, signature = _read(directory, name)
            state = FileState(FileKind.FILE, mode, digest_of(content), len(content))
            return Sighting(state, content, signature, device)
        case stat.S_IFLNK:
            target = os.readlink(name, dir_fd=directory)
            return Sighting(FileState(FileKind.LINK, 0, target, 0), None, signature, device)
        case stat.S_IFDIR:
            digest = f"directory {device}:{status.st_ino}" if by_inode else ""
            return Sighting(FileState(FileKind.DIRECTORY, mode, digest), None, signature, device)
        case _:
            return Sighting(FileState(FileKind.OTHER, mode), None, signature, device)


def _read(directory: int, name: str) -> tuple[bytes, Signature]:
    descriptor = os.open(
        name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, dir_fd=directory
    )
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.ENOENT, "another kind of file took its place")
        blocks: list[bytes] = []
        while block := os.read(descriptor, max(_BLOCK, status.st_size + 1)):
            blocks.append(block)
        return blocks[0] if len(blocks) == 1 else b"".join(blocks), signature_of(status)
    finally:
        os.close(descriptor)
