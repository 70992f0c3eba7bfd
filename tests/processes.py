"""The children of a test's process and what they started, looked at while some of them end."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil


def children_that(
    fit: Callable[[str], bool], parent: int | None = None, *, recursive: bool = False
) -> list[psutil.Process]:
    """The children whose command line fits; one that is over already, of whatever test, has none."""
    found: list[psutil.Process] = []
    for child in psutil.Process(parent).children(recursive=recursive):
        with suppress(psutil.NoSuchProcess):  # a zombie is one
            if fit(" ".join(child.cmdline())):
                found.append(child)
    return found


def wait_until_none_runs(command: str, seconds: float = 20.0) -> None:
    """Wait until no process of the machine has this in its command line: what was killed takes a moment to be gone."""
    until = time.monotonic() + seconds
    while running := subprocess.run(["pgrep", "-af", command], capture_output=True, text=True, check=False).stdout:
        assert time.monotonic() < until, f"still there: {running}"
        time.sleep(0.02)


def own_children() -> set[str]:
    """The numbers of this process's children, zombies too; a thread may end while they are read."""
    found: set[str] = set()
    for task in Path("/proc/self/task").iterdir():
        with suppress(OSError):
            found.update((task / "children").read_text().split())
    return found
