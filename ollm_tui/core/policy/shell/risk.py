"""How much a command line can do: low, medium or high, for the colour and the keys of a confirmation."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

from ollm_tui.core.policy.shell.program_table import program_key, tables
from ollm_tui.core.policy.shell.read_only import ReadOnlyVerdict, read_only_parts
from ollm_tui.core.policy.shell.risky_options import flags_of
from ollm_tui.core.policy.shell.shell_line import ShellLine
from ollm_tui.core.policy.shell.words import SimpleCommand


class CommandRisk(StrEnum):
    """Risk of a command line (contract section 2)."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"


def command_risk(
    line: ShellLine,
    is_outside: Callable[[str], bool] | None = None,
    verdicts: tuple[ReadOnlyVerdict, ...] | None = None,
    *,
    destructive: bool | None = None,
) -> CommandRisk:
    """Low for the read-only list; high for deletion, privilege, outside paths and lines that cannot be analysed.

    `is_outside` tells for a word whether, taken as a path, it lies outside the workspace; it is asked about words that
    look like one (a slash, `..`, `~`) and about the paths of read-only commands. `verdicts` are those of
    `read_only_parts`, `destructive` what `is_destructive` says, where the caller has them already.
    """
    if line.opaque or (is_destructive(line) if destructive is None else destructive):
        return CommandRisk.HIGH
    verdicts = read_only_parts(line) if verdicts is None else verdicts
    if is_outside is not None:
        words = {path for verdict in verdicts for path in verdict.paths}
        for command in line.all_commands:
            words.update([word for word in command.argv[1:] if "/" in word or word == ".." or word[:1] == "~"])
        if any(is_outside(_path_in(word)) for word in words):
            return CommandRisk.HIGH
    return CommandRisk.LOW if all(verdicts) else CommandRisk.MEDIUM


def is_destructive(line: ShellLine) -> bool:
    """Whether any command that the line may run deletes or needs privilege."""
    return any(_destructive(command) for command in line.all_commands)


def _destructive(command: SimpleCommand) -> bool:
    known = tables()
    argv = command.argv
    key = program_key(argv[0])
    if key in known.deleting or key in known.privileged or key.startswith("mkfs"):
        return True
    risky = known.risky_sub.get(key)
    if risky and any(word in risky for word in argv[1:4]):
        return True
    spec = known.flagged.get(key)
    if spec is None or len(argv) < 2 or not spec.may_delete_as(argv[1]):
        return False
    return any(flag.effect == "deletes" for flag in flags_of(command))


def _path_in(word: str) -> str:
    """The path of `--output=PATH`; other words as they are."""
    if word.startswith("-") and "=" in word:
        return word.split("=", 1)[1]
    return word
