"""The command line: finds the command word and hands over; imports what a command needs only when it runs."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module

from ollm_tui import __version__
from ollm_tui.cli.exits import ExitCode, Interrupted, UsageError

COMMANDS = {
    "run": "run",
    "tool": "tool",
    "policy": "policy",
    "doctor": "doctor",
    "config": "config",
    "trust": "trust",
    "trash": "trash",
    "memory": "memory",
}
"""Command words and the module of this package that carries each out."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run `ollm-tui`; returns the exit code (contract section 0)."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    if arguments in (["--version"], ["-V"]):
        print(f"ollm-tui {__version__}")
        return ExitCode.DONE
    from ollm_tui.cli.arguments import split_command  # argparse costs more than all of the above

    try:
        command, rest = split_command(arguments, COMMANDS)
        module = import_module(f"ollm_tui.cli.{COMMANDS[command] if command else 'dashboard'}")
        return int(module.run_command(rest))
    except UsageError as error:
        print(f"ollm-tui: {error}", file=sys.stderr)
        return ExitCode.USAGE
    except (KeyboardInterrupt, Interrupted):
        return ExitCode.INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone: that is their decision, not an error. Keep the interpreter from flushing.
        sys.stdout = open("/dev/null", "w")  # noqa: SIM115  # lives until the process ends
        return ExitCode.DONE
