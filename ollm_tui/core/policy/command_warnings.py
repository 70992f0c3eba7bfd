"""What a person should know before a command line runs, and what its exit code means."""

from __future__ import annotations

import os
from pathlib import Path

from ollm_tui.core.base.escape import quote_name, visible
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.shell.command_paths import CommandPaths
from ollm_tui.core.policy.shell.program_table import program_key, tables
from ollm_tui.core.policy.shell.read_only import path_in
from ollm_tui.core.policy.shell.shell_line import ShellLine, analyse, last_program
from ollm_tui.core.policy.shell.words import SimpleCommand
from ollm_tui.core.search.workspace_scan import not_kept
from ollm_tui.core.tools.context import CommandFacts
from ollm_tui.core.tools.file_changes import git_status

LONG_CHARACTERS = 2_000
LONG_LINES = 20
"""From here on the person is told to read to the end."""

MAX_NAMED = 3
"""Paths named in one sentence; the rest is counted."""

MAX_DELETED = 10_000
"""Files looked at below what `rm -r` names."""

_SCRIPTS = {
    "": "make gmake cmake ninja just task rake tox nox pytest py.test unittest coverage mocha jest vitest ava karma "
    "playwright cypress tsx ts-node gradle gradlew mvn mvnw ant sbt bazel meson ctest phpunit rspec mix pre-commit",
    "npm": "test t tst run run-script start stop restart install i ci exec x rebuild",
    "pnpm": "test t run start install i exec",
    "yarn": "test run start install exec",
    "bun": "test run install",
    "cargo": "test run build check bench clippy install t r b",
    "go": "test run generate build install",
    "dotnet": "test run build",
    "swift": "test run build",
    "uv": "run sync pip",
    "poetry": "run install",
    "pip": "install",
    "composer": "install run-script",
    "bundle": "exec install",
    "docker": "build compose",
    "python": "",
    "node": "",
    "ruby": "",
    "perl": "",
    "php": "",
    "bash": "",
    "sh": "",
    "zsh": "",
    "dash": "",
    "lua": "",
    "deno": "",
}
"""Programs (under the empty name) and sub-commands that run scripts, tests or build files of the workspace.

Without sub-commands a program is an interpreter, which runs the file it is given.
"""

_RUNS_SCRIPTS = {name: frozenset(words.split()) for name, words in _SCRIPTS.items()}


