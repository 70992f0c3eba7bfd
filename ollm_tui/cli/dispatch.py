"""Finds the command word and hands over; imports what a command needs only when it runs."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module

from ollm_tui.cli.arguments import split_command
from ollm_tui.cli.exits import ExitCode, Interrupted, UsageError

COMMANDS = ("run", "tool", "policy", "doctor", "config", "trust", "trash", "memory")
"""Command words; a module of this package of the same name carries each out."""


def dispatch(arguments: Sequence[str]) -> int:
    """Run one command to its exit code; what stops it is said on stderr."""
    try:
        command, rest = split_command(arguments, COMMANDS)
        module = import_module(f"ollm_tui.cli.{command or 'dashboard'}")
        return int(module.run_command(rest))
    except UsageError as error:
        print(f"ollm-tui: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except (KeyboardInterrupt, Interrupted):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone: that is their decision, not an error. Nothing is left to flush to.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
