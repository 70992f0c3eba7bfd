"""Landlock: file access, TCP, signals and abstract sockets of a thread and all it starts (Linux 5.13).

Numbers and structures are those of `linux/landlock.h`.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
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
_SCOPES = 0b11
"""Abstract sockets and signals stay within the domain."""


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


_OF_FILES = (
    FileRights.EXECUTE | FileRights.WRITE_FILE | FileRights.READ_FILE | FileRights.TRUNCATE | FileRights.IOCTL_DEVICE
)
"""What a rule about something that is no directory may grant; the kernel refuses more."""


class LandlockError(OSError):
    """The kernel refused a step; nothing may be started in this thread."""


@lru_cache(maxsize=1)
def abi() -> int:
    """Return the version that the kernel has, 0 without landlock."""
    return max(0, _syscall(_CREATE_RULESET, None, 0, _ASK_VERSION))


def restrict_thread(paths: Iterable[tuple[str, FileRights]]) -> None:
    """Restrict the calling thread, and whatever it starts, to these accesses for good.

    Args:
        paths: Accesses by path; one that does not exist is left out.

    Raises:
        LandlockError: The thread may be restricted in part or not at all.
    """
    version = abi()
    handled = _handled(version)
    # Each version takes what it knows of: file accesses, then TCP (4), then scopes (6).
    fields = [handled, *([_TCP] if version >= 4 else []), *([_SCOPES] if version >= 6 else [])]
    attributes = struct.pack(f"{len(fields)}Q", *fields)
    ruleset = _checked(_CREATE_RULESET, attributes, len(attributes), 0)
    try:
        for path, access in paths:
            with suppress(FileNotFoundError, NotADirectoryError, PermissionError):
                descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
                try:
                    _grant(ruleset, descriptor, access & handled)
                finally:
                    os.close(descriptor)
        if _libc().prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
            raise _error("prctl")
        _checked(_RESTRICT_SELF, ruleset, 0)
    finally:
        os.close(ruleset)


def _handled(version: int) -> FileRights:
    """Return the accesses that this version of landlock can refuse."""
    newer = {2: FileRights.REFER, 3: FileRights.TRUNCATE, 5: FileRights.IOCTL_DEVICE}
    handled = FileRights.ALL
    for since, access in newer.items():
        if version < since:
            handled &= ~access
    return handled


def _grant(ruleset: int, descriptor: int, access: FileRights) -> None:
    if access & ~_OF_FILES and not stat.S_ISDIR(os.fstat(descriptor).st_mode):
        access &= _OF_FILES
    if _fast_syscall()(_ADD_RULE, ruleset, _PATH_BENEATH, struct.pack("=Qi", access, descriptor), 0) < 0:
        raise _error(f"landlock ({_ADD_RULE})")


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
