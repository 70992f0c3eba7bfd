"""How a command ends (contract section 0, "Exit codes")."""

from __future__ import annotations

import os
import sys
from enum import IntEnum


class ExitCode(IntEnum):
    """The process's exit code."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DENIED = 3
    INTERRUPTED = 130


class UsageError(Exception):
    """A command line or configuration that nothing can be done with; said on stderr, nothing on stdout."""


class CommandInterruptedError(Exception):  # not an error: the person asked for it
    """The person stopped the command."""


def let_go_of_stdout() -> None:
    """Whoever read our output has gone: that is their decision, not an error. Nothing is left to flush to."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
