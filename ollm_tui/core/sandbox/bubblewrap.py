"""The cage of what works: bubblewrap with namespaces of its own and our seccomp filter (contract section 8).

Its root is built from the system's directories; of this machine only the workspace can be written, and what git and
we are configured by not even there.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ollm_tui.core.fence.protected_paths import ProtectedPatterns, judge_reading, judge_writing
from ollm_tui.core.sandbox.landlock import FileRights
from ollm_tui.core.sandbox.look import (
    ETC_NAMES,
    SYSTEM_FOLDERS,
    program_folders,
    repository_paths,
    toolchains_of,
)
from ollm_tui.core.sandbox.seccomp import work_filter

Started = TypeVar("Started")

MOST_ENTRIES = 200_000
"""Entries of the workspace that are looked through for what must be covered; more is refused."""

_USR_LINKS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_PROC = ("sys", "irq", "bus", "sysrq-trigger")
"""Below /proc, what root could change for the whole machine."""

_GIT_CONFIGURATION = (
    *("config", "config.worktree", "commondir", "hooks", "info", "modules", "worktrees"),
    "objects/info",
)
"""What in a repository makes git start programs, or look elsewhere."""

_WITH_LIMITS = 'ulimit -c 0 -d "$1" -u "$2" -f "$3"; shift 3; exec "$@"'
_WITH_FILTER = 'exec "$@" 9<"$0"'


@dataclass(frozen=True)
class CageLimits:
    """Bounds of a cage (`[sandbox]`)."""

    memory_mb: int = 2048
    """Private memory of each process; what is shared counts against `tmp_mb`."""
    pids: int = 256
    tmp_mb: int = 256
    file_mb: int = 4096
    """The largest file."""


@dataclass
class WorkCage:
    """A cage for one command, in which the workspace can be written and this machine is not there."""

    program: str
    """bubblewrap's path."""
    writable: Sequence[Path]
    readable: Sequence[Path] = ()
    network: bool = False
    git_writable: bool = False
    limits: CageLimits = field(default_factory=CageLimits)
    files: Mapping[str, bytes] = field(default_factory=dict[str, bytes])
    """Files that are only in the cage, by their names in /run."""
    variables: Mapping[str, str] = field(default_factory=dict[str, str])
    """Set in the cage alone: outside, some would make bubblewrap itself load code."""
    read_only: Sequence[Path] = ()
    """Parts of what can be written that cannot."""
    own_protection: ProtectedPatterns = field(default_factory=lambda: ProtectedPatterns(()))
    """What the person protects besides."""
    secrets_hidden: bool = False
    """What asks before it is read is empty."""
    _private: Path | None = field(default=None, init=False)
    _absent: list[Path] = field(default_factory=list[Path], init=False)
    """Names that would configure git, and were not there when the command was started."""

    def command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        """Return what runs `argv` in the cage. Raises OSError where the workspace cannot be covered."""
        self._private = Path(tempfile.mkdtemp(prefix="ollm-work-"))
        program = self._private / "filter"
        program.write_bytes(work_filter())
        (self._private / "empty").touch()
        for name, content in self.files.items():
            (self._private / name).write_bytes(content)
        limits = self.limits
        bounds = (str(limits.memory_mb * 1024), str(limits.pids), str(limits.file_mb * 1024))
        return (
            *("/bin/sh", "-c", _WITH_FILTER, str(program), self.program, *self._arguments(environment), "--"),
            *("/bin/bash", "--noprofile", "--norc", "-c", _WITH_LIMITS, "bash", *bounds, *argv),
        )

    def start(
        self, start: Callable[[Mapping[str, str]], Started], environment: Mapping[str, str], terminal: str | None
    ) -> Started:
        """Call `start` with the environment of the cage."""
        return start({**environment, "TMPDIR": "/tmp", "TMP": "/tmp", "TEMP": "/tmp"})

    def close(self) -> None:
        """Remove the private directory once the command is over, and set aside what would configure git."""
        for path in self._absent:
            with suppress(FileNotFoundError):
                os.rename(path, path.with_name(f"{path.name}.set-aside"))
        if self._private is not None:
            shutil.rmtree(self._private, ignore_errors=True)

    def _arguments(self, environment: Mapping[str, str]) -> Iterator[str]:
        megabytes = str(self.limits.tmp_mb * 1024 * 1024)
        home = environment.get("HOME", "/")
        yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--die-with-parent")
        yield from ("--seccomp", "9", *(("--share-net",) if self.network else ()))
        yield from ("--dev", "/dev", "--size", megabytes, "--perms", "1777", "--tmpfs", "/dev/shm")
        yield from ("--proc", "/proc", *_read_only(f"/proc/{name}" for name in _PROC))
        yield from _system()
        for folder in ("/tmp", "/var/tmp"):
            yield from ("--size", megabytes, "--perms", "1777", "--tmpfs", folder)
        yield from ("--tmpfs", "/run")
        for name in self.files:
            yield from ("--ro-bind", f"{self._private}/{name}", f"/run/{name}")
        if home != "/":
            yield from ("--size", megabytes, "--tmpfs", home)
        own = (sys.prefix, sys.base_prefix, *toolchains_of(home).values(), *map(str, program_folders(environment)))
        yield from _read_only(path for path in dict.fromkeys(own) if not path.startswith("/usr/"))
        yield from _read_only(map(str, self.readable))
        for root in self.writable:
            yield from ("--bind", str(root), str(root))
        for root in self.writable:
            yield from self._covers(root)
        yield from _read_only(map(str, self.read_only))
        for name, value in self.variables.items():
            yield from ("--setenv", name, value)

    def _covers(self, root: Path) -> Iterator[str]:
        """Yield what lies over parts of the workspace; only what exists, as a target would be made on this machine."""
        for path, rights in repository_paths(root):
            if rights is FileRights.READ and not Path(path).is_relative_to(root):
                yield from _read_only([path])
        for path, hidden in self._to_cover(root):
            if hidden:
                yield from (
                    ("--tmpfs", str(path), "--remount-ro", str(path))
                    if path.is_dir()
                    else (*("--ro-bind", f"{self._private}/empty", str(path)),)
                )
            elif self.git_writable and path.name == ".git" and path.is_dir():
                # Bound onto itself it cannot be moved away, and what configures it stays as it is.
                yield from ("--bind", str(path), str(path))
                configures = [path / name for name in _GIT_CONFIGURATION]
                yield from _read_only(str(each) for each in configures)
                self._absent += [each for each in configures if not each.exists()]
            else:
                yield from ("--ro-bind", str(path), str(path))

    def _to_cover(self, root: Path) -> Iterator[tuple[Path, bool]]:
        """Yield what is protected below a directory, and sockets, with whether it is hidden.

        A link is followed where it leads to something of the workspace; its own name cannot be covered.
        """
        seen, folders = 0, [root]
        while folders:
            folder = folders.pop()
            with suppress(PermissionError, FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
                for entry in entries:
                    seen += 1
                    if seen > MOST_ENTRIES:
                        raise OSError(f"the workspace has more than {MOST_ENTRIES} entries, too many to look through")
                    path = Path(entry.path)
                    parts = path.relative_to(root).parts
                    own = self.own_protection.judge("/".join(parts))
                    if own or judge_writing(parts):
                        real = path.resolve()
                        if real.exists() and real.is_relative_to(root):
                            yield real, self.secrets_hidden and bool(own or judge_reading(parts))
                    elif entry.is_dir(follow_symlinks=False):
                        folders.append(path)
                    elif not entry.is_file(follow_symlinks=False) and _is_socket(entry):
                        yield path, True


def _is_socket(entry: os.DirEntry[str]) -> bool:
    return stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)


def _read_only(paths: Iterable[str]) -> Iterator[str]:
    for path in paths:
        yield from ("--ro-bind-try", path, path)


def _system() -> Iterator[str]:
    yield from ("--ro-bind", "/usr", "/usr")
    for name in _USR_LINKS:
        path = Path("/", name)
        if path.is_symlink():
            yield from ("--symlink", os.readlink(path), str(path))
        elif path.is_dir():
            yield from ("--ro-bind", str(path), str(path))
    others = (folder for folder in SYSTEM_FOLDERS if folder.lstrip("/") not in ("usr", *_USR_LINKS))
    yield from _read_only((*others, *(f"/etc/{name}" for name in ETC_NAMES.split())))
