"""Running our own Python code in a child process that can be killed."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
import sys
from collections.abc import Collection, Sequence

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.fence.secrets import cleaned

MAX_TOLD = 200
"""Characters of a failure's last line."""


class ChildRunError(Exception):
    """A child that ended badly; the text is the last line of what it said about that."""


async def run_python(
    arguments: Sequence[str], given: bytes, signal: AbortSignal, *, passed: Collection[str] = ()
) -> bytes:
    """Return what a program writes when it reads `given`; kill its processes when aborted.

    It imports nothing from the folder we are in (that is the workspace, and not trusted), and of the environment it
    sees what commands see, and the variables in `passed`. Raises ChildRunError, OperationCancelled.
    """
    environment = cleaned(os.environ) | {name: os.environ[name] for name in passed if name in os.environ}
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd="/",
        env=environment,
        start_new_session=True,
    )
    try:
        written, complaint = await signal.guard(child.communicate(given))
    finally:
        if child.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signals.SIGKILL)
            await child.wait()
    if child.returncode != 0:
        last = complaint.decode("utf-8", "replace").strip().rsplit("\n", 1)[-1][-MAX_TOLD:]
        raise ChildRunError(last or f"it ended with {child.returncode}")
    return written
