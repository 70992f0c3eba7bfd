"""Files of the workspace that a command line runs: programs it names, where tools find tasks, code they load."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from pathlib import Path

from ollm_tui.core.base.errors import ToolFailure
from ollm_tui.core.fence.workspace import Access, Workspace
from ollm_tui.core.files.unasked_writes import CodePlace
from ollm_tui.core.policy.shell.program_table import program_key
from ollm_tui.core.policy.shell.read_only import read_only_parts
from ollm_tui.core.policy.shell.shell_line import analyse
from ollm_tui.core.policy.shell.words import SimpleCommand

INTERPRETERS = frozenset(
    ["python", "node", "ruby", "perl", "php", "bash", "sh", "zsh", "dash", "lua", "deno", "tsx", "ts-node", "Rscript"]
)

_CONFIGURED = "pyproject.toml setup.cfg tox.ini"
_TASKS = {
    "npm npx pnpm pnpx yarn bun bunx": "package.json",
    "make gmake": "GNUmakefile makefile Makefile",
    "just": "justfile Justfile .justfile",
    "task": "Taskfile.yml Taskfile.yaml taskfile.yml taskfile.yaml",
    "rake": "Rakefile rakefile Rakefile.rb rakefile.rb",
    "nox": "noxfile.py",
    "tox": f"toxfile.py {_CONFIGURED}",
    "composer": "composer.json",
    "deno": "deno.json deno.jsonc",
    "gradle gradlew": "build.gradle build.gradle.kts settings.gradle settings.gradle.kts",
    "mvn mvnw": "pom.xml",
    "ant": "build.xml",
    "cargo": "Cargo.toml build.rs",
    "cmake ctest": "CMakeLists.txt CMakePresets.json CTestTestfile.cmake",
    "ninja": "build.ninja",
    "docker": "Dockerfile docker-compose.yml compose.yml compose.yaml",
    "mix": "mix.exs",
    "pytest": f"pytest.ini .pytest.ini {_CONFIGURED}",
    "ruff": "ruff.toml .ruff.toml pyproject.toml",
    "mypy": f"mypy.ini .mypy.ini {_CONFIGURED}",
    "coverage": f".coveragerc {_CONFIGURED}",
    "black isort flake8 pylint uv poetry pdm hatch": f".flake8 {_CONFIGURED}",
    "jest vitest mocha": "package.json .mocharc.json .mocharc.yml",
    "eslint": "package.json .eslintrc .eslintrc.json .eslintrc.yml .eslintrc.yaml",
    "prettier": "package.json .prettierrc .prettierrc.json .prettierrc.yml .prettierrc.yaml",
    "tsc": "tsconfig.json",
}
TASK_FILES = {program: files.split() for programs, files in _TASKS.items() for program in programs.split()}
"""What says which commands a program of that name runs, in the directory where it runs or in one that it is given."""

_PYTHON, _SCRIPT = ".py", ".js .mjs .cjs .ts .mts .cts .jsx .tsx"
_CODE = {
    "python pytest py.test unittest tox nox coverage uv poetry pdm hatch pipenv django-admin flask": _PYTHON,
    "node deno npm npx pnpm pnpx yarn bun bunx tsx ts-node jest vitest mocha eslint prettier": _SCRIPT,
    "ruby rake rspec bundle": ".rb",
    "perl prove": ".pl .pm .t",
    "php composer phpunit": ".php",
    "lua busted": ".lua",
    "rscript": ".r",
    "go": ".go",
    "cargo": ".rs",
    "gradle gradlew mvn mvnw ant": ".java .kt .kts .scala .groovy",
    "dotnet": ".cs .fs",
    "mix elixir": ".ex .exs",
}
_EVERY_CODE = " ".join((*_CODE.values(), ".sh .c .cc .cpp .cxx .h .hpp .swift .zig"))
_CODE["make gmake just task docker cmake ctest ninja"] = _EVERY_CODE
CODE_ENDINGS = {
    program: frozenset(endings.split()) for programs, endings in _CODE.items() for program in programs.split()
}
"""Endings of the files that a program of that name loads by itself: tests, plug-ins, modules next to a script."""


def project_programs(line: str, workspace: Workspace, cwd: str = "") -> list[Path]:
    """Return those that exist, with and without their last link followed. Asks for status only; blocks."""
    found: dict[Path, None] = {}
    for part, folder in _commands(line):
        for name in _names(part, _levels(posixpath.join(cwd, folder), workspace)):
            for follow in (True, False):
                try:
                    real = workspace.resolve(posixpath.join(cwd, folder, name), Access.READ, follow=follow).real
                except ToolFailure:
                    continue
                if os.path.lexists(real):
                    found[real] = None
    return list(found)


def project_code(line: str, workspace: Workspace, cwd: str = "") -> list[CodePlace]:
    """Return where programs of a line load code by themselves.

    It is all of the workspace, as runners look for their root; for a script of Python its own directory.
    """
    found: dict[Path, frozenset[str]] = {}
    for part, folder in _commands(line):
        endings = frozenset[str]().union(*(CODE_ENDINGS.get(key, ()) for key in _keys(part)))
        if endings:
            script = _python_script(part)
            for root in (
                workspace.roots if script is None else _folder_of(posixpath.join(cwd, folder, script), workspace)
            ):
                found[root] = found.get(root, frozenset()) | endings
    return [CodePlace(folder, endings) for folder, endings in found.items()]


def _python_script(command: SimpleCommand) -> str | None:
    """Return the script that Python is given; None for modules, code and other programs."""
    words = command.argv[1:]
    if program_key(command.argv[0]) != "python" or any(word[:2] in ("-m", "-c") or word[:2] == "-" for word in words):
        return None
    return next((word for word in words if word.endswith(".py")), None)


def _folder_of(script: str, workspace: Workspace) -> Sequence[Path]:
    """Return the directory of a script in the workspace; nothing for one outside, which looks beside itself."""
    try:
        return [workspace.resolve(script).real.parent]
    except ToolFailure:
        return []


def _commands(line: str) -> Iterator[tuple[SimpleCommand, str]]:
    """Yield each command with each directory in which it may run; those within others with all of the line's."""
    read = analyse(line)
    everywhere = dict[str, None]()
    for part, verdict in zip(read.parts, read_only_parts(read), strict=True):
        folders = verdict.directories or (".",)
        everywhere.update(dict.fromkeys(folders))
        yield from ((part, folder) for folder in folders)
    within = [each for each in (*read.all_commands, *read.commands_in_options.found) if each not in read.parts]
    yield from ((part, folder) for part in within for folder in everywhere or (".",))


