"""Installing with pip: looked ahead by a pip that the workspace cannot change, then held to names, versions, hashes."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import FetchFailed, ShellExecutionFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.packages.plan import (
    NOTHING_STARTS,
    InstallPlan,
    Manager,
    PackageBuild,
    PlannedPackage,
    SourcePackage,
    failure_of,
    name_warnings,
    normal_name,
    origin_of,
    package_name,
)
from ollm_tui.core.packages.source_archive import (
    build_steps,
    builds_text,
    lacks_wheel,
    requirement_lines,
    stand_in_name,
    write_stand_in,
)
from ollm_tui.core.search.repository import read_file
from ollm_tui.core.shell.short_program import ProgramOutcome, ProgramRun, run_program

if TYPE_CHECKING:
    from ollm_tui.core.packages.source_index import SourceIndex

LOOK_SECONDS = 120.0
REQUIREMENTS, REPORT, LINKS = "requirements.txt", "report.json", "stand-ins"
MOST_BUILDS = 8
"""Source packages that one call builds at most."""
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
        with tempfile.TemporaryDirectory(prefix="ollm-install-") as name:
            folder = Path(name)
            ended, sources = self._resolved(python, folder, there, signal)
            rows = _report(folder)
            try:
                found = [_package(row, there, sources) for row in rows]
            except (KeyError, TypeError) as error:
                raise ShellExecutionFailed(f"pip's report cannot be read: {error}. Nothing was installed.") from None
            packages = tuple(package for package in found if package.replaces != package.version)
            coming = {(each.name, each.version) for each in packages if each.is_source}
            building = [each for each in sources.values() if (each.file.name, each.file.version) in coming]
            builds = tuple(self._build(source, python, folder, signal) for source in building)
        # pip before 23.3 says it in words only.
        yanked = re.findall(r"a yanked version: '([^']+)' candidate \(version ([^ )]+)", ended.errors)
        yanked += [(row["metadata"]["name"], row["metadata"]["version"]) for row in rows if row.get("is_yanked")]
        made = [f"there is no virtual environment here: {self._shown} is made first"] if self.is_new else []
        gone = [visible(f"{name} {version} was withdrawn (yanked) by its maker") for name, version in yanked]
        built = [
            f"{build.source.file.title} is there only as source: a second question names its build, and nothing is "
            "installed before"
            for build in builds
        ]
        warnings = (*made, *name_warnings(Manager.PIP, self._names), *dict.fromkeys(gone), *built)
        target = f"{self._shown} (Python {self._version()})"
        return InstallPlan(target, packages, warnings=warnings, builds=builds)

    def command(self, plan: InstallPlan, folder: Path, signal: AbortSignal) -> str:
        """Return the bash line that installs exactly the plan; what it reads is written into `folder`. Blocks."""
        ready = [each for each in plan.packages if not each.is_source]
        requirements = folder / REQUIREMENTS
        requirements.write_text(requirement_lines(ready), "utf-8")
        python, venv = self._python(signal), shlex.quote(str(self.venv))
        steps = [f"{shlex.quote(python)} -I -m venv --without-pip {venv}"] if self.is_new else []
        building, install_built = build_steps(plan, python, self.venv, folder)
        steps += building
        if ready:
            pip = f"{shlex.quote(python)} -I -m pip --python {venv}/bin/python"
            options = "--no-deps --require-hashes --only-binary=:all: --no-input --disable-pip-version-check"
            steps.append(f"{pip} install {options} -r {shlex.quote(str(requirements))}")
        return " && ".join([*steps, install_built] if building else steps)

    def further(self, plan: InstallPlan) -> str:
        """Return that something has to be built, and what."""
        titles = ", ".join(build.source.file.title for build in plan.builds)
        return f"the build of {titles} from source" if titles else ""

    def further_text(self, plan: InstallPlan) -> str:
        """Return what is built, from what and with what."""
        return builds_text(plan)

    def further_command(self, plan: InstallPlan, folder: Path, signal: AbortSignal) -> str:
        """Return the line that builds, and then installs the whole plan. Blocks."""
        return self.command(plan, folder, signal)

    def unmet(self, plan: InstallPlan) -> list[str]:
        """Return what the packages built without knowing say they need, where it is not there."""
        from email import message_from_bytes

        from packaging.requirements import InvalidRequirement, Requirement

        unknown = {build.source.file.name for build in plan.builds if build.source.requires is None}
        there = self._installed()
        found: list[str] = []
        for folder in self.venv.glob("lib/python3*/site-packages/*.dist-info"):
            if normal_name(folder.name.removesuffix(".dist-info").rpartition("-")[0]) not in unknown:
                continue
            said = message_from_bytes(read_file(os.fsencode(folder / "METADATA"), 1_000_000) or b"")
            for text in said.get_all("Requires-Dist", []):
                with suppress(InvalidRequirement):
                    each = Requirement(str(text))
                    needed = each.marker is None or each.marker.evaluate({"extra": ""})
                    found += [str(each)] if needed and normal_name(each.name) not in there else []
        return found

    def _resolved(
        self, python: str, folder: Path, there: dict[str, str], signal: AbortSignal
    ) -> tuple[ProgramOutcome, dict[str, SourcePackage]]:
        """Have pip look, with a stand-in for each package that is there only as source. Raises ToolFailure."""
        from ollm_tui.core.packages.source_archive import read_source

        sources: dict[str, SourcePackage] = {}
        index: SourceIndex | None = None
        (folder / LINKS).mkdir()
        while True:
            ended = self._look(python, folder, self._requirements, there, signal)
            if ended.code and there and "ResolutionImpossible" in ended.errors:
                ended = self._look(python, folder, self._requirements, {}, signal)  # others have to change too
            if not ended.code:
                return ended, sources
            said = ended.errors + ended.output.decode("utf-8", "replace")
            missing = re.search(r"No matching distribution found for ([^\n(]+)", ended.errors)
            found = None
            unreached = isinstance(failure_of(Manager.PIP, said), FetchFailed)
            if missing is not None and not unreached and len(sources) < MOST_BUILDS:
                index = index or self._index(python, folder, signal)
                found = index.newest(missing[1].strip(), self._version())
            if found is None or index is None or stand_in_name(found) in sources:
                raise failure_of(Manager.PIP, said, self._versions(python, folder, ended, signal))
            archive = folder / "source.tar.gz"
            index.fetch(found, archive)
            sources[stand_in_name(found)] = source = read_source(found, archive)
            write_stand_in(source, folder / LINKS)

    def _build(self, source: SourcePackage, python: str, folder: Path, signal: AbortSignal) -> PackageBuild:
        """Return with what a source package would be built: wheels alone. Raises ToolFailure."""
        wanted = source.build_requires
        while wanted:
            ended = self._look(python, folder, wanted, {}, signal, stand_ins=False)
            if ended.code:
                said = failure_of(Manager.PIP, ended.errors + ended.output.decode("utf-8", "replace")).message
                raise ShellExecutionFailed(f"What {source.file.title} is built with cannot be had: {said}")
            tools = tuple(_package(row, {}, {}) for row in _report(folder))
            if not lacks_wheel(source, tools):
                return PackageBuild(source, tools)
            wanted = (*wanted, "wheel")
        return PackageBuild(source, ())

    def _index(self, python: str, folder: Path, signal: AbortSignal) -> SourceIndex:
        from ollm_tui.core.packages.source_index import SourceIndex, settings_of

        said = self._pip(python, folder, ["config", "list"], signal).output.decode("utf-8", "replace")
        return SourceIndex(settings_of(said, "install"), signal)

    @property
    def _shown(self) -> str:
        return self.venv.name

    def _look(
        self,
        python: str,
        folder: Path,
        wanted: Sequence[str],
        there: dict[str, str],
        signal: AbortSignal,
        *,
        stand_ins: bool = True,
    ) -> ProgramOutcome:
        """Have pip resolve what is wanted, with wheels alone, and report it into `folder`."""
        names = {normal_name(name) for name in self._names}
        kept = [f"{name}=={version}" for name, version in there.items() if name not in names]
        (folder / "constraints.txt").write_text("\n".join(kept) + "\n", "utf-8")
        given = ["--target", str(folder / "target"), "--python-version", self._version()]
        looking = ["--dry-run", "--ignore-installed", "--report", str(folder / REPORT), "--only-binary=:all:"]
        links = [f"--find-links={folder / LINKS}"] if stand_ins else []
        arguments = ["install", *looking, *_OPTIONS, *given, *links]
        constraints = ["-c", str(folder / "constraints.txt")]
        return self._pip(python, folder, [*arguments, *constraints, "--", *wanted], signal)

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

    def _version(self) -> str:
        """Return the environment's version of Python, as its own file says; for a new one that of this program."""
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


def _report(folder: Path) -> list[Any]:
    """Return the rows of the report that pip wrote. Raises ShellExecutionFailed."""
    try:
        rows: list[Any] = json.loads(read_file(os.fsencode(folder / REPORT), 50_000_000) or b"")["install"]
    except (ValueError, KeyError, TypeError) as error:
        raise ShellExecutionFailed(f"pip's report cannot be read: {error}. Nothing was installed.") from None
    return rows


def _package(row: dict[str, Any], there: dict[str, str], sources: dict[str, SourcePackage]) -> PlannedPackage:
    """Return a package of pip's report; for a stand-in its source. Raises KeyError where it has no hash."""
    name, version = row["metadata"]["name"], row["metadata"]["version"]
    url: str = row["download_info"]["url"]
    source = sources.get(unquote(url.rpartition("/")[2])) if url.startswith("file:") else None
    digest = source.file.sha256 if source else row["download_info"]["archive_info"]["hashes"]["sha256"]
    return PlannedPackage(
        name=name,
        version=version,
        hash=f"sha256={digest}",
        source=origin_of(source.file.url if source else url),
        requested=bool(row["requested"]),
        replaces=there.get(normal_name(name), ""),
        is_source=source is not None,
    )
