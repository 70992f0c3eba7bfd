"""System calls that Python has no function for; `ctypes` is loaded with the first of them, since a start makes none."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import ctypes


def system_call(number: int, *arguments: int | bytes) -> tuple[int, int]:
    """Return what the kernel returned (-1 on failure), and the `errno` of it."""
    import ctypes

    returned = int(_libc().syscall(number, *arguments))
    return returned, ctypes.get_errno()


@cache
def _libc() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)
