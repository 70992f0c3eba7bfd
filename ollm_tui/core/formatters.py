"""The formatters by file type: which one a project uses, where it is, and how it is run from input to output."""

from __future__ import annotations

import os
import re
import shutil
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ShellExecutionFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.sandbox.engines import look_cage, look_works
from ollm_tui.core.search.repository import read_file
from ollm_tui.core.shell.short_program import ProgramRun, run_program

SECONDS = 30.0
"""How long a formatter may take for one file."""
_MOST_SAID = 1_000
MOST_CONFIGURATIONS = 100
"""Configurations that are looked at for one file."""


@dataclass(frozen=True)
class Formatter:
    """A program that takes a file's text as its input and prints it formatted."""

    name: str
    arguments: Callable[[Path], Sequence[str]]
    endings: tuple[str, ...]
    configured: tuple[tuple[str, str], ...] = ()
    """Files that say that a project uses it, each with what stands in it."""
    runs_project_code: bool = False
    """Its configuration and plugins are programs of the project."""
    reads: tuple[str, ...] = ()
    """Names of the files that configure it, in any directory above a formatted file."""
    extends: Callable[[Path], Sequence[str]] = lambda path: ()
    """Returns what one of them takes over, as paths from where it lies."""
    chosen_by: tuple[str, ...] = ()
    """Files by which a project says which program runs under its name, one of its own for instance."""


@dataclass(frozen=True)
class FormatterCall:
    """The formatter of one file, and its program; `own` where that, or its configuration, is code of the workspace."""

    formatter: Formatter
    program: Path
    own: bool


def _extended_by_ruff(path: Path) -> Sequence[str]:
    try:
        settings = tomllib.loads((read_file(os.fsencode(path), 200_000) or b"").decode())
    except (ValueError, RecursionError):
        return ()  # nor does ruff go on
    if path.name == "pyproject.toml":
        settings = _table(_table(settings.get("tool")).get("ruff"))
    extended = settings.get("extend")
    return (extended,) if isinstance(extended, str) else ()


def _table(value: object) -> dict[str, object]:
    return cast("dict[str, object]", value) if isinstance(value, dict) else {}  # TOML's keys are strings


def _extended_by_biome(path: Path) -> Sequence[str]:
    text = (read_file(os.fsencode(path), 200_000) or b"").decode("utf-8", "replace")
    lists = re.findall(r'"extends"\s*:\s*(\[[^\]]*\]|"[^"]*")', text)
    return [each for found in lists for each in re.findall(r'"([^"]*)"', found) if each.startswith((".", "/"))]


