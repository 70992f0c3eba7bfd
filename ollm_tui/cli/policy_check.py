"""`ollm-tui policy check`: what would be decided about a call, and why."""

from __future__ import annotations

import asyncio

from pydantic import JsonValue

from ollm_tui.cli.batches import lines_of, open_rows, read_row
from ollm_tui.cli.exits import ExitCode
from ollm_tui.cli.output import given_or_stdin, parse_json, print_json
from ollm_tui.cli.reporting import sound_configuration
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.confirmation import Origin
from ollm_tui.core.policy.rules import Decision
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, Core, assemble_core


def check_one(options: Options, tool: str, arguments: str) -> int:
    """Judge one call given as JSON (`-`: from stdin)."""
    return asyncio.run(_check_one(options, tool, parse_json(given_or_stdin(arguments), "the argument")))


def check_batch(options: Options, path: str) -> int:
    """Judge one call a line."""
    return asyncio.run(_check_batch(options, path))


async def _check_one(options: Options, tool: str, arguments: JsonValue) -> int:
    configuration = sound_configuration(options)
    async with assemble_core(configuration, Attendance.NOBODY, judging_only=True) as core:
        print_json(await _judged(core, tool, arguments))
    return ExitCode.DONE


async def _check_batch(options: Options, path: str) -> int:
    configuration = sound_configuration(options)
    with open_rows(path) as descriptor:
        async with assemble_core(configuration, Attendance.NOBODY, judging_only=True) as core:
            async for line in lines_of(descriptor):
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
