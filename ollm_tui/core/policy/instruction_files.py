"""Find a workspace's instructions for agents (`AGENTS.md`, `.ollm/instructions.md`), and whether they are trusted."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from ollm_tui.core.base.errors import FileNotFound, NotADirectory, ToolFailure
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.policy.repository_trust import MAX_BYTES, TrustState, TrustStore

AGENTS_FILE = "AGENTS.md"
OWN_INSTRUCTIONS = ".ollm/instructions.md"
ROOT_FILES = (AGENTS_FILE, OWN_INSTRUCTIONS)

MOST_DIRECTORIES = 5_000
MOST_FILES = 50
"""Bounds of looking for all files that there are."""

NOT_LOOKED_INTO = frozenset({"node_modules", "target", "dist", "build", "venv"})


@dataclass(frozen=True)
class InstructionFile:
    """A file of instructions as it was read; `refusal` says why it cannot be used."""

    name: str
    """The path relative to the workspace."""
    path: Path
    content: bytes = b""
    trust: TrustState = TrustState.UNTRUSTED
    refusal: str = ""


def read_instructions(workspace: Workspace, name: str, store: TrustStore) -> InstructionFile | None:
    """Return the file of this name below the workspace; None where there is none. Raises ValueError: a bad record."""
    path = workspace.root / name
    if not os.path.lexists(path):
        return None
    try:
        location = workspace.resolve(name)
        descriptor = workspace.open_for_reading(location)
        with open(descriptor, "rb") as file:
            content = file.read(MAX_BYTES + 1)
    except (FileNotFound, NotADirectory):
        return None
    except ToolFailure as failure:
        return InstructionFile(name, path, refusal=failure.message)
    except OSError as error:
        return InstructionFile(name, path, refusal=f"{name}: {error.strerror}")
    if len(content) > MAX_BYTES:
        return InstructionFile(name, path, refusal=f"{name} is larger than {MAX_BYTES:,} bytes.")
    return InstructionFile(name, path, content, store.state_of(path, content))


def names_on_the_way_to(workspace: Workspace, path: str) -> list[str]:
    """Return the names that instructions for `path` would have below the root, outermost first."""
    try:
        real = workspace.resolve(path).real
    except ToolFailure:
        return []
    if not real.is_relative_to(workspace.root):
        return []
    parts = real.relative_to(workspace.root).parts
    return ["/".join((*parts[:depth], AGENTS_FILE)) for depth in range(1, len(parts) + 1)]


def untrusted_instructions(workspace: Workspace, store: TrustStore) -> list[InstructionFile]:
    """Return the files of instructions, within bounds, that a person could trust. Raises ValueError."""
    names = [*ROOT_FILES, *_nested(workspace.root)][:MOST_FILES]
    found = [read_instructions(workspace, name, store) for name in names]
    return [each for each in found if each and not each.refusal and each.trust is not TrustState.TRUSTED]


def trust_instructions(workspace: Workspace, store: TrustStore, shown: Mapping[str, bytes]) -> list[str]:
    """Trust the files that are as they were shown; return the names of the others. Raises OSError, ValueError."""
    changed: list[str] = []
    for name, content in shown.items():
        now = read_instructions(workspace, name, store)
        if now is None or now.refusal or now.content != content:
            changed.append(name)
        else:
            store.trust_content(now.path, content)
    return changed


def _nested(root: Path) -> Iterator[str]:
    for folder, below, files in islice(os.walk(root), MOST_DIRECTORIES):
        below[:] = sorted(name for name in below if not name.startswith(".") and name not in NOT_LOOKED_INTO)
        if AGENTS_FILE in files and folder != str(root):
            yield os.path.relpath(os.path.join(folder, AGENTS_FILE), root)
