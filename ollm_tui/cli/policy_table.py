"""`ollm-tui policy test`: a table of calls and the decisions expected of the policy."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ollm_tui.cli.exits import ExitCode, UsageError
from ollm_tui.cli.output import given_or_stdin, print_json, say
from ollm_tui.cli.reporting import sound_configuration
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.bus.confirmation import Origin, Risk
from ollm_tui.core.policy.decision_tables import Difference, ExpectedCall, Judged, TableFault, read_table, run_table
from ollm_tui.core.policy.rules import Decision
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, assemble_core


def run_decision_table(options: Options, path: str) -> int:
    """Exit 1 where a row differs."""
    configuration = sound_configuration(options)
    rows = _rows(path)

    async def run() -> list[Difference]:
        async with assemble_core(configuration, Attendance.NOBODY, judging_only=True) as core:

            async def judge(row: ExpectedCall) -> Judged:
                core.executor.mode = row.mode or configuration.settings.mode
                try:
                    return Judged.of(await core.executor.explain(row.tool, row.arguments, origin=Origin.USER))
                except ToolFailure as failure:
                    return Judged(Decision.DENY.value, Risk.HIGH, failure.message)

            return await run_table(rows, judge)

    differences = asyncio.run(run())
    for difference in differences:
        print_json(difference.model_dump(mode="json", by_alias=True, exclude_none=True))
    say(f"{len(rows) - len(differences)} of {len(rows)} rows as expected")
    return ExitCode.FAILED if differences else ExitCode.DONE


def _rows(path: str) -> tuple[ExpectedCall, ...]:
    try:
        text = given_or_stdin(path) if path == "-" else Path(path).read_text("utf-8")
        return read_table(text, "stdin" if path == "-" else path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from None
    except TableFault as fault:
        raise UsageError(str(fault)) from None
