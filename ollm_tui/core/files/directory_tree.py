"""Whole directory trees by descriptor: listing, copying and removing without ever following a link."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from ollm_tui.core.base.abort import AbortSignal

DEEPEST = 400
"""Levels of directories gone down; each takes a descriptor."""
MOUNTED = "another file system is mounted there"
_BLOCK = 1 << 20
_OPEN_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True)
class TreeEntry:
    """One entry of a tree; `path` starts with the name of the tree's top."""

    path: str
    status: os.stat_result

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory."""
        return stat.S_ISDIR(self.status.st_mode)

    @property
    def size(self) -> int:
        """Bytes of content; directories have none."""
        return 0 if self.is_directory else self.status.st_size


class TreeError(OSError):
    """An operating-system error in a tree; `path` is below the directory that holds it."""

    def __init__(self, error: OSError, path: str) -> None:
        super().__init__(error.errno or errno.EIO, error.strerror or str(error))
        self.path = path


def list_tree(directory: int, name: str, signal: AbortSignal | None = None) -> Iterator[TreeEntry]:
    """Yield an entry and all below it, sorted, directories first. Raises TreeError; EXDEV for a mount inside."""
    with _at(name):
        status = os.stat(name, dir_fd=directory, follow_symlinks=False)
    yield TreeEntry(name, status)
    if stat.S_ISDIR(status.st_mode):
        yield from _list_below(directory, name, name, status.st_dev, signal, 0)


def copy_tree(source_directory: int, source: str, directory: int, name: str, signal: AbortSignal) -> None:
    """Copy an entry with all below it onto the disk, to a free `name`. Raises TreeError and OperationCancelled."""
    signal.throw_if_aborted()
    with _at(source):
        status = os.stat(source, dir_fd=source_directory, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(os.readlink(source, dir_fd=source_directory), name, dir_fd=directory)
        elif stat.S_ISREG(status.st_mode):
            _copy_file(source_directory, source, directory, name, status, signal)
        elif stat.S_ISDIR(status.st_mode):
            _copy_directory(source_directory, source, directory, name, status, signal)
        elif stat.S_ISFIFO(status.st_mode):
            os.mkfifo(name, stat.S_IMODE(status.st_mode), dir_fd=directory)
        else:
            raise OSError(errno.EINVAL, "a device or socket cannot be copied")
        with suppress(PermissionError):
            os.chown(name, status.st_uid, status.st_gid, dir_fd=directory, follow_symlinks=False)
        if not stat.S_ISLNK(status.st_mode):
            os.chmod(name, stat.S_IMODE(status.st_mode), dir_fd=directory)
        times = (status.st_atime_ns, status.st_mtime_ns)
        os.utime(name, ns=times, dir_fd=directory, follow_symlinks=False)


def remove_tree(directory: int, name: str) -> list[TreeError]:
    """Remove an entry with all below it; goes on after failures and returns them."""
    failures: list[TreeError] = []
    try:
        with _at(name):
            status = os.stat(name, dir_fd=directory, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                os.unlink(name, dir_fd=directory)
                return failures
            inner = os.open(name, _OPEN_DIRECTORY, dir_fd=directory)
            try:
                for each in sorted(os.listdir(inner)):
                    failures += [_inside(name, failure) for failure in remove_tree(inner, each)]
            finally:
                os.close(inner)
            if not failures:
                os.rmdir(name, dir_fd=directory)
    except TreeError as failure:
        failures.append(failure)
    return failures


def _list_below(
    directory: int, name: str, path: str, device: int, signal: AbortSignal | None, depth: int
) -> Iterator[TreeEntry]:
    if signal is not None:
        signal.throw_if_aborted()
    with _at(path):
        if depth >= DEEPEST:
            raise OSError(errno.ELOOP, f"more than {DEEPEST} levels of directories")
        inner = os.open(name, _OPEN_DIRECTORY, dir_fd=directory)
    try:
        with _at(path), os.scandir(inner) as scanned:
            entries = sorted(scanned, key=lambda entry: entry.name)
        for entry in entries:
            below = f"{path}/{entry.name}"
            try:
                status = entry.stat(follow_symlinks=False)
            except OSError as error:
                raise TreeError(error, below) from None
            yield TreeEntry(below, status)
            if stat.S_ISDIR(status.st_mode):
                # Of directories only: layered file systems report other devices for some of their files.
                if status.st_dev != device:
                    raise TreeError(OSError(errno.EXDEV, MOUNTED), below)
                yield from _list_below(inner, entry.name, below, device, signal, depth + 1)
    finally:
        os.close(inner)


def _copy_file(
    source_directory: int, source: str, directory: int, name: str, status: os.stat_result, signal: AbortSignal
) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=source_directory)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        writing = os.open(name, flags, 0o600, dir_fd=directory)
        try:
            while block := os.read(reading, _BLOCK):
                signal.throw_if_aborted()
                view = memoryview(block)
                while view:
                    view = view[os.write(writing, view) :]
            os.fsync(writing)
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _copy_directory(
    source_directory: int, source: str, directory: int, name: str, status: os.stat_result, signal: AbortSignal
) -> None:
    inner_source = os.open(source, _OPEN_DIRECTORY, dir_fd=source_directory)
    try:
        os.mkdir(name, 0o700, dir_fd=directory)
        inner = os.open(name, _OPEN_DIRECTORY, dir_fd=directory)
        try:
            for each in sorted(os.listdir(inner_source)):
                try:
                    copy_tree(inner_source, each, inner, each, signal)
                except TreeError as failure:
                    raise _inside(source, failure) from None
            os.fsync(inner)
        finally:
            os.close(inner)
    finally:
        os.close(inner_source)


def _inside(name: str, failure: TreeError) -> TreeError:
    return TreeError(failure, f"{name}/{failure.path}")


@contextmanager
def _at(place: str) -> Generator[None]:
    try:
        yield
    except TreeError:
        raise
    except OSError as error:
        raise TreeError(error, place) from None
