"""`ollm-tui config show | path` and `ollm-tui trust [DIR]`: the settings that count."""

from __future__ import annotations

from pathlib import Path

from ollm_tui.agent.prompt_files import untrusted_files
from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, options_of, parse
from ollm_tui.cli.streams import say, valid_configuration
from ollm_tui.config import effective_toml, user_config_path
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.instruction_files import trust_instructions
from ollm_tui.core.policy.repository_trust import REPOSITORY_CONFIG, TrustState, TrustStore


def run_config(argv: list[str]) -> int:
    """Print the effective settings, or where the config file is."""
    parser = command_parser("config", "Look at the settings.")
    actions = parser.add_subparsers(dest="action", required=True, metavar="show|path")
    actions.add_parser("show", help="the effective settings as TOML, each with its source", allow_abbrev=False)
    actions.add_parser("path", help="where your config file is or would be", allow_abbrev=False)
    given = parse(parser, argv)
    options = options_of(given)
    if given.action == "path":
        print(user_config_path(options))
    else:
        print(effective_toml(valid_configuration(options).loaded), end="")
    return ExitCode.DONE


def run_trust(argv: list[str]) -> int:
    """Trust a folder's own config file and instructions as they are now."""
    parser = command_parser(
        "trust",
        "Let a folder's .ollm/config.toml count, which can only tighten, its hooks run, its skills and "
        "commands be offered, and its instructions (AGENTS.md, also in folders below, .ollm/instructions.md) go to the "
        "model. As they are now.",
    )
    parser.add_argument("directory", nargs="?", type=Path, metavar="DIR", help="the folder; else the workspace")
    given = parse(parser, argv)
    folder = (given.directory or given.workspace or Path.cwd()).resolve()
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder.")
    try:
        state = TrustStore.of_user().trust(folder)
        files = _trust_instructions(folder)
    except (OSError, ValueError) as error:
        raise UsageError(str(error)) from None
    names = [str(REPOSITORY_CONFIG)] if state is not TrustState.NO_FILE else []
    for name in (*names, *files):
        say(f"trusted: {visible(str(folder / name))}. When it changes, it counts again only after another trust.")
    if not names and not files:
        say(
            f"{folder} has no {REPOSITORY_CONFIG}, and no instructions, skills or commands that are not trusted: "
            "there is nothing to trust."
        )
        return ExitCode.FAILED
    return ExitCode.DONE


def _trust_instructions(folder: Path) -> list[str]:
    """Trust the folder's instructions, skills, commands and hooks' scripts; return those that were not trusted."""
    store, workspace = TrustStore.of_user(), Workspace(folder)
    files = {file.name: file.content for file in untrusted_files(workspace, store.check(workspace.root), store)}
    changed = trust_instructions(workspace, store, files)
    return [name for name in files if name not in changed]
