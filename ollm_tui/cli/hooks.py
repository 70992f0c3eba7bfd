"""`ollm-tui hooks list | test EVENT JSON`: the programs that hear of what the agent does."""

from __future__ import annotations

import argparse
import asyncio

from pydantic import TypeAdapter, ValidationError

from ollm_tui.agent.hooks.entries import HookEvent
from ollm_tui.agent.hooks.hooks import Hooks
from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, options_of, parse
from ollm_tui.cli.streams import print_json, say, valid_configuration
from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.results import JsonObject


def run_command(argv: list[str]) -> int:
    """List the hooks, or run those of an event; exit 1 where an entry is faulty or a hook failed."""
    parser = command_parser("hooks", "Programs that hear of what the agent does, and may tighten it.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|test")
    actions.add_parser("list", help="each hook as one JSON object", allow_abbrev=False)
    test = actions.add_parser("test", help="run the hooks of an event, and print what each said", allow_abbrev=False)
    test.add_argument("event", metavar="EVENT", help=", ".join(HookEvent))
    test.add_argument("facts", metavar="JSON", help='what it is told, as {"tool_name": "Bash", "tool_input": {...}}')
    given = parse(parser, argv)
    configuration = valid_configuration(options_of(given))
    settings = configuration.hooks
    for finding in settings.findings:
        say(finding)
    if given.action == "test":
        hooks = Hooks(settings, configuration.workspace.root)
        return max(asyncio.run(_test(hooks, given)), ExitCode.FAILED if settings.findings else ExitCode.DONE)
    for hook in settings.hooks:
        print_json(
            {
                "event": hook.event.value,
                "matcher": hook.matcher,
                "command": hook.command,
                "timeout": hook.timeout,
                "onError": hook.on_error,
                "source": hook.source,
                **({"fault": hook.fault} if hook.fault else {}),
            }
        )
    return ExitCode.FAILED if settings.findings else ExitCode.DONE


async def _test(hooks: Hooks, given: argparse.Namespace) -> ExitCode:
    try:
        event = HookEvent(given.event)
    except ValueError:
        raise UsageError(f"{given.event} is no event of hooks. There are: {', '.join(HookEvent)}.") from None
    try:
        facts = TypeAdapter(JsonObject).validate_json(given.facts)
    except ValidationError as error:
        raise UsageError(f"what the hooks are told must be a JSON object: {error.errors()[0]['msg']}") from None
    outcomes = await hooks.run(event, facts, AbortSignal())
    for outcome in outcomes:
        print_json(
            {
                "hook": outcome.hook.name,
                "blocks": outcome.blocks,
                "reason": outcome.reason,
                "text": outcome.text,
                **({"answer": outcome.answer} if outcome.answer is not None else {}),
                **({"failure": outcome.failure} if outcome.failure else {}),
            }
        )
    if not outcomes:
        say(f"no hook hears of this {event}")
    return ExitCode.FAILED if any(outcome.failure for outcome in outcomes) else ExitCode.DONE
