"""`ollm-tui undo list | show | apply`: what calls changed in a workspace, and the way back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, options_of, parse
from ollm_tui.cli.streams import print_json, say
from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.errors import InvalidArguments, ToolFailure
from ollm_tui.core.base.escape import visible, visible_block
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.files.journal import Entry, undone
from ollm_tui.core.files.journal_text import (
    changes_since,
    diff_of,
    line_of,
    path_of,
    status_of,
    summary_of,
    title_of,
    verb_of,
)
from ollm_tui.core.files.journal_undo import Outcome, Step, Undo, open_undo


def run_command(argv: list[str]) -> int:
    """List what can be undone, show it, or undo it."""
    parser = command_parser("undo", "Take back what calls changed in the workspace.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|apply")
    what = "an entry as `undo list` names it, a call, a turn, or a path"
    listing = actions.add_parser("list", help="what was changed, oldest first", allow_abbrev=False)
    show = actions.add_parser("show", help="what it changed, and what undoing it would do", allow_abbrev=False)
    apply = actions.add_parser("apply", help="undo it", allow_abbrev=False)
    for action in (show, apply):
        action.add_argument("id", metavar="ID", help=what)
    apply.add_argument("--dry-run", action="store_true", help="only say what would be done")
    for action in (listing, show, apply):
        action.add_argument("--json", action="store_true", help="JSON on stdout")
    given = parse(parser, argv)
    try:
        root = Workspace(options_of(given).workspace or Path.cwd()).root
    except ToolFailure as failure:
        raise UsageError(f"{failure.message} Name an existing folder with -C.") from None
    undo = open_undo(state_dir(), root)
    try:
        if undo.finish_interrupted():
            say("an undo that was cut short was finished; it is the last entry but one, or the last")
        match given.action:
            case "list":
                return _list(undo, as_json=given.json)
            case "show":
                return _show(undo, given.id, as_json=given.json)
            case _:
                return _apply(undo, given.id, dry_run=given.dry_run, as_json=given.json)
    except InvalidArguments as failure:
        raise UsageError(failure.message) from None
    except ToolFailure as failure:
        say(f"{failure.type}: {failure.message}")
        return ExitCode.FAILED
    finally:
        undo.journal.store.close()


def _list(undo: Undo, *, as_json: bool) -> int:
    entries = undo.journal.entries()
    taken = undone(entries)
    for entry in entries:
        if as_json:
            print_json(_entry_json(undo, entry, taken))
            continue
        status = status_of(entry, taken)
        count = len(entry.changes)
        paths = f"{count} path{'s' if count != 1 else ''}"
        state = f"  [{status}]" if status else ""
        print(f"{entry.name:<5} {entry.at}  {entry.turn or '-':<8} {paths:>9}  {visible(entry.title)}{state}")
    return ExitCode.DONE


def _show(undo: Undo, wanted: str, *, as_json: bool) -> int:
    for step in reversed(undo.find(wanted)):
        since = changes_since(undo.journal, step.change) if step.outcome is Outcome.CHANGED else ""
        diff = diff_of(undo.journal, step.change)
        if as_json:
            print_json({**_step_json(undo, step), "diff": diff, **({"since": since} if since else {})})
            continue
        why = f": {step.why}" if step.why else ""
        print(f"{step.entry.name} {line_of(undo.journal, step.change)}  [{step.outcome}{why}]")
        print(visible_block(diff))
        if since:
            print(f"after that:\n{visible_block(since)}")
    return ExitCode.DONE


def _apply(undo: Undo, wanted: str, *, dry_run: bool, as_json: bool) -> int:
    steps = undo.find(wanted)
    entry: Entry | None = None
    if not dry_run and any(step.outcome is Outcome.UNDO for step in steps):
        entry, steps = undo.apply(steps, title_of(steps))
    if as_json:
        rows: list[JsonValue] = [_step_json(undo, step) for step in steps]
        print_json({"id": entry.name if entry else None, "dryRun": dry_run, "steps": rows})
    else:
        for step in steps:
            why = f": {step.why}" if step.why else ""
            print(f"{step.entry.name} {step.outcome}{why}: {line_of(undo.journal, step.change)}")
        again = f". Take it back with: ollm-tui undo apply {entry.name}" if entry else ""
        say(f"{summary_of(steps, ahead=dry_run)}{again}")
    return ExitCode.DONE if _all_back(steps) else ExitCode.FAILED


def _all_back(steps: Sequence[Step]) -> bool:
    return all(step.outcome in (Outcome.UNDO, Outcome.DONE) for step in steps)


def _entry_json(undo: Undo, entry: Entry, taken: frozenset[tuple[int, int]]) -> JsonObject:
    changes: list[JsonValue] = []
    for number, change in enumerate(entry.changes):
        row: JsonObject = {
            "path": path_of(undo.journal, change.place),
            "change": verb_of(change),
            "undone": (entry.id, number) in taken,
        }
        if change.origin is not None:
            row["from"] = path_of(undo.journal, change.origin)
        if change.reason:
            row["cannotBeUndone"] = change.reason
        changes.append(row)
    return {
        "id": entry.name,
        "at": entry.at,
        "call": entry.call,
        "turn": entry.turn,
        "tool": entry.tool,
        "title": entry.title,
        "status": status_of(entry, taken),
        "note": entry.note,
        "changes": changes,
    }


def _step_json(undo: Undo, step: Step) -> JsonObject:
    row: JsonObject = {
        "entry": step.entry.name,
        "path": path_of(undo.journal, step.change.place),
        "change": verb_of(step.change),
        "outcome": step.outcome.value,
    }
    return {**row, "why": step.why} if step.why else row
