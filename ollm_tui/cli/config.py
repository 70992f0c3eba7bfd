"""`ollm-tui config show | path`: the effective settings, and where the file is."""

from __future__ import annotations

from ollm_tui.cli.arguments import command_parser, options_of, parse
from ollm_tui.cli.exits import ExitCode
from ollm_tui.cli.reporting import sound_configuration
from ollm_tui.config import effective_toml, user_config_path


def run_command(argv: list[str]) -> int:
    parser = command_parser("config", "Look at the settings.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="show|path")
    actions.add_parser("show", help="the effective settings as TOML, each with its source", allow_abbrev=False)
    actions.add_parser("path", help="where your config file is or would be", allow_abbrev=False)
    given = parse(parser, argv)
    options = options_of(given)
    if given.action == "path":
        print(user_config_path(options))
        return ExitCode.DONE
    configuration = sound_configuration(options)
    print(effective_toml(configuration.loaded), end="")
    return ExitCode.DONE
