"""`ollm-tui policy check | show | lint | test | log`: look at the policy; nothing runs."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from pydantic import JsonValue

from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, options_of, parse
from ollm_tui.cli.streams import (
    core_for_command,
    given_or_stdin,
    lines_of,
    open_rows,
    parse_json,
    print_json,
    read_row,
    say,
    valid_configuration,
)
from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.base.results import JsonObject
from ollm_tui.core.bus.states import Origin, Risk
from ollm_tui.core.policy.decision_tables import (
    DecisionTableError,
    Difference,
    ExpectedCall,
    JudgedCase,
    read_table,
    run_table,
)
from ollm_tui.core.policy.lint import lint, lint_sources
from ollm_tui.core.policy.policy_file import PRESETS
from ollm_tui.core.policy.rules import Decision
from ollm_tui.options import Options
from ollm_tui.runtime import Attendance, Core
from ollm_tui.runtime.plugins import load_registry

_LINT = """\
Looks for names of nothing, rules that never decide or contradict an earlier one, patterns that can never match,
and patterns that say more than they seem to. Findings go to stdout, one JSON object a line.
Exit codes: 0 nothing found, 1 something found, 2 the policy cannot be used at all."""

_TEST = """\
Runs a table of calls against the policy. FILE holds TOML, [[case]] tables with tool, arguments and expect ("allow",
"ask" or "deny"), or JSON lines with the same keys; also compared where given: risk, and reason (words it contains);
mode sets the mode for one row. Rows that differ go to stdout, one JSON object a line.
Exit codes: 0 all as expected, 1 some differ, 2 the table or the policy cannot be used."""


def run_command(argv: list[str]) -> int:
    """Judge calls, print the policy or its log, or find mistakes in it."""
    parser = command_parser("policy", "Look at the policy.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="check|show|lint|test|log")
    check = actions.add_parser("check", help="judge a call without running it", allow_abbrev=False)
    check.add_argument("tool", nargs="?", help="the tool")
    check.add_argument("arguments", nargs="?", help="its arguments as JSON; - reads them from stdin")
    check.add_argument("--batch", metavar="FILE", help="one call a line; - reads them from stdin")
    show = actions.add_parser("show", help="the policy in force as TOML, with its sources", allow_abbrev=False)
    show.add_argument("preset", nargs="?", choices=PRESETS, help="a shipped preset instead of what is in force")
    actions.add_parser("lint", help="find mistakes", description=_LINT, formatter_class=_RAW, allow_abbrev=False)
    test = actions.add_parser(
        "test", help="run a table of decisions", description=_TEST, formatter_class=_RAW, allow_abbrev=False
    )
    test.add_argument("file", metavar="FILE", help="the table; - reads it from stdin")
    log = actions.add_parser("log", help="what was decided so far", allow_abbrev=False)
    form = log.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_true", help="one JSON object a line")
    form.add_argument("--verify", action="store_true", help="whether the log is as it was written; exit 1 if not")
    log.add_argument("--last", metavar="N", type=int, help="only the last N lines")
    given = parse(parser, argv)
    options = options_of(given)
    match given.action:
        case "check":
            if (given.batch is None) == (given.arguments is None):
                parser.error("policy check takes TOOL and JSON, or --batch FILE")
            if given.batch is not None:
                return asyncio.run(_check_batch(options, given.batch))
            # Read before there is an event loop: ctrl+c then ends the wait for stdin.
            arguments = parse_json(given_or_stdin(given.arguments), "the argument")
            return asyncio.run(_check_one(options, given.tool, arguments))
        case "show":
            from ollm_tui.cli.policy_report import show_policy, show_preset

            return show_policy(options) if given.preset is None else show_preset(given.preset)
        case "lint":
            return lint_policy(options)
        case "test":
            return run_decision_table(options, given.file)
        case _:
            from ollm_tui.cli.policy_report import show_log, verify_log

            return verify_log() if given.verify else show_log(as_json=given.json, last=given.last)


_RAW = argparse.RawDescriptionHelpFormatter


async def _check_one(options: Options, tool: str, arguments: JsonValue) -> int:
    async with core_for_command(options, Attendance.NOBODY, judging_only=True) as core:
        print_json(await _judged(core, tool, arguments))
    return ExitCode.DONE


async def _check_batch(options: Options, path: str) -> int:
    with open_rows(path) as descriptor:
        async with core_for_command(options, Attendance.NOBODY, judging_only=True) as core:
            async for line in lines_of(descriptor):
                row = read_row(line)
                judged = _refused(row.error) if row.error else await _judged(core, row.name, row.arguments)
                print_json(judged if row.id is None else {"id": row.id, **judged})
    return ExitCode.DONE


async def _judged(core: Core, tool: str, arguments: JsonValue) -> JsonObject:
    try:
        explanation = await core.executor.explain(tool, arguments, origin=Origin.USER)
    except ToolFailure as failure:
        return _refused(failure.message)
    return explanation.as_json()


def _refused(reason: str) -> JsonObject:
    """Return the judgement of a call that could never run."""
    return {"decision": Decision.DENY.value, "risk": "high", "reason": reason, "trace": []}


def lint_policy(options: Options) -> int:
    """Print mistakes in the policy; exit 1 where there are any."""
    configuration = valid_configuration(options)
    files = configuration.files
    documents = [*files.documents, *([files.repository] if files.repository else []), files.preset]
    registry, errors = load_registry(browser_without_sandbox=configuration.settings.web.browser_without_sandbox)
    for error in (*errors, *configuration.hooks.findings):
        say(error)
    findings = [*lint(documents, registry.list()), *lint_sources(configuration.sources)]
    for finding in findings:
        print_json(finding.model_dump(mode="json", by_alias=True, exclude_none=True))
    count = len(findings) + len(configuration.hooks.findings)
    say(f"{count} findings" if count else "nothing found")
    return ExitCode.FAILED if count else ExitCode.DONE


def run_decision_table(options: Options, path: str) -> int:
    """Print rows of a decision table that differ; exit 1 where any do."""

    async def run() -> tuple[int, list[Difference]]:
        async with core_for_command(options, Attendance.NOBODY, judging_only=True) as core:
            rows = _rows(path)  # a faulty policy comes before a faulty table
            configured = core.executor.mode

            async def judge(row: ExpectedCall) -> JudgedCase:
                core.executor.mode = row.mode or configured
                try:
                    return JudgedCase.of(await core.executor.explain(row.tool, row.arguments, origin=Origin.USER))
                except ToolFailure as failure:
                    return JudgedCase(Decision.DENY.value, Risk.HIGH, failure.message)

            return len(rows), await run_table(rows, judge)

    count, differences = asyncio.run(run())
    for difference in differences:
        print_json(difference.model_dump(mode="json", by_alias=True, exclude_none=True))
    say(f"{count - len(differences)} of {count} rows as expected")
    return ExitCode.FAILED if differences else ExitCode.DONE


def _rows(path: str) -> tuple[ExpectedCall, ...]:
    try:
        text = given_or_stdin(path) if path == "-" else Path(path).read_text("utf-8")
        return read_table(text, "stdin" if path == "-" else path)
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise UsageError(f"{path}: not UTF-8 at byte {error.start}") from None
    except DecisionTableError as error:
        raise UsageError(str(error)) from None