_ANSWERING = frozenset({"grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "[", "[["})
"""Programs whose exit code 1 says "not found" or "they differ"."""


class ShellCommandReader:
    """Implements `CommandReader` with the reader that judges command lines."""

    def facts(self, command: str, workspace: Workspace | None = None, cwd: str = "") -> CommandFacts:
        """Return the parts and warnings of a line; reads file status, and git's index for deletions. Blocks."""
        line = analyse(command)
        paths = CommandPaths(workspace, cwd) if workspace is not None else None
        found = [*_hard_to_read(line), *_long(command), *_project_code(line)]
        if paths is not None:
            found += [*_sensitive_paths(line, paths), *_deleted_files(line, paths)]
        return CommandFacts(tuple(part.text for part in line.parts), tuple(dict.fromkeys(found)))

    def exit_code_is_answer(self, command: str, code: int | None) -> bool:
        """Return whether 1 is the answer of the search or comparison that ends the line."""
        return code == 1 and last_program(command) in _ANSWERING


def _hard_to_read(line: ShellLine) -> list[str]:
    return [f"It cannot be checked: {visible(reason)}" for reason in line.opaque_reasons]


def _long(command: str) -> list[str]:
    lines = command.count("\n") + 1
    if len(command) < LONG_CHARACTERS and lines < LONG_LINES:
        return []
    return [f"It is long: {len(command):,} characters in {lines:,} lines; read it to its end"]


def _project_code(line: ShellLine) -> list[str]:
    """Name commands that run files of the project, which the model may have edited."""
    running = dict.fromkeys(_shown_name(command) for command in line.all_commands if _runs_project_code(command))
    return [f"{name} runs code of this project" for name in running]


def _runs_project_code(command: SimpleCommand) -> bool:
    argv = command.argv
    if not argv:
        return False
    name, rest = argv[0], argv[1:]
    key = program_key(name)
    if "/" in name and not name.startswith(("/usr/", "/bin/", "/sbin/", "/opt/")):
        return True
    operands = [word for word in rest if not word.startswith("-")]
    if key in _RUNS_SCRIPTS[""]:
        return True
    known = _RUNS_SCRIPTS.get(key)
    return known is not None and bool(operands) and (not known or operands[0] in known)


def _shown_name(command: SimpleCommand) -> str:
    operands = [word for word in command.argv[1:] if not word.startswith("-")]
    named = bool(_RUNS_SCRIPTS.get(program_key(command.name))) and operands
    return visible(f"{command.name} {operands[0]}" if named else command.name)


def _sensitive_paths(line: ShellLine, paths: CommandPaths) -> list[str]:
    """Name words that as paths lead outside the workspace or to files that need a question."""
    outside: dict[str, None] = {}
    guarded: dict[str, str] = {}
    for word in dict.fromkeys(path_in(word) for command in line.all_commands for word in command.argv[1:]):
        if not word or "\0" in word:
            continue
        if ("/" in word or word in ("..", "~")) and paths.is_outside(word):
            outside[word] = None
        elif (reason := paths.reason_to_ask(word)) is not None and not paths.is_outside(word):
            guarded[word] = reason
    warnings = [f"{visible(word)} {reason}" for word, reason in guarded.items()]
    return [f"Outside the workspace: {_named(tuple(outside))}", *warnings] if outside else warnings


def _deleted_files(line: ShellLine, paths: CommandPaths) -> list[str]:
    """Name the files that would be deleted, their size, and whether git still has them."""
    known = tables()
    found: list[tuple[Path, int]] = []
    for command in line.all_commands:
        if program_key(command.name) not in known.deleting or command.name == "kill":
            continue
        for word in command.words[1:]:
            if word.literal and not word.text.startswith("-"):
                found += _files_at(paths.location(word.text))
    if not found:
        return []
    files, total = [path for path, _ in found], sum(size for _, size in found)
    more = " or more" if len(files) >= MAX_DELETED else ""
    shown = _named(tuple(paths.workspace.shown(path) for path in files), quoted=True)
    git = git_status(files)
    noun = "file" if len(files) == 1 else "files"
    deletes = f"Deletes {len(files):,}{more} {noun} ({total:,} bytes): {shown}"
    return [f"{deletes}; {git}" if git else deletes, *_lost(found, paths.workspace)]


def _lost(files: list[tuple[Path, int]], workspace: Workspace) -> list[str]:
    """Say how many files `ollm-tui undo` could not bring back."""
    lost = not_kept(map(str, workspace.roots), ((os.fsencode(path), size) for path, size in files))
    which = "it" if lost == len(files) == 1 else f"{lost:,} of them"
    return [f"Undo cannot bring {which} back (ignored by git, larger than 1 MB, or credentials)"] if lost else []


def _files_at(path: Path | None) -> list[tuple[Path, int]]:
    if path is None or not os.path.lexists(path):
        return []
    if not path.is_dir() or path.is_symlink():
        return [(path, path.lstat().st_size)]
    found: list[tuple[Path, int]] = []
    for folder, _, names in os.walk(path):
        for name in names:
            if len(found) >= MAX_DELETED:
                return found
            path = Path(folder, name)
            try:
                found.append((path, path.lstat().st_size))
            except OSError:
                found.append((path, 0))  # gone or closed to us: it counts, its size is not known
    return found


def _named(names: tuple[str, ...], *, quoted: bool = False) -> str:
    shown = [name if quoted else quote_name(name) for name in names[:MAX_NAMED]]
    more = len(names) - len(shown)
    return ", ".join(shown) + (f" and {more:,} more" if more else "")
