"""`ollm-tui models list`: the models of all servers that can be reached."""

from __future__ import annotations

import asyncio
import sys

from ollm_tui.cli.command_line import ExitCode, command_parser, options_of, parse, provider_parser
from ollm_tui.cli.streams import print_json, valid_configuration


def run_command(argv: list[str]) -> int:
    """Print a line or a JSON object for each model; exit 1 where no server answers."""
    from ollm_tui.runtime.models import offered_models

    parser = command_parser("models", "The models of the servers that can be reached.", provider_parser())
    actions = parser.add_subparsers(dest="action", required=True, metavar="list")
    listing = actions.add_parser("list", help="name, size, window, abilities, server", allow_abbrev=False)
    listing.add_argument("--json", action="store_true", help="a JSON object for each")
    given = parse(parser, argv)
    models = asyncio.run(offered_models(valid_configuration(options_of(given)).settings))
    for model in models:
        if given.json:
            print_json(
                {
                    "name": model.info.name,
                    "server": model.server.base_url,
                    "kind": model.server.kind.value,
                    "size": model.info.size,
                    "contextWindow": model.info.context_window,
                    "callsTools": model.calls_tools,
                    "loaded": model.loaded,
                }
            )
        else:
            print(model)
    if not models:
        print("No model server answers. Start one (`ollama serve`), or set base_url.", file=sys.stderr)
    return ExitCode.DONE if models else ExitCode.FAILED
