"""Command line arguments: the command word among the shared options, and parsers."""

from __future__ import annotations

import argparse
from collections.abc import Collection, Sequence
from pathlib import Path

from ollm_tui.options import Options

MODES = ("ask", "auto-edit", "plan", "yolo")
PROVIDERS = ("ollama", "openai", "offline", "scripted")

_WITH_VALUE = frozenset(
    {
        *("-C", "--workspace", "--add-dir", "--policy", "--mode", "--config"),
        *("--provider", "--model", "--base-url", "--script", "--theme"),
    }
)


def split_command(argv: Sequence[str], commands: Collection[str]) -> tuple[str | None, list[str]]:
    """Return the command word, if the first word that is not an option is one, and the rest.

    After `--` nothing is a command, so that a prompt can be a command word.
    """
    index = 0
    while index < len(argv):
        word = argv[index]
        if word == "--":
            break
        if word in _WITH_VALUE:
            index += 2
        elif word.startswith("-") and word != "-":
            index += 1
        elif word in commands:
            return word, [*argv[:index], *argv[index + 1 :]]
        else:
            break
    return None, list(argv)


def shared_parser() -> argparse.ArgumentParser:
    """Return a parser of the options that every command takes."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("shared options")
    group.add_argument("-C", "--workspace", metavar="DIR", type=Path, help="work in DIR instead of the current folder")
    group.add_argument(
        "--add-dir", metavar="DIR", type=Path, action="append", default=[], help="let tools reach DIR as well"
    )
    group.add_argument("--policy", metavar="FILE", type=Path, help="use this policy and no other")
    group.add_argument("--mode", choices=MODES, help="how much runs without asking")
    group.add_argument("--config", metavar="FILE", type=Path, help="use this config file instead of your own")
    return parser


def provider_parser() -> argparse.ArgumentParser:
    """Return a parser of the options that choose a model."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    group = parser.add_argument_group("model options")
    group.add_argument("--provider", choices=PROVIDERS, help="where the model is; found when not given")
    group.add_argument("--model", metavar="NAME", help="which model")
    group.add_argument("--base-url", metavar="URL", help="address of the model server")
    group.add_argument("--script", metavar="FILE", type=Path, help="replies for --provider scripted")
    return parser


def command_parser(name: str, description: str, *parents: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return a parser for one command with its own options and the shared ones."""
    return argparse.ArgumentParser(
        prog=f"ollm-tui {name}".strip(),
        description=description,
        parents=[shared_parser(), *parents],
        allow_abbrev=False,
    )


def parse(parser: argparse.ArgumentParser, argv: Sequence[str]) -> argparse.Namespace:
    """Parse the shared options first, so that they may follow sub-commands too."""
    shared, rest = shared_parser().parse_known_args(argv)
    return parser.parse_args(rest, shared)


def options_of(given: argparse.Namespace) -> Options:
    """Return the options as values; flags that a command does not have are not given."""
    known = vars(given)
    return Options(
        workspace=given.workspace,
        add_dirs=tuple(given.add_dir),
        policy_file=given.policy,
        config_file=given.config,
        mode=given.mode,
        provider=known.get("provider"),
        model=known.get("model"),
        base_url=known.get("base_url"),
        script=known.get("script"),
        theme=known.get("theme"),
        mouse=known.get("mouse"),
        reduced_motion=known.get("reduced_motion"),
        prompt=known.get("prompt"),
    )
