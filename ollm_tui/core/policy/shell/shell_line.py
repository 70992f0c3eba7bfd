"""Command lines taken apart for judging: simple commands, why a line can never be allowed, everything it may run.

Two readers must agree on every word before a line counts as understood: an own strict one (`shell_scanner`) and
tree-sitter's (`shell_tree`). Whatever is outside the plain subset makes the line opaque; nothing here ever raises.
"""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from functools import cached_property, lru_cache

from ollm_tui.core.policy.shell.characters import character_problems
from ollm_tui.core.policy.shell.nested_commands import NestedCommands, behind_options, every_command
from ollm_tui.core.policy.shell.strict_scanner import Scan, scan
from ollm_tui.core.policy.shell.tree_sitter_reader import TreeReading, parse, read_tree
from ollm_tui.core.policy.shell.words import SimpleCommand
from ollm_tui.core.policy.shell.wrappers import changes_state, is_wrapper

MAX_CHARACTERS = 8_000
"""Longer lines are not analysed for allowing (a limit on size, not on time, so that load never changes an answer)."""

MAX_OPERATORS = 400
"""More separators than this in a line: not analysed, since the parser needs quadratic time for long pipelines."""

MAX_REMEMBERED = 2_000
"""Characters of a line whose analysis is remembered."""

_OPERATORS = re.compile(r"[;&|\n(<`]")


@dataclass(frozen=True)
class ShellLine:
    """A command line as understood.

    `parts` are its simple commands in order; `opaque_reasons` say why it can never be allowed (empty when it was
    understood completely); `all_commands` holds the parts and every command found inside them, for deny and ask rules;
    `file_targets` are the files that redirections read or write. `incomplete` says that `all_commands` lacks some:
    where a deny rule exists, such a line has to be denied, since the rule cannot be tried on what is missing. So has
    one with an `unnamed` program.
    """

    source: str
    parts: tuple[SimpleCommand, ...] = ()
    opaque_reasons: tuple[str, ...] = ()
    all_commands: tuple[SimpleCommand, ...] = ()
    file_targets: tuple[str, ...] = ()
    incomplete: bool = False
    unnamed: str = ""

    @cached_property
    def behind_options(self) -> NestedCommands:
        """What words of the commands would run, as far as that can be told: for deny and ask rules alone."""
        return behind_options(self.all_commands)

    @property
    def opaque(self) -> bool:
        """Whether no rule, approval or shipped list may allow it."""
        return bool(self.opaque_reasons)

    @cached_property
    def reason(self) -> str:
        """One sentence for people about why it is opaque, or an empty string."""
        return "; ".join(self.opaque_reasons)


def analyse(line: str) -> ShellLine:
    """Take a command line apart; any text gives a value, never an exception.

    A line is asked about several times on its way (rules, the question to a person, once more before it runs), and
    only its text counts: the last ones are remembered, long ones left out for the memory they would hold.
    """
    return _remembered(line) if len(line) <= MAX_REMEMBERED else analyse_anew(line)


def analyse_anew(line: str) -> ShellLine:
    """As `analyse`, never from memory."""
    reasons = list(character_problems(line))
    if len(line) > MAX_CHARACTERS:
        reasons.append(f"it is longer than {MAX_CHARACTERS:,} characters")
    elif not line or line.isspace():
        return ShellLine(line, opaque_reasons=("it is empty",))
    if len(line) > MAX_CHARACTERS or (len(line) > MAX_OPERATORS and len(_OPERATORS.findall(line)) > MAX_OPERATORS):
        if len(line) <= MAX_CHARACTERS:
            reasons.append(f"it has more than {MAX_OPERATORS} separators")
        found = every_command(line, None, (), torn=True)
        return ShellLine(line, found.found, tuple(reasons), found.found, (), found.incomplete, found.unnamed)
    strict = scan(line)
    tree = parse(line)
    reading = read_tree(tree)
    reasons.extend(strict.reasons)
    agreed = False
    if strict.complete:
        if reading.problem:
            reasons.append(reading.problem)
        elif _agree(strict, reading):
            agreed = True
        else:
            reasons.append("two readers disagree about where its words end")
    parts = tuple([_judged(command) for command in strict.commands])
    if strict.complete and not parts:
        reasons.append("it holds no command")
    for part in parts:
        reasons.extend(part.reasons)
    targets = tuple(strict.file_targets)
    if agreed and not reasons:
        everything, incomplete, unnamed = every_command(line, None, parts)
        if incomplete:
            reasons.append("it holds commands nested too deeply")
        return ShellLine(line, parts, tuple(reasons), everything, targets, incomplete, unnamed)
    torn = tree.root_node.has_error or (strict.complete and not agreed)
    everything, incomplete, unnamed = every_command(line, tree, parts, torn=torn)
    unique = tuple(dict.fromkeys(reasons))
    return ShellLine(line, parts if agreed else everything, unique, everything, targets, incomplete, unnamed)


_remembered = lru_cache(maxsize=64)(analyse_anew)


def forget_analyses() -> None:
    """Have every line analysed anew; answers stay the same, so this is for measuring alone."""
    _remembered.cache_clear()


def bash_accepts(line: str, timeout: float = 2.0) -> bool:
    """Whether bash itself finds the line well-formed (`bash -n`, about 2 ms); asked only before an allow.

    False when bash is missing, takes longer than `timeout` seconds or the line cannot be handed over.
    """
    if "\0" in line:
        return False
    try:
        done = subprocess.run(
            ["/bin/bash", "--noprofile", "--norc", "-n", "-c", line],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env={"LC_ALL": "C.UTF-8"},
            timeout=timeout,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and not done.stderr


def _agree(strict: Scan, reading: TreeReading) -> bool:
    ours = [[(word.start, word.end) for word in command.words] for command in strict.commands]
    return ours == reading.commands and strict.redirections == reading.redirections


def _judged(command: SimpleCommand) -> SimpleCommand:
    """The command with everything that keeps it from ever being allowed by itself."""
    reasons: list[str] = []
    first = command.words[0]
    if first.assignment:
        reasons.append(f"{first.raw} sets a variable")
    elif not first.literal or not first.text:
        reasons.append("the program is not named literally")
    for word in command.words:
        if word.problem:
            reasons.append(f"{word.raw} holds {word.problem}")
    argv = command.argv
    if not first.text.isascii():
        reasons.append("the program's name holds letters beyond ASCII")
    if is_wrapper(argv):
        reasons.append(f"{argv[0]} runs other commands")
    elif changes_state(argv):
        reasons.append(f"{argv[0]} changes what later commands mean")
    if not reasons:
        return command
    return SimpleCommand(command.words, command.source, tuple(reasons))
