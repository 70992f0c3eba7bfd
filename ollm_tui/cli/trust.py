"""`ollm-tui trust [DIR]`: let a folder's own config file count, as it is now."""

from __future__ import annotations

from pathlib import Path

from ollm_tui.cli.arguments import command_parser, parse
from ollm_tui.cli.exits import ExitCode, UsageError
from ollm_tui.cli.output import say
from ollm_tui.core.policy.repository_trust import REPOSITORY_CONFIG, TrustState, TrustStore


def run_command(argv: list[str]) -> int:
    parser = command_parser("trust", "Let a folder's .ollm/config.toml count, as it is now. It can only tighten.")
    parser.add_argument("directory", nargs="?", type=Path, metavar="DIR", help="the folder; else the workspace")
    given = parse(parser, argv)
    folder = (given.directory or given.workspace or Path.cwd()).resolve()
    if not folder.is_dir():
        raise UsageError(f"{folder} is no folder.")
    try:
        state = TrustStore.of_user().trust(folder)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    if state is TrustState.NO_FILE:
        say(f"{folder} has no {REPOSITORY_CONFIG}: there is nothing to trust.")
        return ExitCode.FAILED
    say(f"trusted: {folder / REPOSITORY_CONFIG}. When it changes, it counts again only after another trust.")
    return ExitCode.DONE
