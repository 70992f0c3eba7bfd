"""`ollm-tui tool list | schema | call`: the tools without a model."""

from __future__ import annotations

import asyncio
from argparse import Namespace
from collections.abc import AsyncGenerator, Generator
from contextlib import contextmanager

from pydantic import JsonValue

from ollm_tui.cli.command_line import (
    CommandInterruptedError,
    ExitCode,
    command_parser,
    ending_signals,
    options_of,
    parse,
)
from ollm_tui.cli.streams import (
    BatchRow,
    core_for_command,
    exit_code_of,
    given_or_stdin,
    lines_of,
    open_rows,
    parse_json,
    print_json,
    read_row,
    result_line,
)
from ollm_tui.core.base.abort import AbortController, AbortSignal
from ollm_tui.core.base.errors import InvalidArguments, OperationCancelled
from ollm_tui.core.base.results import ToolResult
from ollm_tui.core.bus.states import Origin
from ollm_tui.core.tools.registry import ALIASES
from ollm_tui.core.tools.schema import SchemaFormat, function_schema, returns_schema
from ollm_tui.runtime import Attendance, Core

HINT = "; --yes approves"


def run_command(argv: list[str]) -> int:
    """List, describe or call tools."""
    parser = command_parser("tool", "List, describe and call the tools.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|schema|call")
    listing = actions.add_parser("list", help="names of all tools", allow_abbrev=False)
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    schema = actions.add_parser("schema", help="schemas for a model, one a line", allow_abbrev=False)
    schema.add_argument("--format", choices=[form.value for form in SchemaFormat], default=SchemaFormat.OLLM.value)
    schema.add_argument("--returns", action="store_true", help="schemas of what the tools return as data")
    call = actions.add_parser("call", help="call a tool", allow_abbrev=False)
    call.add_argument("name", nargs="?", help="the tool")
    call.add_argument("arguments", nargs="?", help="its arguments as JSON; - reads them from stdin")
    call.add_argument("--batch", metavar="FILE", help="one call a line; - reads them from stdin")
    call.add_argument("--yes", action="store_true", help="approve whatever asks")
    given = parse(parser, argv)
    if given.action == "call" and (given.batch is None) == (given.arguments is None):
        parser.error("tool call takes NAME and JSON, or --batch FILE")
    if given.action != "call":
        return asyncio.run(_describe(given))
    if given.batch is not None:
        return asyncio.run(_call_batch(given))
    # Read before there is an event loop: ctrl+c then ends the wait for stdin.
    return asyncio.run(_call_one(given, parse_json(given_or_stdin(given.arguments), "the argument")))


async def _describe(given: Namespace) -> int:
    async with core_for_command(options_of(given), Attendance.NOBODY, judging_only=True) as core:
        tools = [tool for tool in core.registry.list() if core.executor.policy.is_available(tool)]
        for tool in tools:
            if given.action == "schema" and given.returns:
                print_json({"name": tool.name, "returns": returns_schema(tool)})
            elif given.action == "schema":
                print_json(function_schema(tool, SchemaFormat(given.format)))
            elif given.json:
                aliases: list[JsonValue] = [alias.name for alias in ALIASES.values() if tool.name in alias.tools]
                print_json(
                    {
                        "name": tool.name,
                        "displayName": tool.display_name,
                        "group": tool.group.value,
                        "description": tool.description,
                        "aliases": aliases,
                        "risk": core.executor.policy.get_risk_level(tool.name, tool).value,
                    }
                )
            else:
                print(tool.name)
    return ExitCode.DONE


async def _call_one(given: Namespace, arguments: JsonValue) -> int:
    async with core_for_command(options_of(given), _attendance(given), hint=HINT) as core:
        with _interruptible() as signal:
            result = await _execute(core, given.name, arguments, signal)
        print_json(result_line(result))
        if signal.aborted:
            raise CommandInterruptedError
    return exit_code_of(result)


async def _call_batch(given: Namespace) -> int:
    with open_rows(given.batch) as descriptor:
        async with core_for_command(options_of(given), _attendance(given), hint=HINT) as core:
            with _interruptible() as signal:
                await _answer_rows(core, lines_of(descriptor), signal)
    return ExitCode.DONE


async def _answer_rows(core: Core, lines: AsyncGenerator[str], signal: AbortSignal) -> None:
    """Print one answer a row, in order; when interrupted, that of the cut call is the last."""
    try:
        while (line := await signal.guard(anext(lines, None))) is not None:
            row = read_row(line)
            print_json(result_line(await _call_row(core, row, signal), row.id))
    except OperationCancelled:
        raise CommandInterruptedError from None
    finally:
        await lines.aclose()


async def _call_row(core: Core, row: BatchRow, signal: AbortSignal) -> ToolResult:
    if row.error is not None:
        return ToolResult.of_failure(InvalidArguments(f"{row.error}: give an object with name and arguments."))
    return await _execute(core, row.name, row.arguments, signal)


async def _execute(core: Core, name: str, arguments: JsonValue, signal: AbortSignal) -> ToolResult:
    """Run a call; the first one of an MCP server's tool waits for the servers."""
    if core.mcp is not None and name.startswith("mcp__"):
        try:
            await core.mcp.join(signal)
        except OperationCancelled as cancelled:
            return ToolResult.of_failure(cancelled)
    return await core.executor.execute(name, arguments, signal, origin=Origin.USER)


@contextmanager
def _interruptible() -> Generator[AbortSignal]:
    """Yield a signal that aborts at ctrl+c or termination; the cut call says so in its result."""
    controller = AbortController()
    loop = asyncio.get_running_loop()
    reasons = ending_signals()
    for number, why in reasons.items():
        loop.add_signal_handler(number, controller.abort, why)
    try:
        yield controller.signal
    finally:
        for number in reasons:
            loop.remove_signal_handler(number)


def _attendance(given: Namespace) -> Attendance:
    return Attendance.YES if given.yes else Attendance.NOBODY
