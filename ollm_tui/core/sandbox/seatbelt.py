"""sandbox-exec of macOS: a profile for one command. Untested by us on that system; the probe there decides."""

from __future__ import annotations

import errno
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import PurePath
from typing import TypeVar

from ollm_tui.core.sandbox.layout import MountKind, mounts
from ollm_tui.core.sandbox.work import WITH_LIMITS, Enforcement, WorkCage

Started = TypeVar("Started")

_PROGRAM = "/usr/bin/sandbox-exec"

_BASE = """(version 1)
(deny default)
(allow process-exec process-fork sysctl-read ipc-posix-sem pseudo-tty)
(allow signal process-info* (target same-sandbox))
(allow mach-lookup (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read*)
(allow file-read* file-write* file-ioctl (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty"))
(allow file-read* file-write* file-ioctl (regex #"^/dev/ttys"))
"""
"""Of several rules that fit the last one counts."""


class SeatbeltCage(WorkCage):
    """Says the layout as rules about paths: there are no mounts, and no processes of its own."""

    name = "sandbox-exec"
    dishonours = frozenset({"cpu_percent", "image", "pids", "tmp_mb"})

    @property
    def ends_alone(self) -> bool:
        """Whether all that the command started ends with this program: here nothing sees to that."""
        return False

    @classmethod
    def locate(cls) -> str:
        """Return the system's program, on macOS alone."""
        return _PROGRAM if sys.platform == "darwin" and os.access(_PROGRAM, os.X_OK) else ""

    @classmethod
    def missing(cls) -> str:
        """Return why there is none."""
        return "sandbox-exec is a program of macOS"

    @classmethod
    def limits(cls) -> dict[str, Enforcement]:
        """Return how well it holds each limit: nobody has measured it."""
        held = ("files", "network", "sockets", "signals", "file size", "memory")
        return {
            **dict.fromkeys(held, Enforcement.BEST_EFFORT),
            **dict.fromkeys(("metadata", "processes", "tmp", "pids", "cpu"), Enforcement.NO),
        }

    @classmethod
    def version(cls, program: str) -> str:
        """Return what is to be known of it."""
        return "untested"

    def file(self, name: str) -> str:
        """Return where a file of the grant is: there is no other /run here."""
        return str(self.private / name)

    def start(
        self, start: Callable[[Mapping[str, str]], Started], environment: Mapping[str, str], terminal: str | None
    ) -> Started:
        """Call `start` with a private home and directory for temporary files."""
        return start({**environment, **dict.fromkeys(("HOME", "TMPDIR", "TMP", "TEMP"), str(self.private))})

    def _command(self, argv: Sequence[str], environment: Mapping[str, str]) -> Sequence[str]:
        for name, content in self.grant.files.items():
            (self.private / name).write_bytes(content)
        memory, size, _ = self.bounds()  # processes of this user outside would count as well
        variables = (f"{name}={value}" for name, value in self.grant.variables.items())
        profile = _BASE + "\n".join(self._rules(environment))
        shell = ("/bin/sh", "-c", WITH_LIMITS, "sh", memory, size, "unlimited", "/usr/bin/env", *variables)
        return (self.program, "-p", profile, *shell, *argv)

    def _rules(self, environment: Mapping[str, str]) -> Iterator[str]:
        home = environment.get("HOME", "")
        if home.strip("/"):
            yield f"(deny file-read* (subpath {_quoted(home)}))"
            yield "(allow file-read-metadata)"
        yield f"(allow file-read* file-write* (subpath {_quoted(str(self.private.resolve()))}))"
        roots = tuple(f"{root}/" for root in self.grant.writable)
        for mount in mounts(self.grant, environment):
            covers = mount.path.startswith(roots)
            match mount.kind:
                case MountKind.WRITE:
                    yield f"(allow file-read* file-write* (subpath {_quoted(mount.path)}))"
                case MountKind.EMPTY_FILE | MountKind.EMPTY_FOLDER:
                    yield f"(deny file-read* file-write* (subpath {_quoted(mount.path)}))"
                case MountKind.READ | MountKind.DATA if covers:
                    yield f"(deny file-write* (subpath {_quoted(mount.path)}))"
                case MountKind.READ:
                    yield f"(allow file-read* (subpath {_quoted(mount.path)}))"
                case _:
                    continue
            if covers:
                # Under another name of its directory it would not be covered.
                above = (str(each) for each in PurePath(mount.path).parents if f"{each}/".startswith(roots))
                yield from (f"(deny file-write-unlink (literal {_quoted(each)}))" for each in above)
        if self.grant.network:
            yield "(allow network* system-socket)"


def _quoted(path: str) -> str:
    if any(ord(each) < 32 and each != "\n" for each in path):
        raise OSError(errno.EINVAL, f"sandbox-exec takes no path with control characters: {path!r}")
    return json.dumps(path, ensure_ascii=False)