_PRETTIER = (
    *(".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".json", ".css", ".scss", ".less"),
    *(".html", ".vue", ".md", ".markdown", ".yaml", ".yml", ".graphql"),
)
_C = (".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".m", ".mm", ".proto", ".java", ".cs")

FORMATTERS = (
    Formatter(
        "ruff",
        lambda path: ["format", "--no-cache", "--stdin-filename", str(path), "-"],
        (".py", ".pyi"),
        (("pyproject.toml", "[tool.ruff"), ("ruff.toml", ""), (".ruff.toml", "")),
        reads=("pyproject.toml", "ruff.toml", ".ruff.toml"),
        extends=_extended_by_ruff,
    ),
    Formatter(
        "black",
        lambda path: ["--quiet", "--stdin-filename", str(path), "-"],
        (".py", ".pyi"),
        (("pyproject.toml", "[tool.black"),),
        reads=("pyproject.toml",),
    ),
    Formatter(
        "biome",
        lambda path: ["format", f"--stdin-file-path={path}"],
        (".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".json", ".css", ".graphql"),
        (("biome.json", ""), ("biome.jsonc", "")),
        reads=("biome.json", "biome.jsonc", ".editorconfig"),
        extends=_extended_by_biome,
    ),
    Formatter("prettier", lambda path: [f"--stdin-filepath={path}"], _PRETTIER, runs_project_code=True),
    Formatter("gofmt", lambda path: [], (".go",)),
    Formatter(
        "rustfmt",
        lambda path: ["--emit", "stdout", "--quiet", "--edition", _edition(path)],
        (".rs",),
        reads=("rustfmt.toml", ".rustfmt.toml", "Cargo.toml"),
        chosen_by=("rust-toolchain.toml", "rust-toolchain"),
    ),
    Formatter(
        "clang-format",
        lambda path: [f"--assume-filename={path}"],
        _C,
        reads=(".clang-format", "_clang-format", ".clang-format-ignore"),
    ),
    Formatter("shfmt", lambda path: ["--filename", str(path)], (".sh", ".bash"), reads=(".editorconfig",)),
)
"""Of several for one ending the one that the project configures, else the first that is there."""


def find_formatter(path: Path, root: Path) -> FormatterCall:
    """Return the formatter for a file below `root`; reads a few small files. Raises ShellExecutionFailed."""
    able = [each for each in FORMATTERS if path.suffix in each.endings]
    configured = [each for each in able if _is_configured(each, path, root)]
    for each in configured or able:
        for program in _programs(each.name, path, root):
            own = program.is_relative_to(root) or Path(os.path.realpath(program)).is_relative_to(root)
            return FormatterCall(each, program, own or each.runs_project_code or _is_chosen(each, path, root))
    ending = visible(path.suffix) or "no ending"
    known = " or ".join(each.name for each in configured or able)
    if not known:
        raise ShellExecutionFailed(f"No formatter is known for files with {ending}.")
    raise ShellExecutionFailed(
        f"{known} is not installed: it is looked for in .venv and node_modules of the project and on PATH. "
        "Ask the person to install it."
    )


def configurations(formatter: Formatter, path: Path, root: Path) -> list[Path]:
    """Return the files that configure it for a file below `root`, and those they take over; reads them."""
    waiting = [folder / name for folder in _folders(path, root) for name in formatter.reads]
    found: dict[Path, None] = {}
    while waiting and len(found) < MOST_CONFIGURATIONS:
        each = waiting.pop()
        unknown = each.parts[1:2] == ("~",)
        if each not in found and (unknown or os.path.lexists(each)):
            found[each] = None
            names = () if unknown else formatter.extends(each)
            # What a variable stands for there is not known here: such a name counts as one outside.
            waiting += [Path("/~", name) if "$" in name or name[:1] == "~" else each.parent / name for name in names]
    return list(found)


def _is_configured(formatter: Formatter, path: Path, root: Path) -> bool:
    for folder in _folders(path, root):
        for name, text in formatter.configured:
            content = read_file(os.fsencode(folder / name), 200_000)
            if content is not None and text.encode() in content:
                return True
    return False


def _is_chosen(formatter: Formatter, path: Path, root: Path) -> bool:
    """Return whether a file of the project says which program is meant."""
    return any(os.path.lexists(folder / name) for folder in _folders(path, root) for name in formatter.chosen_by)


def _folders(path: Path, root: Path) -> Iterator[Path]:
    """Yield the directories from the file's own up to the root."""
    return (folder for folder in path.parents if folder.is_relative_to(root))


def _programs(name: str, path: Path, root: Path) -> Iterator[Path]:
    for folder in _folders(path, root):
        for place in (".venv/bin", "venv/bin", "node_modules/.bin"):
            program = folder / place / name
            if os.access(program, os.X_OK) and program.is_file():
                yield program
    absolute = [each for each in os.environ.get("PATH", os.defpath).split(os.pathsep) if os.path.isabs(each)]
    if found := shutil.which(name, path=os.pathsep.join(absolute)):
        yield Path(found)


def _edition(path: Path) -> str:
    for folder in path.parents:
        content = read_file(os.fsencode(folder / "Cargo.toml"), 200_000)
        if content is not None:
            found = re.search(rb'^\s*edition\s*=\s*"(20\d\d)"', content, re.MULTILINE)
            return found[1].decode() if found else "2015"
    return "2021"


def format_text(
    call: FormatterCall, path: Path, text: bytes, readable: Sequence[Path], most_bytes: int, signal: AbortSignal
) -> bytes:
    """Return what the formatter makes of a file's text, in the cage of what only looks where that works. Blocks.

    Raises:
        ShellExecutionFailed: It found an error in the text, failed, or printed nothing or far too much.
        ShellTimeout: It did not end.
        OperationCancelled: The signal aborted.
    """
    cage = look_cage((*readable, *_environment_of(call.program))) if look_works() else None
    argv = [str(call.program), *call.formatter.arguments(path)]
    name = call.formatter.name
    ended = run_program(ProgramRun(argv, path.parent, text, SECONDS, most_bytes, cage), signal)
    if ended.code:
        said = _head(ended.errors) or _head(ended.output.decode("utf-8", "replace"))
        why = "it printed far too much" if ended.wrote_too_much else said or f"it exited with code {ended.code}"
        raise ShellExecutionFailed(f"{name}: {why}. The file was not changed.")
    if text.strip() and not ended.output.strip():
        raise ShellExecutionFailed(f"{name} printed nothing. The file was not changed.")
    return ended.output


def _environment_of(program: Path) -> Sequence[Path]:
    """Return the virtual environment that a program is in: it stands where the cage shows nothing else."""
    above = Path(os.path.realpath(program)).parents[1]
    return [above] if (above / "pyvenv.cfg").is_file() else []


def _head(said: str) -> str:
    lines = said[:_MOST_SAID].strip().splitlines()
    return visible("; ".join(line.strip() for line in lines[:5] if line.strip())).rstrip(".")
