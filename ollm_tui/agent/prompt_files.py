"""Commands and skills: texts that people keep as files, and that `/name` puts into a message (contract 11).

Commands are Markdown as Claude Code's or TOML as gemini's; skills are folders with a SKILL.md (agentskills.io).
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path
from types import MappingProxyType

from ollm_tui.agent.hooks.entries import untrusted_scripts
from ollm_tui.core.base.app_dirs import config_dir
from ollm_tui.core.base.escape import visible
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.instruction_files import InstructionFile, read_instructions, untrusted_instructions
from ollm_tui.core.policy.repository_trust import RepositoryConfig, TrustState, TrustStore

WORKSPACE_FOLDERS = (".ollm", ".agents", ".claude")
"""Folders of a workspace that may hold `commands` and `skills`, the strongest first."""

RESERVED = frozenset(
    {
        *("clear", "compact", "config", "connect", "context", "continue", "copy", "doctor", "exit", "export", "fold"),
        *(
            "help",
            "jobs",
            "mcp",
            "memory",
            "mode",
            "model",
            "models",
            "new",
            "permissions",
            "policy",
            "pull",
            "quit",
            "redo",
        ),
        *(
            "resume",
            "retry",
            "rewind",
            "run",
            "sandbox",
            "sessions",
            "settings",
            "skills",
            "sources",
            "terminal",
            "theme",
        ),
        *("todos", "trust", "undo"),
    }
)
"""Names of the program's own commands, and those that it may come to have."""

MOST_FILES = 200
MOST_BYTES = 200_000
"""A larger file is a mistake: no window of a local model holds it."""
DESCRIPTION_CHARS = 300

_FRONT = re.compile(r"\A---\r?\n(.*?)\r?\n---[ \t]*(?:\r?\n|\Z)", re.DOTALL)
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}(?::[a-z0-9][a-z0-9_-]{0,63}){0,3}")


class PromptFileKind(StrEnum):
    """What a file is."""

    COMMAND = "command"
    SKILL = "skill"
    PROMPT = "prompt"
    """Kept by an MCP server, which fills it."""


_IN_FOLDERS = (PromptFileKind.COMMAND, PromptFileKind.SKILL)
_NONE: Mapping[str, Path] = MappingProxyType({})


@dataclass(frozen=True)
class PromptFile:
    """A command or skill, as it was read."""

    name: str
    kind: PromptFileKind
    description: str
    text: str
    """What goes into the message; a command's places are not filled yet."""
    source: str
    """The file: relative to the workspace, or where it is in the user's folder."""
    argument_hint: str = ""
    model_may_use: bool = True
    """False where a skill is for `/name` alone."""

    @property
    def tokens(self) -> int:
        """About how many tokens its text takes."""
        return len(self.text.encode()) // 4


@dataclass(frozen=True)
class PromptFiles:
    """All that count, by name, and what a person should know about the others."""

    files: tuple[PromptFile, ...] = ()
    findings: tuple[str, ...] = ()
    untrusted: tuple[InstructionFile, ...] = ()
    """Files of the workspace that count only after the person's word."""

    def find(self, name: str) -> PromptFile | None:
        """Return the command or skill of this name."""
        return next((file for file in self.files if file.name == name), None)

    def skills(self) -> tuple[PromptFile, ...]:
        """Return the skills that the model may use by itself."""
        return tuple(file for file in self.files if file.kind is PromptFileKind.SKILL and file.model_may_use)


def user_skills() -> Path:
    """Return the folder of the person's own skills."""
    return config_dir() / "skills"


def read_prompt_files(workspace: Workspace, store: TrustStore, bundles: Mapping[str, Path] = _NONE) -> PromptFiles:
    """Return the commands and skills; the program's own names are never theirs. Blocking. Raises ValueError.

    `bundles` are folders of plug-ins by their names, with which the names of what they bring begin.
    """
    of_bundles = (one for name, folder in bundles.items() for one in _files_of(folder, f"{name}:"))
    return _read_all([*_files_of(config_dir()), *of_bundles, *_workspace_files(workspace, store)])


def bundle_files(name: str, folder: Path) -> PromptFiles:
    """Return what one plug-in brings. Blocking."""
    return _read_all(_files_of(folder, f"{name}:"))


def _read_all(found: Iterable[_Found]) -> PromptFiles:
    files: dict[str, PromptFile] = {}
    findings: list[str] = []
    untrusted: list[InstructionFile] = []
    for name, kind, file in found:
        if file.refusal or len(file.content) > MOST_BYTES:
            findings.append(f"{file.name} is left out: {file.refusal or f'it has more than {MOST_BYTES:,} bytes.'}")
        elif file.trust is not TrustState.TRUSTED:
            untrusted.append(file)
        elif name in RESERVED or name in files:
            holder = files[name].source if name in files else "a command of the program"
            findings.append(f"{visible(file.name)} is left out: /{name} is {visible(holder)} already.")
        else:
            read = _read(name, kind, file)
            if isinstance(read, str):
                findings.append(f"{visible(file.name)} is left out: {read}")
            else:
                files[name] = read
    return PromptFiles(tuple(sorted(files.values(), key=lambda one: one.name)), tuple(findings), tuple(untrusted))


