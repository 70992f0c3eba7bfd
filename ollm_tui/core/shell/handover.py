"""Handing a job that is left running to a process that goes on reading it (`keeper`)."""

from __future__ import annotations

import errno
import os
import select
import subprocess
import sys
from pathlib import Path

from ollm_tui.core.shell import keeper

PATIENCE = 10.0
"""Seconds that a keeper gets to stand."""


def start_keeper(end: int, log: Path, leader: int, room: int) -> None:
    """Have the output that comes out of `end` appended to `log`, up to `room` bytes, whatever becomes of this process.

    Whoever called this reads `end` no more. Blocks until the keeper stands. Raises OSError where it does not.
    """
    ours, theirs = os.pipe()
    try:
        try:
            process = _start(end, log, leader, room, theirs)
        finally:
            os.close(theirs)
        if not _stands(ours):
            process.kill()
            process.wait()
            os.set_blocking(end, False)
            raise OSError(errno.ECHILD, "the process that would go on reading it could not be started", sys.executable)
        # It is meant to outlive this process; else `subprocess` warns that it does.
        process.returncode = 0
    finally:
        os.close(ours)


def _start(end: int, log: Path, leader: int, room: int, says: int) -> subprocess.Popen[bytes]:
    output = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return subprocess.Popen(
            [sys.executable, "-I", "-S", keeper.__file__, str(leader), str(room)],
            stdin=end,
            stdout=output,
            stderr=says,
            cwd="/",
            # Without the mark of any command: it is none of their processes.
            env={},
            start_new_session=True,
        )
    finally:
        os.close(output)


def _stands(says: int) -> bool:
    waiting = select.poll()
    waiting.register(says, select.POLLIN)
    return bool(waiting.poll(PATIENCE * 1000)) and os.read(says, len(keeper.READY)) == keeper.READY
