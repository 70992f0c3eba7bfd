"""`ollm-tui skills list` and `ollm-tui commands list`: what `/name` stands for beside the program's own commands."""

from __future__ import annotations

from ollm_tui.agent.prompt_files import PromptFileKind, read_prompt_files
from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, options_of, parse
from ollm_tui.cli.streams import print_json, say, valid_configuration
from ollm_tui.core.base.escape import visible
from ollm_tui.core.policy.repository_trust import TrustStore


def run_skills(argv: list[str]) -> int:
    """List the skills."""
    return _list(argv, PromptFileKind.SKILL, "Instructions for certain tasks, in folders with a SKILL.md.")


def run_commands(argv: list[str]) -> int:
    """List the custom commands."""
    return _list(argv, PromptFileKind.COMMAND, "Texts that /name puts into a message.")


def _list(argv: list[str], kind: PromptFileKind, summary: str) -> int:
    """Print one JSON object each; exit 1 where a file cannot be used."""
    parser = command_parser(f"{kind}s", summary)
    actions = parser.add_subparsers(dest="action", required=True, metavar="list")
    actions.add_parser("list", help="each as one JSON object, with source and tokens", allow_abbrev=False)
    configuration = valid_configuration(options_of(parse(parser, argv)))
    try:
        found = read_prompt_files(configuration.workspace, TrustStore.of_user(), configuration.bundles.folders)
    except ValueError as error:
        raise UsageError(str(error)) from None
    for file in found.files:
        if file.kind is kind:
            print_json(
                {
                    "name": file.name,
                    "description": file.description,
                    "source": file.source,
                    "tokens": file.tokens,
                    **({"arguments": file.argument_hint} if file.argument_hint else {}),
                }
            )
    for finding in found.findings:
        say(finding)
    for file in found.untrusted:
        say(f"{visible(file.name)} does not count yet: `ollm-tui trust` shows it and lets it count.")
    return ExitCode.FAILED if found.findings else ExitCode.DONE
