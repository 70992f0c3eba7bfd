"""Find the commands inside the words of programs that run others."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from ollm_tui.core.policy.shell.program_table import Runner, Wrapper, program_key, tables
from ollm_tui.core.policy.shell.words import SimpleCommand

_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=", re.ASCII)
_FIND_ACTIONS = frozenset({"-exec", "-execdir", "-ok", "-okdir"})
_LOOKED_INTO = frozenset({"find", "fd", "fdfind", "alias", "echo", "printf"})
_FD_ACTIONS = frozenset({"-x", "--exec", "-X", "--exec-batch"})
_STDIN_SHELLS = frozenset({"bash", "sh", "dash", "ash", "zsh", "ksh", "mksh", "fish", "rbash", "csh", "tcsh"})


@dataclass(frozen=True)
class WrappedCommands:
    """What a command runs: argument lists, and texts read as command lines."""

    argvs: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()


_NOTHING_INSIDE = WrappedCommands()


def is_wrapper(argv: tuple[str, ...]) -> bool:
    """Return whether the program runs others (`command -v NAME` does not)."""
    if not argv:
        return False
    key = program_key(argv[0])
    if key == "command" and len(argv) == 3 and argv[1] in ("-v", "-V") and not argv[2].startswith("-"):
        return False
    return key in tables().wrappers


def changes_state(argv: tuple[str, ...]) -> bool:
    """Return whether it is a builtin that changes what later commands mean."""
    if not argv:
        return False
    name = argv[0]
    if name == "printf":
        return any(word.startswith("-v") for word in argv[1:2])
    return name in tables().state_builtins


def reads_commands(argv: tuple[str, ...]) -> bool:
    """Return whether it is a shell that reads commands from its input."""
    if not argv or program_key(argv[0]) not in _STDIN_SHELLS:
        return False
    values = tables().wrappers[program_key(argv[0])].values
    index = 1
    while index < len(argv) and argv[index][:1] in "-+" and argv[index] not in ("-", "--"):
        if not argv[index].startswith("--") and "c" in argv[index]:
            return False
        if not argv[index].startswith("--") and "s" in argv[index]:
            return True
        index += 2 if argv[index] in values else 1
    return index >= len(argv) or argv[index] in ("-", "--", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0")


@lru_cache(maxsize=4096)
def may_run_others(name: str) -> bool:
    """Return whether the words, output or input of a program may have commands at all."""
    key, known = program_key(name), tables()
    return key in known.wrappers or key in known.runners or key in _STDIN_SHELLS or key in _LOOKED_INTO


def inside(command: SimpleCommand) -> WrappedCommands:
    """Return the commands within a command's words, one level down."""
    argv = command.argv
    if len(argv) < 2:
        return _NOTHING_INSIDE
    key = program_key(argv[0])
    if key == "find":
        return WrappedCommands(_actions(argv, _FIND_ACTIONS))
    if key in ("fd", "fdfind"):
        return WrappedCommands(_actions(argv, _FD_ACTIONS))
    if key == "alias":
        return WrappedCommands(lines=tuple([word.partition("=")[2] for word in argv[1:]]))
    wrapper = tables().wrappers.get(key)
    if wrapper is not None:
        return _inside_wrapper(argv, wrapper)
    runner = tables().runners.get(key)
    if runner is not None:
        start = runner_start(argv, runner)
        return WrappedCommands((argv[start:],)) if start is not None else _NOTHING_INSIDE
    return _NOTHING_INSIDE


def runner_start(argv: tuple[str, ...], runner: Runner) -> int | None:
    """Return where the inner command of `uv run X` begins, if it names one."""
    index = 1
    if "" not in runner.after:
        index = _skip_options(argv, index, runner.values)
        if index >= len(argv) or argv[index] not in runner.after:
            return None
        index += 1
    for remaining in range(runner.operands, -1, -1):
        index = _skip_options(argv, index, runner.values)
        if remaining:
            index += 1
    if index < len(argv) and argv[index] == "--":
        index += 1
    return index if index < len(argv) else None


def _inside_wrapper(argv: tuple[str, ...], wrapper: Wrapper) -> WrappedCommands:
    lines = _option_lines(argv, wrapper.line) if wrapper.line else []
    index = 1
    operands = wrapper.operands
    while index < len(argv):
        index = _skip_options(argv, index, wrapper.values | wrapper.line)
        if index < len(argv) and argv[index] == "--":
            index += 1
        if index < len(argv) and wrapper.assignments and _ASSIGNMENT.match(argv[index]):
            index += 1
        elif operands and index < len(argv):
            operands -= 1
            index += 1
        else:
            break
    rest = argv[index:]
    if not rest:
        return WrappedCommands(lines=tuple(lines))
    if wrapper.joined:
        lines.append(" ".join(rest))
        return WrappedCommands((rest,), (*lines, rest[0]))
    if wrapper.line and lines:
        return WrappedCommands(lines=tuple(lines))
    return WrappedCommands((rest,), tuple(lines))


def _option_lines(argv: tuple[str, ...], options: frozenset[str]) -> list[str]:
    lines: list[str] = []
    for index in range(1, len(argv)):
        word = argv[index]
        name, equals, value = word.partition("=")
        if word in options:
            lines.extend(argv[index + 1 : index + 2])
        elif equals and name in options:
            lines.append(value)
        elif word.startswith("-") and not word.startswith("--"):
            for option in options:
                if len(option) == 2 and option[1] in word[1:]:
                    attached = word[word.index(option[1], 1) + 1 :]
                    if attached:
                        lines.append(attached)
                    lines.extend(argv[index + 1 : index + 2])
    return lines


def _skip_options(argv: tuple[str, ...], index: int, values: frozenset[str]) -> int:
    while index < len(argv):
        word = argv[index]
        if not word.startswith("-") or word in ("-", "--"):
            break
        index += 2 if word in values else 1
    return index


def _actions(argv: tuple[str, ...], names: frozenset[str]) -> tuple[tuple[str, ...], ...]:
    found: list[tuple[str, ...]] = []
    index = 1
    while index < len(argv):
        if argv[index] in names:
            end = index + 1
            while end < len(argv) and argv[end] != ";" and not (argv[end] == "+" and argv[end - 1] == "{}"):
                end += 1
            if end > index + 1:
                found.append(argv[index + 1 : end])
            index = end
        index += 1
    return tuple(found)
