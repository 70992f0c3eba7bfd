"""The cage of what works, whichever engine holds it (contract section 8).

Of this machine only the workspace can be written, and what git and we are configured by not even there.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, TypeVar

from ollm_tui.core.base.escape import quote_name
from ollm_tui.core.sandbox.git_guard import GitGuard
from ollm_tui.core.sandbox.layout import RUN, WorkGrant
from ollm_tui.core.sandbox.private_folder import PrivateFolder
from ollm_tui.core.sandbox.restricted_thread import RestrictedThread

Started = TypeVar("Started")

PROGRAM_FOLDERS = "/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin"
"""Of the system alone: a program of an engine's name in the workspace must never be the cage."""

VERSION_SECONDS = 5.0

WITH_LIMITS = (
    'ulimit -c 0; ulimit -d "$1"; ulimit -f "$2"; { ulimit -u "$3" || ulimit -p "$3"; } 2>/dev/null; shift 3; exec "$@"'
)
"""Run by sh; bash counts processes with -u, dash with -p."""


class Enforcement(StrEnum):
    """How well an engine holds a limit."""

    ENFORCED = "enforced"
    BEST_EFFORT = "best effort"
    NO = "no"


class WorkCage(ABC):
    """A cage for one command, in which the workspace can be written and this machine is not there."""

    name: ClassVar[str]
    program_name: ClassVar[str] = ""
    """Of the engine's program; empty where the kernel alone is the engine."""
    oldest: ClassVar[str] = ""
    """The first version of its program that has the options it is started with."""
    dishonours: ClassVar[frozenset[str]] = frozenset({"cpu_percent", "image"})
    """Keys of `[sandbox]` that it cannot honour."""

    def __init__(self, program: str, grant: WorkGrant) -> None:
        """`program` is the engine's path."""
        self.program = program
        self.grant = grant
        self.passed: tuple[int, ...] = ()
        """Descriptors that the command's starter passes on."""
        self._thread: RestrictedThread | None = None
        self._folder: PrivateFolder | None = None
        self._guard: GitGuard | None = None
        self._notes: list[str] = []
        self._lock = threading.Lock()

    @property
    def ends_alone(self) -> bool:
        """Whether all that the command started ends with this program, also when that is killed."""
        return True

    hint: ClassVar[str] = ""
    """What the model should know of it besides."""

    @classmethod
    def locate(cls) -> str:
        """Return the engine's program, empty where it is not there."""
        return shutil.which(cls.program_name, path=PROGRAM_FOLDERS) or ""

    @classmethod
    def missing(cls) -> str:
        """Return why there is none."""
        return f"{cls.program_name} is not installed"

    @classmethod
    @abstractmethod
    def limits(cls) -> dict[str, Enforcement]:
        """Return how well it holds each limit for this user."""

    @classmethod
    def version(cls, program: str) -> str:
        """Return the version of its program. Raises OSError, TimeoutExpired."""
        arguments = [program, "--version"]
        said = subprocess.run(arguments, check=False, capture_output=True, text=True, timeout=VERSION_SECONDS).stdout
        return said.strip().rpartition(" ")[2]

    def file(self, name: str) -> str:
        """Return where a file of the grant is in the cage."""
        return f"{RUN}/{name}"

    def python(self, path: str) -> str:
        """Return the interpreter there for one of this machine."""
        return path

    def keep(self, content: bytes) -> Path:
        """Return a file in the private directory with these bytes. Raises OSError."""
        kept = self.private / str(len(list(self.private.iterdir())))
        kept.write_bytes(content)
        return kept

    def command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        """Return what runs `argv` in the cage. Raises OSError where the workspace cannot be covered."""
        self._guard = GitGuard(self.grant.writable, git_writable=self.grant.git_writable)
        return self._command(argv, environment)

    def start(
        self, start: Callable[[Mapping[str, str]], Started], environment: Mapping[str, str], terminal: str | None
    ) -> Started:
        """Call `start` with the environment of the cage."""
        try:
            return start({**environment, "TMPDIR": "/tmp", "TMP": "/tmp", "TEMP": "/tmp"})
        finally:
            self._close_passed()

    def after(self) -> Sequence[str]:
        """Set aside what would configure git, once the command is over; return what to say of it."""
        with self._lock:
            guard, self._guard = self._guard, None
            if guard is not None:
                roots = self.grant.writable
                for path in guard.set_aside():
                    root = next((each for each in roots if path.is_relative_to(each)), Path("/"))
                    name = quote_name(str(path.relative_to(root)))
                    self._notes.append(
                        f"what it made would have configured git or this program and was renamed to {name}: look at it"
                    )
            return tuple(self._notes)

    def end(self) -> None:
        """End what the command left running, which namespaces have by then."""
        if self._thread is not None:
            self._thread.end()

    def close(self) -> None:
        """Remove what the cage kept for its command."""
        self.end()
        self._close_passed()
        self.after()
        if self._folder is not None:
            self._folder.close()

    @property
    def private(self) -> Path:
        """A directory of this machine that ends with the cage. Raises OSError."""
        if self._folder is None:
            self._folder = PrivateFolder()
        return self._folder.path

    @abstractmethod
    def _command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        """Return the engine's command line; descriptors for it are added by `pass_on`."""

    def pass_on(self, content: bytes | str) -> int:
        """Return a descriptor with these bytes, or of that file, which the engine gets."""
        if isinstance(content, str):
            descriptor = os.open(content, os.O_RDONLY | os.O_CLOEXEC)
        else:
            descriptor = os.memfd_create("cage", os.MFD_CLOEXEC)
            with os.fdopen(descriptor, "wb", closefd=False) as memory:
                memory.write(content)
            os.lseek(descriptor, 0, os.SEEK_SET)
        self.passed = (*self.passed, descriptor)
        return descriptor

    def bounds(self) -> tuple[str, str, str]:
        """Return the arguments of WITH_LIMITS."""
        limits = self.grant.limits
        return str(limits.memory_mb * 1024), str(limits.file_mb * 2048), str(limits.pids)

    def _close_passed(self) -> None:
        descriptors, self.passed = self.passed, ()
        for each in descriptors:
            os.close(each)
