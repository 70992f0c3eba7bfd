"""Finds the command word and hands over; imports what a command needs only when it runs."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from importlib import import_module

from ollm_tui.cli.arguments import split_command
from ollm_tui.cli.exits import CommandInterruptedError, ExitCode, UsageError, let_go_of_stdout

COMMANDS = {
    "run": "run",
    "tool": "tool",
    "policy": "policy_command",
    "doctor": "doctor",
    "config": "config",
    "trust": "trust",
    "trash": "trash",
    "memory": "memory",
    "help": "help_command",
}
"""Command words, and the module of this package that runs each."""


def dispatch(arguments: Sequence[str]) -> int:
    """Run one command to its exit code; what stops it is said on stderr."""
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # What the locale cannot write is no reason to stop. The class is generic in what it wraps; that is not known.
        stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportUnknownMemberType]
    try:
        command, rest = split_command(arguments, tuple(COMMANDS))
        module = import_module(f"ollm_tui.cli.{COMMANDS[command] if command else 'dashboard'}")
        return int(module.run_command(rest))
    except UsageError as error:
        print(f"ollm-tui: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except (KeyboardInterrupt, CommandInterruptedError):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        let_go_of_stdout()
        return ExitCode.DONE
