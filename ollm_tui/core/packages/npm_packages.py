"""Installing with npm: looked ahead beside the project, then its lock file put in place and kept to."""

from __future__ import annotations

import json
import os
import platform
import re
import shlex
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ollm_tui.core.base.abort import AbortSignal
from ollm_tui.core.base.errors import ShellExecutionFailed
from ollm_tui.core.base.escape import visible
from ollm_tui.core.packages.plan import (
    InstallPlan,
    Manager,
    PlannedPackage,
    failure_of,
    name_warnings,
    origin_of,
    package_name,
)
from ollm_tui.core.search.repository import read_file
from ollm_tui.core.shell.short_program import ProgramRun, run_program

LOOK_SECONDS = 120.0
MANIFEST, LOCK = "package.json", "package-lock.json"
_OTHERS = (("yarn.lock", "yarn"), ("pnpm-lock.yaml", "pnpm"), ("bun.lock", "bun"), ("bun.lockb", "bun"))
_MOST_BYTES = 50_000_000
_OPTIONS = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")


class NpmInstaller:
    """One installation into the node_modules of a workspace; no script of a package runs."""

    def __init__(self, root: Path, packages: Sequence[str], path: str, *, dev: bool) -> None:
        self._root = root
        self._packages = packages
        self._names = [package_name(Manager.NPM, each) for each in packages]
        self._path = path
        self._dev = dev

    def plan(self, signal: AbortSignal) -> InstallPlan:
        """Return what would be installed, and manifest and lock file as they would be. Blocks. Raises ToolFailure."""
        for lock, other in _OTHERS:
            if (self._root / lock).exists():
                raise ShellExecutionFailed(f"This project is kept by {other} ({lock}). Run {other} with shell.")
        npm = shutil.which("npm", path=self._path)
        if npm is None:
            raise ShellExecutionFailed("npm is not installed. Ask the person to install Node.js with npm.")
        with tempfile.TemporaryDirectory(prefix="ollm-install-") as name:
            folder = Path(name)
            old = {file: self._read(self._root / file) for file in (MANIFEST, LOCK)}
            _refuse_addresses(old[MANIFEST], self._read(self._root / ".npmrc"))
            for file, content in old.items():
                if content is not None:
                    (folder / file).write_bytes(content)
            options = [*_OPTIONS, "--package-lock-only", *(["--save-dev"] if self._dev else [])]
            argv = [npm, "install", *options, "--", *self._packages]
            ended = run_program(ProgramRun(argv, folder, seconds=LOOK_SECONDS, variables={"PATH": self._path}), signal)
            if ended.code:
                raise failure_of(Manager.NPM, ended.errors)
            new = {file: content for file in (MANIFEST, LOCK) if (content := self._read(folder / file)) is not None}
        return self._compared(old[LOCK], new)

    def command(self, plan: InstallPlan, folder: Path, signal: AbortSignal) -> str:
        """Return the line that installs what the lock file says, which is in place by then."""
        return f"npm install {' '.join(_OPTIONS)}"

    def further(self, plan: InstallPlan) -> str:
        """Return that there are install scripts, and of what."""
        unrun = scripted(plan)
        return f"the install scripts of {', '.join(unrun)}" if unrun else ""

    def further_text(self, plan: InstallPlan) -> str:
        """Return the scripts that would run, and by what."""
        return "\n".join([*map(visible, self._scripts(plan)), "", visible(f"by {self._rebuild(plan)}")])

    def further_command(self, plan: InstallPlan, folder: Path, signal: AbortSignal) -> str:
        """Return the line that runs the install scripts of the plan's packages and of no other."""
        return self._rebuild(plan)

    def unmet(self, plan: InstallPlan) -> list[str]:
        """Return nothing: npm's lock file knows all."""
        return []

    def _scripts(self, plan: InstallPlan) -> list[str]:
        """Return what `_rebuild` would run, a line each, wherever those packages are. Blocks; raises ToolFailure."""
        _refuse_addresses(self._read(self._root / MANIFEST), self._read(self._root / ".npmrc"))
        chosen, found = set(scripted(plan)), list[str]()
        for path, entry in _locked(self._read(self._root / LOCK)).items():
            package = f"{path.rpartition('node_modules/')[2]}@{entry.get('version')}"
            content = self._read(self._root / path / MANIFEST) if package in chosen else None
            if content is not None:
                found += [f"{path}  {script}" for script in _install_scripts(self._root / path, content)]
        return found

    def _rebuild(self, plan: InstallPlan) -> str:
        options = " ".join(["--ignore-scripts=false", *_OPTIONS[1:]])
        return f"npm rebuild {options} -- {' '.join(map(shlex.quote, scripted(plan)))}"

    def _compared(self, old: bytes | None, new: dict[str, bytes]) -> InstallPlan:
        before, after = _locked(old), _locked(new.get(LOCK))
        found: list[PlannedPackage] = []
        warnings = name_warnings(Manager.NPM, self._names)
        for path, entry in after.items():
            if not _fits_here(entry):
                continue
            earlier = before.get(path, {})
            present = (self._root / path / MANIFEST).is_file()
            if entry.get("version") == earlier.get("version") and present:
                continue
            name = path.rpartition("node_modules/")[2]
            if not isinstance(entry.get("integrity"), str):
                raise ShellExecutionFailed(f"{visible(name)} comes without a hash. Run npm with shell, which asks.")
            found.append(
                _package(name, entry, earlier, requested=path == f"node_modules/{name}" and name in self._names)
            )
            if entry.get("hasInstallScript"):
                warnings.append(f"{visible(name)} has install scripts: a second question names them, none runs before")
            if deprecated := entry.get("deprecated"):
                warnings.append(visible(f"{name} is deprecated: {deprecated}")[:300])
        removed = tuple(path.rpartition("node_modules/")[2] for path in before if path not in after)
        files = {name: content for name, content in new.items() if content != self._read(self._root / name)}
        files = files if found or removed else {}
        return InstallPlan("node_modules", tuple(found), removed, tuple(dict.fromkeys(warnings)), files)

    def _read(self, path: Path) -> bytes | None:
        content = read_file(os.fsencode(path), _MOST_BYTES, follow=False)
        if content is None and path.exists():
            raise ShellExecutionFailed(f"{visible(path.name)} is no ordinary file. Nothing was installed.")
        return content


