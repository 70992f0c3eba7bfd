"""`ollm-tui memory list` and `ollm-tui trash list | restore`: what is kept on disk."""

from __future__ import annotations

from pathlib import Path

from pydantic import JsonValue

from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, options_of, parse
from ollm_tui.cli.streams import print_json, say, say_notice
from ollm_tui.core.base.app_dirs import data_dir, state_dir
from ollm_tui.core.base.clock import iso_time
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.escape import visible


def run_memory(argv: list[str]) -> int:
    """Print what the agent remembers in this workspace."""
    from ollm_tui.core.fence.workspace import Workspace
    from ollm_tui.core.memory import Memory
    from ollm_tui.core.storage.store import Store

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
        say_notice(store)
        for entry in Memory(store, workspace.root).entries():
            print_json(
                {
                    "key": entry.key,
                    "value": entry.value,
                    "scope": entry.scope.value,
                    "changedAt": entry.changed_at,
                }
            )
    except ToolFailure as failure:
        say(f"{failure.type}: {failure.message}")
        return ExitCode.FAILED
    finally:
        store.close()
    return ExitCode.DONE


def run_trash(argv: list[str]) -> int:
    """List what delete_file took, or restore one entry."""
    from ollm_tui.core.files.trash import Trash

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
            deleted_at = iso_time(entry.deleted_at)
            row: dict[str, JsonValue] = {
                "id": entry.id,
                "path": entry.path,
                "deletedAt": deleted_at,
                "size": entry.size,
            }
            if given.json:
                print_json(row)
            else:
                print(f"{entry.id}  {deleted_at}  {entry.size:>10}  {visible(entry.path)}")
    except ToolFailure as failure:
        say(f"{failure.type}: {failure.message}")
        return ExitCode.FAILED
    return ExitCode.DONE
