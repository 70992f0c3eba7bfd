"""bubblewrap: a command in namespaces of its own, under our seccomp filter."""

from __future__ import annotations

import atexit
import os
import shutil
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, TypeVar

from ollm_tui.core.sandbox.code_turns import LookTurn
from ollm_tui.core.sandbox.landlock import FileRights
from ollm_tui.core.sandbox.layout import RUN, Mount, MountKind, WorkGrant, mounts
from ollm_tui.core.sandbox.look import git_environment, repository_paths, toolchains_of
from ollm_tui.core.sandbox.private_folder import PrivateFolder
from ollm_tui.core.sandbox.seccomp import look_filter, work_filter
from ollm_tui.core.sandbox.work import WITH_LIMITS, Enforcement, WorkCage

Started = TypeVar("Started")

_PROC = ("sys", "irq", "bus", "sysrq-trigger")
"""Below /proc, what root could change for the whole machine; bubblewrap covers it for other users alone."""

_DEVICES = ("null", "zero", "random", "urandom", "tty")
_STREAMS = {
    "fd": "/proc/self/fd",
    "stdin": "/proc/self/fd/0",
    "stdout": "/proc/self/fd/1",
    "stderr": "/proc/self/fd/2",
}
"""All that programs have of /dev that only read: each further mount takes its time."""


class _Copies:
    """Copies of what cages have in /etc, in one directory: each mount costs a fifth of a millisecond."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wanted: dict[str, tuple[int, int, int] | None] = {}
        self._folder: PrivateFolder | None = None

    def folder(self, everything: Sequence[Mount]) -> str:
        """Return the directory, made anew when what belongs in it has changed. Raises OSError."""
        wanted = dict[str, tuple[int, int, int] | None]()
        for mount in everything:
            if mount.kind is MountKind.COPY:
                with suppress(OSError):
                    status = os.stat(mount.path)
                    wanted[mount.path] = status.st_ino, status.st_size, status.st_mtime_ns
            elif mount.path.startswith("/etc/"):
                wanted[mount.path] = None
        with self._lock:
            if self._folder is None or wanted != self._wanted or not os.access(self._folder.path, os.R_OK | os.X_OK):
                self._folder, self._wanted = _copied(wanted), wanted
            return str(self._folder.path)


def _copied(wanted: Mapping[str, tuple[int, int, int] | None]) -> PrivateFolder:
    folder = PrivateFolder()
    atexit.register(folder.close)  # and no earlier: commands that run may use it
    for path, is_file in wanted.items():
        place = folder.path / path.removeprefix("/etc/")
        if is_file is None and os.path.isdir(path):
            place.mkdir(parents=True, exist_ok=True)
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if is_file is None:
            place.touch()  # what is mounted over it needs something to lie on
        else:
            shutil.copyfile(path, place)
    return folder


_COPIES = _Copies()


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

    _unshared: ClassVar[Sequence[str]] = ("--unshare-all", "--unshare-user", "--disable-userns")

    @property
    def _filter(self) -> bytes:
        return work_filter()

    def _command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        options = (*self._namespaces(), *self._root(environment))
        return (self.program, *options, "--", *self._limited(), *argv)

    def _limited(self) -> Sequence[str]:
        """Return what runs a command line with the limits of the cage."""
        return ("/bin/sh", "-c", WITH_LIMITS, "sh", *self.bounds())

    def _namespaces(self) -> Iterator[str]:
        yield from (*self._unshared, "--cap-drop", "ALL", "--die-with-parent")
        yield from ("--seccomp", str(self.pass_on(self._filter)))
        if self.grant.network:
            yield "--share-net"
        for name, value in self.grant.variables.items():
            yield from ("--setenv", name, value)

    def _root(self, environment: Mapping[str, str]) -> Iterator[str]:
        yield from (*self._devices(), "--proc", "/proc", *self._proc_covers())
        everything = list(mounts(self.grant, environment))
        yield from ("--ro-bind", _COPIES.folder(everything), "/etc")
        for mount in everything:
            if mount.kind is not MountKind.COPY:
                yield from self._mount(mount)
        yield from ("--remount-ro", "/")  # a file system in memory, which nothing bounds

    def _devices(self) -> Iterator[str]:
        yield from ("--dev", "/dev", *self._private("/dev/shm"), "--remount-ro", "/dev")

    def _proc_covers(self) -> Iterator[str]:
        if os.getuid() == 0:
            for name in _PROC:
                yield from ("--ro-bind-try", f"/proc/{name}", f"/proc/{name}")

    def _mount(self, mount: Mount) -> tuple[str, ...]:
        match mount.kind:
            case MountKind.READ | MountKind.COPY:
                return ("--ro-bind-try", mount.source, mount.path)
            case MountKind.WRITE:
                return ("--bind", mount.source, mount.path)
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

    def __init__(
        self,
        program: str,
        readable: Sequence[Path],
        ignored: bytes = b"",
        attributes: bytes = b"",
        judged: int | None = None,
    ) -> None:
        """`ignored` holds patterns of files that the person has git ignore in every repository.

        `attributes` say what git shows of files, over all that a person or system configured; `judged` is the moment
        of CODE_TURNS at which its command was judged by its paths.
        """
        self._judged, self._turn = judged, LookTurn()
        repositories = [
            Path(path)
            for folder in readable
            for path, rights in repository_paths(folder)
            if rights is not FileRights.READ_DIR
        ]
        files = {"git/ignore": ignored} if ignored else {}
        files |= {"git/attributes": attributes} if attributes else {}
        super().__init__(program, WorkGrant((), [*readable, *repositories], files=files))

    # What more namespaces would keep apart the filter refuses: shared memory, queues, names, namespaces of its own.
    _unshared = ("--unshare-user", "--unshare-pid", "--unshare-net")

    @property
    def _filter(self) -> bytes:
        return look_filter(signals=True)

    def _limited(self) -> Sequence[str]:
        return ()

    def _devices(self) -> Iterator[str]:
        for name in _DEVICES:
            yield from ("--dev-bind", f"/dev/{name}", f"/dev/{name}")
        for name, target in _STREAMS.items():
            yield from ("--symlink", target, f"/dev/{name}")

    def _proc_covers(self) -> Iterator[str]:
        yield from ("--remount-ro", "/proc")

    def _private(self, path: str) -> tuple[str, ...]:
        return super()._private(path) if path == "/tmp" else ("--perms", "1777", "--dir", path)

    def start(
        self, start: Callable[[Mapping[str, str]], Started], environment: Mapping[str, str], terminal: str | None
    ) -> Started:
        """Call `start` with the environment of the cage, in which git starts nothing. Raises OSError."""
        self._turn.begin(self._judged)
        tools = toolchains_of(environment.get("HOME", ""))
        own = {"XDG_CONFIG_HOME": RUN} if self.grant.files else {}
        git = git_environment(self.file("git/attributes") if "git/attributes" in self.grant.files else "")
        return super().start(start, {**tools, **environment, **git, **own}, terminal)

    def close(self) -> None:
        """End what is left, and remove what was made for it."""
        super().close()
        self._turn.end()
