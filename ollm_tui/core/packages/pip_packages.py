"""Installing with pip: looked ahead by a pip that the workspace cannot change, then held to names, versions, hashes."""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ShellExecutionFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.packages.plan import (
    NOTHING_STARTS,
    InstallPlan,
    Manager,
    PlannedPackage,
    failure_of,
    name_warnings,
    normal_name,
    origin_of,
    package_name,
)
from ollm_tui.core.search.repository import read_file
from ollm_tui.core.shell.short_program import ProgramOutcome, ProgramRun, run_program

LOOK_SECONDS = 120.0
REQUIREMENTS, REPORT = "requirements.txt", "report.json"
_OPTIONS = ("--no-input", "--disable-pip-version-check", "--no-color", "--retries=1", "--timeout=20")
_LOOKING_PIP = f"""
import runpy, sys
starts = "subprocess.Popen os.system os.fork os.forkpty os.exec os.posix_spawn os.spawn pty.spawn".split()
def refuse(event, arguments):
    if event in starts:
        raise PermissionError("{NOTHING_STARTS}")
sys.addaudithook(refuse)
sys.argv[0] = "pip"
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""
"""pip without means to start a program: `--only-binary` does not hold for what a wheel requires by its address,
which pip would build, or clone, to see what it is."""


class PipInstaller:
    """One installation into the virtual environment of a workspace; made where there is none."""

    def __init__(self, root: Path, requirements: Sequence[str], path: str) -> None:
        self._root = root
        self._requirements = requirements
        self._names = [package_name(Manager.PIP, each) for each in requirements]
        self._path = path
        """PATH without what the workspace can change."""
        own = (root / name for name in (".venv", "venv"))
        self.venv = next((folder for folder in own if (folder / "pyvenv.cfg").is_file()), root / ".venv")
        self.is_new = not (self.venv / "pyvenv.cfg").is_file()

    def plan(self, signal: AbortSignal) -> InstallPlan:
        """Return what would be installed. Blocks; runs nothing of a package or the workspace. Raises ToolFailure."""
        python = self._python(signal)
        there = self._installed()
        with tempfile.TemporaryDirectory(prefix="ollm-install-") as folder:
            ended = self._look(python, Path(folder), there, signal)
            if ended.code and there and "ResolutionImpossible" in ended.errors:
                ended = self._look(python, Path(folder), {}, signal)  # others have to change too
            if ended.code:
                said = ended.errors + ended.output.decode("utf-8", "replace")
                raise failure_of(Manager.PIP, said, self._versions(python, Path(folder), ended, signal))
            report = read_file(os.fsencode(Path(folder, REPORT)), 50_000_000)
        try:
            rows: list[Any] = json.loads(report or b"")["install"]
            found = [_package(row, there) for row in rows]
        except (ValueError, KeyError, TypeError) as error:
            raise ShellExecutionFailed(f"pip's report cannot be read: {error}. Nothing was installed.") from None
        packages = tuple(package for package in found if package.replaces != package.version)
        # pip before 23.3 says it in words only.
        yanked = re.findall(r"a yanked version: '([^']+)' candidate \(version ([^ )]+)", ended.errors)
        yanked += [(each["metadata"]["name"], each["metadata"]["version"]) for each in rows if each.get("is_yanked")]
        made = [f"there is no virtual environment here: {self._shown} is made first"] if self.is_new else []
        gone = [visible(f"{name} {version} was withdrawn (yanked) by its maker") for name, version in yanked]
        warnings = (*made, *name_warnings(Manager.PIP, self._names), *dict.fromkeys(gone))
        return InstallPlan(f"{self._shown} (Python {self._version(python)})", packages, warnings=warnings)

    def command(self, plan: InstallPlan, folder: Path, signal: AbortSignal) -> str:
        """Return the bash line that installs exactly the plan; its requirements are written into `folder`. Blocks."""
        lines = [f"{each.name}=={each.version} --hash={each.hash.replace('=', ':', 1)}" for each in plan.packages]
        (folder / REQUIREMENTS).write_text("\n".join(lines) + "\n", "utf-8")
        python = self._python(signal)
        make = ["$PYTHON -I -m venv --without-pip $VENV"] if self.is_new else []
        options = "--no-deps --require-hashes --only-binary=:all: --no-input --disable-pip-version-check"
        install = f"$PYTHON -I -m pip --python $VENV/bin/python install {options} -r $REQUIREMENTS"
        line = " && ".join([*make, install])
        values = {"$PYTHON": python, "$VENV": str(self.venv), "$REQUIREMENTS": str(folder / REQUIREMENTS)}
        return re.sub(r"\$[A-Z]+", lambda name: _quoted(values[name[0]]), line)

    @property
    def _shown(self) -> str:
        return self.venv.name

    def _look(self, python: str, folder: Path, there: dict[str, str], signal: AbortSignal) -> ProgramOutcome:
        names = {normal_name(name) for name in self._names}
        kept = [f"{name}=={version}" for name, version in there.items() if name not in names]
        (folder / "constraints.txt").write_text("\n".join(kept) + "\n", "utf-8")
        given = ["--target", str(folder / "target"), "--python-version", self._version(python)]
        looking = ["--dry-run", "--ignore-installed", "--report", str(folder / REPORT), "--only-binary=:all:"]
        arguments = ["install", *looking, *_OPTIONS, *given]
        constraints = ["-c", str(folder / "constraints.txt")]
        return self._pip(python, folder, [*arguments, *constraints, "--", *self._requirements], signal)

    def _versions(self, python: str, folder: Path, ended: ProgramOutcome, signal: AbortSignal) -> str:
        """Return the versions that the index has in any form of what it found no wheel for."""
        missing = re.search(r"No matching distribution found for ([A-Za-z0-9._-]+)", ended.errors)
        if missing is None:
            return ""
        seen = self._pip(python, folder, ["index", "versions", *_OPTIONS, "--", missing[1]], signal)
        said = re.search(rb"Available versions: (.+)", seen.output)
        return said[1].decode("utf-8", "replace")[:200] if said else ""

    def _pip(self, python: str, folder: Path, arguments: Sequence[str], signal: AbortSignal) -> ProgramOutcome:
        argv = [python, "-I", "-c", _LOOKING_PIP, *arguments]
        return run_program(ProgramRun(argv, folder, seconds=LOOK_SECONDS, variables={"PATH": self._path}), signal)

    def _python(self, signal: AbortSignal) -> str:
        """Return a Python with pip that the workspace cannot change. Raises ShellExecutionFailed."""
        own = Path(sys.executable)
        if find_spec("pip") is not None and not own.is_relative_to(self._root):
            return str(own)
        found = shutil.which("python3", path=self._path)
        probe = [found or "", "-I", "-m", "pip", "--version"]
        if found is None or run_program(ProgramRun(probe, Path("/"), variables={"PATH": self._path}), signal).code:
            raise ShellExecutionFailed(
                "pip was not found outside the workspace. Ask the person to install python3-pip."
            )
        return found

    def _version(self, python: str) -> str:
        """Return the environment's version of Python, as its own file says; for a new one that of `python`."""
        try:
            said = re.search(r"^version(?:_info)?\s*=\s*(3\.\d+)", (self.venv / "pyvenv.cfg").read_text("utf-8"), re.M)
        except (OSError, ValueError):
            said = None
        return said[1] if said else f"{sys.version_info.major}.{sys.version_info.minor}"

    def _installed(self) -> dict[str, str]:
        """Return the versions in the environment by name, read off the names of its directories."""
        found: dict[str, str] = {}
        for folder in self.venv.glob("lib/python3*/site-packages/*.dist-info"):
            name, _, version = folder.name.removesuffix(".dist-info").rpartition("-")
            if re.fullmatch(r"[\w.!+]+", version) and name:
                found[normal_name(name)] = version
        return found


def _package(row: dict[str, Any], there: dict[str, str]) -> PlannedPackage:
    """Return a package of pip's report. Raises KeyError where it has no hash."""
    name, version = row["metadata"]["name"], row["metadata"]["version"]
    digest = row["download_info"]["archive_info"]["hashes"]["sha256"]
    return PlannedPackage(
        name=name,
        version=version,
        hash=f"sha256={digest}",
        source=origin_of(row["download_info"]["url"]),
        requested=bool(row["requested"]),
        replaces=there.get(normal_name(name), ""),
    )


def _quoted(text: str) -> str:
    return text if re.fullmatch(r"[\w@%+=:,./-]+", text) else "'" + text.replace("'", "'\"'\"'") + "'"
