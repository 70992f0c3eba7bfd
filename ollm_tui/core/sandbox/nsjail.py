"""nsjail, an engine in its own file, used where bubblewrap is missing."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from ollm_tui.core.sandbox.bubblewrap import BubblewrapCage
from ollm_tui.core.sandbox.layout import Mount, MountKind, WorkGrant, mounts
from ollm_tui.core.sandbox.seccomp import work_policy
from ollm_tui.core.sandbox.work import WITH_LIMITS, Enforcement, WorkCage

_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_LINKS = {"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"}
_UNLIMITED = ("--rlimit_as", "--rlimit_cpu", "--rlimit_nofile", "--rlimit_fsize")


class NsjailCage(WorkCage):
    """Says the layout in nsjail's options; its filter is the same, written in kafel."""

    name = "nsjail"
    program_name = "nsjail"

    def __init__(self, program: str, grant: WorkGrant) -> None:
        super().__init__(program, grant)
        self._holds_sockets = False

    @classmethod
    def limits(cls) -> dict[str, Enforcement]:
        """Return how well it holds each limit for this user: the kernel's means are those of bubblewrap."""
        return BubblewrapCage.limits()

    @classmethod
    def version(cls, program: str) -> str:
        """Return nothing: it does not tell."""
        return ""

    def _command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        cwd = str(self.grant.writable[0])
        options = (
            "--mode",
            "o",
            "--really_quiet",
            "--time_limit",
            "0",
            "--nice_level",
            "0",
            "--keep_env",
            "--cwd",
            cwd,
        )
        free = (each for name in _UNLIMITED for each in (name, "hard"))
        network = ("--disable_clone_newnet",) if self.grant.network else ()
        variables = (each for name, value in self.grant.variables.items() for each in ("--env", f"{name}={value}"))
        shell = ("/bin/sh", "-c", WITH_LIMITS, "sh", *self.bounds())
        root = list(self._root(environment))
        policy = ("--seccomp_string", work_policy(local_sockets=not self._holds_sockets))
        return (self.program, *options, *free, *network, *variables, *policy, *root, "--", *shell, *argv)

    def _root(self, environment: Mapping[str, str]) -> Iterator[str]:
        for name in _DEVICES:
            yield from ("--bindmount", f"/dev/{name}")
        for name, target in _LINKS.items():
            yield from ("--symlink", f"{target}:/dev/{name}")
        yield from self._private("/dev/shm")
        for mount in mounts(self.grant, environment):
            if ":" in mount.path + mount.source:
                raise OSError(errno.EINVAL, f"nsjail takes no path with a colon: {mount.path!r}")
            if mount.kind is MountKind.EMPTY_FILE and Path(mount.path).is_socket():
                self._holds_sockets = True  # it opens what it covers, which fails for a socket
            else:
                yield from self._mount(mount)

    def _mount(self, mount: Mount) -> tuple[str, ...]:
        match mount.kind:
            case MountKind.READ | MountKind.COPY | MountKind.EMPTY_FILE:
                return ("--bindmount_ro", f"{mount.source}:{mount.path}")
            case MountKind.WRITE:
                return ("--bindmount", f"{mount.source}:{mount.path}")
            case MountKind.LINK:
                return ("--symlink", f"{mount.source}:{mount.path}")
            case MountKind.DATA:
                return ("--bindmount_ro", f"{self.keep(mount.content)}:{mount.path}")
            case MountKind.PRIVATE:
                return self._private(mount.path)
            case MountKind.EMPTY_FOLDER:
                return ("--mount", f"none:{mount.path}:tmpfs:ro,size=4096")

    def _private(self, path: str) -> tuple[str, ...]:
        return ("--mount", f"none:{path}:tmpfs:size={self.grant.limits.tmp_mb * 1024 * 1024},mode=1777")
