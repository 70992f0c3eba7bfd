"""bubblewrap: a command in namespaces of its own, under our seccomp filter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from ollm_tui.core.sandbox.landlock import FileRights
from ollm_tui.core.sandbox.layout import RUN, Mount, MountKind, WorkGrant, mounts
from ollm_tui.core.sandbox.look import GIT_ENVIRONMENT, repository_paths, toolchains_of
from ollm_tui.core.sandbox.seccomp import look_filter, work_filter
from ollm_tui.core.sandbox.work import WITH_LIMITS, Enforcement, WorkCage

Started = TypeVar("Started")

_PROC = ("sys", "irq", "bus", "sysrq-trigger")
"""Below /proc, what root could change for the whole machine; bubblewrap covers it for other users alone."""


class BubblewrapCage(WorkCage):
    """Builds the root directory of the cage from the system's directories."""

    name = "bubblewrap"
    program_name = "bwrap"
    oldest = "0.8.0"

    @classmethod
    def limits(cls) -> dict[str, Enforcement]:
        """Return how well it holds each limit for this user."""
        held = ("files", "metadata", "network", "sockets", "signals", "processes", "tmp", "file size")
        return {
            **dict.fromkeys(held, Enforcement.ENFORCED),
            "memory": Enforcement.BEST_EFFORT,  # RLIMIT_DATA counts the private memory of each process
            "pids": Enforcement.ENFORCED if os.getuid() else Enforcement.NO,  # RLIMIT_NPROC does not count root's
            "cpu": Enforcement.NO,
        }

    @property
    def _filter(self) -> bytes:
        return work_filter()

    def _command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        options = (*self._namespaces(), *self._root(environment))
        shell = ("/bin/sh", "-c", WITH_LIMITS, "sh", *self.bounds())
        return (self.program, *options, "--", *shell, *argv)

    def _namespaces(self) -> Iterator[str]:
        yield from ("--unshare-all", "--unshare-user", "--disable-userns", "--cap-drop", "ALL", "--die-with-parent")
        yield from ("--seccomp", str(self.pass_on(self._filter)))
        if self.grant.network:
            yield "--share-net"
        for name, value in self.grant.variables.items():
            yield from ("--setenv", name, value)

    def _root(self, environment: Mapping[str, str]) -> Iterator[str]:
        yield from ("--dev", "/dev", *self._private("/dev/shm"), "--proc", "/proc")
        if os.getuid() == 0:
            for name in _PROC:
                yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")
        for mount in mounts(self.grant, environment):
            yield from self._mount(mount)

    def _mount(self, mount: Mount) -> tuple[str, ...]:
        match mount.kind:
            case MountKind.READ:
                return ("--ro-bind", mount.source, mount.path)
            case MountKind.WRITE:
                return ("--bind", mount.source, mount.path)
            case MountKind.COPY:
                # Copies cost nothing; each bind reads the table of all mounts.
                return ("--perms", "0644", "--file", str(self.pass_on(mount.source)), mount.path)
            case MountKind.LINK:
                return ("--symlink", mount.source, mount.path)
            case MountKind.DATA:
                return ("--perms", "0644", "--ro-bind-data", str(self.pass_on(mount.content)), mount.path)
            case MountKind.PRIVATE:
                return self._private(mount.path)
            case MountKind.EMPTY_FOLDER:
                return ("--tmpfs", mount.path, "--remount-ro", mount.path)
            case MountKind.EMPTY_FILE:
                return ("--ro-bind", mount.source, mount.path)

    def _private(self, path: str) -> tuple[str, ...]:
        size = str(self.grant.limits.tmp_mb * 1024 * 1024)
        return ("--size", size, "--perms", "1777", "--tmpfs", path)


class BubblewrapLookCage(BubblewrapCage):
    """The cage of what only looks, where the kernel has no landlock: nothing of this machine can be written."""

    def __init__(self, program: str, readable: Sequence[Path], ignored: bytes = b"") -> None:
        """`ignored` holds patterns of files that the person has git ignore in every repository."""
        repositories = [
            Path(path)
            for folder in readable
            for path, rights in repository_paths(folder)
            if rights is not FileRights.READ_DIR
        ]
        files = {"git/ignore": ignored} if ignored else {}
        super().__init__(program, WorkGrant((), [*readable, *repositories], files=files))

    @property
    def _filter(self) -> bytes:
        return look_filter(signals=True)

    def start(
        self, start: Callable[[Mapping[str, str]], Started], environment: Mapping[str, str], terminal: str | None
    ) -> Started:
        """Call `start` with the environment of the cage, in which git starts nothing."""
        tools = toolchains_of(environment.get("HOME", ""))
        own = {"XDG_CONFIG_HOME": RUN} if self.grant.files else {}
        return super().start(start, {**tools, **environment, **GIT_ENVIRONMENT, **own}, terminal)
