"""`ollm-tui models list | show NAME | pull NAME`: the models of all servers that can be reached."""

from __future__ import annotations

import asyncio
import sys
from contextlib import aclosing

from ollm_tui.cli.command_line import (
    CommandInterruptedError,
    ExitCode,
    command_parser,
    options_of,
    parse,
    provider_parser,
)
from ollm_tui.cli.streams import print_json, say, valid_configuration
from ollm_tui.config import Settings
from ollm_tui.core.base.escape import visible


def run_command(argv: list[str]) -> int:
    """List the models, show what is known of one, or have Ollama load another."""
    parser = command_parser("models", "The models of the servers that can be reached.", provider_parser())
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|show|pull")
    listing = actions.add_parser("list", help="name, size, window, abilities, server", allow_abbrev=False)
    showing = actions.add_parser("show", help="what is known of one model", allow_abbrev=False)
    pulling = actions.add_parser("pull", help="have Ollama load a model; ctrl+c stops", allow_abbrev=False)
    for action in (listing, showing):
        action.add_argument("--json", action="store_true", help="a JSON object for each")
    for action in (showing, pulling):
        action.add_argument("name", metavar="NAME", help="such as qwen3:8b")
    given = parse(parser, argv)
    settings = valid_configuration(options_of(given)).settings
    match given.action:
        case "list":
            return _list(settings, as_json=given.json)
        case "show":
            return _show(settings, given.name, as_json=given.json)
        case _:
            return _pull(settings, given.name)


def _list(settings: Settings, *, as_json: bool) -> int:
    from ollm_tui.runtime.models import offered_models

    models = asyncio.run(offered_models(settings))
    for model in models:
        if as_json:
            print_json(model.facts())
        else:
            print(model)
    if not models:
        say("No model server answers. Start one (`ollama serve`), or set base_url.")
    return ExitCode.DONE if models else ExitCode.FAILED


def _show(settings: Settings, name: str, *, as_json: bool) -> int:
    from ollm_tui.runtime.models import ModelNotFoundError, choose, offered_models

    try:
        model = choose(asyncio.run(offered_models(settings)), name)
    except ModelNotFoundError as error:
        say(f"{error} `ollm-tui models pull {visible(name)}` has Ollama load one.")
        return ExitCode.FAILED
    facts = model.facts()
    if as_json:
        print_json(facts)
        return ExitCode.DONE
    width = max(map(len, facts))
    for key, value in facts.items():
        words = ", ".join(map(str, value)) if isinstance(value, list) else "not told" if value is None else str(value)
        print(f"{key:<{width}}  {visible(words)}")
    return ExitCode.DONE


def _pull(settings: Settings, name: str) -> int:
    from ollm_tui.agent.providers.provider import ProviderError
    from ollm_tui.agent.providers.server_address import ServerAddressError

    try:
        asyncio.run(_pulled(settings, name))
    except KeyboardInterrupt:
        say("Stopped. What was loaded stays on the server; the same command goes on there.")
        raise CommandInterruptedError from None
    except (ProviderError, ServerAddressError) as error:
        say(str(error))
        return ExitCode.FAILED
    print(f"{visible(name)} is there.")
    return ExitCode.DONE


async def _pulled(settings: Settings, name: str) -> None:
    """Show the progress on stderr: one line that changes on a terminal, else a line for each tenth."""
    from ollm_tui.runtime.pulling import pull_model

    terminal, last = sys.stderr.isatty(), ""
    try:
        async with aclosing(pull_model(settings, name)) as steps:
            async for progress in steps:
                if terminal:
                    print(f"\r\x1b[K{str(progress)[:79]}", end="", file=sys.stderr, flush=True)
                elif (step := f"{progress.status} {progress.percent // 10}") != last:
                    last = step
                    say(str(progress))
    finally:
        if terminal:
            print(file=sys.stderr)
