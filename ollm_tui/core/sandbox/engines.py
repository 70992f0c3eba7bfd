"""The engines that hold commands, chosen by probes that run (contract section 8)."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from ollm_tui.core.base.errors import SandboxUnavailable
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.sandbox import look
from ollm_tui.core.sandbox.bubblewrap import BubblewrapCage
from ollm_tui.core.sandbox.landlock import abi
from ollm_tui.core.sandbox.layout import CageLimits, WorkGrant
from ollm_tui.core.sandbox.work import WorkCage

PROBE_SECONDS = 5.0


class SandboxMode(StrEnum):
    """Where commands run that a rule or a person allowed."""

    OFF = "off"
    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"


class Enforcement(StrEnum):
    """How well an engine holds a limit."""

    ENFORCED = "enforced"
    BEST_EFFORT = "best effort"
    NO = "no"


@dataclass(frozen=True)
class EngineReport:
    """An engine of this machine; `problem` says why it holds nothing."""

    name: str
    cage: str
    """What it is for: "look" or "work"."""
    version: str = ""
    limits: Mapping[str, Enforcement] = field(default_factory=dict[str, Enforcement])
    problem: str = ""


@dataclass(frozen=True)
class SandboxSettings:
    """The table `[sandbox]`."""

    mode: SandboxMode = SandboxMode.OFF
    network: bool = False
    """The host's network, services on the loopback interface included."""
    git_writable: bool = False
    bind: tuple[str, ...] = ()
    """Further directories of this machine, `path` or `path:ro`."""
    limits: CageLimits = field(default_factory=CageLimits)


@dataclass(frozen=True)
class Sandbox:
    """The cages that the settings ask for."""

    settings: SandboxSettings = field(default_factory=SandboxSettings)

    @property
    def holds_commands(self) -> bool:
        """Return whether commands that were allowed run in a cage."""
        return self.settings.mode is not SandboxMode.OFF

    @property
    def works(self) -> bool:
        """Return whether there is an engine for work; the first call runs its probe."""
        return not bubblewrap().problem

    def work_cage(
        self,
        fence: Workspace,
        *,
        files: Mapping[str, bytes] | None = None,
        variables: Mapping[str, str] | None = None,
        read_only: Sequence[Path] = (),
        secrets_hidden: bool = False,
    ) -> WorkCage:
        """Return the cage for one command that works in the workspace.

        Args:
            fence: Its roots can be written.
            files: Files that are only in the cage, by their names in /run.
            variables: Variables that are set only in the cage.
            read_only: Parts of the roots that cannot be written.
            secrets_hidden: What asks before it is read is empty there.

        Raises:
            SandboxUnavailable: No engine works.
        """
        engine = bubblewrap()
        if engine.problem:
            raise SandboxUnavailable(
                f"No sandbox works here: {engine.problem}. Nothing was run. Install bubblewrap and allow user "
                'namespaces (`ollm-tui sandbox check` tells), or set [sandbox] mode to "off".'
            )
        settings = self.settings
        own = [Path(entry.removesuffix(":ro")).expanduser() for entry in settings.bind]
        writable = [path for path, entry in zip(own, settings.bind, strict=True) if not entry.endswith(":ro")]
        if any(root == Path("/") for root in (*fence.roots, *writable)):
            raise SandboxUnavailable(
                "The workspace is the whole file system: a sandbox would keep nothing from the command. Nothing was "
                "run. Work in a directory of its own (-C)."
            )
        grant = WorkGrant(
            (*fence.roots, *writable),
            (*fence.readable_roots, *(path for path in own if path not in writable)),
            network=settings.network,
            git_writable=settings.git_writable,
            limits=settings.limits,
            files=files or {},
            variables=variables or {},
            read_only=read_only,
            secrets_hidden=secrets_hidden,
            own_protection=fence.own_protection,
        )
        return BubblewrapCage(_program() or "", grant)


def engines() -> tuple[EngineReport, ...]:
    """Return every engine, the ones that do not work as well; runs their probes."""
    return landlock(), bubblewrap()


@lru_cache(maxsize=1)
def landlock() -> EngineReport:
    """Return what holds commands that only read, tried once."""
    version = abi()
    problem = "" if look.works() else "the kernel offers no landlock with seccomp"
    scoped = version >= look.SCOPED_SIGNALS
    limits: dict[str, Enforcement] = dict.fromkeys(("files", "metadata", "network", "sockets"), Enforcement.ENFORCED)
    limits["signals"] = Enforcement.ENFORCED if scoped else Enforcement.BEST_EFFORT
    limits.update(dict.fromkeys(("memory", "cpu", "pids"), Enforcement.NO))
    return EngineReport("landlock", "look", f"ABI {version}", limits, problem)


def bubblewrap() -> EngineReport:
    """Return what holds commands that work, tried once for each binary, kernel and user."""
    program = _program()
    if program is None:
        return EngineReport("bubblewrap", "work", problem="bwrap is not installed")
    return _probed(program, os.stat(program).st_mtime_ns, os.uname().release, os.getuid())


def _program() -> str | None:
    # Of the system's own directories only: a program of that name in the workspace must never be the cage.
    return shutil.which("bwrap", path="/usr/bin:/usr/local/bin:/bin:/run/current-system/sw/bin")


@lru_cache(maxsize=4)
def _probed(program: str, _changed: int, _kernel: str, user: int) -> EngineReport:
    environment = {"PATH": "/usr/bin:/bin"}
    with tempfile.TemporaryDirectory(prefix="ollm-probe-") as folder:
        cage = BubblewrapCage(program, WorkGrant([Path(folder)]))
        try:
            ran = subprocess.run(
                cage.command(["/bin/true"], environment),
                pass_fds=cage.passed,
                check=False,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=PROBE_SECONDS,
                start_new_session=True,
            )
            failed = ran.stderr.decode("utf-8", "replace").strip() or f"exit code {ran.returncode}"
            problem = f"bwrap does not run: {failed.splitlines()[-1][:200]}" if ran.returncode else ""
            version = subprocess.run(
                [program, "--version"], check=False, capture_output=True, text=True, timeout=PROBE_SECONDS
            ).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            return EngineReport("bubblewrap", "work", problem=f"bwrap does not run: {error}")
        finally:
            cage.close()
    limits: dict[str, Enforcement] = dict.fromkeys(
        ("files", "network", "sockets", "signals", "tmp", "file size"), Enforcement.ENFORCED
    )
    # RLIMIT_DATA counts the private memory of each process; root is not counted by RLIMIT_NPROC.
    limits["memory"] = Enforcement.BEST_EFFORT
    limits["pids"] = Enforcement.ENFORCED if user else Enforcement.NO
    limits["cpu"] = Enforcement.NO
    return EngineReport("bubblewrap", "work", version.strip().rpartition(" ")[2], limits, problem)
