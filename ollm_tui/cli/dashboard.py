"""`ollm-tui [PROMPT]`: the dashboard."""

from __future__ import annotations

import argparse
import sys

from ollm_tui import __version__
from ollm_tui.cli.arguments import command_parser, options_of, parse, provider_parser
from ollm_tui.cli.dispatch import UsageError

COMMANDS_HELP = "Further commands: run, tool, policy, doctor, config, trust, trash, memory, help; each takes --help."


def run_command(argv: list[str]) -> int:
    """Open the dashboard, which needs a terminal."""
    parser = command_parser("", "Supervise a local agent from one screen.", provider_parser())
    parser.epilog = COMMANDS_HELP
    parser.add_argument("prompt", nargs="?", metavar="PROMPT", help="a first message; -- before one that is a command")
    parser.add_argument("--version", action="version", version=f"ollm-tui {__version__}")
    parser.add_argument("--theme", metavar="NAME", help="colours")
    parser.add_argument("--no-mouse", dest="mouse", action="store_const", const=False, help="leave the mouse alone")
    parser.add_argument("--reduced-motion", action="store_const", const=True, help="no animation")
    given: argparse.Namespace = parse(parser, argv)
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):  # Textual draws on stderr
        raise UsageError(
            "the dashboard needs a terminal on stdin, stdout and stderr. Without one, use: ollm-tui run PROMPT"
        )
    from ollm_tui.tui.start import run_dashboard

    return run_dashboard(options_of(given))
