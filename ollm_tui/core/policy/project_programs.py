"""Files of the workspace that a command line runs: named programs, scripts, and where its tools find their tasks."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator
from pathlib import Path

from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.fence.workspace import Access, Workspace
from ollm_tui.core.policy.shell.program_table import program_key
from ollm_tui.core.policy.shell.read_only import read_only_parts
from ollm_tui.core.policy.shell.shell_line import analyse
from ollm_tui.core.policy.shell.words import SimpleCommand

INTERPRETERS = frozenset(
    ["python", "node", "ruby", "perl", "php", "bash", "sh", "zsh", "dash", "lua", "deno", "tsx", "ts-node", "Rscript"]
)

_TASKS = {
    "npm npx pnpm pnpx yarn bun bunx": "package.json",
    "make gmake": "GNUmakefile makefile Makefile",
    "just": "justfile Justfile .justfile",
    "task": "Taskfile.yml Taskfile.yaml taskfile.yml taskfile.yaml",
    "rake": "Rakefile rakefile Rakefile.rb rakefile.rb",
    "nox": "noxfile.py",
    "tox": "tox.ini toxfile.py",
    "composer": "composer.json",
    "deno": "deno.json deno.jsonc",
    "gradle gradlew": "build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    "mvn mvnw": "pom.xml",
    "ant": "build.xml",
    "cargo": "Cargo.toml build.rs",
    "cmake": "CMakeLists.txt CMakePresets.json",
    "ninja": "build.ninja",
    "docker": "Dockerfile docker-compose.yml compose.yml compose.yaml",
    "mix": "mix.exs",
}
TASK_FILES = {program: files.split() for programs, files in _TASKS.items() for program in programs.split()}
"""What says which commands a program of that name runs, in the directory where it runs or in one that it is given."""


def project_programs(line: str, workspace: Workspace, cwd: str = "") -> list[Path]:
    """Return those that exist, with and without their last link followed. Asks for status only; blocks."""
    found: dict[Path, None] = {}
    read = analyse(line)
    for part, verdict in zip(read.parts, read_only_parts(read), strict=True):
        for folder in verdict.directories or (".",):
            for name in _names(part):
                for follow in (True, False):
                    try:
                        path = posixpath.join(cwd, folder, name)
                        real = workspace.resolve(path, Access.READ, follow=follow).real
                    except ToolFailure:
                        continue
                    if os.path.lexists(real):
                        found[real] = None
    return list(found)


def _names(command: SimpleCommand) -> Iterator[str]:
    """Yield what a command runs, as paths from where it runs."""
    argv = command.argv
    if not argv:
        return
    key = program_key(argv[0])
    if "/" in argv[0]:
        yield argv[0]
    operands = [word for word in argv[1:] if word and not word.startswith("-")]
    if key in INTERPRETERS:
        yield from operands[:2]  # the second where an option takes the first
    for file in TASK_FILES.get(key, ()):
        yield file
        yield from (posixpath.join(word, file) for word in operands)
