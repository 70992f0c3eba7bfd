"""Landlock: file access, TCP, signals and abstract sockets of a thread and all it starts (Linux 5.13).

Numbers and structures are those of `linux/landlock.h`.
"""

from __future__ import annotations

import os
import stat
import struct
import time
from collections.abc import Callable, Iterable
from enum import IntFlag
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION = 1
_PATH_BENEATH = 1
_SET_NO_NEW_PRIVILEGES = 38
_TCP = 0b11
_SCOPES, _SIGNALS = 0b11, 0b10
"""Abstract sockets and signals stay within the domain."""
_UNLOGGED = 1
"""What the thread itself is refused is no news for the system's log (version 7)."""


class FileRights(IntFlag):
    """What may be done beneath a path."""

    EXECUTE = 1 << 0
    WRITE_FILE = 1 << 1
    READ_FILE = 1 << 2
    READ_DIR = 1 << 3
    CHANGE_DIR = 0b1_1111_1111 << 4
    """Make and remove entries of every kind."""
    REFER = 1 << 13
    TRUNCATE = 1 << 14
    IOCTL_DEVICE = 1 << 15

    READ = EXECUTE | READ_FILE | READ_DIR
    ALL = (1 << 16) - 1


_OF_FILES = int(
    FileRights.EXECUTE | FileRights.WRITE_FILE | FileRights.READ_FILE | FileRights.TRUNCATE | FileRights.IOCTL_DEVICE
)
"""What a rule about something that is no directory may grant; the kernel refuses more."""


CHECK_SECONDS = 1.0
"""Within this time what lies in the system's directories is taken to be the same."""


class LandlockError(OSError):
    """The kernel refused a step; nothing may be started in this thread."""


@lru_cache(maxsize=1)
def abi() -> int:
    """Return the version that the kernel has, 0 without landlock."""
    return max(0, _syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))


class Ruleset:
    """What threads may use that restrict themselves by it; making one costs as much as starting a program.

    A rule is about what lies at a path when the rule is made. Paths that do not exist are left out.
    """

    def __init__(self, paths: Iterable[tuple[str, FileRights]]) -> None:
        """Make it of accesses by path. Raises LandlockError."""
        version = abi()
        self._handled = int(_handled(version))
        # Each version takes what it knows of: file accesses, then TCP (4), then scopes (6).
        fields = [self._handled, *([_TCP] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
        attributes = struct.pack(f"{len(fields)}Q", *fields)
        self._descriptor = _checked(_CREATE_RULESET, attributes, len(attributes), 0)
        self._seen: dict[str, tuple[int, int] | None] = {}
        self.restrictions = 0
        """How many threads it has restricted; what they were granted besides is kept until it is closed."""
        try:
            for path, access in paths:
                self._seen[path] = self.grant(path, access)
        except OSError:
            self.close()
            raise
        self._checked_at = time.monotonic()

    def grant(self, path: str, access: FileRights) -> tuple[int, int] | None:
        """Add an access; return what lies at the path. Raises LandlockError."""
        try:
            descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except (FileNotFoundError, NotADirectoryError, PermissionError):
            return None
        try:
            status = os.fstat(descriptor)
            allowed = int(access) & self._handled
            if not stat.S_ISDIR(status.st_mode):
                allowed &= _OF_FILES
            if _fast_syscall()(_ADD_RULE, self._descriptor, _PATH_BENEATH, struct.pack("=Qi", allowed, descriptor), 0):
                raise _error(f"landlock ({_ADD_RULE})")
        finally:
            os.close(descriptor)
        return status.st_dev, status.st_ino

    def is_current(self, watched: Iterable[str]) -> bool:
        """Return whether the same things lie at the watched paths, and at all where that is long known."""
        now = time.monotonic()
        if now - self._checked_at > CHECK_SECONDS:
            watched, self._checked_at = self._seen, now
        return all(_identity(path) == self._seen[path] for path in watched)

    def restrict_thread(self) -> None:
        """Restrict the calling thread, and whatever it starts, for good.

        Raises:
            LandlockError: The thread may be restricted in part or not at all.
        """
        self.restrictions += 1
        _restrict_thread(self._descriptor)

    def close(self) -> None:
        """Forget it; threads stay restricted. A second time does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def keep_signals_in_thread() -> None:
    """Let the calling thread, and whatever it starts, send signals to each other only (version 6).

    Raises:
        LandlockError: The kernel refused it.
    """
    attributes = struct.pack("3Q", 0, 0, _SIGNALS)
    descriptor = _checked(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        _restrict_thread(descriptor)
    finally:
        os.close(descriptor)


def _restrict_thread(descriptor: int) -> None:
    if _libc().prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        raise _error("prctl")
    _checked(_RESTRICT_SELF, descriptor, _UNLOGGED if abi() >= 7 else 0)


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _handled(version: int) -> FileRights:
    """Return the accesses that this version of landlock can refuse."""
    newer = {2: FileRights.REFER, 3: FileRights.TRUNCATE, 5: FileRights.IOCTL_DEVICE}
    handled = FileRights.ALL
    for since, access in newer.items():
        if version < since:
            handled &= ~access
    return handled


def _checked(number: int, *arguments: bytes | int | None) -> int:
    result = _syscall(number, *arguments)
    if result < 0:
        raise _error(f"landlock ({number})")
    return result


def _error(step: str) -> LandlockError:
    import ctypes

    number = ctypes.get_errno()
    return LandlockError(number, f"{step}: {os.strerror(number)}")


def _syscall(number: int, *arguments: bytes | int | None) -> int:
    import ctypes

    # Every argument of a system call is as wide as a pointer; ctypes would pass an int as 32 bits.
    wide = [ctypes.c_long(one) if isinstance(one, int) else one for one in arguments]
    return int(_libc().syscall(ctypes.c_long(number), *wide))


@lru_cache(maxsize=1)
def _fast_syscall() -> Callable[[int, int, int, bytes, int], int]:
    """Return `syscall` for the call that is made for every path: known types are converted in half the time."""
    import ctypes

    syscall = ctypes.CDLL(None, use_errno=True).syscall
    syscall.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_long, ctypes.c_char_p, ctypes.c_long)
    syscall.restype = ctypes.c_long
    return syscall


@lru_cache(maxsize=1)
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
