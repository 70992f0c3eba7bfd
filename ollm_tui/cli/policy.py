"""`ollm-tui policy check`: what would be decided about a call, and why. Nothing runs."""

from __future__ import annotations

import asyncio

from pydantic import JsonValue

from ollm_tui.assembly import Attendance, Core, assemble_core
from ollm_tui.cli.arguments import command_parser, options_of, parse
from ollm_tui.cli.batches import open_rows, read_row
from ollm_tui.cli.exits import ExitCode
from ollm_tui.cli.output import given_or_stdin, parse_json, print_json
from ollm_tui.cli.reporting import sound_configuration
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.confirmation import Origin
from ollm_tui.core.policy.rules import Decision
from ollm_tui.options import Options


def run_command(argv: list[str]) -> int:
    parser = command_parser("policy", "Look at the policy.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="check")
    check = actions.add_parser("check", help="judge a call without running it", allow_abbrev=False)
    check.add_argument("tool", nargs="?", help="the tool")
    check.add_argument("arguments", nargs="?", help="its arguments as JSON; - reads them from stdin")
    check.add_argument("--batch", metavar="FILE", help="one call a line; - reads them from stdin")
    given = parse(parser, argv)
    if (given.batch is None) == (given.arguments is None):
        parser.error("policy check takes TOOL and JSON, or --batch FILE")
    options = options_of(given)
    if given.batch is not None:
        return asyncio.run(_check_batch(options, given.batch))
    arguments = parse_json(given_or_stdin(given.arguments), "the argument")
    return asyncio.run(_check_one(options, given.tool, arguments))


async def _check_one(options: Options, tool: str, arguments: JsonValue) -> int:
    configuration = sound_configuration(options)
    async with assemble_core(configuration, Attendance.NOBODY) as core:
        print_json(await _judged(core, tool, arguments))
    return ExitCode.DONE


async def _check_batch(options: Options, path: str) -> int:
    configuration = sound_configuration(options)
    with open_rows(path) as lines:
        async with assemble_core(configuration, Attendance.NOBODY) as core:
            for line in lines:
                if not line.strip():
                    continue
                row = read_row(line)
                judged = _refused(row.fault) if row.fault else await _judged(core, row.name, row.arguments)
                print_json(judged if row.id is None else {"id": row.id, **judged})
    return ExitCode.DONE


async def _judged(core: Core, tool: str, arguments: JsonValue) -> JsonObject:
    try:
        explanation = await core.executor.explain(tool, arguments, origin=Origin.USER)
    except ToolFailure as failure:
        return _refused(failure.message)
    return explanation.model_dump(mode="json", by_alias=True, exclude_none=True)


def _refused(reason: str) -> JsonObject:
    """What has no judgement because it could never run."""
    return {"decision": Decision.DENY.value, "risk": "high", "reason": reason, "trace": []}
