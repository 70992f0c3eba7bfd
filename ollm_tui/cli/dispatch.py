"""Find a command, run it to its exit code, and repair what the process inherited."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from enum import IntEnum
from importlib import import_module
from types import FrameType

from ollm_tui.cli.arguments import split_command

COMMANDS = {
    "run": "run:run_command",
    "tool": "tool:run_command",
    "policy": "policy:run_command",
    "doctor": "doctor:run_command",
    "config": "config:run_config",
    "trust": "config:run_trust",
    "trash": "data:run_trash",
    "memory": "data:run_memory",
    "help": "help_command:run_command",
}
"""Command words, and the module of this package and its function that run each; imported only when it runs."""


class ExitCode(IntEnum):
    """The process's exit code."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    DENIED = 3
    INTERRUPTED = 130


class UsageError(Exception):
    """A command line or configuration that cannot be used; told on stderr, with nothing on stdout."""


class CommandInterruptedError(Exception):
    """The person stopped the command."""


def dispatch(arguments: Sequence[str]) -> int:
    """Run one command and return its exit code."""
    stdout: object = sys.stdout
    if isinstance(stdout, io.TextIOWrapper):
        # What the locale cannot write is no reason to stop.
        stdout.reconfigure(errors="backslashreplace")  # pyright: ignore[reportUnknownMemberType]  # generic in its buffer
    try:
        command, rest = split_command(arguments, tuple(COMMANDS))
        module, function = (COMMANDS[command] if command else "dashboard:run_command").split(":")
        return int(getattr(import_module(f"ollm_tui.cli.{module}"), function)(rest))
    except UsageError as error:
        print(f"ollm-tui: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except (KeyboardInterrupt, CommandInterruptedError):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        discard_stdout()
        return ExitCode.DONE


def discard_stdout() -> None:
    """Send what is still to be flushed nowhere: the reader has closed its end, which is not an error."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def restore_signals() -> None:
    """Let children have every signal, while what was ignored still does nothing here.

    A child ignores what its parent ignores (POSIX `exec`). Behind `nohup` or the `&` of a script, ctrl+c in the
    terminal pane would end nothing; and where SIGCHLD is ignored, every command seems to exit with 0.
    """
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, _do_nothing)


def replace_closed_streams() -> None:
    """Open the null device where a standard stream is closed, so that no file of ours gets its number."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  # open as long as the process runs


def _do_nothing(_number: int, _frame: FrameType | None) -> None:
    """Unlike SIG_IGN, a handler is not inherited by children."""
