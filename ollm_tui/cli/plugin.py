"""`ollm-tui plugin list | add PATH | remove NAME`: what plug-ins there are, and bundles of declarations."""

from __future__ import annotations

import argparse
from collections.abc import Generator
from pathlib import Path

from ollm_tui.agent.bundles import Bundle, BundleError, added_bundles, bundles_folder, install, read_bundle, remove
from ollm_tui.agent.mcp.settings import read_servers
from ollm_tui.agent.prompt_files import bundle_files
from ollm_tui.cli.command_line import ExitCode, UsageError, command_parser, parse
from ollm_tui.cli.streams import agreed, print_json, say
from ollm_tui.core.base.escape import visible
from ollm_tui.core.policy.policy_file import PolicyFileError
from ollm_tui.core.policy.repository_trust import TrustStore
from ollm_tui.runtime.plugins import python_plugins
from ollm_tui.tui.themes import ThemeError, read_theme


def run_command(argv: list[str]) -> int:
    """List all plug-ins, add a bundle after it was shown, or remove one."""
    parser = command_parser(
        "plugin", "Plug-ins: Python code that gives tools, and bundles, folders with a plugin.toml."
    )
    actions = parser.add_subparsers(dest="action", required=True, metavar="list|add|remove")
    actions.add_parser("list", help="each as one JSON object; no code is loaded", allow_abbrev=False)
    add = actions.add_parser("add", help="show what a bundle brings, ask, and let it count", allow_abbrev=False)
    add.add_argument("path", metavar="PATH", type=Path, help="the bundle's folder")
    add.add_argument("--yes", action="store_true", help="do not ask")
    taken_away = actions.add_parser("remove", help="end a bundle and delete its copy", allow_abbrev=False)
    taken_away.add_argument("name", metavar="NAME")
    given = parse(parser, argv)
    try:
        match given.action:
            case "list":
                return _list()
            case "add":
                return _add(given)
            case _:
                return _remove(given.name)
    except (OSError, ValueError, BundleError) as error:
        raise UsageError(visible(str(error))) from None


def _list() -> ExitCode:
    for name, place in python_plugins():
        print_json({"name": name, "kind": "python", "source": place})
    bundles = added_bundles(TrustStore.of_user())
    for bundle in bundles.counting:
        print_json(
            {
                "name": bundle.name,
                "kind": "bundle",
                "version": bundle.manifest.version,
                "description": visible(bundle.manifest.description),
                "source": str(bundle.folder),
                "brings": list(_contents(bundle)),
            }
        )
    for words in bundles.findings:
        say(words)
    return ExitCode.FAILED if bundles.findings else ExitCode.DONE


def _add(given: argparse.Namespace) -> ExitCode:
    """Show the bundle, and copy it to where it counts."""
    bundle = read_bundle(given.path.resolve())
    if faults := list(_faults(bundle)):
        for words in faults:
            say(words)
        say(f"{bundle.name} was not added: correct what stands above first.")
        return ExitCode.FAILED
    replaced = (bundles_folder() / bundle.name).exists()
    say(f"{bundle.name} {visible(bundle.manifest.version)}: {visible(bundle.manifest.description)}".rstrip(": "))
    for line in _contents(bundle):
        say(f"  {line}")
    question = f"{'Replace the one there is' if replaced else 'Add it'}? Its programs run with your rights. [y/N] "
    if not given.yes and not agreed(question):
        say("Nothing was added. On a terminal you are asked; elsewhere give --yes.")
        return ExitCode.FAILED
    place = install(bundle, TrustStore.of_user())
    say(f"Added to {place}. It counts from the next start, while it stays as it is.")
    return ExitCode.DONE


def _remove(name: str) -> ExitCode:
    if not remove(name):
        raise UsageError(f"there is no bundle {visible(name)}. `ollm-tui plugin list` names those that there are.")
    say(f"Removed {name}. Sessions that run keep what they have of it until they end.")
    return ExitCode.DONE


def _contents(bundle: Bundle) -> Generator[str]:
    """Yield what a bundle brings, as a person has to see it before they let it count."""
    for server in read_servers(bundle.servers(), bundle.path, {}).servers.values():
        yield f"MCP server {server.name}: {server.address}"
    for hook in bundle.hooks().hooks:
        yield f"hook {hook.event}{f' of {visible(hook.matcher)}' if hook.matcher else ''}: {visible(hook.command)}"
    for rule in bundle.rules().document.rules:
        yield f"rule: {rule.action} {visible(rule.tool)}{' under conditions' if rule.conditions else ''}"
    for file in bundle_files(bundle.name, bundle.folder).files:
        yield f"{file.kind} /{file.name}: {visible(file.description)}"
    for path in _themes(bundle):
        yield f"theme {visible(path.stem)}"
    if bundle.programs:
        names = ", ".join(map(visible, bundle.programs))
        yield f"programs, to be looked at in {visible(str(bundle.folder))}: {names}"


def _faults(bundle: Bundle) -> Generator[str]:
    yield from read_servers(bundle.servers(), bundle.path, {}).findings
    yield from bundle.hooks().findings
    try:
        bundle.rules()
    except PolicyFileError as error:
        yield str(error)
    yield from bundle_files(bundle.name, bundle.folder).findings
    for path in _themes(bundle):
        try:
            read_theme(path)
        except ThemeError as error:
            yield str(error)


def _themes(bundle: Bundle) -> list[Path]:
    return sorted((bundle.folder / "themes").glob("*.toml"))
