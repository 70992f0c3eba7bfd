"""`ollm-tui doctor`: what works on this machine, and what to do about the rest."""

from __future__ import annotations

import asyncio

from ollm_tui.cli.command_line import ExitCode, command_parser, options_of, parse
from ollm_tui.cli.streams import print_json, say
from ollm_tui.core.base.app_dirs import data_dir
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.files.unasked_writes import UNASKED_WRITES
from ollm_tui.core.files.vacated_paths import VACATED_PATHS
from ollm_tui.core.memory import SCHEMA as MEMORY_TABLES
from ollm_tui.core.policy.approvals import APPROVAL_USES
from ollm_tui.core.policy.audit import AuditLog
from ollm_tui.core.policy.audit_chain import EndFile
from ollm_tui.core.storage.damage import accept
from ollm_tui.core.storage.store import Store
from ollm_tui.core.todos.todo_list import SCHEMA as TODO_TABLES
from ollm_tui.runtime.checks import CheckStatus, examine
from ollm_tui.tui.themes import load_themes

CONFIGURATION = frozenset({"workspace", "config", "theme", "policy"})
"""Checks of the configuration: only errors of these make the exit code 2."""


def run_command(argv: list[str]) -> int:
    """Print every check; exit 2 where the configuration has errors."""
    parser = command_parser("doctor", "Look at this installation.")
    parser.add_argument("--json", action="store_true", help="one JSON object a line")
    parser.add_argument("--accept", action="store_true", help="end the notice about a damaged store that is set aside")
    given = parse(parser, argv)
    if given.accept:
        return _accept_damage()
    checks = asyncio.run(examine(options_of(given), load_themes().errors))
    for check in checks:
        if given.json:
            print_json({"what": check.what, "health": check.status.value, "text": check.text})
        else:
            print(f"{check.status.value:<6} {check.what}: {check.text}")
    invalid = any(check.status is CheckStatus.ERROR and check.what in CONFIGURATION for check in checks)
    return ExitCode.USAGE if invalid else ExitCode.DONE


def _accept_damage() -> int:
    """Take over what is still to be read of a damaged store, and end the notice about it."""
    store = Store(data_dir() / "ollm.db")
    try:
        for schema in (MEMORY_TABLES, TODO_TABLES, APPROVAL_USES, VACATED_PATHS, UNASKED_WRITES):
            with store.write(schema):
                pass  # whoever first opens its tables salvages them
        AuditLog(store, end_file=EndFile.of_store(store.path)).append_at()
        accepted = accept(store.path)
    except (ToolFailure, OSError) as error:
        say(str(error))
        return ExitCode.FAILED
    finally:
        store.close()
    for copy in accepted:
        say(f"Accepted: {copy} stays until you delete it.")
    if not accepted:
        say("There is nothing to accept.")
    return ExitCode.DONE
