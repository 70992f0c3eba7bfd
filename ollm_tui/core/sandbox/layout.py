"""What a cage for work has at which path: one description, which each engine says in its own words."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from ollm_tui.core.fence.protected_paths import ProtectedPatterns
from ollm_tui.core.sandbox.covers import Covers, hidden_in_home, masked_git_configuration
from ollm_tui.core.sandbox.landlock import FileRights
from ollm_tui.core.sandbox.look import ETC_NAMES, SYSTEM_FOLDERS, program_paths, repository_paths

GIT_CONFIGURATION = (
    *("config", "config.worktree", "commondir", "hooks", "info", "modules", "worktrees"),
    "objects/info",
)
"""What in a repository makes git start programs, or look elsewhere."""

EMPTY_FILE = str(Path(__file__).parents[2] / "py.typed")
"""A file of ours that is empty, to lie over others."""

IMAGE = "python:3.12-slim"

RUN = "/run"
"""Where the cage's own files are."""

FEW_FILES = 8
"""A directory of no more is taken file by file."""

_USR_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")


class MountKind(StrEnum):
    """What is at a path of the cage."""

    READ = "read"
    """What this machine has at `source`, read-only."""
    WRITE = "write"
    COPY = "copy"
    """As READ of a small file in /etc; changes that its owner makes later need not show."""
    LINK = "link"
    DATA = "data"
    """A file that is only there, with `content`."""
    PRIVATE = "private"
    """An empty directory that can be written and ends with the cage."""
    EMPTY_FOLDER = "empty folder"
    EMPTY_FILE = "empty file"


@dataclass(frozen=True)
class Mount:
    """One path of the cage; later ones lie over earlier ones."""

    kind: MountKind
    path: str
    source: str = ""
    """Its path on this machine; of a link, where it leads."""
    content: bytes = b""


@dataclass(frozen=True)
class CageLimits:
    """Bounds of a cage (`[sandbox]`)."""

    memory_mb: int = 2048
    """Private memory of each process; shared memory in /dev/shm counts against `tmp_mb`."""
    pids: int = 256
    tmp_mb: int = 256
    file_mb: int = 4096
    """The largest file."""
    cpu_percent: int = 200
    """Of one processor."""


@dataclass(frozen=True)
class WorkGrant:
    """What a command that works may use."""

    writable: Sequence[Path]
    readable: Sequence[Path] = ()
    network: bool = False
    git_writable: bool = False
    limits: CageLimits = field(default_factory=CageLimits)
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that are only in the cage, by their names in RUN."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Set in the cage alone: outside, some would make the engine itself load code."""
    read_only: Sequence[Path] = ()
    """Parts of what can be written that cannot."""
    own_protection: ProtectedPatterns = field(default_factory=lambda: ProtectedPatterns(()))
    """What the person protects besides."""
    secrets_hidden: bool = False
    """What asks before it is read is empty."""
    image: str = IMAGE
    """What a container is made of."""


def mounts(grant: WorkGrant, environment: Mapping[str, str]) -> Iterator[Mount]:
    """Yield the cage's paths but /proc and /dev. Raises OSError where the workspace cannot be covered."""
    home = environment.get("HOME", "")
    yield from _system()
    for folder in ("/tmp", "/var/tmp", RUN, *([home] if home.strip("/") else [])):
        yield Mount(MountKind.PRIVATE, folder)
    for name, content in grant.files.items():
        yield Mount(MountKind.DATA, f"{RUN}/{name}", content=content)
    own = list(_read_only(program_paths(environment)))
    yield from own
    yield from _read_only(map(str, grant.readable))
    for root in grant.writable:
        yield _same(MountKind.WRITE, str(root))
    for root in grant.writable:
        yield from _covers(grant, root)
    for root in grant.writable:
        hidden = list(hidden_in_home(root, home))
        yield from (_empty(cover.path) for cover in hidden)
        yield from own if hidden else ()
    yield from _read_only(map(str, grant.read_only))


def _covers(grant: WorkGrant, root: Path) -> Iterator[Mount]:
    """Yield what lies over parts of the workspace; only what exists, as engines make a target on this machine."""
    for path, rights in repository_paths(root):
        if rights is FileRights.READ and not Path(path).is_relative_to(root):
            yield from _read_only([path])
    covers = list(Covers(root, grant.own_protection, grant.secrets_hidden, grant.read_only).find())
    leading = {parent for cover in covers if cover.by_place for parent in _between(root, cover.path)}
    # Bound onto itself a directory keeps its name, and with it what is protected by its place.
    yield from (_same(MountKind.WRITE, folder) for folder in sorted(leading))
    for cover in covers:
        if cover.hidden:
            yield _empty(cover.path)
        elif grant.git_writable and Path(cover.path).name == ".git" and os.path.isdir(cover.path):
            # Bound onto itself it cannot be moved away, and what configures it stays as it is.
            yield _same(MountKind.WRITE, cover.path)
            yield from _read_only(f"{cover.path}/{name}" for name in GIT_CONFIGURATION)
        else:
            yield _same(MountKind.READ, cover.path)
    if grant.secrets_hidden or not grant.network:
        for path, masked in masked_git_configuration(root):
            yield Mount(MountKind.DATA, path, content=masked)


def _between(root: Path, path: str) -> list[str]:
    """Return the directories below the root that lead to a path in it."""
    return [str(each) for each in Path(path).parents if each != root and each.is_relative_to(root)]


@lru_cache(maxsize=1)
def _system() -> tuple[Mount, ...]:
    return tuple(_system_mounts())


def _system_mounts() -> Iterator[Mount]:
    yield _same(MountKind.READ, "/usr")
    for name in _USR_LINKS:
        path = f"/{name}"
        if os.path.islink(path):
            yield Mount(MountKind.LINK, path, os.readlink(path))
        else:
            yield from _read_only([path])
    yield from _read_only(each for each in SYSTEM_FOLDERS if each.lstrip("/") not in ("usr", *_USR_LINKS))
    for path in (f"/etc/{name}" for name in ETC_NAMES.split()):
        if os.path.isdir(path):
            small = _files_of(path)
            yield from (_same(MountKind.COPY, each) for each in small) if small else [_same(MountKind.READ, path)]
        elif os.access(path, os.R_OK):
            yield _same(MountKind.COPY, path)


def _files_of(folder: str) -> list[str]:
    """Return what is in a directory of a few plain files, nothing of any other."""
    files = [f"{folder}/{name}" for name in os.listdir(folder)] if os.access(folder, os.R_OK | os.X_OK) else []
    few = len(files) <= FEW_FILES and all(os.path.isfile(each) and os.access(each, os.R_OK) for each in files)
    return files if few else []


def _read_only(paths: Iterable[str]) -> Iterator[Mount]:
    return (_same(MountKind.READ, path) for path in paths if os.path.exists(path))


def _same(kind: MountKind, path: str) -> Mount:
    return Mount(kind, path, path)


def _empty(path: str) -> Mount:
    return Mount(MountKind.EMPTY_FOLDER if os.path.isdir(path) else MountKind.EMPTY_FILE, path, EMPTY_FILE)
