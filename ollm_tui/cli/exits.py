"""How a command ends (contract section 0, "Exit codes")."""

from __future__ import annotations

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


class Interrupted(Exception):  # not an error: the person asked for it
    """The person stopped the command."""
