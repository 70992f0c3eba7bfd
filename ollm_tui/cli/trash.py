"""`ollm-tui trash list | restore`: what delete_file took, and back with it."""

from __future__ import annotations

from pydantic import JsonValue

from ollm_tui.cli.arguments import command_parser, parse
from ollm_tui.cli.exits import ExitCode
from ollm_tui.cli.output import print_json, say
from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.clock import iso_time
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.escape import visible
from ollm_tui.core.files.trash import Trash


def run_command(argv: list[str]) -> int:
    parser = command_parser("trash", "Deleted files can be restored.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|restore")
    listing = actions.add_parser("list", help="what is there, oldest first", allow_abbrev=False)
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    restore = actions.add_parser("restore", help="put one entry back", allow_abbrev=False)
    restore.add_argument("id", metavar="ID", help="as `trash list` names it")
    given = parse(parser, argv)
    trash = Trash(state_dir())
    try:
        if given.action == "restore":
            say(f"restored: {visible(trash.restore(given.id).path)}")
            return ExitCode.DONE
        for entry in trash.list():
            row: dict[str, JsonValue] = {
                "id": entry.id,
                "path": entry.path,
                "deletedAt": iso_time(entry.deleted_at),
                "size": entry.size,
            }
            if given.json:
                print_json(row)
            else:
                print(f"{entry.id}  {iso_time(entry.deleted_at)}  {entry.size:>10}  {visible(entry.path)}")
    except ToolFailure as failure:
        say(f"{failure.type}: {failure.message}")
        return ExitCode.FAILED
    return ExitCode.DONE
