"""Opening what lies beneath a directory, and nothing else: by `openat2`, else component by component without links.

A path that is checked and then opened by name can be swapped in between (measured: 538 leaks in 3 s of a swap race).
Here the kernel checks while it opens, or every component is opened from the one before and never through a link.
"""

from __future__ import annotations

import errno
import os
import platform
import stat
import struct
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes


MOST_LINKS = 40
"""Links followed in one path before it counts as a loop, as in Linux."""

O_PATH = getattr(os, "O_PATH", os.O_RDONLY)
_OPENAT2 = 437
_NO_SYMLINKS, _NO_MAGICLINKS, _BENEATH = 0x04, 0x02, 0x08
_ATTEMPTS = 5


@dataclass(frozen=True)
class Resolution:
    """Where a path leads when every link in it is followed as the kernel would."""

    real: str
    """Absolute and free of links (but for the last name where that was not to be followed)."""
    status: os.stat_result | None
    """What lies there; None where nothing does, or where it could not be seen."""
    problem: OSError | None
    """Why the kernel would refuse this path, beyond its end not existing."""


def resolve_links(start: str, path: str, *, follow_last: bool = True) -> Resolution:
    """Follow `path` from the directory `start`; what cannot be read counts by its text. Never raises OSError."""
    current = "/" if path.startswith("/") else start
    pending = path.split("/")[::-1]
    links = 0
    unseen = 0  # how many of the last components could not be looked at
    problem: OSError | None = None
    while pending:
        name = pending.pop()
        if name in ("", "."):
            continue
        if name == "..":
            if unseen:
                problem = problem or _os_error(errno.ENOENT)
                unseen -= 1
            elif not os.path.isdir(current):
                problem = problem or _os_error(errno.ENOTDIR)
            current = os.path.dirname(current)
            continue
        entry = f"{current.rstrip('/')}/{name}"
        target, failure = (None, None) if unseen else _read_link(entry)
        if failure is not None and failure.errno != errno.ENOENT:
            problem = problem or failure
        if target is not None and (follow_last or any(pending)):
            links += 1
            if links > MOST_LINKS:
                return Resolution(entry, None, problem or _os_error(errno.ELOOP))
            if target.startswith("/"):
                current = "/"
            pending += target.split("/")[::-1]
            continue
        unseen += bool(unseen or failure)
        current = entry
    status = None if unseen else _status(current)
    if _means_directory(path) and follow_last and status is not None and not stat.S_ISDIR(status.st_mode):
        problem = problem or _os_error(errno.ENOTDIR)
    return Resolution(current, status, problem)


def open_beneath(root: str, relative: str, flags: int) -> int:
    """Open `relative` beneath `root`. Raises OSError: ELOOP or EXDEV where something in the path became a link."""
    directory = os.open(root, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return open_from(directory, relative, flags)
    finally:
        os.close(directory)


def open_from(directory: int, relative: str, flags: int) -> int:
    """As `open_beneath`, for a directory that is open already."""
    flags |= os.O_CLOEXEC | os.O_NOFOLLOW
    if relative in ("", "."):
        return os.open(".", flags & ~os.O_NOFOLLOW, dir_fd=directory)
    opened = _openat2(directory, relative, flags)
    return _walk(directory, relative.split("/"), flags) if opened is None else opened


def make_directories(root: str, relative: str) -> list[str]:
    """Create what is missing of `relative` beneath `root`; return it, outermost first. Raises OSError, undone."""
    made: list[str] = []
    directory = os.open(root, O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        so_far: list[str] = []
        for name in filter(None, relative.split("/")):
            so_far.append(name)
            try:
                os.mkdir(name, dir_fd=directory)
                made.append("/".join(so_far))
            except FileExistsError:
                pass  # the usual case, also when somebody else was faster
            deeper = os.open(name, O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=directory)
            os.close(directory)
            directory = deeper
    except OSError:
        remove_directories(root, made)
        raise
    finally:
        os.close(directory)
    return made


def remove_directories(root: str, made: Sequence[str]) -> None:
    """Take back what `make_directories` made, as far as it is still empty."""
    for relative in reversed(made):
        parent, _, name = relative.rpartition("/")
        try:
            directory = open_beneath(root, parent, O_PATH | os.O_DIRECTORY)
        except OSError:
            return
        try:
            os.rmdir(name, dir_fd=directory)
        except OSError:
            return  # in use by now: then it is not ours to remove
        finally:
            os.close(directory)


def openat2_works() -> bool:
    """Return whether this system has `openat2`; without it the walk is used."""
    return _openat2_number() is not None


class _Unsupported:
    """Remembers that the kernel has no `openat2`, so that it is asked once only."""

    found = False


def _openat2_number() -> int | None:
    if sys.platform != "linux" or _Unsupported.found or platform.machine() == "alpha":
        return None
    return _OPENAT2


def _openat2(directory: int, relative: str, flags: int) -> int | None:
    """None where the system does not offer the call: old kernels say ENOSYS, some containers' filters EPERM."""
    number = _openat2_number()
    if number is None:
        return None
    how = struct.pack("QQQ", flags, 0, _NO_SYMLINKS | _NO_MAGICLINKS | _BENEATH)
    path = os.fsencode(relative)
    code = 0
    for _ in range(_ATTEMPTS):
        opened, code = system_call(number, directory, path, how, len(how))
        if opened >= 0:
            return opened
        if code == errno.ENOSYS:
            _Unsupported.found = True
            return None
        if code == errno.EPERM:
            return None
        if code not in (errno.EAGAIN, errno.EINTR):
            break
    raise _os_error(code)


def _walk(directory: int, names: Sequence[str], flags: int) -> int:
    held = os.dup(directory)
    try:
        for name in names[:-1]:
            _refuse_parent(name)
            deeper = os.open(name, O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=held)
            os.close(held)
            held = deeper
        _refuse_parent(names[-1])
        return os.open(names[-1], flags, dir_fd=held)
    finally:
        os.close(held)


def _refuse_parent(name: str) -> None:
    if name == "..":
        raise _os_error(errno.EXDEV)


def _read_link(entry: str) -> tuple[str | None, OSError | None]:
    """Return what the link says (None where it is none), and why it could not be looked at."""
    try:
        return os.readlink(entry), None
    except OSError as error:
        return (None, None) if error.errno == errno.EINVAL else (None, error)


def _status(path: str) -> os.stat_result | None:
    try:
        return os.lstat(path)
    except OSError:
        return None


def _means_directory(path: str) -> bool:
    return path.endswith(("/", "/."))


def _os_error(code: int) -> OSError:
    return OSError(code, os.strerror(code))


def system_call(number: int, *arguments: int | bytes) -> tuple[int, int]:
    """Return what the kernel returned (-1 on failure), and the `errno` of it."""
    import ctypes

    returned = int(_libc().syscall(number, *arguments))
    return returned, ctypes.get_errno()


@cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
