"""`ollm-tui memory list`: what later sessions are told."""

from __future__ import annotations

from pathlib import Path

from ollm_tui.cli.arguments import command_parser, options_of, parse
from ollm_tui.cli.exits import ExitCode, UsageError
from ollm_tui.cli.output import print_json, say
from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.memory import Memory
from ollm_tui.core.storage.store import Store


def run_command(argv: list[str]) -> int:
    parser = command_parser("memory", "What the agent remembers.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list")
    actions.add_parser("list", help="one JSON object a line: key, value, scope, changedAt", allow_abbrev=False)
    options = options_of(parse(parser, argv))
    try:
        workspace = Workspace(options.workspace or Path.cwd())
    except ToolFailure as failure:
        raise UsageError(f"{failure.message} Name an existing folder with -C.") from None
    store = Store(data_dir() / "ollm.db")
    try:
        for entry in Memory(store, workspace.root).entries():
            shown: JsonObject = {"key": entry.key, "value": entry.value, "scope": entry.scope.value}
            print_json({**shown, "changedAt": entry.changed_at})
    except ToolFailure as failure:
        say(f"{failure.type}: {failure.message}")
        return ExitCode.FAILED
    finally:
        store.close()
    return ExitCode.DONE