def catalogue(skills: Iterable[PromptFile], budget: int, most: int) -> str:
    """Return the list of skills for the system prompt: at most so many, within `budget` characters."""
    head = "Skills: instructions for certain tasks. When one fits, read its file with read_file first, then follow it."
    lines = [head]
    every = list(skills)
    for skill in every[:most]:
        line = f"- {skill.name}: {visible(skill.description)[:DESCRIPTION_CHARS]} ({visible(skill.source)})"
        if sum(map(len, lines)) + len(line) > budget:
            break
        lines.append(line)
    listed = len(lines) - 1
    if listed < len(every):
        lines.append(f"({len(every) - listed} more are not listed here)")
    return "\n".join(lines) if listed else ""


# -- finding them ----------------------------------------------------------------------------------------------------

_Found = tuple[str, PromptFileKind, InstructionFile]


def _files_of(folder: Path, prefix: str = "") -> Iterator[_Found]:
    """Yield those of a folder that needs no trust: the person's own, or that of a plug-in as they added it."""
    for kind in _IN_FOLDERS:
        below = folder / f"{kind}s"
        for plain, relative in _names_below(below, kind):
            name, path = f"{prefix}{plain}", below / relative
            try:
                content = path.read_bytes()[: MOST_BYTES + 1]
            except OSError as error:
                yield name, kind, InstructionFile(str(path), path, refusal=str(error))
                continue
            yield name, kind, InstructionFile(str(path), path, content, TrustState.TRUSTED)


def _workspace_files(workspace: Workspace, store: TrustStore) -> Iterator[_Found]:
    """Yield the workspace's, each with whether it is trusted as it is."""
    for folder in WORKSPACE_FOLDERS:
        for kind in _IN_FOLDERS:
            below = f"{folder}/{kind}s"
            for name, relative in _names_below(workspace.root / below, kind):
                file = read_instructions(workspace, f"{below}/{relative}", store)
                if file is not None:
                    yield name, kind, file


def _names_below(folder: Path, kind: PromptFileKind) -> Iterator[tuple[str, str]]:
    """Yield name and relative path of what looks like a command or skill, sorted."""
    found: list[tuple[str, str]] = []
    for here, folders, names in islice(os.walk(folder), MOST_FILES):
        folders.sort()
        inside = Path(here).relative_to(folder)
        for name in names:
            stem, suffix = os.path.splitext(name)
            if kind is PromptFileKind.SKILL and name == "SKILL.md" and len(inside.parts) == 1:
                found.append((inside.parts[0], f"{inside.parts[0]}/SKILL.md"))
            elif kind is PromptFileKind.COMMAND and suffix in (".md", ".toml"):
                found.append((":".join((*inside.parts, stem)), str(inside / name)))
    yield from sorted(found)[:MOST_FILES]


# -- reading one -----------------------------------------------------------------------------------------------------


def _read(name: str, kind: PromptFileKind, file: InstructionFile) -> PromptFile | str:
    """Return the file as it counts, or why it cannot."""
    if not _NAME.fullmatch(name):
        return f"{visible(name)} is no name for a {kind}: use a-z, 0-9, - and _."
    text = file.content.decode("utf-8", "replace").removeprefix("\ufeff")
    try:
        if file.name.endswith(".toml"):
            table = tomllib.loads(text)
            return PromptFile(name, kind, str(table.get("description", "")), str(table["prompt"]), file.name)
        fields, body = _front_matter(text)
    except (tomllib.TOMLDecodeError, ValueError) as error:
        return f"{visible(str(error).splitlines()[0])}."
    except KeyError:
        return "it has no prompt."
    if kind is PromptFileKind.SKILL and (
        fields.get("name") != name.rpartition(":")[2] or not fields.get("description")
    ):
        return f"its front matter needs name = {name} (as its folder) and a description."
    description = str(fields.get("description") or next(iter(body.strip().splitlines()), ""))
    hint = str(fields.get("argument-hint", ""))
    may_use = fields.get("disable-model-invocation") is not True
    return PromptFile(name, kind, description[:1024], body.strip(), file.name, hint, may_use)


def _front_matter(text: str) -> tuple[dict[str, object], str]:
    """Return the fields above the text. Raises ValueError."""
    found = _FRONT.match(text)
    if found is None:
        return {}, text
    import yaml  # only those who keep such files need it

    try:
        fields: object = yaml.safe_load(found[1])
    except yaml.YAMLError as error:
        raise ValueError(f"its front matter is no YAML: {error}") from None
    if fields is None:
        return {}, text[found.end() :]
    if not isinstance(fields, dict):
        raise ValueError("its front matter holds no fields")
    return {str(key): value for key, value in fields.items()}, text[found.end() :]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]  # YAML of any shape: str() makes it what it must be


def untrusted_files(workspace: Workspace, own: RepositoryConfig, store: TrustStore) -> list[InstructionFile]:
    """Return instructions, skills, commands, hooks' scripts and MCP servers to be trusted. Raises ValueError."""
    servers = read_instructions(workspace, ".mcp.json", store)
    return [
        *untrusted_instructions(workspace, store),
        *read_prompt_files(workspace, store).untrusted,
        *untrusted_scripts(workspace, own, store),
        *([servers] if servers and not servers.refusal and servers.trust is not TrustState.TRUSTED else []),
    ]
