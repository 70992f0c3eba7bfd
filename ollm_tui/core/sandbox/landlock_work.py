"""Landlock with seccomp for work: where no namespaces can be made, the last that holds anything.

Landlock grants trees and takes nothing out of them. So a directory that holds something protected is granted entry by
entry: what is there can be changed, but nothing new can be made beside it.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

from ollm_tui.core.sandbox.landlock import FileRights, Ruleset, abi
from ollm_tui.core.sandbox.layout import MountKind, WorkGrant, mounts
from ollm_tui.core.sandbox.look import TERMINAL, kernel_paths
from ollm_tui.core.sandbox.restricted_thread import RestrictedThread, ends_what_it_starts
from ollm_tui.core.sandbox.work import WITH_LIMITS, Enforcement, WorkCage

Started = TypeVar("Started")

_COVERS = (MountKind.READ, MountKind.DATA, MountKind.EMPTY_FILE, MountKind.EMPTY_FOLDER)
_NO_ACCESS = FileRights(0)


class LandlockCage(WorkCage):
    """Starts its command from a thread that restricted itself, as the cage that only looks does."""

    name = "landlock"
    dishonours = frozenset({"cpu_percent", "image", "network", "pids", "tmp_mb"})
    hint = "Nothing new can be made in a directory that holds .git or protected files: make it in another one."

    @classmethod
    def locate(cls) -> str:
        """Return the kernel's name: there is no program."""
        return "linux" if sys.platform == "linux" and abi() else ""

    @classmethod
    def missing(cls) -> str:
        """Return why there is none."""
        return "landlock is a part of Linux, which this kernel has not"

    def __init__(self, program: str, grant: WorkGrant) -> None:
        super().__init__(program, grant)
        self._paths: list[tuple[str, FileRights]] = []

    @property
    def ends_alone(self) -> bool:
        """Whether all that the command started ends with this program."""
        return ends_what_it_starts()

    @classmethod
    def limits(cls) -> dict[str, Enforcement]:
        """Return how well it holds each limit for this user."""
        scoped = Enforcement.ENFORCED if ends_what_it_starts() else Enforcement.BEST_EFFORT
        return {
            **dict.fromkeys(("files", "network", "sockets", "file size"), Enforcement.ENFORCED),
            "signals": scoped,
            "metadata": Enforcement.BEST_EFFORT,  # times of files outside can be set
            "processes": Enforcement.NO,  # it sees which there are
            "memory": Enforcement.BEST_EFFORT,
            **dict.fromkeys(("tmp", "pids", "cpu"), Enforcement.NO),
        }

    @classmethod
    def version(cls, program: str) -> str:
        """Return the kernel's version of landlock."""
        return f"ABI {abi()}"

    def file(self, name: str) -> str:
        """Return where a file of the grant is: there is no other /run here."""
        return str(self.private / name)

    def start(
        self, start: Callable[[Mapping[str, str]], Started], environment: Mapping[str, str], terminal: str | None
    ) -> Started:
        """Call `start` in a thread that restricted itself before. Raises OSError."""
        caged = {**environment, **dict.fromkeys(("HOME", "TMPDIR", "TMP", "TEMP"), str(self.private))}
        own = [] if terminal is None else [(terminal, TERMINAL)]
        ruleset = Ruleset([*self._paths, *own])
        self._thread = RestrictedThread(ruleset, times=True)
        try:
            return self._thread.start(lambda: start(caged))
        finally:
            ruleset.close()

    def _command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        if self.grant.network:
            raise OSError(errno.ENOTSUP, "landlock cannot hold a command with the network ([sandbox] network)")
        for name, content in self.grant.files.items():
            (self.private / name).write_bytes(content)
        self._paths = [*kernel_paths(), *self._granted(environment), (str(self.private), FileRights.ALL)]
        memory, size, _ = self.bounds()  # processes of this user outside would count as well
        variables = (f"{name}={value}" for name, value in self.grant.variables.items())
        return ("/bin/sh", "-c", WITH_LIMITS, "sh", memory, size, "unlimited", "/usr/bin/env", *variables, *argv)

    def _granted(self, environment: Mapping[str, str]) -> Iterator[tuple[str, FileRights]]:
        covered: dict[str, FileRights] = {}
        roots = [str(root) for root in self.grant.writable]
        for mount in mounts(self.grant, environment):
            if mount.kind in _COVERS and any(mount.path == root or mount.path.startswith(f"{root}/") for root in roots):
                empty = mount.kind in (MountKind.EMPTY_FILE, MountKind.EMPTY_FOLDER)
                covered[mount.path] = _NO_ACCESS if empty else FileRights.READ
            elif mount.kind in (MountKind.READ, MountKind.COPY):
                yield mount.source, FileRights.READ
        for root in roots:
            yield from _without(root, covered)


def _without(
    path: str, covered: Mapping[str, FileRights], rights: FileRights = FileRights.ALL
) -> Iterator[tuple[str, FileRights]]:
    """Yield a tree with these rights, less what is covered in it."""
    is_covered = path in covered
    rights = covered.get(path, rights)
    if not rights:
        return
    if any(each.startswith(f"{path}/") for each in covered):
        yield path, FileRights.READ_DIR
        for name in os.listdir(path):
            yield from _without(os.path.join(path, name), covered, rights)
    elif is_covered or not os.path.islink(path):
        yield path, rights
