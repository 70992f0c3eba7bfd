"""`ollm-tui sessions list | show | search | export | delete`: the conversations that are kept on disk."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from pathlib import Path

from ollm_tui.agent.session.catalogue import (
    SessionNotFoundError,
    StoredSession,
    delete_session,
    find_session,
    list_sessions,
    search_sessions,
)
from ollm_tui.agent.session.export import json_lines, markdown
from ollm_tui.agent.session.log import SessionInUseError, for_the_owner_alone, sessions_folder
from ollm_tui.agent.session.reading import read_log
from ollm_tui.agent.session.recording import cast_of
from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, parse
from ollm_tui.cli.streams import print_json, say
from ollm_tui.core.base.clock import iso_time
from ollm_tui.core.base.escape import visible
from ollm_tui.core.base.results import JsonObject

FORMATS = ("md", "jsonl", "cast")


def run_command(argv: list[str]) -> int:
    """Run one of the commands about sessions."""
    given = parse(_parser(), argv)
    try:
        return _ACTIONS[given.action](given)
    except SessionNotFoundError as error:
        raise UsageError(str(error)) from None
    except BrokenPipeError:
        raise  # whoever reads has seen enough
    except (SessionInUseError, OSError) as error:
        say(f"{error}")
        return ExitCode.FAILED


def _parser() -> argparse.ArgumentParser:
    parser = command_parser("sessions", "Look at earlier conversations; the beginning of an id is enough.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|search|export|delete")

    def action(name: str, words: str, *, json: bool = True) -> argparse.ArgumentParser:
        added = actions.add_parser(name, help=words, allow_abbrev=False)
        if json:
            added.add_argument("--json", action="store_true", help="JSON, one object a line")
        return added

    listing = action("list", "the sessions, the last changed first")
    listing.add_argument("--all", action="store_true", help="also those in which nothing was asked")
    action("show", "one session, to read").add_argument("id", metavar="ID")
    action("search", "where a text stands in all sessions").add_argument("text", metavar="TEXT")
    export = action("export", "one session as Markdown, JSON lines or a terminal recording", json=False)
    export.add_argument("id", metavar="ID")
    export.add_argument("--format", choices=FORMATS, default="md", help="md unless given; cast is asciicast v2")
    export.add_argument("--output", metavar="FILE", type=Path, help="a new file; without it, stdout")
    action("delete", "delete one session with its outputs, for good", json=False).add_argument("id", metavar="ID")
    return parser


def _list(given: argparse.Namespace) -> int:
    for session in list_sessions(sessions_folder()):
        if not session.title and not given.all:
            continue
        if given.json:
            print_json(_described(session))
        else:
            state = "open" if session.in_use else "broken off" if session.broken_off else ""
            when = f"{session.changed.astimezone():%Y-%m-%d %H:%M}"
            place = visible(session.opening.workspace)
            print(f"{session.id}  {when}  {state:<10}  {session.title or '(nothing asked)'}  [{place}]")
    return ExitCode.DONE


def _show(given: argparse.Namespace) -> int:
    session = find_session(sessions_folder(), given.id)
    logged = read_log(session.path)
    if given.json:
        kinds = [event.type for event in logged.events]
        counts: JsonObject = {"events": len(kinds), "turns": kinds.count("user_message"), "damaged": logged.damaged}
        print_json({**_described(session), **counts})
    else:
        _write(markdown(session, logged), None)
    return ExitCode.DONE


def _search(given: argparse.Namespace) -> int:
    if not given.text.strip():
        raise UsageError("the text to search for is empty")
    for hit in search_sessions(sessions_folder(), given.text):
        if given.json:
            print_json(
                {
                    "session": hit.session.id,
                    "event": hit.event_id,
                    "time": hit.time,
                    "type": hit.type,
                    "excerpt": hit.excerpt,
                }
            )
        else:
            print(f"{hit.session.id}  {hit.type:<17}  {hit.excerpt}")
    return ExitCode.DONE


def _export(given: argparse.Namespace) -> int:
    session = find_session(sessions_folder(), given.id)
    logged = read_log(session.path)
    match given.format:
        case "cast":
            lines = list(cast_of(session.folder, session.title or session.id))
            if not lines:
                say(f"No command ran in a terminal in {session.id}: there is nothing to play.")
                return ExitCode.FAILED
        case "jsonl":
            lines = json_lines(logged)
        case _:
            lines = markdown(session, logged)
    if logged.damaged:
        say(f"{logged.damaged} damaged lines are left out: {session.path}")
    try:
        _write(lines, given.output)
    except FileExistsError:
        raise UsageError(f"{given.output} is there already. Name a file that is not.") from None
    if given.output is not None:
        say(f"written: {given.output}")
    return ExitCode.DONE


def _delete(given: argparse.Namespace) -> int:
    session = find_session(sessions_folder(), given.id)
    delete_session(session)
    say(f'deleted: {session.id} "{session.title}"')
    return ExitCode.DONE


_ACTIONS = {"list": _list, "show": _show, "search": _search, "export": _export, "delete": _delete}


def _described(session: StoredSession) -> JsonObject:
    opening = session.opening
    described: JsonObject = {
        "id": session.id,
        "title": session.title,
        "workspace": opening.workspace,
        "provider": opening.provider,
        "model": opening.model,
        "startedAt": opening.time,
        "changedAt": iso_time(session.changed),
        "size": session.size,
        "open": session.in_use,
        "brokenOff": session.broken_off,
    }
    return {**described, "forkedFrom": opening.forked_from} if opening.forked_from else described


def _write(lines: Iterable[str], path: Path | None) -> None:
    """Write the lines to a new file that nobody else may read, or to stdout as UTF-8 whatever the locale says."""
    if path is None:
        for line in lines:
            sys.stdout.buffer.write(f"{line}\n".encode("utf-8", "replace"))
        sys.stdout.buffer.flush()
        return
    with open(path, "xb", opener=for_the_owner_alone) as file:
        try:
            file.writelines(f"{line}\n".encode("utf-8", "replace") for line in lines)
            os.fsync(file.fileno())
        except BaseException:
            path.unlink(missing_ok=True)
            raise
