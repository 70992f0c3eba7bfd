"""The engines that hold commands, chosen by probes that run (contract section 8)."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import lru_cache
from pathlib import Path

from ollm_tui.core.base.app_dirs import state_dir
from ollm_tui.core.base.errors import SandboxUnavailable
from ollm_tui.core.fence.workspace import Workspace
from ollm_tui.core.files.atomic import replace_text
from ollm_tui.core.sandbox import look
from ollm_tui.core.sandbox.bubblewrap import BubblewrapCage, BubblewrapLookCage
from ollm_tui.core.sandbox.docker import DockerCage
from ollm_tui.core.sandbox.landlock import abi
from ollm_tui.core.sandbox.landlock_work import LandlockCage
from ollm_tui.core.sandbox.layout import IMAGE, CageLimits, WorkGrant
from ollm_tui.core.sandbox.nsjail import NsjailCage
from ollm_tui.core.sandbox.restricted_thread import ends_what_it_starts
from ollm_tui.core.sandbox.seatbelt import SeatbeltCage
from ollm_tui.core.sandbox.work import Enforcement, WorkCage

PROBE_SECONDS = 5.0

WORK_ENGINES: tuple[type[WorkCage], ...] = (BubblewrapCage, NsjailCage, LandlockCage, SeatbeltCage, DockerCage)
"""The engines for work, best first."""


MOST_KEPT = 20
"""Probes that held, which the next process does not run again."""

_SURROUNDINGS = (
    "/proc/self/ns/user",
    "/proc/self/ns/mnt",
    "/proc/sys/kernel/random/boot_id",
    "/proc/sys/kernel/unprivileged_userns_clone",
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
    "/proc/sys/user/max_user_namespaces",
)
"""What decides besides program, kernel and user: a container, and what its administrator allows."""


class SandboxMode(StrEnum):
    """Where commands run that a rule or a person allowed."""

    OFF = "off"
    AUTO = "auto"
    BUBBLEWRAP = "bubblewrap"
    NSJAIL = "nsjail"
    LANDLOCK = "landlock"
    DOCKER = "docker"
    SANDBOX_EXEC = "sandbox-exec"


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
    image: str = IMAGE
    """What a container is made of."""


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
        return not self.problem

    @property
    def problem(self) -> str:
        """Return why there is no engine for work; empty where there is one."""
        engine = self._engine()
        return engine if isinstance(engine, str) else ""

    @property
    def hint(self) -> str:
        """What the model should know of the engine for work."""
        engine = self._engine()
        return "" if isinstance(engine, str) else engine.hint

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
        engine = self._engine()
        if isinstance(engine, str):
            raise SandboxUnavailable(
                f"No sandbox works here: {engine}. Nothing was run. Install bubblewrap and allow user "
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
            image=settings.image,
        )
        return engine(engine.locate(), grant)

    def _engine(self) -> type[WorkCage] | str:
        """Return the first engine of the mode that works and can honour the network, else why none does."""
        settings, problems = self.settings, list[str]()
        for engine in WORK_ENGINES:
            if settings.mode in (SandboxMode.OFF, SandboxMode.AUTO, engine.name):
                problem = work_report(engine, settings.image).problem
                if not problem and settings.network and "network" in engine.dishonours:
                    problem = f"{engine.name} cannot give a network"
                if not problem:
                    return engine
                problems.append(problem)
        return "; ".join(problems) or "there is no engine"


def look_works() -> bool:
    """Return whether there is a cage for commands that only read; the first call tries it."""
    return look.works() or not bubblewrap().problem


def look_cage(
    readable: Sequence[Path], ignored: bytes = b"", *, attributes: bytes = b"", judged: int | None = None
) -> look.LookCage | BubblewrapLookCage:
    """Return the cage for one command that only reads; where none works starting it fails.

    Args:
        readable: Directories that it can read.
        ignored: Patterns of files that the person has git ignore in every repository.
        attributes: What git shows of files, over all that a person or system configured.
        judged: The moment of CODE_TURNS at which the command was judged by its paths; it may not begin after code.
    """
    if look.works() or bubblewrap().problem:
        return look.LookCage(readable, ignored, attributes, judged)
    return BubblewrapLookCage(BubblewrapCage.locate(), readable, ignored, attributes, judged)


def engines() -> tuple[EngineReport, ...]:
    """Return every engine, the ones that do not work as well; runs their probes."""
    return landlock(), *(work_report(engine, with_version=True) for engine in WORK_ENGINES)


@lru_cache(maxsize=1)
def landlock() -> EngineReport:
    """Return what holds commands that only read, tried once."""
    version = abi() if sys.platform == "linux" else 0  # elsewhere the number is that of another system call
    problem = "" if look.works() else f"the kernel offers no landlock with seccomp; {_instead()}"
    scoped = ends_what_it_starts()
    limits: dict[str, Enforcement] = dict.fromkeys(("files", "metadata", "network", "sockets"), Enforcement.ENFORCED)
    limits["signals"] = Enforcement.ENFORCED if scoped else Enforcement.BEST_EFFORT
    limits.update(dict.fromkeys(("memory", "cpu", "pids"), Enforcement.NO))
    return EngineReport("landlock", "look", f"ABI {version}", limits, problem)


def _instead() -> str:
    """Return what becomes of commands that only read where there is no landlock."""
    if bubblewrap().problem:
        return "without bubblewrap all that only reads asks, but for programs as simple as cat"
    return "bubblewrap holds what only reads"


def bubblewrap() -> EngineReport:
    """Return whether bubblewrap works, which is the first choice for work."""
    return work_report(BubblewrapCage)


def work_report(engine: type[WorkCage], image: str = IMAGE, *, with_version: bool = False) -> EngineReport:
    """Return what an engine holds, tried once for each program, kernel and user."""
    program = engine.locate()
    if not program:
        return EngineReport(engine.name, "work", problem=engine.missing())
    changed = os.stat(program).st_mtime_ns if os.path.exists(program) else 0
    problem = _probe(engine, program, image, changed, os.uname().release, os.getuid())
    if problem:
        return EngineReport(
            engine.name, "work", problem=f"{engine.program_name or engine.name} does not run: {problem}"
        )
    return EngineReport(engine.name, "work", engine.version(program) if with_version else "", engine.limits())


@lru_cache(maxsize=16)
def _probe(engine: type[WorkCage], program: str, image: str, changed: int, kernel: str, user: int) -> str:
    """Return why the engine does not hold, empty where it does; that is kept for the next process."""
    if engine not in (BubblewrapCage, NsjailCage):
        return _run_probe(engine, program, image)
    facts = (engine.name, program, changed, kernel, user, *map(_first_line, _SURROUNDINGS))
    key = hashlib.sha256(repr(facts).encode()).hexdigest()
    file = state_dir() / "sandbox-probes"
    known = _first_line(str(file)).split()
    if key in known:
        return ""
    problem = _run_probe(engine, program, image)
    if not problem:
        with suppress(OSError):
            replace_text(file, " ".join((*known[-MOST_KEPT:], key)))
    return problem


def _first_line(path: str) -> str:
    """Return what a small file holds, or where a link leads; empty where there is none."""
    with suppress(OSError, ValueError):
        if os.path.islink(path):
            return os.readlink(path)
        with open(path, encoding="ascii") as file:
            return file.readline(8192)
    return ""


def _run_probe(engine: type[WorkCage], program: str, image: str) -> str:
    """Return why the engine does not hold a command that writes inside and outside, empty where it does."""
    with tempfile.TemporaryDirectory(prefix="ollm-probe-") as folder:
        workspace, outside = Path(os.path.realpath(folder), "workspace"), Path(folder, "outside")
        workspace.mkdir()
        cage = engine(program, WorkGrant([workspace], image=image))
        environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
        try:
            argv = cage.command(["/bin/sh", "-c", 'echo x > made; echo x > "$0"; :', str(outside)], environment)

            def run(caged: Mapping[str, str]) -> subprocess.CompletedProcess[bytes]:
                return subprocess.run(
                    list(argv),
                    check=False,
                    cwd=workspace,
                    env=dict(caged),
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=PROBE_SECONDS,
                    start_new_session=True,
                    pass_fds=cage.passed,
                )

            ran = cage.start(run, environment, None)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        finally:
            cage.close()
        if ran.returncode or not (workspace / "made").exists():
            said = ran.stderr.decode("utf-8", "replace").strip().splitlines()
            if said and engine.oldest and "Unknown option" in said[-1]:
                return f"{said[-1][:200]} (it is too old: {engine.oldest} or newer is needed)"
            return said[-1][:200] if said else f"exit code {ran.returncode}"
        return "what it should hold wrote outside" if outside.exists() else ""