def _keys(command: SimpleCommand) -> list[str]:
    """Return the lookup names of a program, and of what it is told to run: `python -m pytest`, `uv run pytest`."""
    words = [word for word in command.argv[1:4] if word and not word.startswith("-")]
    return [program_key(word) for word in (*command.argv[:1], *words[:2])]


def _levels(folder: str, workspace: Workspace) -> list[str]:
    """Return the ways from a directory to it and to those above, up to the root of the workspace."""
    try:
        real = workspace.resolve(folder).real
    except ToolFailure:
        return ["."]
    depth = len(real.relative_to(workspace.root).parts) if real.is_relative_to(workspace.root) else 0
    return [".", *("/".join([".."] * level) for level in range(1, depth + 1))]


def _names(command: SimpleCommand, levels: Sequence[str]) -> Iterator[str]:
    """Yield what a command runs, as paths from where it runs."""
    argv = command.argv
    if not argv:
        return
    if "/" in argv[0]:
        yield argv[0]
    operands = [word for word in argv[1:] if word and not word.startswith("-")]
    if program_key(argv[0]) in INTERPRETERS:
        yield from operands[:2]  # the second where an option takes the first
    for file in dict.fromkeys(file for key in _keys(command) for file in TASK_FILES.get(key, ())):
        yield from (posixpath.join(level, file) for level in levels)
        yield from (posixpath.join(word, file) for word in operands)