_SPEC = re.compile(r"(?:npm:@?[\w./~-]+@)?[\w.^~<>=|*+ -]*")
"""A version, a range or a tag, as against an address, a path or a repository."""
_HARMLESS = re.compile(
    rb"\s*(?:[#;].*|(?:save-exact|save-prefix|fund|audit|engine-strict|legacy-peer-deps|loglevel"
    rb"|package-lock|progress|update-notifier|ignore-scripts)\s*=.*)?"
)


def _refuse_addresses(manifest: bytes | None, settings: bytes | None) -> None:
    """Raise ShellExecutionFailed where npm would go elsewhere than to the person's registry before anyone said yes."""
    remedy = "Run npm with shell, which asks."
    for line in (settings or b"").splitlines():
        if not _HARMLESS.fullmatch(line):
            key = visible(line.decode("utf-8", "replace").partition("=")[0].strip())[:80]
            raise ShellExecutionFailed(f"The .npmrc of this workspace sets {key}, which can lead elsewhere. {remedy}")
    try:
        package: dict[str, Any] = json.loads(manifest or b"{}")
        tables: list[dict[str, Any]] = [
            package[key] or {} for key in package if key.endswith(("ependencies", "overrides"))
        ]
        specs: list[tuple[str, Any]] = [entry for table in tables for entry in table.items()]
        strange = [name for name, spec in specs if not isinstance(spec, str) or not _SPEC.fullmatch(spec)]
    except (ValueError, AttributeError, RecursionError) as error:
        raise ShellExecutionFailed(f"{MANIFEST} cannot be read: {error}. Nothing was installed.") from None
    if package.get("workspaces"):
        raise ShellExecutionFailed(f"{MANIFEST} has workspaces. {remedy}")
    if strange:
        raise ShellExecutionFailed(f"{MANIFEST} has {visible(strange[0])} from an address or a path. {remedy}")


_SYSTEMS = {"x86_64": "x64", "AMD64": "x64", "aarch64": "arm64", "i686": "ia32"}


def _fits_here(entry: dict[str, Any]) -> bool:
    """Return whether npm takes a package on this system; of a native one it takes that for the system alone."""
    machine = platform.machine()
    named = (("os", sys.platform), ("cpu", _SYSTEMS.get(machine, machine)))
    wanted: list[tuple[list[str], str]] = [(entry.get(key) or [here], here) for key, here in named]
    return not entry.get("optional") or all(
        f"!{here}" not in names and (here in names or names[0].startswith("!")) for names, here in wanted
    )


def scripted(plan: InstallPlan) -> list[str]:
    """Return the packages with install scripts, as `name@version`."""
    return list(dict.fromkeys(f"{each.name}@{each.version}" for each in plan.packages if each.has_scripts))


def _install_scripts(folder: Path, manifest: bytes) -> list[str]:
    """Return the scripts that npm runs after a package is in its folder. Raises ShellExecutionFailed."""
    try:
        package: dict[str, Any] = json.loads(manifest)
        named: dict[str, Any] = package.get("scripts") or {}
        found = [f"{step}: {named[step]}" for step in ("preinstall", "install", "postinstall") if named.get(step)]
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise ShellExecutionFailed(f"{visible(str(folder / MANIFEST))} cannot be read: {error}.") from None
    if (folder / "binding.gyp").exists() and not {"preinstall", "install"} & named.keys():
        found.append("install: node-gyp rebuild")  # npm's own rule
    return found


def _locked(content: bytes | None) -> dict[str, dict[str, Any]]:
    """Return the entries of a lock file by path. Raises ShellExecutionFailed."""
    if content is None:
        return {}
    try:
        packages: dict[str, dict[str, Any]] = json.loads(content).get("packages") or {}
        return {path: entry for path, entry in packages.items() if "node_modules/" in path and not entry.get("link")}
    except (ValueError, AttributeError, RecursionError) as error:
        raise ShellExecutionFailed(f"{LOCK} cannot be read: {error}. Nothing was installed.") from None


def _package(name: str, entry: dict[str, Any], earlier: dict[str, Any], *, requested: bool) -> PlannedPackage:
    return PlannedPackage(
        name=name,
        version=str(entry.get("version", "?")),
        hash=str(entry["integrity"]),
        source=origin_of(str(entry.get("resolved", ""))) if entry.get("resolved") else "npm's registry",
        requested=requested,
        replaces=str(earlier.get("version", "")),
        has_scripts=bool(entry.get("hasInstallScript")),
    )
